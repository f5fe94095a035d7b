"""Full jitter: within bounds for every attempt, and spread over all of them."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backpressure.backoff import backoff_s


@given(
    attempt=st.integers(0, 10**6),
    base_s=st.floats(1e-3, 1e3),
    cap_s=st.floats(1e-3, 1e6),
    seed=st.integers(0, 2**32),
)
def test_a_backoff_is_within_its_bounds_at_any_attempt(
    attempt: int, base_s: float, cap_s: float, seed: int
) -> None:
    delay_s = backoff_s(attempt, base_s=base_s, cap_s=cap_s, rng=Random(seed))
    assert 0.0 <= delay_s <= cap_s
    assert delay_s <= base_s * 2.0 ** min(attempt, 100)


@pytest.mark.parametrize(("attempt", "ceiling_s"), [(0, 1.0), (3, 8.0), (6, 60.0), (5000, 60.0)])
def test_a_backoff_uses_all_of_its_span(attempt: int, ceiling_s: float) -> None:
    rng = Random(3)
    delays = [backoff_s(attempt, base_s=1.0, cap_s=60.0, rng=rng) for _ in range(2000)]
    assert sum(delays) / len(delays) == pytest.approx(ceiling_s / 2, rel=0.05)
    assert min(delays) < 0.01 * ceiling_s
    assert 0.99 * ceiling_s < max(delays) <= ceiling_s
