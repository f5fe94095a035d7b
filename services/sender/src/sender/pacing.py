"""How fast a number may send: its setting, cut while Meta throttles it, recovered step by step.

Invariant: in no sliding second do more sends start than the setting allows, whatever the cuts and recoveries.
"""

import math
from collections import deque
from random import Random

from backpressure.bucket import RateLimiter

CUT = 0.7
"""Multiplicative decrease on a throttle, at most once a second."""
SHARE_MIN = 0.1
RECOVERY_PER_S = 0.05
"""Additive recovery of the share, from a second after the hold is over."""
JITTER = 0.3
HOLD_S_MAX = 2.0
"""What is held for longer is held in the ledger alone, where an operator can lift it."""


class SlidingMax:
    """The most events in any sliding second so far."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self.most = 0

    def record(self, now: float) -> None:
        self._recent.append(now)
        while now - self._recent[0] > 1.0:
            self._recent.popleft()
        self.most = max(self.most, len(self._recent))


class Pacer:
    """One number's pace. `take(now)` grants a start (0.0) or says how long to wait."""

    def __init__(self, setting: int, *, now: float) -> None:
        self._setting = setting
        self._inbound = 0
        self._share = 1.0
        self._share_at = now
        self._held_until = now
        self._cut_at = -1.0e9
        self._limiter = RateLimiter(setting, now=now)
        self.starts = SlidingMax()

    @property
    def pace(self) -> int:
        """Starts a second in force now."""
        return self._limiter.setting

    def set_setting(self, setting: int, now: float, *, inbound: int = 0) -> None:
        """The operator's setting, starts a second, less the inbound messages a second; holds from `now` on."""
        if (setting, inbound) != (self._setting, self._inbound):
            self._setting = setting
            self._inbound = inbound
            self._apply(now)

    def hold(self, seconds: float, now: float, rng: Random) -> None:
        """Start nothing for about `seconds`, at most 2 s and the jitter; a longer hold that is there stays."""
        seconds = min(seconds, HOLD_S_MAX)
        self._held_until = max(self._held_until, now + seconds * (1 + JITTER * rng.random()))
        self._share_at = max(self._share_at, self._held_until)

    def cut(self, now: float) -> None:
        """Meta said that this number is too fast."""
        if now - self._cut_at >= 1.0:
            self._cut_at = now
            self._share = max(SHARE_MIN, self._share * CUT)
            self._share_at = max(self._share_at, now)
            self._apply(now)

    def is_held(self, now: float) -> bool:
        return now < self._held_until

    def wait_s(self, now: float) -> float:
        """How long until a start might be granted; 0.0 when one would be, endless at setting 0. Takes nothing."""
        self._recover(now)
        if self.pace == 0:
            return math.inf
        return max(self._held_until - now, self._limiter.wait_s(now))

    def tokens(self, now: float) -> float:
        """Tokens saved up; none while the number is held."""
        return 0.0 if self.is_held(now) else self._limiter.available(now)

    def take(self, now: float) -> float:
        """Return 0.0 and count one start at `now`, or the seconds to wait."""
        self._recover(now)
        if now < self._held_until:
            return self._held_until - now
        wait_s = self._limiter.take(now)
        if wait_s == 0.0:
            self.starts.record(now)
        return wait_s

    def _recover(self, now: float) -> None:
        if self._share < 1.0 and now - self._share_at >= 1.0:
            self._share = min(1.0, self._share + RECOVERY_PER_S * (now - self._share_at))
            self._share_at = now
            self._apply(now)

    def _apply(self, now: float) -> None:
        room = self._setting - self._inbound
        pace = room if self._share >= 1.0 else int(room * self._share)
        self._limiter.set_setting(max(pace, min(1, self._setting)), now)
