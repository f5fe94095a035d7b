"""An admin in this process, on the real Postgres; reached without a port, or served on one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from admin.app import App, open_app
from admin.config import Config
from runtime.config import Secret

TOKEN = "qa-admin-token-1"


def a_config(database_url: str, **changes: object) -> Config:
    """Return a configuration whose broker isn't there, unless the test names one."""
    values = {"database_url": Secret(database_url), "kafka_bootstrap": "127.0.0.1:1", "port": 0}
    return Config(**{**values, **changes})


@asynccontextmanager
async def an_admin(database_url: str, **changes: object) -> AsyncIterator[tuple[App, httpx.AsyncClient]]:
    """Yield (app, client); the client has no token of its own accord."""
    async with open_app(a_config(database_url, **changes)) as app:
        transport = httpx.ASGITransport(app=app.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield app, client


@asynccontextmanager
async def a_served_admin(database_url: str, **changes: object) -> AsyncIterator[str]:
    """Yield the URL of an admin that listens."""
    config = a_config(database_url, **changes)
    stop = asyncio.Event()
    async with open_app(config) as app, asyncio.TaskGroup() as tasks:
        tasks.create_task(app.run(stop))
        try:
            async with asyncio.timeout(60):
                await app.serving.wait()
            yield f"http://127.0.0.1:{app.port}"
        finally:
            stop.set()


NUMBER = {
    "phone_number_id": "100000000000001",
    "waba_id": "200000000000001",
    "portfolio_id": "300000000000001",
}
DEFINITION = {
    "name": "Spring sale",
    "template": {"name": "spring_sale", "language": "en_US", "body": ["name"]},
    "numbers": ["100000000000001"],
}


async def a_draft(client: httpx.AsyncClient, **changes: object) -> str:
    """Create number and draft; return the draft's path."""
    (await client.post("/v1/numbers", json=NUMBER)).raise_for_status()
    created = await client.post("/v1/campaigns", json={**DEFINITION, **changes})
    created.raise_for_status()
    return f"/v1/campaigns/{created.json()['campaign_id']}"


async def sent_in(
    client: httpx.AsyncClient, path: str, content: bytes | AsyncIterator[bytes], **params: str
) -> httpx.Response:
    """Import a file into a draft."""
    return await client.post(
        f"{path}/audience", content=content, params=params, headers={"content-type": "text/csv"}
    )
