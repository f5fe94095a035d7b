"""The whole process: a token's file changes, as Kubernetes changes it, and the next request needs the new one."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import httpx


def version(folder: Path, name: str, token: str) -> None:
    """Write a version of the secret beside the others and swap the link that leads to it."""
    (folder / name).mkdir()
    (folder / name / "tokens").write_text(token)
    (folder / "..next").symlink_to(name)
    (folder / "..next").replace(folder / "..data")


async def status_for(client: httpx.AsyncClient, url: str, token: str) -> int:
    try:
        return (await client.get(url, headers={"Authorization": f"Bearer {token}"})).status_code
    except httpx.TransportError:
        return 0


async def until(client: httpx.AsyncClient, url: str, token: str) -> None:
    async with asyncio.timeout(60):
        while await status_for(client, url, token) != 200:
            await asyncio.sleep(0.1)


async def test_a_running_admin_takes_a_new_token_and_a_bad_one_changes_nothing(database_url, tmp_path):
    version(tmp_path, "v1", "qa-token-1")
    (tmp_path / "tokens").symlink_to("..data/tokens")
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    env = {
        "PATH": os.environ["PATH"],
        "SLUICE_DATABASE_URL": database_url,
        "SLUICE_KAFKA_BOOTSTRAP": "127.0.0.1:9",
        "ADMIN_TOKENS_FILE": str(tmp_path / "tokens"),
        "ADMIN_PORT": str(ports[0]),
        "ADMIN_HEALTH_PORT": str(ports[1]),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "admin", env=env, stdout=asyncio.subprocess.DEVNULL
    )
    url, metrics = f"http://127.0.0.1:{ports[0]}/v1/numbers", f"http://127.0.0.1:{ports[1]}/metrics"
    gauge = 'sluice_runtime_secret_refused{name="ADMIN_TOKENS_FILE"} '
    try:
        async with httpx.AsyncClient(timeout=30.0) as client:
            await until(client, url, "qa-token-1")
            assert f"{gauge}0.0" in (await client.get(metrics)).text
            version(tmp_path, "v2", "qa-token-2")
            await until(client, url, "qa-token-2")
            assert await status_for(client, url, "qa-token-1") == 401
            version(tmp_path, "v3", "")
            async with asyncio.timeout(60):
                while f"{gauge}1.0" not in (await client.get(metrics)).text:
                    await asyncio.sleep(0.1)
            assert await status_for(client, url, "qa-token-2") == 200
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
