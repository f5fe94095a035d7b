"""Notices, from a thread of its own, that the event loop stands still.

Invariant: a loop that was silent for `fence_after_s` is fenced before its next beat counts; one that is silent for
`exit_after_s` takes the process down, since Kafka clients in threads would keep its membership alive.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from runtime import metrics
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.logs import get_logger

EXIT_CODE = 75  # EX_TEMPFAIL: start me again
LOG_WAIT_S = 0.5

log = get_logger()


class Watchdog:
    """An async context manager. `fenced` is a plain flag that stays set until `unfence()`."""

    def __init__(
        self,
        *,
        fence_after_s: float,
        exit_after_s: float,
        on_fence: Callable[[], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        end_process: Callable[[int], object] = os._exit,
    ) -> None:
        """`on_fence` runs in whichever thread notices: it must be short and thread-safe."""
        assert 0 < fence_after_s < exit_after_s
        self.fenced = False
        self._fence_after_s = fence_after_s
        self._exit_after_s = exit_after_s
        self._period_s = fence_after_s / 8
        self._on_fence = on_fence
        self._clock = clock
        self._end_process = end_process
        self._beat_at = clock.boottime()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def beat(self) -> None:
        """The loop is alive. A silence that the thread slept through (a frozen process) fences here."""
        now = self._clock.boottime()
        if now - self._beat_at > self._fence_after_s:
            self._fence(now - self._beat_at)
        self._beat_at = now

    def unfence(self) -> None:
        """Whoever stopped for the fence has checked its permissions anew."""
        self.fenced = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._beat_at = self._clock.boottime()
        self._beat_again()
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._timer.cancel()
        self._thread.join(timeout=self._period_s + LOG_WAIT_S)

    def _beat_again(self) -> None:
        self.beat()
        self._timer = self._loop.call_later(self._period_s, self._beat_again)

    def _watch(self) -> None:
        try:
            while not self._closed.wait(self._period_s):
                self.check()
        except BaseException:  # without this thread nobody watches: end as if the loop stood still
            self._end_process(EXIT_CODE)
            raise

    def check(self) -> None:
        """Look once at the age of the last beat; the thread does this eight times per `fence_after_s`."""
        age_s = self._clock.boottime() - self._beat_at
        if age_s > self._exit_after_s:
            _log_aside("loop.given_up", age_s, wait_s=LOG_WAIT_S)
            self._end_process(EXIT_CODE)
        elif age_s > self._fence_after_s and not self.fenced:
            self._fence(age_s)

    def _fence(self, age_s: float) -> None:
        if self.fenced:
            return
        self.fenced = True
        metrics.LOOP_FENCED.inc()
        if self._on_fence is not None:
            self._on_fence()
        _log_aside("loop.fenced", age_s, wait_s=0.0)


def _log_aside(event: str, age_s: float, *, wait_s: float) -> None:
    """Log from a thread apart: the loop may stand still *because* the log's reader does."""
    thread = threading.Thread(target=lambda: log.error(event, age_s=round(age_s, 3)), daemon=True)
    thread.start()
    thread.join(timeout=wait_s)
