"""Reads of the Graph API over httpx: what a token may do, which apps hear of an account, how its numbers are.

Invariant: a call returns an `Answer` or raises `TransportFailed`, within the time and size that are set here; nothing is
retried or written. The bearer token goes to the given address alone, in a header. One call names a token in its query,
since `/debug_token` takes it nowhere else; httpx writes that address to its own log at INFO, so that must stay off.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Generic, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from msgspec import Struct

from cloudapi.nodes import (
    ListedNumber,
    NumberNode,
    Refused,
    SubscribedApp,
    Subscription,
    TokenInfo,
)
from cloudapi.wire import TransportFailed, TransportFault

T = TypeVar("T")
U = TypeVar("U")

ANSWER_BYTES_MAX = 1024 * 1024
CONNECTIONS_MAX = 8
PAGE_SIZE = 100
PAGES_MAX = 10
LISTED_FIELDS = "id,display_phone_number,status,quality_rating"
NODE_FIELDS = "id,throughput,whatsapp_business_manager_messaging_limit,webhook_configuration"


class Answer(Struct, Generic[T], frozen=True):
    """What Graph said, and its `Date` header, where there was one."""

    said: T | Refused
    date: str | None = None

    def of(self, part: Callable[[T], U]) -> "Answer[U]":
        """Return the answer with a part of what was said in its place."""
        return Answer(self.said if isinstance(self.said, Refused) else part(self.said), self.date)


class _Fault(Struct, frozen=True):
    code: int
    error_subcode: int = 0


class _ErrorBody(Struct, frozen=True):
    error: _Fault


class _Cursors(Struct, frozen=True):
    after: str = ""


class _Paging(Struct, frozen=True):
    cursors: _Cursors = _Cursors()
    next: str = ""


class _TokenBody(Struct, frozen=True):
    data: TokenInfo


class _Numbers(Struct, frozen=True):
    data: tuple[ListedNumber, ...]
    paging: _Paging = _Paging()


class _Apps(Struct, frozen=True):
    data: tuple[SubscribedApp, ...]


class _Subscriptions(Struct, frozen=True):
    data: tuple[Subscription, ...]


class GraphClient:
    """The Graph API at one address, with one token."""

    def __init__(self, client: httpx.AsyncClient, root: str, token: str, timeout_s: float) -> None:
        self._client = client
        self.root = root
        """The address, with the version, that ids stand behind."""
        self._token = token.strip()
        self._timeout_s = timeout_s

    @classmethod
    @asynccontextmanager
    async def open(
        cls, base_url: str, version: str, token: str, *, timeout_s: float, connect_s: float
    ) -> AsyncIterator[Self]:
        """Open it; `timeout_s` bounds each call from its start to the last byte."""
        assert 0 < connect_s <= timeout_s
        limits = httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX)
        async with httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=connect_s),
            limits=limits,
            trust_env=False,
            follow_redirects=False,
            headers={"User-Agent": "sluice/0.1.0"},
        ) as client:
            yield cls(client, f"{base_url.rstrip('/')}/{quote(version, safe='')}", token, timeout_s)

    async def token_info(self) -> Answer[TokenInfo]:
        """Return what `/debug_token` says of our token."""
        answer = await self._get("debug_token", _TokenBody, {"input_token": self._token})
        return answer.of(lambda body: body.data)

    async def phone_numbers(self, waba_id: str) -> Answer[tuple[ListedNumber, ...]]:
        """Return the numbers of a WABA, the first thousand."""
        found: tuple[ListedNumber, ...] = ()
        params = {"fields": LISTED_FIELDS, "limit": str(PAGE_SIZE)}
        date = None
        for _ in range(PAGES_MAX):
            answer = await self._get(f"{_segment(waba_id)}/phone_numbers", _Numbers, params)
            date, page = answer.date, answer.said
            if isinstance(page, Refused):
                return Answer(page, date)
            found += page.data
            if not (page.paging.next and page.paging.cursors.after):
                break
            params["after"] = page.paging.cursors.after
        return Answer(found, date)

    async def number(self, phone_number_id: str) -> Answer[NumberNode]:
        """Return a number's throughput, messaging limit and callbacks."""
        return await self._get(_segment(phone_number_id), NumberNode, {"fields": NODE_FIELDS})

    async def subscribed_apps(self, waba_id: str) -> Answer[tuple[str, ...]]:
        """Return the ids of the apps that hear of a WABA."""
        answer = await self._get(f"{_segment(waba_id)}/subscribed_apps", _Apps, {})
        return answer.of(lambda body: tuple(app.whatsapp_business_api_data.id for app in body.data))

    async def subscriptions(self, app_id: str, app_secret: str) -> Answer[tuple[Subscription, ...]]:
        """Return what an app asked to be told, and where; Graph tells it to the app alone, so its secret is the token."""
        path = f"{_segment(app_id)}/subscriptions"
        answer = await self._get(path, _Subscriptions, {}, token=f"{app_id}|{app_secret}")
        return answer.of(lambda body: body.data)

    async def _get(
        self, path: str, wanted: type[T], params: Mapping[str, str], *, token: str | None = None
    ) -> Answer[T]:
        bearer = self._token if token is None else token
        if not (bearer.isascii() and bearer.isprintable() and bearer):
            raise _failed(TransportFault.UNUSABLE_TOKEN)
        headers = {"Authorization": f"Bearer {bearer}"}
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream("GET", f"{self.root}/{path}", params=params, headers=headers) as response,
            ):
                body = await _body(response)
                return Answer(_said(response.status_code, body, wanted), response.headers.get("date"))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, TimeoutError) as error:
            failure = _failed(_fault(error), type(error).__name__)
        # Raised out here, because the driver's exception holds the request, and a context would keep it.
        raise failure


def _segment(text: str) -> str:
    return quote(text, safe="")


async def _body(response: httpx.Response) -> bytes:
    """Return the body, cut behind the limit: what is cut is no JSON any more."""
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            break
    return body[:ANSWER_BYTES_MAX]


def _said(status: int, body: bytes, wanted: type[T]) -> T | Refused:
    try:
        if 200 <= status < 300:
            return msgspec.json.decode(body, type=wanted)
        error = msgspec.json.decode(body, type=_ErrorBody).error
    except msgspec.DecodeError:
        return Refused(status, None)
    return Refused(status, error.code, error.error_subcode)


def _fault(error: Exception) -> TransportFault:
    if isinstance(
        error, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol | httpx.InvalidURL
    ):
        return TransportFault.NOT_CONNECTED
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return TransportFault.TIMEOUT
    if isinstance(error, httpx.RemoteProtocolError | httpx.DecodingError):
        return TransportFault.GARBAGE
    return TransportFault.CONNECTION_LOST


def _failed(reason: TransportFault, driver_error: str = "") -> TransportFailed:
    return TransportFailed(may_have_arrived=False, reason=reason, driver_error=driver_error)
