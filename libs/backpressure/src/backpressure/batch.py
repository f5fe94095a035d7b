"""Items gathered until there are enough of them or the first has waited long enough.

Invariant: never more than `size_max` items held; every item leaves in exactly one flush, in order.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Trigger(StrEnum):
    """Why a batch was flushed: a metric label."""

    SIZE = "size"
    LINGER = "linger"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class Flush(Generic[T]):
    """The items of one batch, never empty, oldest first."""

    items: list[T]
    trigger: Trigger


class Batch(Generic[T]):
    """Holds items for at most `linger_s` after the first of them; `now` is monotonic seconds.

    It has no timer of its own: the caller waits until `due_at` and then calls `flush`.
    """

    def __init__(self, size_max: int, linger_s: float) -> None:
        assert size_max > 0
        assert linger_s >= 0
        self._size_max = size_max
        self._linger_s = linger_s
        self._items: list[T] = []
        self._due_at: float | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def due_at(self) -> float | None:
        """When the items held must leave, or None if there are none."""
        return self._due_at

    def add(self, item: T, now: float) -> Flush[T] | None:
        """Take the item; return the batch if it is full or overdue with it."""
        if self._due_at is None:
            self._due_at = now + self._linger_s
        self._items.append(item)
        if len(self._items) >= self._size_max:
            return self._empty(Trigger.SIZE)
        return self.flush(now, Trigger.LINGER)

    def flush(self, now: float, trigger: Trigger) -> Flush[T] | None:
        """Return what is held, or None if there is nothing, or if the trigger is `linger` and it is not due yet.

        So a timer set for a batch that has left meanwhile does not cut the next one short.
        """
        assert trigger is not Trigger.SIZE, "only add() fills a batch"
        if self._due_at is None or (trigger is Trigger.LINGER and now < self._due_at):
            return None
        return self._empty(trigger)

    def _empty(self, trigger: Trigger) -> Flush[T]:
        items, self._items, self._due_at = self._items, [], None
        return Flush(items, trigger)
