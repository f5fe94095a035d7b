"""How much of Meta's limit inbound messages take: a number's limit counts both directions together.

Invariant: memory is bounded by the numbers that are asked about; what is older than three seconds says nothing.
"""

from collections import deque

from contracts.account import NumberLoad

KEPT_S = 3.0
STALE_S = 2.0


class InboundLoad:
    """Totals of the last seconds, for the numbers of this process."""

    def __init__(self) -> None:
        self._totals: dict[str, deque[tuple[float, int]]] = {}

    def watch(self, numbers: frozenset[str]) -> None:
        """From now on keep totals of these numbers, and of no others."""
        self._totals = {number: self._totals.get(number, deque()) for number in numbers}

    def note(self, load: NumberLoad, *, now: float, wall_s: float) -> None:
        """Take in a total; one that was long on its way, or of another's number, is ignored."""
        totals = self._totals.get(load.phone_number_id)
        if totals is None or wall_s - load.until_s > STALE_S or load.received_count <= 0:
            return
        totals.append((now, load.received_count))
        while now - totals[0][0] > KEPT_S:
            totals.popleft()

    def per_s(self, number: str, now: float) -> int:
        """Return the most messages that the number received in any second of the last three."""
        totals = [(at, count) for at, count in self._totals.get(number, ()) if now - at <= KEPT_S]
        return max((sum(n for at, n in totals if 0 <= end - at < 1.0) for end, _ in totals), default=0)
