"""How many messages each number received since the last time somebody asked.

Invariant: at most `numbers_max` numbers are counted at once; messages of others are told as `uncounted`.
"""

from contracts.account import NumberLoad


class LoadCount:
    """Messages received per number; `take` empties it."""

    def __init__(self, *, counted_by: str, numbers_max: int) -> None:
        assert numbers_max > 0
        self._counted_by = counted_by
        self._numbers_max = numbers_max
        self._counts: dict[str, int] = {}
        self._uncounted = 0

    def add(self, phone_number_id: str) -> None:
        """Count one message of a number."""
        known = self._counts.get(phone_number_id)
        if known is not None:
            self._counts[phone_number_id] = known + 1
        elif len(self._counts) < self._numbers_max:
            self._counts[phone_number_id] = 1
        else:
            self._uncounted += 1

    def take(self, *, until_s: float, interval_s: float) -> list[NumberLoad]:
        """Return a total for each number with traffic and begin again; `until_s` is in Unix seconds."""
        counts, self._counts = self._counts, {}
        return [
            NumberLoad(
                phone_number_id=number,
                counted_by=self._counted_by,
                until_s=until_s,
                interval_s=interval_s,
                received_count=count,
            )
            for number, count in counts.items()
        ]

    def take_uncounted(self) -> int:
        """Return how many messages had no place, and begin again."""
        uncounted, self._uncounted = self._uncounted, 0
        return uncounted
