"""What the ingress tests share: signed requests, and topics read back with a plain consumer."""

import asyncio
import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from ingress.app import App, open_app
from ingress.config import Config
from kafkaio.admin import apply_topics
from kafkaio.settings import KafkaSettings
from runtime.config import Secret

PARTITIONS_COUNT = 4
SECRET = "qa-app-secret-1"
PN = "100000000000001"
WABA = "200000000000001"
T0 = 1_796_040_000
WRITTEN = (
    "inbound-messages",
    "message-statuses",
    "account-events",
    "other-events",
    "webhooks.dlq",
)
Read = dict[str, list[ConsumerRecord]]


def a_config(bootstrap: str, prefix: str = "", **knobs: Any) -> Config:
    given: dict[str, Any] = {
        "app_secrets": (Secret(SECRET),),
        "verify_token": Secret("qa-verify"),
        "port": 0,
        "deadline_s": 20.0,  # a machine that stands still for seconds makes no 503
        "drain_s": 50.0,
        **knobs,
    }
    return Config(kafka_bootstrap=bootstrap, topic_prefix=prefix, **given)


def create_topics(bootstrap: str, prefix: str) -> None:
    settings = KafkaSettings(bootstrap=bootstrap, client_id="test", topic_prefix=prefix)
    asyncio.run(apply_topics(settings, partitions_count=PARTITIONS_COUNT, replication=1, min_insync=1))


def signature_of(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def a_value(**parts: Any) -> dict[str, Any]:
    return {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15550100000", "phone_number_id": PN},
        **parts,
    }


def a_body(*values: Any) -> bytes:
    changes = [{"field": "messages", "value": value} for value in values]
    entry = [{"id": WABA, "changes": changes}]
    return json.dumps({"object": "whatsapp_business_account", "entry": entry}).encode()


def a_text(wamid: str, sender: str = "447700900001", words: str = "hi") -> dict[str, Any]:
    return {"from": sender, "id": wamid, "timestamp": str(T0), "type": "text", "text": {"body": words}}


def a_status(wamid: str, word: str = "delivered", **parts: Any) -> dict[str, Any]:
    return {"id": wamid, "status": word, "timestamp": str(T0), "recipient_id": "447700900001", **parts}


@asynccontextmanager
async def a_client(config: Config) -> AsyncIterator[tuple[httpx.AsyncClient, App]]:
    """Ingress, ready if there is a broker, behind a client that calls it without a port."""
    async with open_app(config) as app:
        transport = httpx.ASGITransport(app.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://ingress") as client:
            yield client, app


async def until_ready(app: App) -> None:
    async with asyncio.timeout(60):
        while not app.health.ready:
            await asyncio.sleep(0.02)


async def post(client: httpx.AsyncClient, body: bytes, **headers: str) -> httpx.Response:
    signed = {"X-Hub-Signature-256": signature_of(body), "Content-Type": "application/json"}
    return await client.post("/webhook", content=body, headers={**signed, **headers})


class Reader:
    """Reads what was published since it was opened, or since the last time."""

    def __init__(self, kafka: AIOKafkaConsumer, prefix: str) -> None:
        self._kafka = kafka
        self._prefix = prefix

    async def read(self) -> Read:
        """Return declared topic → its new records, per partition in order, up to the ends as they are now."""
        found: Read = defaultdict(list)
        async with asyncio.timeout(60):
            ends = await self._kafka.end_offsets(list(self._kafka.assignment()))
            while [at for at, end in ends.items() if await self._kafka.position(at) < end]:
                for at, records in (await self._kafka.getmany(timeout_ms=50)).items():
                    found[at.topic.removeprefix(self._prefix)] += records
        return found


@asynccontextmanager
async def a_reader(bootstrap: str, prefix: str, topics: Sequence[str] = WRITTEN) -> AsyncIterator[Reader]:
    kafka = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    await kafka.start()
    try:
        kafka.assign(
            [TopicPartition(prefix + topic, number) for topic in topics for number in range(PARTITIONS_COUNT)]
        )
        await kafka.seek_to_end()
        yield Reader(kafka, prefix)
    finally:
        await kafka.stop()


def values(found: Read, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in found[topic]]


def statuses(found: Read) -> list[dict[str, Any]]:
    return [status for value in values(found, "message-statuses") for status in value["statuses"]]


def reasons(found: Read) -> list[str]:
    return [dict(record.headers)["event-type"].decode() for record in found["webhooks.dlq"]]
