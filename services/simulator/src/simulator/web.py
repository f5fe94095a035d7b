"""The HTTP face: Meta's `/messages`, and `/sim` for whoever runs the test.

Invariant: each answer leaves, or fails to leave, exactly as the world decided; nothing is decided here.
"""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.clock import Clock
from simulator import payload
from simulator.metrics import POSTS_TOTAL
from simulator.payload import Update
from simulator.records import StatusRecord
from simulator.report import ndjson_chunks, report
from simulator.scenario import Digits, merged
from simulator.script import Rule
from simulator.validation import BODY_BYTES_MAX
from simulator.world import Answer, Manner, World

BEFORE_ANSWER_PATIENCE_S = 2.0
QUIET_DELAY_MAX_S = 1.0  # a longer wait watches for the client's leaving
SETUP_BYTES_MAX = 16 << 20


class Courier(Protocol):
    """What this side needs of the outgoing side. Edges do not import each other: `app` hands it in."""

    @property
    def room(self) -> int: ...
    @property
    def pending(self) -> int: ...
    @property
    def is_idle(self) -> bool: ...
    @property
    def tally(self) -> Struct: ...
    def offer(self, update: Update) -> None: ...
    def offer_body(self, body: bytes) -> None: ...
    def direct(self, url: str) -> None: ...
    def reset(self) -> None: ...
    async def until_delivered(self, record: StatusRecord, timeout_s: float) -> None: ...
    async def handshake(self, verify_token: str, challenge: str) -> bool: ...


class WrittenTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `POST /sim/inbound`: a person writes texts in a row, all at `timestamp` (unix seconds, now if left
    out)."""

    phone_number_id: str
    sender: Digits
    texts: Annotated[tuple[str, ...], Meta(min_length=1, max_length=1_000)]
    timestamp: int | None = None


class Front:
    """The ASGI application. `POST /{version}/{phone_number_id}/messages` passes Starlette by, for speed and because
    a reset needs the server's own `receive`; the rest goes to `others`."""

    def __init__(self, world: World, callbacks: Courier, clock: Clock, others: ASGIApp) -> None:
        self._world = world
        self._callbacks = callbacks
        self._clock = clock
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = scope["path"].split("/")
        if len(parts) == 4 and parts[3] == "messages" and scope["method"] == "POST":
            await self._messages(parts[2], scope, receive, send)
        else:
            await self._others(scope, receive, send)

    async def _messages(self, phone_number_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await _body(receive)
        if raw is None:
            return
        answer = self._world.arrive(
            phone_number_id,
            _header(scope, b"authorization"),
            raw,
            now=self._clock.boottime(),
            unix=self._clock.wall(),
        )
        POSTS_TOTAL.labels(answer.http_status).inc()
        await self._act(answer, receive, send)

    async def _act(self, answer: Answer, receive: Receive, send: Send) -> None:
        if answer.after is not None:
            await self._callbacks.until_delivered(answer.after, BEFORE_ANSWER_PATIENCE_S)
        if answer.delay_s > QUIET_DELAY_MAX_S:
            await _held(receive, answer.delay_s)
        elif answer.delay_s > 0:
            await asyncio.sleep(answer.delay_s)
        if answer.manner is Manner.REPLY:
            await _reply(answer, send)
        else:
            await _reset(receive)


class Desk:
    """The `/sim` side: sets the scene, and hands out the account of it."""

    def __init__(
        self,
        world: World,
        callbacks: Courier,
        clock: Clock,
        *,
        seed: int,
        verify_token: str,
    ) -> None:
        self._world = world
        self._callbacks = callbacks
        self._clock = clock
        self._seed = seed
        self._verify_token = verify_token

    def routes(self) -> list[Route]:
        return [
            Route("/sim/setup", self.setup, methods=["POST"], max_body_size=SETUP_BYTES_MAX),
            Route("/sim/rules", self.add_rules, methods=["POST"], max_body_size=SETUP_BYTES_MAX),
            Route("/sim/reset", self.reset, methods=["POST"], max_body_size=SETUP_BYTES_MAX),
            Route("/sim", self.reset, methods=["DELETE"]),
            Route("/sim/inbound", self.write_texts, methods=["POST"], max_body_size=SETUP_BYTES_MAX),
            Route("/sim/webhooks", self.send_webhook, methods=["POST"], max_body_size=SETUP_BYTES_MAX),
            Route("/sim/handshake", self.shake_hands, methods=["POST"], max_body_size=SETUP_BYTES_MAX),
            Route("/sim/idle", self.tell_idle),
            Route("/sim/report", self.give_report),
            Route("/sim/report/messages", self.give_messages),
            Route("/sim/report/inbound", self.give_inbound),
        ]

    async def setup(self, request: Request) -> Response:
        try:
            change = msgspec.json.decode(await request.body(), type=dict[str, Any])
            url = msgspec.convert(change.pop("webhook_url", None), type=str | None)
            scenario = merged(self._world.scenario, change)
        except ValueError as error:
            return _json({"error": str(error)}, 400)
        if url is not None:
            self._callbacks.direct(url)
        self._world.adopt(scenario)
        return _json(scenario)

    async def add_rules(self, request: Request) -> Response:
        try:
            rules = msgspec.json.decode(await request.body(), type=Rule | list[Rule])
        except ValueError as error:
            return _json({"error": str(error)}, 400)
        rules = [rules] if isinstance(rules, Rule) else rules
        for rule in rules:
            self._world.rule(rule)
        return _json({"added": len(rules)})

    async def reset(self, _request: Request) -> Response:
        self._world.reset()
        self._callbacks.reset()
        return _json({"reset": True})

    async def write_texts(self, request: Request) -> Response:
        try:
            written = msgspec.json.decode(await request.body(), type=WrittenTexts)
        except ValueError as error:
            return _json({"error": str(error)}, 400)
        number = self._world.numbers.get(written.phone_number_id)
        if number is None:
            return _json({"error": "unknown phone_number_id"}, 404)
        if self._callbacks.room < len(written.texts):
            return _json({"error": "too many updates pending"}, 503)
        timestamp = int(self._clock.wall()) if written.timestamp is None else written.timestamp
        wamids = []
        for place, text in enumerate(written.texts):
            update = self._world.write(
                number,
                written.sender,
                text,
                order=place + 1,
                timestamp=timestamp,
                now=self._clock.boottime(),
            )
            self._callbacks.offer(update)
            wamids.append(update.record.wamid)
        return _json({"wamids": wamids})

    async def send_webhook(self, request: Request) -> Response:
        """Any JSON object, in Meta's bytes and signed: for hooks that no journey makes."""
        try:
            value = msgspec.json.decode(await request.body(), type=dict[str, Any])
        except ValueError as error:
            return _json({"error": str(error)}, 400)
        if self._callbacks.room == 0:
            return _json({"error": "too many updates pending"}, 503)
        self._callbacks.offer_body(payload.encode(value))
        return _json({"queued": True})

    async def shake_hands(self, _request: Request) -> Response:
        challenge = str(1_000_000_000 + int(self._clock.wall()) % 1_000_000_000)
        return _json({"verified": await self._callbacks.handshake(self._verify_token, challenge)})

    async def tell_idle(self, _request: Request) -> Response:
        journeys, updates = self._world.journeys_count, self._callbacks.pending
        idle = self._callbacks.is_idle and self._world.next_due() is None
        return _json({"idle": idle, "journeys_pending": journeys, "updates_pending": updates})

    async def give_report(self, _request: Request) -> Response:
        summary = report(
            self._world,
            seed=self._seed,
            webhooks=self._callbacks.tally,
            updates_pending=self._callbacks.pending,
        )
        return _json(summary)

    async def give_messages(self, request: Request) -> Response:
        return _rows(request, self._world.messages)

    async def give_inbound(self, request: Request) -> Response:
        return _rows(request, self._world.inbound)


def _rows(request: Request, rows: list[Any]) -> Response:
    try:
        offset = max(0, int(request.query_params.get("offset", "0")))
        limit = int(request.query_params["limit"]) if "limit" in request.query_params else None
    except ValueError:
        return _json({"error": "offset and limit are whole numbers"}, 400)

    async def stream() -> AsyncIterator[bytes]:
        for chunk in ndjson_chunks(rows, offset, limit):
            yield chunk
            await asyncio.sleep(0)  # a million rows must not stop the answers

    return StreamingResponse(stream(), media_type="application/x-ndjson")


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _header(scope: Scope, name: bytes) -> bytes:
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return b""


async def _body(receive: Receive) -> bytes | None:
    """The request's body, cut off past the cap (which makes it invalid JSON); None when the client left."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        if len(body) <= BODY_BYTES_MAX:
            body += message.get("body", b"")
        if not message.get("more_body", False):
            return body[:BODY_BYTES_MAX]


async def _held(receive: Receive, seconds: float) -> None:
    """Wait so long, or until the client has gone."""
    try:
        async with asyncio.timeout(seconds):
            await receive()
    except TimeoutError:
        return


async def _reply(answer: Answer, send: Send) -> None:
    headers = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.body))]
    if answer.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % answer.retry_after_s))
    await send({"type": "http.response.start", "status": answer.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _reset(receive: Receive) -> None:
    """End the connection with a RST and no answer. ASGI has no word for that, so this reaches for uvicorn's
    transport; under another server the request is simply held until the client leaves."""
    cycle = getattr(receive, "__self__", None)
    transport: asyncio.Transport | None = getattr(cycle, "transport", None)
    if transport is not None:
        _linger_never(transport)
        transport.abort()
    await receive()


def _linger_never(transport: asyncio.Transport) -> None:
    """Make the coming close a reset. The duplicate shares the socket's options; uvloop lends no real socket."""
    handle = transport.get_extra_info("socket")
    if handle is None or transport.is_closing():
        return
    with socket.socket(fileno=os.dup(handle.fileno())) as duplicate:
        duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
