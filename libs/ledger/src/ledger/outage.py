"""What one pool knows of the database's absence: who reconnects waits a moment of his own, and one line tells the cause.

Invariant: the line of an outage names its first error; those after it only say that the connection is gone.
"""

import asyncio
from random import Random

from backpressure.backoff import backoff_s
from runtime.logs import get_logger

_log = get_logger()

FIRST_SHARE = 0.25
"""Of the longest wait: how long the first reconnect waits at most."""


class Outage:
    """Begins with a failure or a lost connection, ends with a statement that is answered."""

    def __init__(self, *, wait_s_max: float) -> None:
        self._wait_s_max = wait_s_max
        self._rng = Random()
        self._lost_count = 0
        self._is_told = False

    def lost(self) -> None:
        """A connection has ended, or couldn't be made."""
        self._lost_count += 1

    def failed(self, statement: str, error: BaseException | None) -> None:
        self._lost_count += 1
        if not self._is_told:
            self._is_told = True
            _log.warning("database.failed", name=statement, error=type(error).__name__)

    def over(self) -> None:
        self._lost_count = 0
        self._is_told = False

    async def spread(self) -> None:
        """Wait before a reconnect, so that not all who lost the database return to it at once."""
        if self._lost_count:
            base_s = FIRST_SHARE * self._wait_s_max
            await asyncio.sleep(
                backoff_s(self._lost_count - 1, base_s=base_s, cap_s=self._wait_s_max, rng=self._rng)
            )
