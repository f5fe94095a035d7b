"""Halts over HTTP: placed, listed, lifted by name.

Invariant: a halt that is answered stops the next claim; a repeated order changes nothing, not even who gave it and why.
"""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admin.answers import ApiError, HaltLine, HaltPlaced
from admin.request import ACTOR, json_body
from admin.web_json import json_answer
from ledger import halts
from ledger.halts import EVERYTHING, Halt, HaltScope
from ledger.pool import Ledger
from runtime.logs import get_logger

_ID_MAX = 2**63 - 1
log = get_logger()


class HaltOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to stand still, and why; `all` needs no key."""

    scope: HaltScope
    key: Annotated[str, Meta(max_length=40)] = EVERYTHING
    reason: Annotated[str, Meta(min_length=1, max_length=500)] = "halted by an operator"


def halt_line(halt: Halt, *, numbers: tuple[str, ...] | None = None) -> HaltLine:
    """Return a halt as it is told."""
    return HaltLine(
        scope=halt.scope.value,
        key=halt.key,
        actor=halt.actor,
        reason=halt.reason,
        since=halt.since,
        numbers=numbers,
    )


def routes(ledger: Ledger) -> list[Route]:
    """Return the routes of this area."""

    async def place(request: Request) -> Response:
        order = await json_body(request, HaltOrder)
        if not order.reason.strip() or "\0" in order.reason:
            raise ApiError(
                422, "bad_text", "The reason must be a text that can be seen, without NUL characters."
            )
        key = _key(order.scope, order.key)
        halt, changed = await halts.place(
            ledger, scope=order.scope, key=key, actor=ACTOR, reason=order.reason
        )
        log.warning("halt.placed", scope=order.scope, changed=changed)
        return json_answer(HaltPlaced(halt=halt_line(halt), changed=changed), status=201 if changed else 200)

    async def list_all(_request: Request) -> Response:
        return json_answer({"halts": [halt_line(halt) for halt in await halts.listed(ledger)]})

    async def lift(request: Request) -> Response:
        scope = request.path_params["scope"]
        if scope not in list(HaltScope):
            raise ApiError(404, "no_scope", f"The scope must be one of {', '.join(HaltScope)}.")
        scope, key = HaltScope(scope), _key(HaltScope(scope), request.path_params["key"])
        changed = await halts.lift(ledger, scope=scope, key=key)
        log.warning("halt.lifted", scope=scope, changed=changed)
        return json_answer({"scope": scope, "key": key, "changed": changed})

    return [
        Route("/v1/halts", place, methods=["POST"], name="halt_place"),
        Route("/v1/halts", list_all, methods=["GET"], name="halts"),
        Route("/v1/halts/{scope}/{key}", lift, methods=["DELETE"], name="halt_lift"),
    ]


def _key(scope: HaltScope, text: str) -> str:
    """Return the key as it is stored. Raises `ApiError` (422) for what can't be one."""
    if scope is HaltScope.ALL:
        if text != EVERYTHING:
            raise ApiError(422, "bad_key", f"The key of a halt of everything is {EVERYTHING}.")
        return text
    if not (text.isascii() and text.isdecimal() and len(text) <= 40):
        raise ApiError(422, "bad_key", f"The key of a {scope} is its id, in digits.")
    if scope is HaltScope.CAMPAIGN:
        if int(text) > _ID_MAX:
            raise ApiError(422, "bad_key", "No campaign has so large an id.")
        return str(int(text))
    return text
