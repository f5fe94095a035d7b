"""How much may be in flight at once: credit that is taken before work begins and returns when it is settled.

Invariant: what is in flight never exceeds the limit, and a refusal takes nothing.
"""


class InFlightWindow:
    """Up to `high` units in flight; once it was full, `may_resume` stays False until `low` or fewer are left.

    The gap between the two keeps a source from being paused and resumed at every unit. It serves either side: one
    that is pushed to and may refuse or pause (`admit`), and one that says how much it wants (`ask`).
    """

    def __init__(self, high: int, low: int) -> None:
        assert 0 <= low < high, "without a gap between the marks the source would flap"
        self._high = high
        self._low = low
        self._in_flight = 0
        self._was_full = False

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def is_full(self) -> bool:
        """Not one more unit fits: pause the source."""
        return self._in_flight >= self._high

    @property
    def may_resume(self) -> bool:
        """The source may run: it was never full, or has emptied to the low mark since."""
        return not self._was_full

    def admit(self, n: int = 1) -> bool:
        """Take `n` units, or take nothing and return False; a refusal counts as having been full."""
        assert n > 0
        admitted = self._in_flight + n <= self._high
        if admitted:
            self._in_flight += n
        if not admitted or self.is_full:
            self._was_full = self._in_flight > self._low
        return admitted

    def ask(self, n: int) -> int:
        """Return how many units to ask the source for, at most `n`; they are in flight from now on.

        0 while more than `low` are in flight. So demand goes out a batch at a time, `high - low` or more if `n` allows,
        and a source that sends no more than was asked of it never has to be refused.
        """
        assert n > 0
        if self._in_flight > self._low:
            return 0
        asked = min(n, self._high - self._in_flight)
        admitted = self.admit(asked)
        assert admitted, "what is asked for is what fits"
        return asked

    def settle(self, n: int = 1) -> None:
        """Return `n` units that were admitted or asked for."""
        assert 0 < n <= self._in_flight, "settled more than is in flight"
        self._in_flight -= n
        if self._in_flight <= self._low:
            self._was_full = False


class CreditWindow:
    """Requests and their bytes in flight, each under its own limit: many small ones or a few large ones.

    A request larger than `bytes_max` never fits; the caller caps sizes below it.
    """

    def __init__(self, *, requests_max: int, bytes_max: int) -> None:
        assert requests_max > 0
        assert bytes_max > 0
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._requests = 0
        self._bytes = 0

    @property
    def requests_in_flight(self) -> int:
        return self._requests

    @property
    def bytes_in_flight(self) -> int:
        return self._bytes

    def admit(self, size_bytes: int) -> bool:
        """Take one request of `size_bytes`, or take nothing and return False."""
        assert size_bytes >= 0
        if self._requests >= self._requests_max or self._bytes + size_bytes > self._bytes_max:
            return False
        self._requests += 1
        self._bytes += size_bytes
        return True

    def settle(self, size_bytes: int) -> None:
        """Return the credit of one request, with the size it was admitted with."""
        assert self._requests > 0, "settled more than is in flight"
        assert 0 <= size_bytes <= self._bytes, "settled more than is in flight"
        self._requests -= 1
        self._bytes -= size_bytes
