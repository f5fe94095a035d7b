"""The HTTP face of Graph's reads: the token, the accounts and their numbers.

Invariant: nothing is decided here, and nothing of a request is kept.
"""

import secrets

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.clock import Clock
from simulator.graph_reads import Reads, Told
from simulator.refusal import Refusal, error_body

PAGE_SIZE = 25
PAGE_SIZE_MAX = 100


class GraphReads:
    """`GET` below `/{version}/`."""

    def __init__(self, reads: Reads, clock: Clock) -> None:
        self._reads = reads
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            Route("/{version:str}/debug_token", self.debug_token),
            Route("/{version:str}/{node:str}/phone_numbers", self.phone_numbers),
            Route("/{version:str}/{node:str}/subscribed_apps", self.subscribed_apps),
            Route("/{version:str}/{node:str}/subscriptions", self.subscriptions),
            Route("/{version:str}/{node:int}", self.number),
        ]

    async def debug_token(self, request: Request) -> Response:
        token = request.query_params.get("input_token", "")
        return _answer(self._reads.debug_token(_authorization(request), token, unix=self._clock.wall()))

    async def phone_numbers(self, request: Request) -> Response:
        asked = request.query_params
        limit = asked.get("limit", "")
        told = self._reads.phone_numbers(
            _authorization(request),
            request.path_params["node"],
            asked.get("fields", ""),
            limit=max(1, min(int(limit), PAGE_SIZE_MAX)) if limit.isdigit() else PAGE_SIZE,
            after=asked.get("after", ""),
        )
        return _answer(told)

    async def number(self, request: Request) -> Response:
        fields = request.query_params.get("fields", "")
        return _answer(self._reads.number(_authorization(request), str(request.path_params["node"]), fields))

    async def subscribed_apps(self, request: Request) -> Response:
        return _answer(self._reads.subscribed_apps(_authorization(request), request.path_params["node"]))

    async def subscriptions(self, request: Request) -> Response:
        return _answer(self._reads.subscriptions(_authorization(request), request.path_params["node"]))


def _authorization(request: Request) -> str:
    return request.headers.get("authorization", "")


def _answer(told: Told) -> Response:
    if isinstance(told, Refusal):
        body = error_body(told, secrets.token_hex(8))
        return Response(body, told.http_status, media_type="application/json")
    return Response(msgspec.json.encode(told), media_type="application/json")
