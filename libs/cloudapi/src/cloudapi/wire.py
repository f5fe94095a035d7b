"""The POST of a message over aiohttp.

Invariant: `post_message` returns a reply or raises `TransportFailed`, and writes the request at most once: nothing here
retries. A failure counts as "surely not sent" only if it is listed as one; no failure carries the token or the body.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Self
from urllib.parse import quote

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from cloudapi.reply import outcome_of
from contracts.outcome import Outcome, Unknown, UnknownReason, Unsent, UnsentReason

ANSWER_BYTES_MAX = 1024 * 1024
# Below what servers and their proxies allow an idle connection, so that we seldom write to one that is being closed.
KEEPALIVE_S = 8.0
DNS_TTL_S = 60
_CHUNK_BYTES = 64 * 1024
LATE_S = 0.1
READ_S = 0.2
"""A loop that comes over `LATE_S` too late to a time-out was away; it has `READ_S` to read what came meanwhile."""

# Raised by the connector alone, before a byte of the request is written: refused, DNS, TLS, no connection in time
# (reproduced against a misbehaving server with aiohttp 3.14.5). Whatever isn't listed may have arrived.
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_TROUBLE = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError, ValueError, RuntimeError)


class Reply(Struct, frozen=True):
    """An answer as it came; a body over 1 MiB is cut there. `retry_after` and `date` are headers."""

    http_status: int
    body: bytes
    retry_after: str | None = None
    date: str | None = None

    def __repr__(self) -> str:  # a person's number never reaches a log by accident
        return f"Reply(http_status={self.http_status}, body_bytes={len(self.body)})"


class TransportFault(StrEnum):
    """What went wrong between us and an answer."""

    NOT_CONNECTED = "not_connected"
    UNUSABLE_TOKEN = "unusable_token"  # noqa: S105  # the name of a fault
    TIMEOUT = "timeout"
    CONNECTION_LOST = "connection_lost"
    GARBAGE = "garbage"
    """The answer is not HTTP."""


class TransportFailed(Exception):
    """No answer; `may_have_arrived` says whether the message may exist all the same. Text: reason, driver's class."""

    def __init__(self, *, may_have_arrived: bool, reason: TransportFault, driver_error: str = "") -> None:
        super().__init__(f"{reason} ({driver_error})" if driver_error else str(reason))
        self.may_have_arrived = may_have_arrived
        self.reason = reason


class Wire:
    """A pool of connections to one base URL."""

    def __init__(
        self, session: aiohttp.ClientSession, root: str, token: Callable[[], str], timeout_s: float
    ) -> None:
        self._session = session
        self._root = root
        self._token = token
        self._timeout_s = timeout_s

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        base_url: str,
        version: str,
        token: Callable[[], str],
        *,
        connections_max: int,
        timeout_s: float,
        connect_s: float,
    ) -> AsyncIterator[Self]:
        """Open the pool; `token` is asked before each POST and must not raise.

        `timeout_s` bounds a POST from call to last byte, `connect_s` the part of it until there is a connection.
        """
        assert 0 < connect_s < timeout_s
        assert connections_max > 0
        connector = aiohttp.TCPConnector(
            limit=connections_max,
            limit_per_host=connections_max,
            keepalive_timeout=KEEPALIVE_S,
            ttl_dns_cache=DNS_TTL_S,
        )
        timeout = aiohttp.ClientTimeout(
            total=None,  # ours
            connect=connect_s,
            sock_connect=connect_s,
            ceil_threshold=float("inf"),  # else aiohttp rounds a time-out over 5 s up to whole seconds
        )
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            raise_for_status=False,
            headers={
                "Content-Type": "application/json",
                "Accept-Encoding": "identity",  # answers are a few hundred bytes
                "User-Agent": "sluice",
            },
        ) as session:
            yield cls(session, f"{base_url.rstrip('/')}/{quote(version, safe='')}/", token, timeout_s)

    async def post_message(self, phone_number_id: str, body: bytes) -> Reply:
        """Return the answer, whatever its status (a redirect is one); raise `TransportFailed` when there is none."""
        bearer = self._token().strip()
        if not (bearer.isascii() and bearer.isprintable() and bearer):
            raise TransportFailed(may_have_arrived=False, reason=TransportFault.UNUSABLE_TOKEN)
        url = f"{self._root}{quote(phone_number_id, safe='')}/messages"
        try:
            async with (
                _time_out(self._timeout_s),
                self._session.post(
                    url, data=body, headers={"Authorization": f"Bearer {bearer}"}, allow_redirects=False
                ) as response,
            ):
                return Reply(
                    http_status=response.status,
                    body=await _read(response),
                    retry_after=response.headers.get("Retry-After"),
                    date=response.headers.get("Date"),
                )
        except _TROUBLE as error:
            failure = _failure(error)
        # Raised out here, because the driver's exception holds the request's headers, and a context would keep it.
        raise failure


async def send(wire: Wire, phone_number_id: str, body: bytes) -> Outcome:
    """POST a message and return its outcome; transport trouble is one too."""
    try:
        reply = await wire.post_message(phone_number_id, body)
    except TransportFailed as failure:
        if not failure.may_have_arrived:
            return Unsent(UnsentReason.NOT_CONNECTED)
        return Unknown(_UNKNOWN_REASONS[failure.reason])
    return outcome_of(reply.http_status, reply.body, retry_after=reply.retry_after, date=reply.date)


@asynccontextmanager
async def _time_out(seconds: float) -> AsyncIterator[None]:
    """Raise `TimeoutError` after `seconds`, but not over an answer that came while this process was at a standstill."""
    loop = asyncio.get_running_loop()
    due_at = loop.time() + seconds

    def due() -> None:
        was_away = loop.time() - due_at > LATE_S
        limit.reschedule(loop.time() + (READ_S if was_away else 0.0))

    async with asyncio.timeout(None) as limit:
        timer = loop.call_at(due_at, due)
        try:
            yield
        finally:
            timer.cancel()


_UNKNOWN_REASONS = {
    TransportFault.TIMEOUT: UnknownReason.TIMEOUT,
    TransportFault.CONNECTION_LOST: UnknownReason.CONNECTION_LOST,
    TransportFault.GARBAGE: UnknownReason.UNREADABLE_ANSWER,
}


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body, cut at the limit; aiohttp drops the connection of a body that was not read to its end."""
    parts: list[bytes] = []
    missing = ANSWER_BYTES_MAX
    while missing > 0:
        part = await response.content.read(min(missing, _CHUNK_BYTES))
        if not part:
            return b"".join(parts)
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _failure(error: Exception) -> TransportFailed:
    driver_error = type(error).__name__
    if isinstance(error, _NOT_SENT):
        return TransportFailed(
            may_have_arrived=False, reason=TransportFault.NOT_CONNECTED, driver_error=driver_error
        )
    reason = TransportFault.CONNECTION_LOST
    if isinstance(error, TimeoutError):
        reason = TransportFault.TIMEOUT
    elif isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        reason = TransportFault.GARBAGE
    return TransportFailed(may_have_arrived=True, reason=reason, driver_error=driver_error)
