"""Who goes next: campaigns of one number take turns, so that a small one isn't queued behind a large one.

Invariant: every campaign with rows waiting goes once before any goes twice.
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Rows waiting for a token, by campaign, served in turns."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[T]] = {}
        self._order: deque[int] = deque()

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._waiting.values())

    def add(self, campaign_id: int, rows: Iterable[T]) -> None:
        fresh = deque(rows)
        if not fresh:
            return
        if campaign_id not in self._waiting:
            self._waiting[campaign_id] = deque()
            self._order.append(campaign_id)
        self._waiting[campaign_id].extend(fresh)

    def first(self) -> T:
        """Return the row that `take` would; there must be one."""
        return self._waiting[self._order[0]][0]

    def take(self) -> T:
        """Remove and return the next row; there must be one."""
        campaign_id = self._order.popleft()
        rows = self._waiting[campaign_id]
        row = rows.popleft()
        if rows:
            self._order.append(campaign_id)
        else:
            del self._waiting[campaign_id]
        return row

    def drop(self, *, keep: frozenset[int] = frozenset()) -> list[T]:
        """Remove and return the rows of all campaigns but those to keep."""
        dropped = [row for c, rows in self._waiting.items() if c not in keep for row in rows]
        self._waiting = {c: rows for c, rows in self._waiting.items() if c in keep}
        self._order = deque(c for c in self._order if c in keep)
        return dropped


def shares(room: int, wanted: dict[int, int]) -> dict[int, int]:
    """Split `room` rows among campaigns that want up to so many each: evenly, what one leaves goes to the others.

    Where there are fewer rows than campaigns, the first of `wanted` get one.
    """
    given = dict.fromkeys(wanted, 0)
    hungry = [c for c, n in wanted.items() if n > 0]
    while room > 0 and hungry:
        each = max(1, room // len(hungry))
        for campaign_id in list(hungry):
            n = min(each, wanted[campaign_id] - given[campaign_id], room)
            given[campaign_id] += n
            room -= n
            if given[campaign_id] == wanted[campaign_id]:
                hungry.remove(campaign_id)
    return {c: n for c, n in given.items() if n > 0}
