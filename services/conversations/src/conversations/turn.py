"""Handles what is due in the inbox: one transaction for a few contacts, then their events, then the next.

Invariant: events are told only after their commit, and forgotten only after the broker has acknowledged them. What
is due is known to Postgres alone: this process only remembers when to look, and looks every second besides.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from conversations import metrics
from ledger import inbox
from ledger.inbox import Told
from ledger.pool import Ledger, LedgerUnavailable
from runtime.clock import Clock
from runtime.logs import get_logger

LOOK_EVERY_S: Final = 1.0
GRAIN_S: Final = 0.005
"""Moments to look at are rounded up to it, so that they stay few whatever the load."""
AWAY_PAUSE_S: Final = 0.25

Publish = Callable[[Sequence[Told]], Awaitable[Sequence[Told]]]
"""Tells events, in order within each contact key; returns those that were acknowledged."""

_log = get_logger()


class Turns:
    """The handlers of one process. Each lane (contact key) is taken by one handler of any process at a time."""

    def __init__(
        self, ledger: Ledger, publish: Publish, *, lanes_max: int, per_lane_max: int, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._publish = publish
        self._lanes_max = lanes_max
        self._per_lane_max = per_lane_max
        self._clock = clock
        self._moments: deque[float] = deque()  # rising; at most the hold divided by the grain, and one
        self._gate = asyncio.Lock()
        self._noted = asyncio.Event()
        self._is_ending = False

    def note_due(self, after_s: float) -> None:
        """Look at the inbox `after_s` seconds from now; always the same, or 0."""
        moment = math.ceil((self._clock.boottime() + after_s) / GRAIN_S) * GRAIN_S if after_s else 0.0
        if not self._moments or moment > self._moments[-1]:
            self._moments.append(moment)
        elif moment < self._moments[0]:
            self._moments.appendleft(moment)
        self._noted.set()

    async def run(self, handlers: int, stop: asyncio.Event) -> None:
        """Handle with so many transactions at once until `stop`; what was begun is told first."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(handlers):
                tasks.create_task(self._handle_on())
            await stop.wait()
            self._is_ending = True
            self._noted.set()

    async def tell(self, events: Sequence[Told], *, again: bool = False) -> None:
        """Publish events and forget those that were acknowledged; the others are left to the sweeper."""
        told = await self._publish(events)
        metrics.EVENTS.labels("retold" if again else "told").inc(len(told))
        metrics.EVENTS.labels("untold").inc(len(events) - len(told))
        if told and await inbox.forget_told(self._ledger, told):
            self.note_due(0)

    async def _handle_on(self) -> None:
        while await self._is_time():
            try:
                await self._handle()
            except LedgerUnavailable as error:
                _log.warning("messages.delayed", error=error)
                await self._clock.sleep(AWAY_PAUSE_S)

    async def _is_time(self) -> bool:
        """Wait until it is time to look; False when the end has come. One handler waits, the others behind it."""
        async with self._gate:
            now = self._clock.boottime()
            look_at = now + LOOK_EVERY_S
            while not self._is_ending:
                self._noted.clear()
                wait_s = min(look_at, self._moments[0] if self._moments else look_at) - now
                if wait_s <= 0:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._noted.wait()
                now = self._clock.boottime()
            while self._moments and self._moments[0] <= now:
                self._moments.popleft()
            return not self._is_ending

    async def _handle(self) -> None:
        handled = await inbox.handle(self._ledger, lanes_max=self._lanes_max, per_lane_max=self._per_lane_max)
        if len({event.contact_key for event in handled.events}) >= self._lanes_max:
            self.note_due(0)  # there may be more: another handler looks meanwhile
        metrics.HANDLED.inc(len(handled.events))
        if handled.faults_count:
            metrics.SET_ASIDE.inc(handled.faults_count)
            _log.error("messages.set_aside", count=handled.faults_count)
        for event in handled.events:
            if event.consent is not None:
                metrics.CONSENTS.labels(event.consent).inc()
        if handled.events:
            await self.tell(handled.events)
