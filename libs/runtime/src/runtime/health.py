"""Tells the outside whether the process lives and is ready, and what it counts.

Invariant: a process is ready only while every condition it has named holds and it is not draining.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate

import prometheus_client
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from runtime.clock import SYSTEM_CLOCK
from runtime.logs import get_logger

BACKLOG = 2048

log = get_logger()


class Health:
    """Named conditions and the drain state. Conditions named at the start are unmet until they are set."""

    def __init__(self, *conditions: str) -> None:
        self._unmet: dict[str, str] = dict.fromkeys(conditions, "starting")
        self._draining = False

    def set_ready(self, name: str, ok: bool, reason: str = "") -> None:
        """State a condition; `reason` goes out in `/ready`, so it names no person and no secret."""
        was_ok = name not in self._unmet
        if ok:
            self._unmet.pop(name, None)
        else:
            self._unmet[name] = reason
        if ok != was_ok:
            log.info("readiness.changed", name=name, ok=ok)

    def start_drain(self) -> None:
        """From here on the process is unready: no new work is sent to it."""
        self._draining = True

    @property
    def draining(self) -> bool:
        return self._draining

    @property
    def ready(self) -> bool:
        return not self._unmet and not self._draining

    def reasons(self) -> dict[str, str]:
        """Unmet condition → why; empty when ready."""
        return {**self._unmet, **({"drain": "draining"} if self._draining else {})}

    def routes(self) -> list[Route]:
        """`/live`, `/ready` and `/metrics`."""
        return [
            Route("/live", self._answer_live),
            Route("/ready", self._answer_ready),
            Route("/metrics", self._answer_metrics),
        ]

    async def _answer_live(self, _request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _answer_ready(self, _request: Request) -> Response:
        if self.ready:
            return JSONResponse({"ready": True})
        return JSONResponse({"ready": False, "failing": self.reasons()}, status_code=503)

    async def _answer_metrics(self, _request: Request) -> Response:
        return Response(
            prometheus_client.generate_latest(),
            headers={"content-type": prometheus_client.CONTENT_TYPE_LATEST},
        )


@asynccontextmanager
async def serve_http(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    stop_s: float = 5.0,
    keep_alive_s: int = 5,
    wall: Callable[[], float] = SYSTEM_CLOCK.wall,
) -> AsyncIterator[int]:
    """Serve `app` in this loop; yields the bound port (0 asks for a free one). Raises `OSError` if it can't bind.

    `wall` is what the `date` of the answers is taken from, once a second.

    On leaving, requests under way get `stop_s` seconds, then they are cancelled and their connections cut.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Accepted sockets inherit it. asyncio sets it itself only where the socket names its protocol, which this one doesn't.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = _server(app, keep_alive_s=keep_alive_s, stop_s=stop_s)
    with listener:
        await server.startup(sockets=[listener])
        date = _DateHeader(server, wall)
        try:
            yield listener.getsockname()[1]
        finally:
            date.stop()
            try:
                await server.shutdown(sockets=[listener])
                await asyncio.sleep(0)  # cancelled requests end now
            finally:
                for connection in list(server.server_state.connections):
                    connection.transport.abort()


@asynccontextmanager
async def serve_health(health: Health, host: str, port: int) -> AsyncIterator[int]:
    """Serve the health routes alone, for services without a web of their own; yields the bound port."""
    async with serve_http(Starlette(routes=health.routes()), host, port, stop_s=1.0) as bound:
        yield bound


def _server(app: ASGIApp, *, keep_alive_s: int, stop_s: float) -> uvicorn.Server:
    """Driven step by step (startup, shutdown) and not by `serve`, which takes the signals and polls."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=keep_alive_s,
        timeout_graceful_shutdown=stop_s,  # type: ignore[arg-type]  # handed to wait_for, which takes fractions
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


class _DateHeader:
    """Keeps the `date` of all answers right to the second (RFC 9110 wants one)."""

    def __init__(self, server: uvicorn.Server, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._state = server.server_state
        self._loop = asyncio.get_running_loop()
        self._tick()

    def _tick(self) -> None:
        self._state.default_headers = [(b"date", formatdate(self._wall(), usegmt=True).encode())]
        self._timer = self._loop.call_later(1.0, self._tick)

    def stop(self) -> None:
        self._timer.cancel()
