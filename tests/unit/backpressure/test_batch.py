"""Batches by size, by time and at the end: every item leaves once, in order, and in time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from backpressure.batch import Batch, Flush, Trigger


def test_a_full_batch_leaves_with_its_last_item() -> None:
    batch: Batch[str] = Batch(size_max=2, linger_s=1.0)
    assert batch.add("a", 0.0) is None
    assert batch.add("b", 0.1) == Flush(["a", "b"], Trigger.SIZE)
    assert len(batch) == 0
    assert batch.due_at is None


def test_the_linger_counts_from_the_first_item() -> None:
    batch: Batch[str] = Batch(size_max=10, linger_s=1.0)
    assert batch.due_at is None
    batch.add("a", 5.0)
    batch.add("b", 5.9)
    assert batch.due_at == 6.0
    assert batch.flush(5.99, Trigger.LINGER) is None
    assert batch.flush(6.0, Trigger.LINGER) == Flush(["a", "b"], Trigger.LINGER)


def test_an_old_timer_does_not_cut_the_next_batch_short() -> None:
    batch: Batch[int] = Batch(size_max=2, linger_s=1.0)
    batch.add(1, 0.0)
    batch.add(2, 0.9)
    batch.add(3, 0.95)
    assert batch.flush(1.0, Trigger.LINGER) is None
    assert len(batch) == 1


def test_an_overdue_batch_leaves_with_the_next_item() -> None:
    batch: Batch[int] = Batch(size_max=10, linger_s=1.0)
    batch.add(1, 0.0)
    assert batch.add(2, 3.0) == Flush([1, 2], Trigger.LINGER)


def test_a_drain_takes_what_is_there_at_once() -> None:
    batch: Batch[int] = Batch(size_max=10, linger_s=1.0)
    assert batch.flush(0.0, Trigger.DRAIN) is None
    batch.add(1, 0.0)
    assert batch.flush(0.0, Trigger.DRAIN) == Flush([1], Trigger.DRAIN)


@settings(deadline=None)
@given(steps=st.lists(st.floats(0, 0.7), max_size=80), size_max=st.integers(1, 6), linger_s=st.floats(0, 1.5))
def test_every_item_leaves_once_in_order_and_in_time(
    steps: list[float], size_max: int, linger_s: float
) -> None:
    batch: Batch[int] = Batch(size_max, linger_s)
    now, left, added_at = 0.0, [], []

    def leaves(flush: Flush[int] | None) -> None:
        if flush is None:
            return
        assert 0 < len(flush.items) <= size_max
        assert (flush.trigger is Trigger.SIZE) == (len(flush.items) == size_max)
        if flush.trigger is Trigger.LINGER:
            assert now >= added_at[flush.items[0]] + linger_s
        left.extend(flush.items)

    for item, step in enumerate(steps):
        while batch.due_at is not None and batch.due_at <= now + step:  # the caller's timer
            step, now = now + step - batch.due_at, batch.due_at
            leaves(batch.flush(now, Trigger.LINGER))
        now += step
        added_at.append(now)
        leaves(batch.add(item, now))
        assert len(batch) < size_max
        assert batch.due_at is None or batch.due_at > now
    if last := batch.flush(now, Trigger.DRAIN):
        left.extend(last.items)
    assert left == list(range(len(steps)))
