"""Delays stay within their bounds, whatever the attempt."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sender.retry import CAP_S, CONNECT_BASE_S, CONNECT_CAP_S, next_delay_s, reconnect_delay_s


@given(st.integers(0, 10_000), st.integers(0, 2**32))
def test_a_delay_doubles_up_to_its_cap(attempt: int, seed: int) -> None:
    delay_s = next_delay_s(attempt, Random(seed))
    assert 0.0 <= delay_s <= min(CAP_S, 2.0 ** min(max(0, attempt - 1), 20))


@given(st.integers(1, 10_000), st.integers(0, 2**32))
def test_a_reconnect_is_never_at_once_and_never_far_away(failures: int, seed: int) -> None:
    assert CONNECT_BASE_S <= reconnect_delay_s(failures, Random(seed)) <= CONNECT_BASE_S + CONNECT_CAP_S


def test_those_that_failed_together_return_apart() -> None:
    rng = Random(1)
    assert len({round(next_delay_s(5, rng), 3) for _ in range(20)}) > 15
