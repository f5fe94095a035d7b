"""Ingress as a process and a port: limits while streaming, the in-flight window, a broker that is away."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from prometheus_client import REGISTRY

from ingress.app import App, open_app
from ingress.config import Config
from tests.integration.ingress.reading import (
    a_body,
    a_client,
    a_config,
    a_reader,
    a_status,
    a_text,
    a_value,
    create_topics,
    post,
    signature_of,
    until_ready,
    values,
)


@pytest.fixture(scope="module")
def broker(kafka_bootstrap: str, topic_prefix: str) -> tuple[str, str]:
    create_topics(kafka_bootstrap, topic_prefix)
    return kafka_bootstrap, topic_prefix


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address on which nobody listens, and nobody else can begin to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@contextlib.asynccontextmanager
async def serving(config: Config) -> AsyncIterator[tuple[httpx.AsyncClient, App]]:
    stop = asyncio.Event()
    async with open_app(config) as app, asyncio.TaskGroup() as tasks:
        tasks.create_task(app.run(stop))
        try:
            async with asyncio.timeout(60):
                await app.serving.wait()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{app.port}", timeout=60) as client:
                yield client, app
        finally:
            stop.set()


def in_flight_bytes() -> float:
    return REGISTRY.get_sample_value("sluice_ingress_in_flight_bytes") or 0.0


async def until_settled() -> None:
    """Credit comes back when records resolve, which may be a moment after the answer."""
    async with asyncio.timeout(30):
        while in_flight_bytes():
            await asyncio.sleep(0.01)


async def in_chunks(body: bytes, size_bytes: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size_bytes):
        yield body[start : start + size_bytes]


async def raw_answer(port: int, request: bytes) -> bytes:
    """Return the first line of the answer to raw bytes."""
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        line = await reader.readline()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return line


@pytest.mark.bco("A07")
async def test_a_chunked_body_is_held_to_the_limit_bco_a07(broker: tuple[str, str]) -> None:
    async with a_reader(*broker) as reader, serving(a_config(*broker)) as (client, app):
        await until_ready(app)
        head = b"POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"100000\r\n" + b"[" * 0x100000 + b"\r\n"
        assert app.port is not None
        assert b" 413 " in await raw_answer(app.port, head + chunk * 5)
        declared = b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n"
        assert b" 413 " in await raw_answer(app.port, declared)

        body = a_body(a_value(messages=[a_text("wamid.LONG", words="z" * 2_900_000)]))
        for content in (in_chunks(body), body):
            answer = await client.post(
                "/webhook", content=content, headers={"X-Hub-Signature-256": signature_of(body)}
            )
            assert answer.status_code == 200
        assert len(values(await reader.read(), "inbound-messages")) == 2


@pytest.mark.bco("A07")
async def test_forty_endless_bodies_leave_room_for_others_bco_a07(broker: tuple[str, str]) -> None:
    async with serving(a_config(*broker)) as (client, app):
        await until_ready(app)
        head = b"POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n"
        writers = []
        for _ in range(40):
            _, writer = await asyncio.open_connection("127.0.0.1", app.port)
            writer.write(head)
            await writer.drain()
            writers.append(writer)
        assert (await post(client, a_body(a_value(messages=[a_text("wamid.F")])))).status_code == 200
        for writer in writers:
            writer.close()


@pytest.mark.bco("A06")
async def test_odd_header_bytes_over_http_are_refused_bco_a06(nobody: str) -> None:
    async with serving(a_config(nobody)) as (_, app):
        assert app.port is not None
        for value in (b"sha256=\xe9" + b"0" * 63, b"", b"sha256=", b"a" * 10_000):
            request = (
                b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nX-Hub-Signature-256: %b\r\n\r\n{}"
            )
            assert b" 401 " in await raw_answer(app.port, request % value)


@pytest.mark.bco("A02")
async def test_without_a_broker_the_answer_is_503_in_time_and_credit_returns_bco_a02(nobody: str) -> None:
    body = a_body(a_value(messages=[a_text("wamid.N")], statuses=[a_status("wamid.O")]))
    config = a_config(nobody, deadline_s=2.0, inflight_requests_max=2)
    async with a_client(config) as (client, app):
        for _ in range(2):
            began = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                answers = [tasks.create_task(post(client, body)) for _ in range(3)]
            assert time.monotonic() - began < config.deadline_s + 5.0, (
                "without its deadline it waits for the broker"
            )
            assert [answer.result().status_code for answer in answers] == [503, 503, 503]
            assert all("retry-after" in answer.result().headers for answer in answers)
        await until_settled()
        assert not app.health.ready


async def test_a_full_window_refuses_at_once_and_takes_again_when_it_has_emptied(nobody: str) -> None:
    body = a_body(a_value(messages=[a_text("wamid.W")]))
    async with a_client(a_config(nobody, deadline_s=6.0, inflight_requests_max=1)) as (client, _):
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(post(client, body))
            while not in_flight_bytes():
                await asyncio.sleep(0)
            second = await post(client, body)
            assert (second.status_code, second.headers["retry-after"]) == (503, "1")
            assert not first.done(), "the second has waited for the first"
        assert first.result().status_code == 503
        await until_settled()
        assert (await client.post("/webhook", content=b"{}")).status_code == 401


async def test_a_body_that_does_not_arrive_in_time_is_given_up(nobody: str) -> None:
    async with serving(a_config(nobody, deadline_s=0.3)) as (_, app):
        assert app.port is not None
        half = b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
        assert b" 408 " in await raw_answer(app.port, half)


async def test_it_serves_webhooks_and_health_on_ports_of_their_own(broker: tuple[str, str]) -> None:
    async with serving(a_config(*broker)) as (client, app):
        await until_ready(app)
        assert (await client.get("/ready")).status_code == 404
        assert (await client.put("/webhook")).status_code == 404
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{app.health_port}", timeout=30) as health:
            assert (await health.get("/ready")).json() == {"ready": True}
            assert "sluice_ingress_requests_total" in (await health.get("/metrics")).text


async def test_it_is_unready_and_names_the_topic_that_is_missing(kafka_bootstrap: str) -> None:
    async with a_client(a_config(kafka_bootstrap, "nothing-here.", deadline_s=1.0)) as (_, app):
        async with asyncio.timeout(60):
            while app.health.reasons().get("kafka") == "starting":
                await asyncio.sleep(0.05)
        assert "topic" in app.health.reasons()["kafka"]


def the_environment(**changes: str | None) -> dict[str, str]:
    """What a process needs, and nothing of the machine's own settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "INGRESS_"))}
    needed = {
        "SLUICE_VERIFY_TOKEN": "qa-verify",
        "SLUICE_APP_SECRETS": "qa-app-secret-1",
        "INGRESS_PORT": "0",
    }
    return {name: value for name, value in {**env, **needed, **changes}.items() if value is not None}


@pytest.mark.bco("A08")
@pytest.mark.parametrize("secret", [None, "", "  "])
def test_the_process_refuses_to_start_without_an_app_secret_bco_a08(secret: str | None, nobody: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "ingress"],
        env=the_environment(SLUICE_KAFKA_BOOTSTRAP=nobody, SLUICE_APP_SECRETS=secret),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 78
    assert "APP_SECRETS" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_process_starts_without_a_broker_and_ends_when_told_to(nobody: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ingress"],
        env=the_environment(SLUICE_KAFKA_BOOTSTRAP=nobody),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "service.started" in line:
                process.terminate()
        assert process.wait(60) == 0
