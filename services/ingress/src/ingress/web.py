"""The webhook over HTTP: the handshake, and bodies that are verified, split, published and only then answered.

Invariant: 200 says that every record carrying an item of the body is acknowledged. Credit of the in-flight window is
taken before a byte is read and returns when the records are settled, not with the answer.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from backpressure.window import CreditWindow
from contracts.topics import INBOUND_MESSAGES, WEBHOOKS_DLQ
from ingress import metrics, signature
from ingress.config import Config
from ingress.gather import Ticket
from ingress.load import LoadCount
from ingress.metrics import Outcome
from ingress.routing import Record, Routed, routed
from ingress.webhook import Item, Kind, items_of
from runtime.clock import Clock
from runtime.logs import get_logger

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Publish = Callable[[Sequence[Routed]], Ticket]
"""Begins to publish the items of one webhook."""

PATH = "/webhook"
RETRY_AFTER_S = 1
_PARAMETERS_MAX = 16
_STATUS = {
    Outcome.PUBLISHED: 200,
    Outcome.CHALLENGED: 200,
    Outcome.NO_CHALLENGE: 400,
    Outcome.NOT_GENUINE: 401,
    Outcome.NOT_CHALLENGED: 403,
    Outcome.NO_ROUTE: 404,
    Outcome.TOO_SLOW: 408,
    Outcome.TOO_LARGE: 413,
    Outcome.FULL: 503,
    Outcome.UNPUBLISHED: 503,
}
_COUNTED = {INBOUND_MESSAGES.name: "messages_count", WEBHOOKS_DLQ.name: "dead_letters_count"}
_UNREAD = frozenset({Outcome.FULL, Outcome.TOO_LARGE, Outcome.TOO_SLOW})

log = get_logger()


class Web:
    """The ASGI application. Bare, because a framework would cost more than the rest of the work."""

    def __init__(
        self, config: Config, *, publish: Publish, window: CreditWindow, load: LoadCount, clock: Clock
    ) -> None:
        self._app_secrets = config.app_secrets
        self._verify_token = config.verify_token
        self._body_bytes_max = config.body_bytes_max
        self._deadline_s = config.deadline_s
        self._begin_to_publish = publish
        self._window = window
        self._load = load
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        answer = b""
        if scope["path"] != PATH or scope["method"] not in ("GET", "POST"):
            outcome = Outcome.NO_ROUTE
        elif scope["method"] == "GET":
            outcome, answer = self._handshake(scope["query_string"])
        else:
            outcome = await self._take(scope["headers"], receive)
        metrics.REQUESTS_BY[outcome].inc()
        if outcome is not Outcome.GONE:
            await _answer(send, outcome, answer)

    def _handshake(self, query: bytes) -> tuple[Outcome, bytes]:
        try:  # Latin-1 maps each byte to one character and back, so the challenge stays what it was
            pairs = parse_qsl(
                query.decode("latin-1"),
                keep_blank_values=True,
                encoding="latin-1",
                max_num_fields=_PARAMETERS_MAX,
            )
        except ValueError:
            return Outcome.NO_CHALLENGE, b""
        found = {name: value.encode("latin-1") for name, value in pairs}
        is_known = hmac.compare_digest(
            found.get("hub.verify_token", b""), self._verify_token.reveal().encode()
        )
        if not is_known or found.get("hub.mode") != b"subscribe":
            return Outcome.NOT_CHALLENGED, b""
        if not found.get("hub.challenge"):
            return Outcome.NO_CHALLENGE, b""
        return Outcome.CHALLENGED, found["hub.challenge"]

    async def _take(self, headers: Headers, receive: Receive) -> Outcome:
        """Read a body within the window; its credit goes back here unless records were begun that hold it."""
        length = _content_length(headers)
        reserved_bytes = self._body_bytes_max if length is None else length
        if reserved_bytes > self._body_bytes_max:
            return Outcome.TOO_LARGE
        if not self._window.admit(reserved_bytes):
            metrics.WINDOW_FULL.inc()
            return Outcome.FULL
        credit = _Credit(self._window, reserved_bytes)
        try:
            async with asyncio.timeout(self._deadline_s):
                body = await _read(receive, reserved_bytes)
            if isinstance(body, Outcome):
                return body
            credit.shrink(len(body))
            copies = [value for name, value in headers if name == signature.HEADER]
            app_secrets = [secret.reveal().encode() for secret in self._app_secrets]  # those of this moment
            if not signature.is_genuine(body, copies, app_secrets):
                return Outcome.NOT_GENUINE
            return await self._publish(body, credit)
        except TimeoutError:
            return Outcome.TOO_SLOW
        finally:
            if not credit.is_held:
                credit.settle()

    async def _publish(self, body: bytes, credit: "_Credit") -> Outcome:
        started_at = self._clock.boottime()
        received_at_s = self._clock.wall()
        items = items_of(body)
        records = [routed(item, received_at_s=received_at_s) for item in items]
        for item in items:
            if isinstance(item, Item) and item.kind is Kind.MESSAGE and item.phone_number_id:
                self._load.add(item.phone_number_id)
        ticket = self._begin_to_publish(records)
        credit.hold_until_settled(ticket)
        deadline = asyncio.get_running_loop().call_later(self._deadline_s, ticket.abandon)
        try:
            published = await ticket.answer
        finally:
            deadline.cancel()
            ticket.abandon()
        outcome = Outcome.PUBLISHED if published else Outcome.UNPUBLISHED
        seconds = self._clock.boottime() - started_at
        metrics.PUBLISH_SECONDS.observe(seconds)
        log.info(
            "webhook.published" if published else "webhook.refused",
            outcome=outcome,
            seconds=round(seconds, 4),
            body_bytes=len(body),
            **_counts(records),
        )
        return outcome


class _Credit:
    """One request's share of the window, returned once."""

    def __init__(self, window: CreditWindow, size_bytes: int) -> None:
        self._window = window
        self._size_bytes = size_bytes
        self.is_held = False
        metrics.BYTES_IN_FLIGHT.inc(size_bytes)

    def shrink(self, size_bytes: int) -> None:
        """Give back what a body of unknown length did not use."""
        assert size_bytes <= self._size_bytes
        if size_bytes < self._size_bytes:
            self.settle()
            admitted = self._window.admit(size_bytes)
            assert admitted, "less than what was just returned fits"
            self._size_bytes = size_bytes
            metrics.BYTES_IN_FLIGHT.inc(size_bytes)

    def hold_until_settled(self, ticket: Ticket) -> None:
        self.is_held = True
        ticket.when_settled(self.settle)

    def settle(self) -> None:
        self._window.settle(self._size_bytes)
        metrics.BYTES_IN_FLIGHT.dec(self._size_bytes)


def _content_length(headers: Headers) -> int | None:
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and len(value) < 16:
            return int(value)
    return None


async def _read(receive: Receive, bytes_max: int) -> bytes | Outcome:
    """Return the body, or why there is none; never holds more than `bytes_max` and one chunk."""
    chunks: list[bytes] = []
    size_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return Outcome.GONE
        chunk = message.get("body", b"")
        size_bytes += len(chunk)
        if size_bytes > bytes_max:
            return Outcome.TOO_LARGE
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _counts(records: Sequence[Routed]) -> dict[str, int]:
    """Return how many items there are of each sort, without those of which there are none."""
    counts: dict[str, int] = {}
    for record in records:
        name = _COUNTED.get(record.topic, "events_count") if isinstance(record, Record) else "statuses_count"
        counts[name] = counts.get(name, 0) + 1
    return counts


async def _answer(send: Send, outcome: Outcome, answer: bytes) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(answer)).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
    if _STATUS[outcome] == 503:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    if outcome in _UNREAD:  # the rest of the body must not be read as the next request
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": _STATUS[outcome], "headers": headers})
    await send({"type": "http.response.body", "body": answer})
