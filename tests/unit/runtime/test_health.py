"""What the outside is told, over real HTTP on the loopback."""

import asyncio
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from runtime.health import Health, serve_health, serve_http


def url(port: int, path: str) -> str:
    return f"http://127.0.0.1:{port}{path}"


def test_a_process_is_ready_only_when_each_named_condition_holds() -> None:
    health = Health("kafka", "postgres")
    assert health.reasons() == {"kafka": "starting", "postgres": "starting"}
    health.set_ready("kafka", True)
    assert not health.ready
    health.set_ready("postgres", True)
    assert health.ready
    health.set_ready("topics", False, "send-requests: partitions")
    assert not health.ready
    assert health.reasons() == {"topics": "send-requests: partitions"}
    health.set_ready("topics", True)
    assert health.ready


def test_a_draining_process_is_not_ready_whatever_holds() -> None:
    health = Health()
    assert health.ready
    health.start_drain()
    assert not health.ready
    assert health.draining
    assert health.reasons() == {"drain": "draining"}


async def test_live_ready_and_metrics_answer() -> None:
    health = Health("kafka")
    async with serve_health(health, "127.0.0.1", 0) as port, httpx.AsyncClient() as client:
        live = await client.get(url(port, "/live"))
        assert live.status_code == 200
        assert "date" in live.headers
        assert "server" not in live.headers
        unready = await client.get(url(port, "/ready"))
        assert unready.status_code == 503
        assert unready.json() == {"ready": False, "failing": {"kafka": "starting"}}
        health.set_ready("kafka", True)
        assert (await client.get(url(port, "/ready"))).status_code == 200
        metrics = await client.get(url(port, "/metrics"))
        assert metrics.headers["content-type"].startswith("text/plain")
        assert "sluice_runtime_draining" in metrics.text


async def test_a_taken_port_is_an_error_of_the_system_and_no_exit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        async with serve_http(Starlette(), "127.0.0.1", taken.getsockname()[1]):
            pass


async def test_a_request_under_way_is_answered_before_the_server_is_gone() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_request: Request) -> Response:
        entered.set()
        await go_on.wait()
        return PlainTextResponse("done")

    async with asyncio.TaskGroup() as group, httpx.AsyncClient() as client:
        async with serve_http(Starlette(routes=[Route("/", slow)]), "127.0.0.1", 0, stop_s=5.0) as port:
            answer = group.create_task(client.get(url(port, "/")))
            await entered.wait()
            asyncio.get_running_loop().call_later(0.2, go_on.set)
        assert (await answer).text == "done"
        with pytest.raises(httpx.ConnectError):
            await client.get(url(port, "/"))


async def test_a_request_that_never_ends_does_not_hold_up_the_stop() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def stuck(_request: Request) -> Response:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    async with asyncio.TaskGroup() as group, httpx.AsyncClient() as client:

        async def ask(port: int) -> None:
            with pytest.raises(httpx.HTTPError):
                (await client.get(url(port, "/"), timeout=30.0)).raise_for_status()

        async with asyncio.timeout(30.0):
            async with serve_http(Starlette(routes=[Route("/", stuck)]), "127.0.0.1", 0, stop_s=0.2) as port:
                group.create_task(ask(port))
                await entered.wait()
        assert cancelled.is_set()


async def test_a_failure_of_the_body_comes_out_as_it_is_and_frees_the_port() -> None:
    with pytest.raises(ZeroDivisionError):
        async with serve_health(Health(), "127.0.0.1", 0) as port:
            raise ZeroDivisionError
    with socket.create_server(("127.0.0.1", port)):
        pass


async def test_a_cancelled_owner_leaves_no_open_port() -> None:
    ports: list[int] = []

    async def own() -> None:
        async with serve_health(Health(), "127.0.0.1", 0) as port:
            ports.append(port)
            await asyncio.Event().wait()

    async with asyncio.timeout(30.0), asyncio.TaskGroup() as group:
        task = group.create_task(own())
        while not ports:
            await asyncio.sleep(0.01)
        task.cancel()
    with socket.create_server(("127.0.0.1", ports[0])):
        pass
