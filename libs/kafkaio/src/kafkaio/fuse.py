"""When so many records fail that the fault must be ours: stop rather than set a whole topic aside.

Invariant: only failures that speak against us count (a bug, attempts used up); malformed input never trips the fuse.
"""

from collections import deque

from kafkaio.disposition import DeadLetterReason

_OURS = frozenset({DeadLetterReason.BUG, DeadLetterReason.TOO_MANY_ATTEMPTS})


class FuseTripped(Exception):
    """Too many records failed through our own fault; consumption has stopped before setting more aside."""


class DlqLimit:
    """Trips on `run_max` failures in a row, or on more than `share_max` of the last `window` records.

    The share counts only once the window is full, so that a first failure isn't 100 %.
    """

    def __init__(self, *, run_max: int = 50, share_max: float = 0.2, window: int = 500) -> None:
        assert run_max > 0
        assert window > 0
        assert 0 < share_max < 1
        self._run_max = run_max
        self._share_max = share_max
        self._run = 0
        self._failed = 0
        self._recent: deque[bool] = deque(maxlen=window)

    def settle(self, reason: DeadLetterReason | None) -> bool:
        """Count one settled record, with its reason if it is a dead letter; True when the fuse is tripped."""
        failed = reason in _OURS
        if len(self._recent) == self._recent.maxlen:
            self._failed -= self._recent[0]
        self._recent.append(failed)
        self._failed += failed
        self._run = self._run + 1 if failed else 0
        return self._run >= self._run_max or self._share_exceeded()

    def _share_exceeded(self) -> bool:
        window = self._recent.maxlen or 0
        return len(self._recent) == window and self._failed > self._share_max * window
