"""Numbers over HTTP: connected, changed, listed."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admin.answers import ApiError
from admin.request import json_body
from admin.web_json import json_answer
from ledger import numbers
from ledger.pool import Ledger

_Id = Annotated[str, Meta(pattern=r"^[0-9]{1,40}$(?!\n)")]


class NumberDefinition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number to connect; ids as the provider's pages show them."""

    phone_number_id: _Id
    waba_id: _Id
    portfolio_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$(?!\n)")]
    display: Annotated[str, Meta(max_length=100)] = ""
    limit_per_s: Annotated[int, Meta(ge=1, le=1_000)] = 80
    setting_per_s: Annotated[int, Meta(ge=0, le=1_000)] | None = None


def routes(ledger: Ledger, *, slots_count: int) -> list[Route]:
    """Return the routes of this area."""

    async def add(request: Request) -> Response:
        wanted = await json_body(request, NumberDefinition)
        if wanted.setting_per_s is not None and wanted.setting_per_s > wanted.limit_per_s:
            raise ApiError(422, "setting_above_limit", "setting_per_s can't be above limit_per_s.")
        number = await numbers.add(
            ledger,
            phone_number_id=wanted.phone_number_id,
            waba_id=wanted.waba_id,
            portfolio_id=wanted.portfolio_id,
            display=wanted.display,
            limit_per_s=wanted.limit_per_s,
            setting_per_s=wanted.setting_per_s,
            slots_count=slots_count,
        )
        return json_answer(number, status=201)

    async def list_all(_request: Request) -> Response:
        return json_answer({"numbers": await numbers.listed(ledger)})

    return [
        Route("/v1/numbers", add, methods=["POST"], name="number_add"),
        Route("/v1/numbers", list_all, methods=["GET"], name="numbers"),
    ]
