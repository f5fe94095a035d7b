"""The far side's limiter: no sliding second above the limit, and nothing refused that would have fitted."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.throughput import SlidingMaximum, Throughput

GAPS = st.lists(
    st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.999, 1.0, 1.5]), min_size=1, max_size=200
)
LIMITS = st.integers(min_value=1, max_value=12)


def times_of(gaps: list[float]) -> list[float]:
    now, times = 100.0, []
    for gap in gaps:
        now += gap
        times.append(now)
    return times


def brute_largest(times: list[float]) -> int:
    """Windows that begin with an event suffice: any fuller window could be shifted to begin with one."""
    return max((sum(1 for t in times if 0 <= t - begin < 1.0) for begin in times), default=0)


@given(GAPS, LIMITS, st.data())
def test_no_sliding_second_lets_more_through_than_the_limit(gaps, limit, data):
    throughput = Throughput(limit)
    passed, inbound = [], []
    for now in times_of(gaps):
        if data.draw(st.booleans()):
            if throughput.arrive(now):
                passed.append(now)
        else:
            throughput.receive(now)
            inbound.append(now)
    assert brute_largest(passed) <= limit
    assert throughput.inbound == len(inbound)


@given(GAPS, LIMITS)
def test_an_arrival_is_refused_only_when_the_last_second_is_full(gaps, limit):
    throughput = Throughput(limit)
    passed: list[float] = []
    for now in times_of(gaps):
        would_hold = sum(1 for t in passed if now - t < 1.0) + 1
        assert throughput.arrive(now) == (would_hold <= limit)
        if would_hold <= limit:
            passed.append(now)
    assert throughput.load.total == len(passed)
    assert throughput.throttled == len(gaps) - len(passed)


@given(GAPS)
def test_the_largest_second_is_what_counting_every_window_gives(gaps):
    times = times_of(gaps)
    maximum = SlidingMaximum()
    for now in times:
        maximum.add(now)
    assert maximum.largest == brute_largest(times)
    assert maximum.total == len(times)


def test_inbound_messages_use_up_the_limit_and_are_never_refused():
    throughput = Throughput(3)
    for _ in range(5):
        throughput.receive(10.0)
    assert not throughput.arrive(10.5)
    assert throughput.arrive(11.0)
    assert throughput.inbound == 5


def test_refused_arrivals_count_as_arrivals_but_use_up_nothing():
    throughput = Throughput(1)
    assert throughput.arrive(0.0)
    assert not any(throughput.arrive(0.1 * n) for n in range(1, 10))
    assert throughput.arrive(1.0)
    assert throughput.arrivals.largest == 10
    assert throughput.load.largest == 1


def test_a_closed_number_refuses_whatever_the_rate():
    throughput = Throughput(100)
    assert not throughput.arrive(0.0, closed=True)
    assert throughput.throttled == 1


def test_the_mean_is_taken_between_the_first_and_the_last():
    maximum = SlidingMaximum()
    for n in range(11):
        maximum.add(5.0 + n * 0.1)
    assert round(maximum.mean_per_s(), 3) == 11.0
