"""A failure reported by Meta is final or due again, by the table of codes."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.codes import CODES, Verdict, code_row
from status_aggregator.retry import retry_in_s

DAY_S = 24 * 3600


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_listed_code_waits_as_its_row_says(code):
    wait_s = retry_in_s(code, base_s=30.0, rng=Random(1))
    row = code_row(code)
    if row.verdict is Verdict.REFUSE:
        assert wait_s is None
    else:
        assert wait_s is not None
        assert row.wait_s <= wait_s <= row.wait_s + 30.0


@pytest.mark.parametrize("code", [None, 999_999])
def test_a_failure_without_a_code_or_with_an_unlisted_one_is_final(code):
    assert retry_in_s(code, base_s=30.0, rng=Random(1)) is None


@given(st.integers(), st.floats(0.01, 60))
def test_the_marketing_cap_waits_at_least_a_day_and_those_held_together_part_again(seed, base_s):
    rng = Random(seed)
    waits = [retry_in_s(131049, base_s=base_s, rng=rng) for _ in range(5)]
    assert all(DAY_S <= wait_s <= DAY_S + base_s for wait_s in waits)
    assert len(set(waits)) > 1
