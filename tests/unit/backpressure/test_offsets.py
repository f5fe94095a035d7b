"""Commits never pass an unfinished record, and in the end everything is committed."""

from collections.abc import Callable
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backpressure.offsets import OffsetLedger


def test_the_position_waits_for_the_oldest_record() -> None:
    ledger = OffsetLedger(span_max=100)
    for offset in (10, 11, 12):
        ledger.begin(offset)
    ledger.finish(11)
    ledger.finish(12)
    assert ledger.committable() is None
    assert ledger.unfinished == 1
    ledger.finish(10)
    assert ledger.committable() == 13


def test_a_gap_in_the_offsets_is_not_waited_for() -> None:
    ledger = OffsetLedger(span_max=100)
    for offset in (10, 15, 16):
        ledger.begin(offset)
    ledger.finish(10)
    ledger.finish(16)
    assert ledger.committable() == 11, "15 is in work"
    ledger.finish(15)
    assert ledger.committable() == 17


def test_what_is_committed_is_not_committed_again() -> None:
    ledger = OffsetLedger(span_max=100)
    ledger.begin(0)
    ledger.finish(0)
    assert ledger.committable() == 1
    assert ledger.committable() == 1, "asking is not committing"
    ledger.committed(1)
    assert ledger.committable() is None
    ledger.begin(1)
    assert ledger.committable() is None
    ledger.finish(1)
    assert ledger.committable() == 2


def test_the_span_runs_from_the_first_unfinished_record() -> None:
    ledger = OffsetLedger(span_max=5)
    for offset in (100, 101, 102):
        ledger.begin(offset)
    assert ledger.span == 3
    ledger.finish(100)
    assert ledger.span == 2
    ledger.begin(105)
    assert ledger.span == 5
    assert ledger.is_full
    ledger.finish(101)
    assert not ledger.is_full
    ledger.finish(102)
    ledger.finish(105)
    assert ledger.span == 0


@pytest.mark.parametrize(
    "misuse",
    [
        pytest.param(lambda ledger: ledger.finish(6), id="finished twice"),
        pytest.param(lambda ledger: ledger.finish(4), id="finished without a beginning"),
        pytest.param(lambda ledger: ledger.begin(7), id="begun beyond the span"),
        pytest.param(lambda ledger: ledger.committed(7), id="committed past an unfinished one"),
    ],
)
def test_a_broken_sequence_is_a_bug(misuse: Callable[[OffsetLedger], None]) -> None:
    ledger = OffsetLedger(span_max=2)
    ledger.begin(5)
    ledger.begin(6)
    ledger.finish(6)
    with pytest.raises(AssertionError):
        misuse(ledger)


def test_offsets_that_do_not_rise_are_a_bug() -> None:
    ledger = OffsetLedger(span_max=2)
    ledger.begin(5)
    ledger.finish(5)
    with pytest.raises(AssertionError):
        ledger.begin(5)


@settings(deadline=None, max_examples=200)
@given(
    gaps=st.lists(st.integers(1, 4), min_size=1, max_size=60), span_max=st.integers(1, 30), rng=st.randoms()
)
def test_no_commit_passes_an_unfinished_record_and_all_is_committed_in_the_end(
    gaps: list[int], span_max: int, rng: Random
) -> None:
    offsets = list(accumulate(gaps))
    ledger, to_begin, in_work, done, position = OffsetLedger(span_max), offsets[:], [], set(), 0
    while to_begin or in_work:
        if to_begin and not ledger.is_full and (not in_work or rng.random() < 0.6):
            ledger.begin(to_begin[0])
            in_work.append(to_begin.pop(0))
        else:
            offset = in_work.pop(rng.randrange(len(in_work)))
            ledger.finish(offset)
            done.add(offset)
        assert len(in_work) == ledger.unfinished <= span_max
        next_offset = ledger.committable()
        if next_offset is not None:
            assert next_offset > position
            assert all(offset in done for offset in offsets if offset < next_offset)
            if rng.random() < 0.5:
                position = next_offset
                ledger.committed(next_offset)
    assert (ledger.committable() or position) == offsets[-1] + 1
    assert ledger.span == 0
