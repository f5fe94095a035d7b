"""A campaign's audience over HTTP: a CSV file in, recipients with their fate out; both streamed.

Invariant: an import is all or nothing; neither direction holds more than a chunk in memory.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from admin import csv_export, metrics
from admin.answers import ApiError, ImportReport
from admin.csv_audience import AudienceFile, Problem, Recipient
from admin.csv_text import FileRefused
from admin.metrics import RowOutcome
from admin.request import campaign_id_of, no_campaign, require_media_type
from admin.row_fault import RowFault
from admin.web_json import json_answer
from admin.web_upload import audience_file, pieces_of, refused
from contracts.contact import folded_phone
from ledger import audience, campaigns
from ledger.audience import CHUNK_ROWS, AudienceRow, Imported
from ledger.campaigns import Campaign
from ledger.pool import Ledger, LedgerUnavailable
from runtime.clock import Clock
from runtime.logs import get_logger

IMPORTS_MAX = 4  # each holds a connection of the pool
CHUNK_AGE_S = 20.0  # then a chunk goes even if it isn't full: the transaction may idle for 60 s
PAGE_ROWS = 5_000
PAGE_TRIES_MAX = 5
FORMATS = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}

log = get_logger()


class AudienceRoutes:
    """The routes of this area, and which imports are under way in this process."""

    def __init__(self, ledger: Ledger, clock: Clock, *, import_bytes_max: int) -> None:
        self._ledger = ledger
        self._clock = clock
        self._import_bytes_max = import_bytes_max
        self._importing: set[int] = set()

    def routes(self) -> list[Route]:
        one = "/v1/campaigns/{campaign_id}"
        return [
            Route(f"{one}/audience", self.take, methods=["POST"], name="audience_import"),
            Route(f"{one}/recipients.csv", self.give, methods=["GET"], name="recipients_export"),
        ]

    def is_importing(self, campaign_id: int) -> bool:
        """Whether an import into this campaign is under way in this process."""
        return campaign_id in self._importing

    async def take(self, request: Request) -> Response:
        """Import the file in the body."""
        require_media_type(request, "text/csv", "text/tab-separated-values")
        campaign = await self._find(request)
        started_at = self._clock.boottime()
        with self._admitted(campaign.campaign_id), _counted_failures():
            try:
                file = audience_file(request, campaign.body_columns)
                chunks = self._chunks(request, file)
                async with aclosing(chunks):
                    imported = await audience.add(self._ledger, campaign.campaign_id, chunks)
            except FileRefused as error:
                raise refused(error) from None
        report = _report(file, imported)
        log.info(
            "audience.imported",
            campaign_id=campaign.campaign_id,
            added_count=report.added,
            rejected_count=report.rejected,
            duplicates_count=report.duplicates,
            seconds=round(self._clock.boottime() - started_at, 3),
        )
        return json_answer(report)

    async def give(self, request: Request) -> Response:
        """Export all recipients of a launched campaign, as CSV or (`?format=ndjson`) as JSON lines."""
        form = request.query_params.get("format", "csv")
        if form not in FORMATS:
            raise ApiError(400, "unknown_format", "format must be csv or ndjson.")
        campaign = await self._find(request)
        return StreamingResponse(
            self._exported(campaign.campaign_id, form),
            media_type=FORMATS[form],
            headers={
                "content-disposition": f'attachment; filename="campaign-{campaign.campaign_id}.{form}"',
                "cache-control": "no-store",
            },
        )

    async def _find(self, request: Request) -> Campaign:
        campaign_id = campaign_id_of(request)
        campaign = await campaigns.find(self._ledger, campaign_id)
        if campaign is None:
            raise no_campaign(campaign_id)
        return campaign

    @contextmanager
    def _admitted(self, campaign_id: int) -> Iterator[None]:
        if campaign_id in self._importing:
            raise ApiError(409, "import_under_way", "Another import into this campaign is under way.")
        if len(self._importing) >= IMPORTS_MAX:
            raise ApiError(503, "imports_full", "Too many imports are under way.", retry_after_s=10)
        self._importing.add(campaign_id)
        try:
            yield
        finally:
            self._importing.remove(campaign_id)

    async def _chunks(self, request: Request, file: AudienceFile) -> AsyncGenerator[list[AudienceRow], None]:
        rows: list[AudienceRow] = []
        since = self._clock.boottime()
        pieces = pieces_of(request, bytes_max=self._import_bytes_max, undone="nothing was imported")
        async with aclosing(pieces):
            async for piece in pieces:
                rows += map(_row, file.feed(piece))
                now = self._clock.boottime()
                while len(rows) >= CHUNK_ROWS or (rows and now - since > CHUNK_AGE_S):
                    yield rows[:CHUNK_ROWS]
                    del rows[:CHUNK_ROWS]
                    since = now = self._clock.boottime()
        rows += map(_row, file.finish())
        for start in range(0, len(rows), CHUNK_ROWS):
            yield rows[start : start + CHUNK_ROWS]

    async def _exported(self, campaign_id: int, form: str) -> AsyncIterator[bytes]:
        """Yield the file page by page. A page that can't be read in the end cuts the answer, so it looks cut."""
        if form == "csv":
            yield csv_export.csv_header()
        lines_of = csv_export.csv_lines if form == "csv" else csv_export.ndjson_lines
        after_seq = 0
        while page := await self._page(campaign_id, after_seq):
            yield lines_of(page)
            after_seq = page[-1].seq

    async def _page(self, campaign_id: int, after_seq: int) -> list[audience.RecipientLine]:
        for tries in range(1, PAGE_TRIES_MAX + 1):
            try:
                return await audience.page(self._ledger, campaign_id, after_seq=after_seq, limit=PAGE_ROWS)
            except LedgerUnavailable:
                if tries == PAGE_TRIES_MAX:
                    raise
                await self._clock.sleep(1.0)
        raise AssertionError("the last try returns or raises")


def _row(recipient: Recipient) -> AudienceRow:
    return AudienceRow(
        line=recipient.line,
        address=recipient.address,
        folded=folded_phone(recipient.address),
        params=recipient.params,
    )


@contextmanager
def _counted_failures() -> Iterator[None]:
    done = False
    try:
        yield
        done = True
    finally:
        if not done:
            metrics.IMPORTS_FAILED.inc()


def _report(file: AudienceFile, imported: Imported) -> ImportReport:
    rejected = file.rejected.total()
    for outcome, count in (
        (RowOutcome.ADDED, imported.added),
        (RowOutcome.REJECTED, rejected),
        (RowOutcome.DUPLICATE, imported.duplicates),
    ):
        metrics.IMPORT_ROWS.labels(outcome.value).inc(count)
    told = [Problem(line=line, reason=RowFault.DUPLICATE) for line in imported.duplicate_lines]
    return ImportReport(
        added=imported.added,
        rejected=rejected,
        duplicates=imported.duplicates,
        rows=imported.added + rejected + imported.duplicates,
        blank=file.blank_count,
        reasons={fault.value: n for fault, n in sorted(file.rejected.items())},
        problems=tuple(sorted([*file.problems, *told], key=lambda problem: problem.line)),
        encoding=file.encoding or "",
        delimiter=file.delimiter or "",
    )
