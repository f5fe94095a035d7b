"""A portfolio's opt-outs over HTTP: CSV out and in, both streamed.

Invariant: an opt-out that was read is kept, even when the rest of its file never comes; the same file twice is once.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from admin import csv_export
from admin.answers import ApiError, OptOutReport
from admin.csv_audience import AudienceFile
from admin.csv_text import FileRefused
from admin.request import require_media_type
from admin.web_json import json_answer
from admin.web_upload import audience_file, pieces_of, refused
from contracts.contact import folded_phone
from ledger import numbers, suppressions
from ledger.pool import Ledger, LedgerUnavailable
from ledger.suppressions import PHONES_MAX, SuppressedContact
from runtime.clock import Clock
from runtime.logs import get_logger

SOURCE = "import"
KEPT = "the rows before that are kept, so send the whole file again"
TRIES_MAX = 5
T = TypeVar("T")

log = get_logger()


class OptOutRoutes:
    """The routes of this area."""

    def __init__(self, ledger: Ledger, clock: Clock, *, import_bytes_max: int) -> None:
        self._ledger = ledger
        self._clock = clock
        self._import_bytes_max = import_bytes_max

    def routes(self) -> list[Route]:
        path = "/v1/portfolios/{portfolio_id}/opt-outs.csv"
        return [
            Route(path, self.give, methods=["GET"], name="opt_outs_export"),
            Route(path, self.take, methods=["POST"], name="opt_outs_import"),
        ]

    async def give(self, request: Request) -> Response:
        """Export everybody who must not be written to."""
        portfolio_id = await self._portfolio(request)
        return StreamingResponse(
            self._exported(portfolio_id),
            media_type="text/csv; charset=utf-8",
            headers={
                "content-disposition": 'attachment; filename="opt-outs.csv"',
                "cache-control": "no-store",
            },
        )

    async def take(self, request: Request) -> Response:
        """Opt out everybody in the file; who is new becomes a contact, so that the first campaign passes him by."""
        require_media_type(request, "text/csv", "text/tab-separated-values")
        portfolio_id = await self._portfolio(request)
        try:
            file = audience_file(request, ())
            opted_out = await self._taken(request, file, portfolio_id)
        except FileRefused as error:
            raise refused(error) from None
        report = _report(file, opted_out)
        log.info(
            "opt_outs.imported",
            opted_out_count=report.opted_out,
            already_count=report.already,
            rejected_count=report.rejected,
        )
        return json_answer(report)

    async def _taken(self, request: Request, file: AudienceFile, portfolio_id: str) -> int:
        """Take the file in by a thousand rows; return how many opted out by it."""
        opted_out = 0
        waiting: list[str] = []
        pieces = pieces_of(request, bytes_max=self._import_bytes_max, undone=KEPT)
        async with aclosing(pieces):
            async for piece in pieces:
                waiting += (folded_phone(recipient.address) for recipient in file.feed(piece))
                while len(waiting) >= PHONES_MAX:
                    opted_out += await self._opt_out(portfolio_id, waiting[:PHONES_MAX])
                    del waiting[:PHONES_MAX]
        waiting += (folded_phone(recipient.address) for recipient in file.finish())
        for start in range(0, len(waiting), PHONES_MAX):
            opted_out += await self._opt_out(portfolio_id, waiting[start : start + PHONES_MAX])
        return opted_out

    async def _opt_out(self, portfolio_id: str, folded: list[str]) -> int:
        return await self._insisting(
            lambda: suppressions.opt_out_phones(
                self._ledger, portfolio_id=portfolio_id, folded=folded, source=SOURCE
            )
        )

    async def _exported(self, portfolio_id: str) -> AsyncIterator[bytes]:
        """Yield the file page by page. A page that can't be read in the end cuts the answer, so it looks cut."""
        yield csv_export.opt_out_header()
        page = await self._page(portfolio_id, 0)
        while page:
            yield csv_export.opt_out_lines(page)
            page = await self._page(portfolio_id, page[-1].contact_id)

    async def _page(self, portfolio_id: str, after_contact_id: int) -> list[SuppressedContact]:
        return await self._insisting(
            lambda: suppressions.page(self._ledger, portfolio_id, after_contact_id=after_contact_id)
        )

    async def _insisting(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask for what may be asked twice until it is answered, a few seconds long."""
        for tries in range(1, TRIES_MAX + 1):
            try:
                return await ask()
            except LedgerUnavailable:
                if tries == TRIES_MAX:
                    raise
                await self._clock.sleep(1.0)
        raise AssertionError("the last try returns or raises")

    async def _portfolio(self, request: Request) -> str:
        """Return the portfolio in the path. Raises `ApiError` (404) for one that no number belongs to."""
        portfolio_id: str = request.path_params["portfolio_id"]
        known = {number.portfolio_id for number in await numbers.listed(self._ledger)}
        if portfolio_id not in known:
            raise ApiError(404, "no_portfolio", "No connected number belongs to this portfolio.")
        return portfolio_id


def _report(file: AudienceFile, opted_out: int) -> OptOutReport:
    rejected = file.rejected.total()
    return OptOutReport(
        opted_out=opted_out,
        already=file.recipients_count - opted_out,
        rejected=rejected,
        rows=file.recipients_count + rejected,
        blank=file.blank_count,
        reasons={fault.value: n for fault, n in sorted(file.rejected.items())},
        problems=tuple(file.problems),
        encoding=file.encoding or "",
        delimiter=file.delimiter or "",
    )
