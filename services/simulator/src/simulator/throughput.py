"""A number's throughput as the far side counts it: no sliding second holds more than the limit, measured on arrivals."""

from collections import deque

SECOND_S = 1.0


class SlidingMaximum:
    """The most events that any half-open second `[t, t + 1)` has held so far. Times must not go back."""

    __slots__ = ("_times", "first", "largest", "last", "total")

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self.total = 0
        self.largest = 0
        self.first: float | None = None
        self.last: float | None = None

    def add(self, now: float) -> None:
        self.count(now)
        self._times.append(now)
        self.total += 1
        self.largest = max(self.largest, len(self._times))
        self.last = now
        if self.first is None:
            self.first = now

    def count(self, now: float) -> int:
        """Events of the second that ends with `now`; one exactly a second old is no longer among them."""
        times = self._times
        while times and now - times[0] >= SECOND_S:
            times.popleft()
        return len(times)

    def mean_per_s(self) -> float:
        """Events divided by the time between the first and the last; 0 when there is no such time."""
        if self.first is None or self.last is None or self.last <= self.first:
            return 0.0
        return self.total / (self.last - self.first)


class Throughput:
    """One number's limiter and its own account of what arrived. Monotonic seconds throughout.

    `arrive` says whether a POST may pass; inbound messages always pass, and count.
    """

    __slots__ = ("accepted", "arrivals", "inbound", "limit_per_s", "load", "throttled")

    def __init__(self, limit_per_s: int) -> None:
        self.limit_per_s = limit_per_s
        self.arrivals = SlidingMaximum()
        """Every POST, refused ones included."""
        self.load = SlidingMaximum()
        """What the limit counts: POSTs that passed, and inbound messages."""
        self.accepted = SlidingMaximum()
        """POSTs that got a wamid."""
        self.inbound = 0
        self.throttled = 0

    def arrive(self, now: float, *, closed: bool = False) -> bool:
        """Whether this arrival is let through. `closed` refuses it whatever the rate."""
        self.arrivals.add(now)
        if closed or self.load.count(now) >= self.limit_per_s:
            self.throttled += 1
            return False
        self.load.add(now)
        return True

    def accept(self, now: float) -> None:
        """Note that the POST which arrived now became a message."""
        self.accepted.add(now)

    def receive(self, now: float) -> None:
        """Count an inbound message of this number."""
        self.inbound += 1
        self.load.add(now)
