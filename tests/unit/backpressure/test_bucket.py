"""The limiter: no sliding second above the setting, whatever the calls; the full rate all the same."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from backpressure.bucket import STOPPED_POLL_S, RateLimiter, StartLog, TokenBucket

# Steps of time that meet the edges of a second, and now and then go back.
steps_s = st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.5, 0.999, 1.0, 1.001, 3.0, -0.3, -2.0])
calls = st.lists(st.tuples(steps_s, st.one_of(st.none(), st.integers(0, 6))), max_size=80)


@dataclass
class Witness:
    """Every start there was and the setting it began under: what the log, which forgets, is held against."""

    starts: list[float] = field(default_factory=list)
    settings: list[int] = field(default_factory=list)

    def saw(self, now: float, setting: int) -> None:
        self.starts.append(now)
        self.settings.append(setting)

    def assert_no_second_above_its_setting(self) -> None:
        for i, (start, setting) in enumerate(zip(self.starts, self.settings, strict=True)):
            within = [s for s in self.starts[: i + 1] if start - s <= 1.0]
            assert len(within) <= setting, f"{len(within)} starts within the second before {start}"


def most_within(starts: list[float], span_s: float) -> int:
    return max(i + 1 - bisect_left(starts, start - span_s) for i, start in enumerate(starts))


# -- token bucket


def test_a_bucket_starts_empty_unless_told_otherwise() -> None:
    assert TokenBucket(10, 5, now=0.0).take(1, 0.0) == pytest.approx(0.1)
    assert TokenBucket(10, 5, now=0.0, full=True).take(5, 0.0) == 0.0


def test_a_positive_wait_takes_nothing_and_is_long_enough() -> None:
    bucket = TokenBucket(10, 5, now=100.0)
    wait_s = bucket.take(3, 100.1)
    assert wait_s == pytest.approx(0.2)
    assert bucket.available(100.1) == pytest.approx(1.0)
    assert bucket.take(3, 100.1 + wait_s) == 0.0


def test_tokens_beyond_the_burst_are_lost() -> None:
    bucket = TokenBucket(10, 5, now=0.0)
    assert bucket.available(1000.0) == 5.0
    bucket.refund(3)
    assert bucket.available(1000.0) == 5.0


def test_a_refund_can_be_taken_again() -> None:
    bucket = TokenBucket(1, 5, now=0.0, full=True)
    assert bucket.take(5, 0.0) == 0.0
    bucket.refund(2)
    assert bucket.take(2, 0.0) == 0.0
    assert bucket.take(1, 0.0) > 0.0


def test_a_new_rate_holds_from_its_moment_on() -> None:
    bucket = TokenBucket(10, 20, now=0.0)
    bucket.set_rate(100, 20, now=1.0)
    assert bucket.available(1.05) == pytest.approx(15.0)
    bucket.set_rate(100, 4, now=1.05)
    assert bucket.available(1.05) == 4.0


def test_a_time_that_goes_back_neither_adds_tokens_nor_takes_any() -> None:
    bucket = TokenBucket(10, 20, now=0.0)
    assert bucket.available(1.0) == 10.0
    assert bucket.available(0.2) == 10.0
    assert bucket.available(1.0) == 10.0, "the time between is not counted twice"


def test_a_bucket_that_does_not_fill_says_when_to_ask_again() -> None:
    assert TokenBucket(0, 0, now=0.0).take(1, 50.0) == STOPPED_POLL_S


def test_more_than_the_burst_is_a_bug_and_not_an_endless_wait() -> None:
    with pytest.raises(AssertionError):
        TokenBucket(10, 5, now=0.0).take(6, 1.0)


@settings(deadline=None)
@given(rate=st.floats(0.1, 1000), burst=st.floats(1, 50), steps=st.lists(st.floats(-0.5, 0.5), max_size=60))
def test_no_span_of_time_grants_more_than_burst_and_rate_allow(
    rate: float, burst: float, steps: list[float]
) -> None:
    now, furthest, taken = 10.0, 10.0, 0.0
    bucket = TokenBucket(rate, burst, now=now, full=True)
    for step in steps:
        now += step
        furthest = max(furthest, now)
        while bucket.take(1, now) == 0.0:
            taken += 1
        assert taken <= burst + (furthest - 10.0) * rate + 1e-6


@settings(deadline=None)
@given(rate=st.floats(0.01, 5000), n=st.floats(0.01, 10), start=st.floats(0, 1e7))
def test_after_the_wait_it_told_a_bucket_grants(rate: float, n: float, start: float) -> None:
    bucket = TokenBucket(rate, 10, now=start)
    now, asked = start, 0
    while (wait_s := bucket.take(n, now)) > 0.0:
        now += wait_s
        asked += 1
    assert asked <= 3, "the wait is exact but for rounding"


# -- log of starts


def test_a_start_exactly_one_second_back_still_counts() -> None:
    log = StartLog(1)
    log.record(5.0)
    assert log.wait_s(6.0) > 0.0
    assert log.wait_s(5.5) == pytest.approx(0.5, abs=1e-5)
    assert log.wait_s(6.0 + 1e-6) == 0.0


def test_a_lowered_setting_counts_the_starts_before_it() -> None:
    log = StartLog(5)
    for i in range(5):
        log.record(i / 10)
    log.set_setting(2, 0.5)
    assert log.wait_s(1.25) > 0.0, "those at 0.3 and 0.4 are still within the second"
    assert log.wait_s(1.31) == 0.0


def test_a_setting_lowered_and_raised_again_does_not_forget() -> None:
    log = StartLog(10)
    for i in range(10):
        log.record(i / 100)
    log.set_setting(2, 0.2)
    log.set_setting(5, 0.3)
    log.set_setting(10, 0.4)
    assert log.wait_s(0.9) > 0.0
    assert log.wait_s(1.2) == 0.0


def test_a_stop_in_between_does_not_forget() -> None:
    log = StartLog(3)
    for _ in range(3):
        log.record(1.0)
    log.set_setting(0, 1.1)
    assert log.wait_s(9.0) == STOPPED_POLL_S
    log.set_setting(3, 1.2)
    assert log.wait_s(2.0) > 0.0
    assert log.wait_s(2.1) == 0.0


def test_what_was_forgotten_long_ago_does_not_hold_back_a_raised_setting() -> None:
    log = StartLog(10)
    for _ in range(10):
        log.record(0.0)
    log.set_setting(1, 0.1)
    log.record(5.0)
    log.set_setting(0, 5.1)
    log.set_setting(10, 5.2)
    for _ in range(9):
        assert log.wait_s(5.2) == 0.0
        log.record(5.2)
    assert log.wait_s(5.2) > 0.0, "the one at 5.0 is the tenth"


def test_a_stale_time_starts_nothing() -> None:
    log = StartLog(5)
    log.record(10.0)
    assert log.wait_s(8.0) == pytest.approx(2.0)
    log.set_setting(5, 11.0)
    assert log.wait_s(10.5) == pytest.approx(0.5)


def test_a_start_that_may_not_begin_cannot_be_recorded() -> None:
    log = StartLog(1)
    log.record(0.0)
    with pytest.raises(AssertionError):
        log.record(0.5)


@settings(deadline=None, max_examples=300)
@given(setting=st.integers(0, 6), calls=calls)
def test_no_sliding_second_holds_more_starts_than_the_setting(
    setting: int, calls: list[tuple[float, int | None]]
) -> None:
    log, witness, now = StartLog(setting), Witness(), 100.0
    for step_s, new_setting in calls:
        now += step_s
        if new_setting is not None:
            log.set_setting(new_setting, now)
        for _ in range(8):
            if log.wait_s(now) > 0.0:
                event("refused")
                break
            log.record(now)
            witness.saw(now, log.setting)
    witness.assert_no_second_above_its_setting()


def test_each_rule_of_the_log_takes_effect_in_a_long_walk() -> None:
    rng, log, witness, now, seen = Random(7), StartLog(20), Witness(), 0.0, Counter[str]()
    for _ in range(4000):
        now += rng.choice([0.0, 0.01, 0.03, 0.2]) - (0.05 if rng.random() < 0.02 else 0.0)
        if rng.random() < 0.05:
            raised = (setting := rng.randrange(25)) > log.setting
            seen["raised" if raised else "lowered"] += 1
            log.set_setting(setting, now)
        within = sum(now - 1.0 <= start <= now for start in witness.starts[-60:])
        wait_s = log.wait_s(now)
        if witness.starts and now < witness.starts[-1]:
            seen["stale"] += 1
            assert wait_s > 0.0
        elif wait_s == 0.0:
            seen["started"] += 1
            log.record(now)
            witness.saw(now, log.setting)
        elif within >= log.setting > 0:
            seen["second is full"] += 1
    witness.assert_no_second_above_its_setting()
    assert min(seen[name] for name in ("raised", "lowered", "stale", "started", "second is full")) > 20, seen


# -- both together


@settings(deadline=None, max_examples=200)
@given(setting=st.integers(0, 6), calls=calls, full=st.booleans())
def test_a_limiter_keeps_every_sliding_second_whatever_the_calls(
    setting: int, calls: list[tuple[float, int | None]], full: bool
) -> None:
    now = 100.0
    limiter, witness = RateLimiter(setting, now=now, full=full), Witness()
    for step_s, new_setting in calls:
        now += step_s
        if new_setting is not None:
            limiter.set_setting(new_setting, now)
        for _ in range(8):
            wait_s = limiter.take(now)
            if wait_s > 0.0:
                assert isfinite(wait_s)
                break
            witness.saw(now, limiter.setting)
    witness.assert_no_second_above_its_setting()


@pytest.mark.parametrize(("setting", "seconds"), [(10, 60), (76, 30), (950, 10)])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_jittering_loop_reaches_the_setting_and_never_exceeds_it(
    setting: int, seconds: int, seed: int
) -> None:
    rng, now = Random(seed), 1000.0
    limiter, starts = RateLimiter(setting, now=now), []
    while now < 1000.0 + seconds:
        wait_s = limiter.take(now)
        if wait_s == 0.0:
            starts.append(now)
        slept_s = wait_s + rng.uniform(0.0, 0.001) if wait_s else 2e-5
        stalled_s = rng.expovariate(1 / 0.003) if rng.random() < 20 * slept_s else 0.0
        now += slept_s + stalled_s
    after_start = [start for start in starts if start >= 1001.0]
    assert len(after_start) / (seconds - 1) >= 0.99 * setting
    assert most_within(starts, 1.0) <= setting
    assert most_within(starts, 0.1) <= 0.11 * setting + 2


def test_a_new_owner_starts_without_a_burst() -> None:
    limiter = RateLimiter(100, now=0.0)
    assert limiter.take(0.0) == pytest.approx(0.01)
    assert RateLimiter(100, now=0.0, full=True).take(0.0) == 0.0


def test_a_long_pause_saves_up_no_more_than_a_small_burst() -> None:
    limiter = RateLimiter(1000, now=0.0)
    granted = 0
    while limiter.take(3600.0) == 0.0:
        granted += 1
    assert granted == 10


def test_a_setting_of_zero_stops_until_it_is_raised() -> None:
    limiter = RateLimiter(0, now=0.0, full=True)
    assert limiter.take(100.0) == STOPPED_POLL_S
    limiter.set_setting(10, 100.0)
    assert limiter.take(101.0) == 0.0
    limiter.set_setting(0, 101.0)
    assert limiter.take(200.0) == STOPPED_POLL_S


def test_a_changed_setting_changes_the_pace_at_once() -> None:
    limiter, starts, now = RateLimiter(10, now=0.0), [], 0.0
    for setting, until in ((10, 3.0), (100, 6.0), (5, 9.0)):
        limiter.set_setting(setting, now)
        while now < until:
            wait_s = limiter.take(now)
            if wait_s == 0.0:
                starts.append(now)
            now += wait_s
    in_second = [sum(second <= start < second + 1 for start in starts) for second in (1, 4, 8)]
    assert in_second == [pytest.approx(10, abs=1), pytest.approx(100, abs=1), pytest.approx(5, abs=1)]
    assert all(b - a < 0.25 for a, b in pairwise(starts) if b < 6.0), "and it stays smooth"


def test_a_wait_takes_neither_a_token_nor_a_place_in_the_second() -> None:
    asked_often, asked_once = RateLimiter(5, now=0.0), RateLimiter(5, now=0.0)
    for i in range(100):
        assert asked_often.take(i * 0.0019) > 0.0
    for now in (0.2, 0.4, 0.6, 0.8, 1.0):
        assert asked_often.take(now) == asked_once.take(now) == 0.0
