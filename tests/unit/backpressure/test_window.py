"""Credit in flight: never above the limit, and no flapping around it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backpressure.window import CreditWindow, InFlightWindow


def test_a_refusal_takes_nothing() -> None:
    window = InFlightWindow(high=3, low=1)
    assert window.admit(2)
    assert not window.admit(2)
    assert window.in_flight == 2
    assert window.admit(1)
    assert window.is_full


def test_once_full_it_resumes_only_at_the_low_mark() -> None:
    window = InFlightWindow(high=4, low=1)
    assert window.may_resume
    assert window.admit(4)
    resumes = []
    for _ in range(4):
        resumes.append(window.may_resume)
        window.settle()
    assert resumes == [False, False, False, True]


def test_a_refused_group_counts_as_full_but_never_at_the_low_mark() -> None:
    window = InFlightWindow(high=10, low=2)
    assert window.admit(6)
    assert not window.admit(5)
    assert not window.may_resume
    window.settle(4)
    assert window.may_resume
    assert not window.admit(11)
    assert window.may_resume, "nothing would ever be settled to lift it"


def test_demand_goes_out_in_batches_at_the_low_mark() -> None:
    window = InFlightWindow(high=10, low=4)
    assert window.ask(100) == 10
    asked = []
    for _ in range(12):
        window.settle()
        asked.append(window.ask(100))
    assert asked == [0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 6]


def test_no_more_is_asked_for_than_is_wanted() -> None:
    window = InFlightWindow(high=10, low=4)
    assert [window.ask(3), window.ask(3), window.ask(3)] == [3, 3, 0]


@settings(deadline=None)
@given(
    marks=st.tuples(st.integers(0, 10), st.integers(1, 10)),
    moves=st.lists(st.tuples(st.booleans(), st.integers(1, 8)), max_size=120),
)
def test_a_source_that_sends_only_what_was_asked_for_never_fills_more_than_the_window(
    marks: tuple[int, int], moves: list[tuple[bool, int]]
) -> None:
    low, gap = marks
    window, in_flight = InFlightWindow(low + gap, low), 0
    for asks, n in moves:
        if asks:
            asked = window.ask(n)
            assert asked == (min(n, low + gap - in_flight) if in_flight <= low else 0)
            assert asked >= min(n, gap) or in_flight > low, "never dribs and drabs"
            in_flight += asked
        elif in_flight:
            n = min(n, in_flight)
            window.settle(n)
            in_flight -= n
        assert window.in_flight == in_flight <= low + gap


def test_settling_more_than_is_in_flight_is_a_bug() -> None:
    window = InFlightWindow(high=2, low=0)
    window.admit()
    with pytest.raises(AssertionError):
        window.settle(2)


@settings(deadline=None)
@given(
    marks=st.tuples(st.integers(0, 10), st.integers(1, 10)),
    moves=st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=120),
)
def test_between_a_pause_and_a_resume_lies_the_whole_gap(
    marks: tuple[int, int], moves: list[tuple[bool, int]]
) -> None:
    low, gap = marks
    window, paused, in_flight, settled_since_full = InFlightWindow(low + gap, low), False, 0, 0
    for admits, n in moves:
        if admits:
            fits = in_flight + 1 <= low + gap
            assert window.admit() == fits
            in_flight += fits
        elif in_flight:
            n = min(n, in_flight)
            window.settle(n)
            in_flight -= n
            settled_since_full += n
        assert window.in_flight == in_flight <= low + gap
        if not paused and window.is_full:
            paused, settled_since_full = True, 0
            assert in_flight == low + gap
            assert not window.may_resume
        elif paused and window.may_resume:
            paused = False
            assert in_flight <= low
            assert settled_since_full >= gap
        elif paused:
            assert in_flight > low


def test_credit_runs_out_by_requests_or_by_bytes() -> None:
    window = CreditWindow(requests_max=2, bytes_max=100)
    assert window.admit(10)
    assert not window.admit(91)
    assert window.admit(90)
    assert not window.admit(0), "two requests are in flight"
    assert (window.requests_in_flight, window.bytes_in_flight) == (2, 100)
    window.settle(90)
    assert window.admit(5)


@settings(deadline=None)
@given(moves=st.lists(st.integers(0, 60), max_size=100))
def test_credit_is_never_exceeded_and_all_of_it_returns(moves: list[int]) -> None:
    window, held = CreditWindow(requests_max=5, bytes_max=100), []
    for size in moves:
        fits = len(held) < 5 and sum(held) + size <= 100
        assert window.admit(size) == fits
        if fits:
            held.append(size)
        elif held:
            window.settle(held.pop(0))
        assert (window.requests_in_flight, window.bytes_in_flight) == (len(held), sum(held))
    for size in held:
        window.settle(size)
    assert (window.requests_in_flight, window.bytes_in_flight) == (0, 0)
