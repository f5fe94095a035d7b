"""Results are gathered and written in bulk; until they are written, they are kept and nothing new may pile up.

Invariant: each claimed row is settled once; a claim is forgotten in the statement that settles its last row.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

from msgspec import Struct

from backpressure.batch import Trigger
from backpressure.channel import Channel, Policy
from contracts.send import SendSettled
from ledger import numbers, recipients
from ledger.pool import Ledger, LedgerUnavailable
from ledger.recipients import Settlement
from runtime.clock import Clock
from runtime.logs import get_logger
from sender import metrics
from sender.verdict import Hold

RETRY_S = 0.25
log = get_logger()


class ClaimBatch:
    """One claim: its name, and how many of its rows are still out."""

    def __init__(self, name: UUID, rows_count: int) -> None:
        self.name = name
        self._out_count = rows_count

    def row_done(self) -> bool:
        """Count one row as settled; return whether it was the last."""
        self._out_count -= 1
        assert self._out_count >= 0
        return self._out_count == 0


class Result(Struct, frozen=True, kw_only=True):
    """One row's result on its way to the ledger."""

    settlement: Settlement
    claim: ClaimBatch
    phone_number_id: str
    outcome: str
    template_name: str
    template_language: str
    hold: Hold | None = None


Publish = Callable[[Sequence[SendSettled]], None]


class Settler:
    """Takes results from all numbers and writes them, at most `rows_max` at once, none later than `linger_s`."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        results_max: int,
        rows_max: int,
        linger_s: float,
        publish: Publish,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._results: Channel[Result] = Channel(results_max, Policy.BLOCK)
        self._is_closed = False
        self._rows_max = rows_max
        self._linger_s = linger_s
        self._publish = publish
        self._clock = clock

    async def put(self, result: Result) -> None:
        """Hand a result over; waits while too many are unwritten."""
        await self._results.put(result)

    def close(self) -> None:
        """No more results will come; `run` ends when those that did are written."""
        self._is_closed = True
        self._results.close()

    async def run(self) -> None:
        while batch := await self._results.get_batch(self._rows_max, self._linger_s):
            metrics.SETTLED_BATCH.labels(self._trigger(len(batch))).observe(len(batch))
            finished = [result.claim.name for result in batch if result.claim.row_done()]
            await self._hold_back(batch)
            await self._write([result.settlement for result in batch], finished)
            self._publish([_settled(result, self._clock.wall()) for result in batch])

    def _trigger(self, rows_count: int) -> Trigger:
        if rows_count >= self._rows_max:
            return Trigger.SIZE
        return Trigger.DRAIN if self._is_closed else Trigger.LINGER

    async def _write(self, settlements: list[Settlement], finished: list[UUID]) -> None:
        # The same (row, attempt) may be settled again without effect, so an unknown answer is simply asked again.
        while True:
            started = self._clock.boottime()
            try:
                found = await recipients.settle(self._ledger, settlements, finished_claims=finished)
            except LedgerUnavailable:
                log.warning("results.unwritten", rows_count=len(settlements))
                await self._clock.sleep(RETRY_S)
                continue
            log.info(
                "results.settled",
                rows_count=len(settlements),
                found_count=found,
                seconds=round(self._clock.boottime() - started, 4),
            )
            return

    async def _hold_back(self, batch: Sequence[Result]) -> None:
        """Write the throttles that this batch met, the longest of each scope, for siblings and later owners."""
        longest: dict[tuple[str, str, str], Result] = {}
        for result in batch:
            if result.hold is not None:
                key = (result.hold.scope.value, result.phone_number_id, result.template_name)
                known = longest.get(key)
                if known is None or known.hold is None or known.hold.for_s < result.hold.for_s:
                    longest[key] = result
        for result in longest.values():
            assert result.hold is not None
            try:
                await numbers.throttle(
                    self._ledger,
                    phone_number_id=result.phone_number_id,
                    scope=result.hold.scope,
                    template=result.template_name,
                    language=result.template_language,
                    for_s=result.hold.for_s,
                    code=result.hold.code,
                )
            except LedgerUnavailable:
                log.warning("throttle.unwritten", scope=result.hold.scope)  # the next refusal writes it
            else:
                log.info(
                    "throttle.set",
                    scope=result.hold.scope,
                    code=result.hold.code,
                    for_s=result.hold.for_s,
                    phone_number_id=result.phone_number_id,
                )


def _settled(result: Result, at_s: float) -> SendSettled:
    row = result.settlement
    return SendSettled(
        phone_number_id=result.phone_number_id,
        row=f"c:{row.campaign_id}:{row.seq}",
        attempt=row.attempt,
        outcome=result.outcome,
        code=row.code,
        settled_at_s=at_s,
    )
