"""One leader among the orchestrators: it alone acts on timers, and each act is guarded besides.

Invariant: two leaders at once would do nothing twice; the lead only saves the work.
"""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from ledger import leases
from ledger.pool import Ledger, LedgerUnavailable
from orchestrator import metrics
from runtime.clock import Clock
from runtime.logs import get_logger

ROLE = "orchestrator"
LAST_ROUND_S = 2.0
RESIGN_S = 2.0
"""After it the lease is left to run out."""
log = get_logger()


class Leader:
    """Runs a round of acts every `look_every_s` while the lead is ours."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        owner: UUID,
        lease_s: float,
        look_every_s: float,
        act: Callable[[], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._owner = owner
        self._lease_s = lease_s
        self._look_every_s = look_every_s
        self._act = act
        self._clock = clock
        self.is_leading = False
        self.has_looked = False

    async def run(self, stop: asyncio.Event) -> None:
        """Lead until `stop`; a round under way is cut off after `LAST_ROUND_S`, as each of its acts may be repeated."""
        async with asyncio.TaskGroup() as tasks:
            rounds = tasks.create_task(self._rounds(stop))
            await stop.wait()
            await asyncio.wait({rounds}, timeout=LAST_ROUND_S)
            rounds.cancel()
        await self._resign()

    async def _rounds(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._round()
                self.has_looked = True
            except LedgerUnavailable:
                metrics.FAILED_ROUNDS.inc()
            try:
                async with asyncio.timeout(self._look_every_s):
                    await stop.wait()
            except TimeoutError:
                pass

    async def _resign(self) -> None:
        try:
            async with asyncio.timeout(RESIGN_S):
                await leases.resign(self._ledger, role=ROLE, owner=self._owner)
        except (LedgerUnavailable, TimeoutError):
            log.warning("lead.unresigned")

    async def _round(self) -> None:
        leading = await leases.lead(self._ledger, role=ROLE, owner=self._owner, lease_s=self._lease_s)
        if leading != self.is_leading:
            self.is_leading = leading
            metrics.IS_LEADER.set(1 if leading else 0)
            log.info("lead.changed", leading=leading)
        if leading:
            await self._act()
