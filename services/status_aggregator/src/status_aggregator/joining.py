"""Statuses that came before their message's wamid was stored find their row, again and again until they are too old.

Invariant: a round ends only when nothing joinable is left; a database that is away costs a round, never the process.
"""

import asyncio
from typing import Final

from ledger import statuses
from ledger.pool import Ledger
from runtime.clock import Clock
from runtime.logs import get_logger
from status_aggregator import metrics
from status_aggregator.flush import passes

ROWS_MAX: Final = 1_000
FORGET_EVERY_S: Final = 3_600.0
ROUND_S: Final = 60.0

log = get_logger()


class Joiner:
    """Several processes may join at once: each takes rows that no other holds."""

    def __init__(self, ledger: Ledger, *, every_s: float, keep_s: float, clock: Clock) -> None:
        self._ledger = ledger
        self._every_s = every_s
        self._keep_s = keep_s
        self._clock = clock

    async def run(self) -> None:
        """Join for ever; ends by cancellation."""
        forget_at = self._clock.boottime()
        while True:
            await self._clock.sleep(self._every_s)
            try:
                async with asyncio.timeout(ROUND_S):
                    await self._join()
                    if self._clock.boottime() >= forget_at:
                        forget_at = self._clock.boottime() + FORGET_EVERY_S
                        await self._forget()
            except TimeoutError as error:
                log.warning("parked.delayed", error=error)
            except Exception as error:
                if not passes(error):
                    raise
                log.warning("parked.delayed", error=error)

    async def _join(self) -> None:
        joined = total = await statuses.join_parked(self._ledger, rows_max=ROWS_MAX)
        while joined == ROWS_MAX:
            joined = await statuses.join_parked(self._ledger, rows_max=ROWS_MAX)
            total += joined
        if total:
            metrics.PARKED_JOINED.inc(total)
            log.info("parked.joined", messages=total)

    async def _forget(self) -> None:
        forgotten = await statuses.forget_parked(self._ledger, older_than_s=self._keep_s)
        if forgotten:
            metrics.PARKED_FORGOTTEN.inc(forgotten)
            log.info("parked.forgotten", messages=forgotten)
