"""Until when may a send start, and from when."""

import pytest

from sender.tenure import Tenure
from sender.timing import Timing

TIMING = Timing()
LAST_START_S = TIMING.lease_s - TIMING.margin_s - TIMING.http_s


def a_tenure(*, asked_at: float = 100.0, answered_at: float = 100.0, planned: bool = False) -> Tenure:
    return Tenure(
        "100000000000001", 7, asked_at=asked_at, answered_at=answered_at, planned=planned, timing=TIMING
    )


def test_a_send_starts_only_if_it_must_end_before_the_lease_does() -> None:
    tenure = a_tenure(answered_at=101.0)
    assert tenure.may_start(100.0 + LAST_START_S)
    assert not tenure.may_start(100.0 + LAST_START_S + 0.001)


def test_the_deadline_counts_from_before_the_renewal_was_sent() -> None:
    tenure = a_tenure()
    tenure.renewed(102.0)
    assert tenure.may_start(102.0 + LAST_START_S)
    assert not tenure.may_start(102.0 + LAST_START_S + 0.001)


def test_rows_are_claimed_only_if_the_last_of_them_may_start() -> None:
    tenure = a_tenure()
    last = 100.0 + LAST_START_S - TIMING.claim_cover_s
    assert tenure.may_claim(last)
    assert not tenure.may_claim(last + 0.001)


def test_after_a_planned_hand_over_a_whole_second_passes_from_the_answer_on() -> None:
    # Asked for at 100, but the old owner gave it back, and may have sent, until just before the answer.
    tenure = a_tenure(answered_at=101.4, planned=True)
    assert not tenure.may_start(102.399)
    assert tenure.may_start(102.401)


def test_nothing_is_claimed_before_it_may_start() -> None:
    tenure = a_tenure(planned=True)
    assert not tenure.may_claim(100.9)
    assert tenure.may_claim(101.0)


@pytest.mark.parametrize("end", ["leaving", "lost"])
def test_a_tenure_that_is_over_starts_and_claims_nothing(end: str) -> None:
    tenure = a_tenure()
    assert tenure.may_start(100.0)
    setattr(tenure, end, True)
    assert tenure.is_over
    assert not tenure.may_start(100.0)
    assert not tenure.may_claim(100.0)
    tenure.renewed(101.0)
    assert not tenure.may_start(101.0), "a renewal brought back what was over"
