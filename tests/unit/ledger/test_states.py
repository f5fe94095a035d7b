"""The transition table of a row: each arrow of it, and that the provider's events commute."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.campaign import Reason, RecipientState
from ledger import states
from ledger.states import Campaign, Events, Row

S = RecipientState
OPEN = Campaign(tries_max=3)
CANCELLED = Campaign(is_open=False, is_cancelled=True, tries_max=3)
NOW_S = 1_000


def sending(attempts: int = 1) -> Row:
    """A row whose earlier attempts were lost and are sent once more."""
    row = states.claimed(Row())
    for number in range(1, attempts):
        row = states.claimed(states.resend_due(states.lost(row, number, Reason.NO_ANSWER)))
    return row


def returned(row: Row, campaign: Campaign = OPEN, *, gives_back: bool = True) -> Row:
    return states.returned(
        row, row.attempt, campaign, reason=Reason.THROTTLED, code=130429, gives_back=gives_back, now_s=NOW_S
    )


def test_a_claim_uses_a_new_attempt_and_one_try() -> None:
    row = sending()
    assert (row.state, row.attempt, row.attempt_last, row.tries) == (S.SENDING, 1, 1, 1)


def test_an_attempt_taken_back_gives_its_try_back_and_its_number_is_not_used_again() -> None:
    row = returned(sending())
    assert (row.state, row.reason, row.code) == (S.PENDING, Reason.THROTTLED, 130429)
    assert (row.attempt, row.attempt_last, row.tries, row.is_due) == (0, 1, 0, True)
    assert states.claimed(row).attempt == 2


def test_an_attempt_taken_back_leaves_the_one_before_current_with_what_was_proven_of_it_meanwhile() -> None:
    row = returned(sending(2))
    assert (row.state, row.reason, row.attempt, row.is_due) == (S.UNKNOWN, Reason.NO_ANSWER, 1, True)
    assert returned(states.accepted(sending(2), 1)).state is S.ACCEPTED
    failed = states.applied(sending(2), Events(attempt=1, failed_s=5, code=131026), OPEN)
    assert failed.state is S.SENDING
    assert (returned(failed).state, returned(failed).reason, returned(failed).code) == (
        S.FAILED,
        Reason.REFUSED,
        131026,
    )
    passing = states.applied(sending(2), Events(attempt=1, failed_s=5, code=131049, may_pass=True), OPEN)
    assert (returned(passing).state, returned(passing).reason) == (S.PENDING, Reason.RETRYING)


def test_an_attempt_that_costs_its_try_fails_once_the_tries_are_spent() -> None:
    assert returned(sending(3), gives_back=False).reason is Reason.TRIES_SPENT
    assert returned(sending(3), gives_back=True).state is S.UNKNOWN


@pytest.mark.parametrize(
    ("row", "state", "reason"),
    [
        (Row(), S.CANCELLED, Reason.CAMPAIGN_CANCELLED),
        (states.lost(sending(), 1, Reason.RECLAIMED), S.GIVEN_UP, Reason.SILENT),
        (
            states.applied(sending(), Events(attempt=1, failed_s=1, may_pass=True), OPEN),
            S.FAILED,
            Reason.REFUSED,
        ),
        (sending(), S.SENDING, None),
        (states.accepted(sending(), 1), S.ACCEPTED, None),
    ],
)
def test_a_cancelled_row_ends_as_what_it_was(row: Row, state: RecipientState, reason: Reason | None) -> None:
    ended = states.ended(row, CANCELLED)
    assert (ended.state, ended.reason, ended.is_due) == (state, reason, False)


def test_what_comes_back_after_its_campaign_is_over_ends_instead() -> None:
    assert returned(sending(), CANCELLED).state is S.CANCELLED
    assert returned(sending(), Campaign(is_open=False)).state is S.EXPIRED
    assert returned(sending(2), CANCELLED).state is S.GIVEN_UP
    late = states.applied(sending(), Events(attempt=1, failed_s=1, may_pass=True), CANCELLED)
    assert (late.state, late.reason) == (S.FAILED, Reason.REFUSED)


def test_past_its_validity_a_lost_answer_waits_on_unless_it_was_to_be_sent_again() -> None:
    lost = states.lost(sending(), 1, Reason.NO_ANSWER)
    assert states.ended(lost, OPEN).state is S.UNKNOWN
    assert states.ended(states.resend_due(lost), OPEN).state is S.GIVEN_UP


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (Row(), S.SUPPRESSED),
        (states.lost(sending(), 1, Reason.NO_ANSWER), S.GIVEN_UP),
        (states.applied(sending(), Events(attempt=1, failed_s=1, may_pass=True), OPEN), S.FAILED),
    ],
)
def test_a_suppressed_person_is_not_claimed(row: Row, state: RecipientState) -> None:
    assert states.claimed(row, suppression=Reason.OPTED_OUT).state is state


def test_statuses_and_results_still_move_what_was_given_up() -> None:
    row = states.given_up(states.lost(sending(), 1, Reason.NO_ANSWER), Reason.SILENT)
    assert states.accepted(row, 1).state is S.ACCEPTED
    assert states.applied(row, Events(attempt=1, delivered_s=3), OPEN).state is S.DELIVERED


def test_a_delivery_of_an_earlier_attempt_is_the_state_whatever_becomes_of_the_current_one() -> None:
    row = states.applied(sending(2), Events(attempt=1, delivered_s=7), OPEN)
    assert row.state is S.DELIVERED
    assert states.refused(row, 2, code=131026, now_s=NOW_S).state is S.DELIVERED
    assert states.applied(row, Events(attempt=2, failed_s=9, may_pass=True), OPEN).state is S.DELIVERED


def test_statuses_of_attempts_that_never_were_change_nothing() -> None:
    row = sending()
    assert states.applied(row, Events(attempt=2, read_s=1), OPEN) == row
    assert states.applied(row, Events(attempt=0, read_s=1), OPEN) == row


times = st.none() | st.integers(1, 5)
# What may pass is a property of the code, so equal failures agree on it.
failures = st.sampled_from([(None, False), (131026, False), (131049, True), (131048, True)])
some_events = st.builds(
    lambda attempt, sent, delivered, read, failed, failure: Events(
        attempt=attempt, sent_s=sent, delivered_s=delivered, read_s=read, failed_s=failed,
        code=None if failed is None else failure[0], may_pass=failed is not None and failure[1],
    ),
    st.integers(0, 4), times, st.none() | times, st.none() | times, times, failures,
)  # fmt: skip
rows = st.sampled_from(
    [
        sending(), sending(3), states.accepted(sending(2), 2), states.lost(sending(2), 2, Reason.RECLAIMED),
        states.refused(sending(2), 2, code=131026, now_s=NOW_S), returned(sending(2)), returned(sending()),
        states.ended(returned(sending(2)), CANCELLED),
    ]
)  # fmt: skip


@given(
    row=rows,
    found=st.lists(some_events, max_size=7),
    seed=st.integers(),
    campaign=st.sampled_from([OPEN, CANCELLED]),
)
def test_the_order_and_repetition_of_events_leave_the_same_row(
    row: Row, found: list[Events], seed: int, campaign: Campaign
) -> None:
    once = again = row
    for events in found:
        once = states.applied(once, events, campaign)
    rng = Random(seed)
    for events in rng.sample(found + found, len(found) * 2):
        again = states.applied(again, events, campaign)
    assert again == once


@given(row=rows, events=some_events)
def test_what_is_proven_and_the_best_delivery_never_fall(row: Row, events: Events) -> None:
    after = states.applied(row, events, OPEN)
    assert after.proof >= row.proof
    assert after.best >= row.best
    assert (after.attempt, after.attempt_last, after.tries) == (row.attempt, row.attempt_last, row.tries)
