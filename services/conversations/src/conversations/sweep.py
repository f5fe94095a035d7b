"""Picks up what a crash left behind: events that were committed and never told; and lets old weeks of the inbox go.

Invariant: it only re-arms and repeats; an event told again has the same id. (Messages left behind need no sweep of
their own: handlers look at everything that is due every second.)
"""

import asyncio
from contextlib import suppress
from typing import Final

from conversations import metrics
from conversations.turn import Turns
from ledger import inbox
from ledger.pool import Ledger, LedgerUnavailable
from runtime.clock import Clock
from runtime.logs import get_logger

EVERY_S: Final = 1.0
OLD_WEEKS_EVERY_S: Final = 3600.0
LANES_MAX: Final = 50

_log = get_logger()


class Sweeper:
    """One a process; several don't get in each other's way."""

    def __init__(self, ledger: Ledger, turns: Turns, *, older_s: float, clock: Clock) -> None:
        self._ledger = ledger
        self._turns = turns
        self._older_s = older_s
        self._clock = clock
        self._weeks_due = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            with suppress(LedgerUnavailable):  # counted by the ledger; a second later it is asked again
                await self._sweep()
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await stop.wait()

    async def _sweep(self) -> None:
        events = await inbox.take_untold(self._ledger, older_s=self._older_s, lanes_max=LANES_MAX)
        if events:
            _log.warning("events.retold", count=len(events))
            await self._turns.tell(events, again=True)
        behind = await inbox.backlog(self._ledger)
        metrics.LANES_DUE.set(behind.lanes_count)
        metrics.OVERDUE_SECONDS.set(behind.overdue_s)
        metrics.UNTOLD.set(behind.untold_count)
        now = self._clock.boottime()
        if now >= self._weeks_due:
            self._weeks_due = now + OLD_WEEKS_EVERY_S
            await inbox.drop_old_weeks(self._ledger, now_s=self._clock.wall())
