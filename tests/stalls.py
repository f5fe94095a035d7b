"""How long the machine stood still, for tests that judge a moment or a rate.

A shared machine may stop a process for seconds. A judge of times takes such stalls off, as a witness measured them:
where nothing stood still, it is as strict as its numbers say.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from runtime.background import Background

STEP_S = 0.02
NOMINAL_S = 0.06
"""A step, and a quick statement of the database, on a machine that is busy and no more."""


async def nothing() -> None:
    """What a witness asks that looks at its own process alone."""


class Stalls:
    """The witness's steps: each began, asked, and ended, on the loop's clock."""

    def __init__(self) -> None:
        self._steps: list[tuple[float, float]] = []

    async def watch(self, ask: Callable[[], Awaitable[object]]) -> None:
        loop = asyncio.get_running_loop()
        ended = loop.time()
        while True:
            began = ended
            await ask()
            await asyncio.sleep(STEP_S)
            ended = loop.time()
            self._steps.append((began, ended))

    def lost_s(self, since: float, until: float) -> float:
        """How much longer the steps between these moments took than they should."""
        shares = (min(ended, until) - max(began, since) for began, ended in self._steps)
        return sum(max(0.0, share - NOMINAL_S) for share in shares)

    def clear(self, moments: Iterable[float], margin_s: float) -> list[float]:
        """The moments but those within a stall longer than the margin, or so soon after it that they may be its arrears."""
        long = [(began, ended + margin_s) for began, ended in self._steps if ended - began > margin_s]
        return [at for at in moments if not any(began <= at <= ended for began, ended in long)]


@asynccontextmanager
async def watching(ask: Callable[[], Awaitable[object]] = nothing) -> AsyncIterator[Stalls]:
    """Watch this process for the block, and with `ask` whatever answers it."""
    stalls = Stalls()
    async with Background() as tasks:
        witness = tasks.create_task(stalls.watch(ask))
        try:
            yield stalls
        finally:
            witness.cancel()
