"""What each outcome means for its row: only what was surely not sent goes back."""

from random import Random
from typing import get_args

import pytest

from contracts.campaign import Reason
from contracts.contact import Wamid
from contracts.outcome import (
    Accepted,
    Outcome,
    Rejected,
    Scope,
    Throttled,
    Unknown,
    UnknownReason,
    Unsent,
    UnsentReason,
)
from sender.verdict import Hold, Post, hold_of, released, settlement

POST = Post(campaign_id=3, seq=14, attempt=2)
OTHER_SCOPES = [scope for scope in Scope if scope is not Scope.PAIR]
COSTING = (UnsentReason.RETRY_CODE, UnsentReason.REFUSED_WITHOUT_CODE)
ALL: list[Outcome] = [
    Accepted(Wamid("wamid.1")),
    Rejected(131009),
    *[Throttled(scope, 6.0, 131056) for scope in Scope],
    *[Unsent(reason, 131000) for reason in UnsentReason],
    *[Unknown(reason) for reason in UnknownReason],
]


def test_the_table_knows_every_outcome() -> None:
    assert {type(outcome) for outcome in ALL} == set(get_args(Outcome))


@pytest.mark.parametrize("outcome", ALL, ids=repr)
def test_only_what_was_surely_not_sent_goes_back(outcome: Outcome) -> None:
    settled = settlement(POST, outcome, Random(1))
    assert (settled.campaign_id, settled.seq, settled.attempt) == (3, 14, 2)
    assert (settled.kind == "returned") == isinstance(outcome, Throttled | Unsent)
    if settled.kind == "returned":
        assert settled.due_in_s is not None
        assert settled.due_in_s >= 0
        assert settled.reason is not None
    else:
        assert settled.due_in_s is None
        assert not settled.gives_back


def test_an_accepted_row_keeps_its_wamid() -> None:
    settled = settlement(POST, Accepted(Wamid("wamid.1")), Random(1))
    assert (settled.kind, settled.wamid, settled.code) == ("accepted", "wamid.1", None)


def test_a_refused_row_keeps_its_code() -> None:
    settled = settlement(POST, Rejected(131009), Random(1))
    assert (settled.kind, settled.code) == ("refused", 131009)


@pytest.mark.parametrize("reason", list(UnknownReason))
def test_unknown_never_leads_to_a_send(reason: UnknownReason) -> None:
    settled = settlement(POST, Unknown(reason), Random(1))
    assert (settled.kind, settled.reason) == ("unknown", Reason.NO_ANSWER)
    assert hold_of(Unknown(reason)) is None


@pytest.mark.parametrize("scope", OTHER_SCOPES)
def test_a_throttle_burns_no_try_and_holds_its_scope(scope: Scope) -> None:
    outcome = Throttled(scope, 60.0, 80007)
    settled = settlement(POST, outcome, Random(1))
    assert (settled.reason, settled.gives_back, settled.code) == (Reason.THROTTLED, True, 80007)
    assert settled.due_in_s is not None
    assert settled.due_in_s <= 1.0, "the claim obeys the throttle; the due time only spreads the rows"
    assert hold_of(outcome) == Hold(scope=scope, for_s=60.0, code=80007)


def test_a_pair_throttle_delays_this_recipient_alone() -> None:
    outcome = Throttled(Scope.PAIR, 6.0, 131056)
    settled = settlement(POST, outcome, Random(1))
    assert (settled.reason, settled.gives_back) == (Reason.PAIR_LIMIT, True)
    assert settled.due_in_s is not None
    assert 6.0 <= settled.due_in_s <= 12.0
    assert hold_of(outcome) is None


@pytest.mark.parametrize("reason", COSTING)
def test_a_passing_fault_costs_a_try_and_waits_longer_each_time(reason: UnsentReason) -> None:
    outcome = Unsent(reason, 131000)
    first, tenth = (
        max(
            settlement(Post(campaign_id=3, seq=14, attempt=9, tries=n), outcome, Random(seed)).due_in_s or 0.0
            for seed in range(50)
        )
        for n in (1, 10)
    )
    assert first <= 1.0 < tenth <= 300.0
    settled = settlement(POST, outcome, Random(1))
    assert (settled.reason, settled.gives_back, settled.code) == (Reason.RETRYING, False, 131000)


@pytest.mark.parametrize("reason", [r for r in UnsentReason if r not in COSTING])
def test_what_was_not_even_called_goes_back_at_once_with_nothing_spent(reason: UnsentReason) -> None:
    settled = settlement(POST, Unsent(reason), Random(1))
    assert settled == released(POST)
    assert (settled.due_in_s, settled.gives_back, settled.reason) == (0.0, True, Reason.RELEASED)
