"""Whatever happens to a number's pace, no sliding second has more starts than the setting that holds."""

import math
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

from sender.pacing import HOLD_S_MAX, JITTER, RECOVERY_PER_S, SHARE_MIN, Pacer, SlidingMax

SETTINGS = st.integers(0, 120)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.floats(0.05, 1.5)),
        st.tuples(st.just("stall"), st.floats(0.0, 1.5)),
        st.tuples(st.just("set"), SETTINGS),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("hold"), st.floats(0.0, 3.0)),
    ),
    max_size=14,
)


def starts_within_a_second(starts: list[float], at: float) -> int:
    return sum(1 for start in starts if at - 1.0 <= start <= at)


def run(pacer: Pacer, now: float, for_s: float, rng: Random, starts: list[float], most: list[int]) -> float:
    """Take as fast as the pacer lets, waking late now and then; `most` gets (starts in the second − pace) of each."""
    end = now + for_s
    while now < end:
        wait_s = pacer.take(now)
        assert wait_s >= 0.0
        if wait_s == 0.0:
            starts.append(now)
            most.append(starts_within_a_second(starts, now) - pacer.pace)
        now += wait_s + (rng.random() * 0.03 if rng.random() < 0.1 else 1e-5)
    return now


@given(SETTINGS, STEPS, st.integers(0, 2**32))
def test_no_sliding_second_is_above_the_setting_whatever_happens(
    setting: int, steps: list[tuple[str, float]], seed: int
) -> None:
    rng = Random(seed)
    now = 1_000.0
    pacer = Pacer(setting, now=now)
    starts: list[float] = []
    most: list[int] = []
    for kind, value in [*steps, ("run", 1.2)]:
        event(kind)
        if kind == "run":
            now = run(pacer, now, value, rng, starts, most)
        elif kind == "stall":
            now += value
        elif kind == "set":
            pacer.set_setting(int(value), now)
        elif kind == "cut":
            pacer.cut(now)
        else:
            pacer.hold(value, now, rng)
            begun = len(starts)
            run(pacer, now, min(value, HOLD_S_MAX) * 0.99, rng, starts, most)
            assert len(starts) == begun, "it started within a hold"
        assert all(over <= 0 for over in most)
    assert pacer.starts.most == max((starts_within_a_second(starts, at) for at in starts), default=0)


@given(st.integers(10, 120), st.integers(1, 12), st.integers(0, 2**32))
def test_a_cut_pace_comes_back_to_the_full_setting(setting: int, cuts: int, seed: int) -> None:
    rng = Random(seed)
    now = 50.0
    pacer = Pacer(setting, now=now)
    for _ in range(cuts):
        pacer.cut(now)
        pacer.hold(1.0, now, rng)
        now += 1.5
    assert pacer.pace <= max(1, int(setting * max(SHARE_MIN, 0.7)))
    assert pacer.pace >= max(1, int(setting * SHARE_MIN) - 1)
    for _ in range(int(1 / RECOVERY_PER_S) + 3):
        pacer.take(now)
        now += 1.0
    pacer.take(now)
    assert pacer.pace == setting


def test_one_second_of_throttles_is_one_cut() -> None:
    pacer = Pacer(100, now=0.0)
    for n in range(50):
        pacer.cut(n * 0.01)
    assert pacer.pace == 70


def test_a_cut_after_a_long_calm_lasts() -> None:
    pacer = Pacer(100, now=0.0)
    pacer.take(1_000.0)
    pacer.cut(1_000.0)
    pacer.take(1_000.9)
    assert pacer.pace == 70


def test_recovery_waits_for_the_end_of_the_hold() -> None:
    pacer = Pacer(100, now=0.0)
    pacer.cut(0.0)
    pacer.hold(2.0, 0.0, Random(1))
    pacer.take(2.0)
    assert pacer.pace == 70
    pacer.take(2.0 * (1 + JITTER) + 1.0)
    assert pacer.pace > 70


def test_a_long_hold_is_the_ledgers_and_not_kept_here() -> None:
    pacer = Pacer(10, now=0.0)
    pacer.hold(4 * 3600.0, 0.0, Random(1))
    assert pacer.is_held(HOLD_S_MAX - 0.01)
    assert not pacer.is_held(HOLD_S_MAX * (1 + JITTER))
    assert pacer.take(10.0) == 0.0


def test_a_setting_of_zero_has_no_next_start() -> None:
    pacer = Pacer(0, now=0.0)
    assert pacer.wait_s(5.0) == math.inf
    assert pacer.take(5.0) > 0.0
    pacer.set_setting(1, 5.0)
    assert pacer.wait_s(6.5) == 0.0
    assert pacer.take(6.5) == 0.0


def test_the_smallest_setting_is_cut_to_no_less_than_itself() -> None:
    pacer = Pacer(1, now=0.0)
    pacer.cut(0.0)
    assert pacer.pace == 1


@given(st.lists(st.floats(0.0, 5.0), max_size=60))
def test_sliding_max_is_what_counting_gives(moments: list[float]) -> None:
    recent = SlidingMax()
    ordered = sorted(moments)
    for at in ordered:
        recent.record(at)
    # Whole: a second with both its ends.
    assert recent.most == max((sum(1 for m in ordered if 0 <= at - m <= 1.0) for at in ordered), default=0)
