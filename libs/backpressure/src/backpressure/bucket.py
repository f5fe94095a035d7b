"""When may the next start begin: a token bucket for smoothness, a log of starts for exactness.

Invariant: in no sliding second do more starts begin than the setting that holds when the last of them begins.
A bucket alone can't give that and the full rate too: with a burst it lets `rate + burst` through in one second,
and without one it loses what a loop's jitter costs. The log bounds the second exactly, the bucket spreads it.
"""

import math
from collections import deque

STOPPED_POLL_S = 0.25  # how soon to ask again when the setting is 0: it may be raised at any time
WAIT_MIN_S = 1e-6  # a positive wait must move a float clock, else asking again would spin
TOKEN_EPSILON = 1e-9  # rounding of `elapsed × rate`; what is granted too early stays as debt
BURST_SHARE = 0.01
BURST_MIN = 2.0


class TokenBucket:
    """Tokens accrue at `rate_per_s` up to `burst`; it never sleeps and never lends.

    `now` is monotonic seconds; one that goes back adds no tokens. It starts empty unless `full`.
    """

    def __init__(self, rate_per_s: float, burst: float, *, now: float, full: bool = False) -> None:
        assert rate_per_s >= 0
        assert burst >= 0
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = burst if full else 0.0
        self._at = now

    def take(self, n: float, now: float) -> float:
        """Return 0.0 and take `n` tokens, or return the seconds to wait and take nothing.

        `n` above the burst could never be granted: a bug of the caller, unless the rate is 0.
        """
        wait_s = self.wait_s(n, now)
        if wait_s == 0.0:
            self._tokens -= n
        return wait_s

    def wait_s(self, n: float, now: float) -> float:
        """Return the seconds until `take` would grant `n` tokens; takes nothing."""
        self._refill(now)
        if self._tokens >= n - TOKEN_EPSILON:
            return 0.0
        if self._rate_per_s == 0:
            return STOPPED_POLL_S
        assert n <= self._burst, "more than the burst is never granted"
        return max((n - self._tokens) / self._rate_per_s, WAIT_MIN_S)

    def refund(self, n: float) -> None:
        """Give back tokens that were taken and not used; what exceeds the burst is lost."""
        self._tokens = min(self._burst, self._tokens + n)

    def set_rate(self, rate_per_s: float, burst: float, now: float) -> None:
        """From `now` on accrue at the new rate; tokens above the new burst are lost."""
        assert rate_per_s >= 0
        assert burst >= 0
        self._refill(now)
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = min(self._tokens, burst)

    def available(self, now: float) -> float:
        """Tokens that could be taken at `now`."""
        self._refill(now)
        return max(0.0, self._tokens)

    def _refill(self, now: float) -> None:
        if now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate_per_s)
            self._at = now


class StartLog:
    """The times of the last `setting` starts: the next may begin once the oldest of them is over a second old.

    Holds at most `setting` times. Starts that a lower setting makes it forget are remembered as a count and the
    time of the youngest: should the setting rise again within the second, they return as if all were that young.
    """

    def __init__(self, setting: int) -> None:
        assert setting >= 0
        self._setting = setting
        self._starts: deque[float] = deque(maxlen=setting)
        self._floor = -math.inf  # the newest start or change; a `now` before it is stale and starts nothing
        self._forgotten = 0
        self._forgotten_at = -math.inf

    @property
    def setting(self) -> int:
        return self._setting

    def wait_s(self, now: float) -> float:
        """Return 0.0 if a start may begin at `now`, else how long to wait before asking again."""
        if self._setting == 0:
            return STOPPED_POLL_S
        if now < self._floor:
            return max(self._floor - now, WAIT_MIN_S)
        if len(self._starts) < self._setting:
            return 0.0
        age_s = now - self._starts[0]
        return 0.0 if age_s > 1.0 else 1.0 - age_s + WAIT_MIN_S  # exactly one second is still within it

    def record(self, now: float) -> None:
        """A start begins at `now`; only where `wait_s(now)` is 0.0."""
        assert self.wait_s(now) == 0.0, "a start was recorded that may not begin"
        self._starts.append(now)
        self._floor = now

    def set_setting(self, setting: int, now: float) -> None:
        """The new setting holds for every start from `now` on, counting the starts before it."""
        assert setting >= 0
        if now - self._forgotten_at > 1.0:
            self._forgotten = 0
        surplus = len(self._starts) - setting
        if surplus > 0:
            self._forgotten += surplus
            self._forgotten_at = self._starts[surplus - 1]
            self._starts = deque(self._starts, maxlen=setting)
        else:
            back = min(self._forgotten, -surplus)
            self._forgotten -= back
            self._starts = deque([*[self._forgotten_at] * back, *self._starts], maxlen=setting)
        self._setting = setting
        self._floor = max(self._floor, now)


class RateLimiter:
    """One number's pace: `setting` starts a second, evenly spread, never more in any sliding second.

    A setting of 0 stops it. It starts with an empty bucket unless `full`, so that a new owner adds no burst.
    """

    def __init__(self, setting: int, *, now: float, full: bool = False) -> None:
        self._log = StartLog(setting)
        self._bucket = TokenBucket(setting, burst_of(setting), now=now, full=full)

    @property
    def setting(self) -> int:
        return self._log.setting

    def wait_s(self, now: float) -> float:
        """How long until `take` would grant a start; 0.0 when it would now. Takes nothing."""
        return max(self._log.wait_s(now), self._bucket.wait_s(1.0, now))

    def available(self, now: float) -> float:
        """Starts that could begin at `now`, as far as the bucket goes; takes nothing."""
        return self._bucket.available(now)

    def take(self, now: float) -> float:
        """Return 0.0 and record one start at `now`, or return the seconds to wait and grant nothing."""
        wait_s = self._log.wait_s(now) or self._bucket.take(1.0, now)
        if wait_s == 0.0:
            self._log.record(now)
        return wait_s

    def set_setting(self, setting: int, now: float) -> None:
        """Starts from `now` on obey the new setting (starts a second)."""
        self._log.set_setting(setting, now)
        self._bucket.set_rate(setting, burst_of(setting), now)


def burst_of(setting: int) -> float:
    """Tokens that may be saved up: 1 % of a second, but enough to outlast a stall at a low setting."""
    return max(BURST_MIN, BURST_SHARE * setting)
