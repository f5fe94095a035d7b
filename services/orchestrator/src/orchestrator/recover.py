"""Rows that nobody is working on: abandoned claims become unknown, and the silent unknown get what their policy says."""

from collections.abc import Awaitable, Callable

from ledger import recipients, statuses
from ledger.pool import Ledger
from orchestrator import metrics
from runtime.logs import get_logger

Offsets = Callable[[], Awaitable[dict[int, int]]]
ROWS_MAX = 1_000
log = get_logger()


class Recovery:
    """Reclaims and reconciles; every act may be repeated."""

    def __init__(self, ledger: Ledger, *, patience_s: float, end: Offsets, committed: Offsets) -> None:
        self._ledger = ledger
        self._patience_s = patience_s
        self._end = end
        self._committed = committed

    async def reclaim(self) -> None:
        """Make rows whose claim outlived every POST unknown."""
        while moved := await recipients.reclaim(self._ledger):
            metrics.ROWS.labels("reclaimed").inc(moved)
            log.info("rows.reclaimed", rows_count=moved)

    async def note(self) -> None:
        """Note where the statuses end for rows whose wait is over, and see which notes the aggregator has passed.

        Raises what Kafka's client raises when the broker is away: then nothing is resent for now.
        """
        if await statuses.overdue_waits(self._ledger):
            await statuses.note_overdue(self._ledger, end_offsets=await self._end())
        if await statuses.notes_wait(self._ledger):
            await statuses.reach_notes(self._ledger, committed=await self._committed())

    async def reconcile(self) -> None:
        """Apply each campaign's policy to rows that stayed silent."""
        while True:
            resent, given_up = await recipients.reconcile(
                self._ledger, patience_s=self._patience_s, rows_max=ROWS_MAX
            )
            metrics.ROWS.labels("resent").inc(resent)
            metrics.ROWS.labels("given_up").inc(given_up)
            if resent or given_up:
                log.info("rows.reconciled", resent_count=resent, given_up_count=given_up)
            if resent + given_up < ROWS_MAX:
                return
