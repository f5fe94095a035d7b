"""The API's front door: who may come in, and every failure as a code and one sentence.

Invariant: nothing is read or changed for a caller who isn't allowed; no answer carries a stack, a secret or a text
that an exception made of its own accord.
"""

import hmac
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from admin import metrics
from admin.answers import ApiError
from admin.config import is_loopback
from admin.web_json import error_answer
from ledger.campaigns import Refusal
from ledger.pool import LedgerUnavailable
from runtime.clock import Clock
from runtime.config import Secrets
from runtime.logs import get_logger

RETRY_AFTER_S = 2
NO_ROUTE = "none"

log = get_logger()


class Web:
    """The ASGI application."""

    def __init__(self, routes: Sequence[Route], *, tokens: Secrets, clock: Clock) -> None:
        self._router = Router(routes=list(routes), redirect_slashes=False)
        self._tokens = tokens
        self._clock = clock
        for name in (NO_ROUTE, *(route.name for route in routes)):
            metrics.declare_route(name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        scope["app"] = self  # so that the router raises what it can't route
        started_at = self._clock.boottime()
        answer = _Answer(send)
        try:
            await self._serve(scope, receive, answer)
        finally:
            route = scope.get("route")
            name = route.name if isinstance(route, Route) else NO_ROUTE
            seconds = self._clock.boottime() - started_at
            metrics.REQUESTS.labels(name, f"{answer.status // 100}xx").inc()
            metrics.REQUEST_SECONDS.labels(name).observe(seconds)
            log.info("request.answered", name=name, status=answer.status, seconds=round(seconds, 4))

    async def _serve(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        try:
            self._let_in(Headers(scope=scope))
            await self._router(scope, receive, answer)
            return
        except ApiError as error:
            failure, headers = error, {}
        except HTTPException as error:
            failure, headers = _unrouted(error), dict(error.headers or {})
        except Refusal as error:
            failure, headers = ApiError(409, error.code, f"{_upper(str(error))}."), {}
        except LedgerUnavailable as error:
            if answer.is_begun:
                raise  # the rest will be missing: let the connection break, so that it shows
            log.warning("ledger.unavailable", error=error)
            failure = ApiError(
                503, "database_away", "The database doesn't answer: try again.", retry_after_s=RETRY_AFTER_S
            )
            headers = {}
        response = error_answer(failure)
        response.headers.update(headers)
        await response(scope, receive, answer)

    def _let_in(self, headers: Headers) -> None:
        if self._tokens:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            token = given.strip().encode("latin-1", "replace")
            matches = [hmac.compare_digest(token, known.reveal().encode()) for known in self._tokens]
            if scheme.lower() != "bearer" or not any(matches):
                raise ApiError(401, "unauthorised", "A valid token is needed.")
        elif not _is_local(headers):
            raise ApiError(403, "not_local", "Without tokens only this machine may ask.")


class _Answer:
    """The way out, remembering what was said."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 500
        self.is_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.is_begun = True
        await self._send(message)


def _is_local(headers: Headers) -> bool:
    """Whether a browser can't have been led here by somebody else's page, under a name or from an origin of theirs."""
    origin = headers.get("origin")
    if origin is not None and not is_loopback(_host(origin)):
        return False
    return is_loopback(_host("//" + headers.get("host", "")))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _unrouted(error: HTTPException) -> ApiError:
    if error.status_code == 405:
        return ApiError(405, "method", "This address knows other methods.")
    if error.status_code == 404:
        return ApiError(404, "no_route", "There is nothing at this address.")
    return ApiError(error.status_code, "refused", "The request can't be taken.")


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
