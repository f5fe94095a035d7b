"""Every state and every reason has its words, and what isn't at its end says what it waits for."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from admin.answers import WaitFor
from admin.why import REASON_WORDS, STATE_WORDS, code_words, waits_of, why_of
from contracts.campaign import OPEN_STATES, CampaignState, OnUnknown, Reason, RecipientState
from contracts.codes import CODES
from ledger.campaigns import Campaign
from ledger.fate import Attempt, Fate, Throttle
from ledger.halts import CampaignHalt, Halt, HaltScope

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NUMBER = "100000000000001"
ENDS = frozenset(RecipientState) - OPEN_STATES - {RecipientState.ACCEPTED, RecipientState.SENT}


def a_campaign(state: CampaignState = CampaignState.RUNNING, **changes: object) -> Campaign:
    fields: dict[str, object] = {
        "campaign_id": 7, "name": "sale", "portfolio_id": "p1", "state": state, "template_name": "t",
        "template_language": "en", "body_columns": (), "on_unknown": "give_up", "unknown_wait_s": 900,
        "valid_for_s": 3600, "tries_max": 5, "numbers": (NUMBER,), "audience_size": 10, "created_at": NOW,
        "launched_at": NOW, "valid_until": NOW + timedelta(hours=1), "completing_at": None, "ended_at": None,
        "pause_actor": None, "pause_reason": None, "pause_evidence": None, "pause_lifted_by": None,
    }  # fmt: skip
    return Campaign(**{**fields, **changes})


def a_fate(state: RecipientState = RecipientState.PENDING, **changes: object) -> Fate:
    fields: dict[str, object] = {
        "now": NOW, "seq": 3, "line": 4, "phone_number_id": NUMBER, "state": state, "reason": None, "code": None,
        "attempt": 0, "tries": 0, "started_at": None, "sent_at": None, "failed_at": None, "delivered_at": None,
        "read_at": None, "rows_before": 0, "due_at": None, "unknown_since": None, "suppression": None,
        "setting_per_s": 76, "is_owned": True, "throttles": (), "earlier": (),
    }  # fmt: skip
    return Fate(**{**fields, **changes})


def waits(campaign: Campaign, fate: Fate, *halts: CampaignHalt) -> dict[WaitFor, str]:
    return {wait.what: wait.words for wait in waits_of(campaign, fate, halts)}


def a_halt(scope: HaltScope, key: str, *numbers: str) -> CampaignHalt:
    halt = Halt(scope=scope, key=key, actor="operator", reason="wrong picture", since=NOW)
    return CampaignHalt(halt=halt, numbers=numbers)


def test_every_state_and_every_reason_has_words_of_its_own() -> None:
    assert set(STATE_WORDS) == set(RecipientState)
    assert set(REASON_WORDS) == set(Reason)
    for table in (STATE_WORDS, REASON_WORDS):
        assert all(len(words) > 10 for words in table.values())
        assert len(set(table.values())) == len(table)


@pytest.mark.parametrize(
    ("campaign_state", "policy"),
    list(product((s for s in CampaignState if s not in ("draft", "scheduled")), OnUnknown)),
)
def test_a_story_can_be_told_of_every_row(campaign_state: CampaignState, policy: OnUnknown) -> None:
    campaign = a_campaign(campaign_state, on_unknown=policy.value)
    for state, reason, due_at, code in product(
        RecipientState, (None, *Reason), (None, NOW + timedelta(minutes=1)), (None, 131026, 999_999)
    ):
        story = why_of(campaign, a_fate(state, reason=reason, due_at=due_at, code=code), ())
        assert (story.reason_words is None) == (reason is None)
        assert (story.code_words is None) == (code is None)
        assert bool(story.waits) == (state not in ENDS), (
            "what is open waits for something, what has ended doesn't"
        )


def test_a_codes_meaning_is_the_tables() -> None:
    assert code_words(131026) == CODES[131026].meaning
    assert code_words(999_999) == "a code nobody has listed yet"


def test_a_row_that_nothing_holds_back_waits_for_its_turn() -> None:
    assert waits(a_campaign(), a_fate()) == {WaitFor.TURN: "its turn: it is next"}
    assert "12 rows" in waits(a_campaign(), a_fate(rows_before=12))[WaitFor.TURN]
    assert waits(a_campaign(), a_fate(due_at=NOW)).keys() == {WaitFor.TURN}


@pytest.mark.parametrize(
    ("what", "campaign", "fate", "halts", "told"),
    [
        (WaitFor.CAMPAIGN, {"state": CampaignState.PAUSED, "pause_actor": "ann", "pause_reason": "why not"}, {}, (),
         "the campaign is paused by ann: why not"),
        (WaitFor.EXPIRY, {"valid_until": NOW}, {}, (), "validity is over"),
        (WaitFor.HALT, {}, {}, (a_halt(HaltScope.NUMBER, NUMBER, NUMBER),), f"number {NUMBER} is halted by operator"),
        (WaitFor.HALT, {}, {}, (a_halt(HaltScope.ALL, "*", NUMBER),), "everything is halted"),
        (WaitFor.THROTTLE, {}, {"throttles": (Throttle(scope="waba", until=NOW, code=80007),)}, (), "80007, account"),
        (WaitFor.SETTING, {}, {"setting_per_s": 0}, (), "set to send nothing"),
        (WaitFor.SENDER, {}, {"is_owned": False}, (), "no sender"),
        (WaitFor.SUPPRESSION, {}, {"suppression": Reason.OPTED_OUT}, (), "has opted out: it ends unsent"),
        (WaitFor.DUE, {}, {"due_at": NOW + timedelta(seconds=1)}, (), "next attempt"),
    ],
)  # fmt: skip
def test_what_holds_a_row_back_is_told_instead_of_its_turn(
    what: WaitFor,
    campaign: dict[str, object],
    fate: dict[str, object],
    halts: tuple[CampaignHalt, ...],
    told: str,
) -> None:
    found = waits(a_campaign(**campaign), a_fate(**fate), *halts)
    assert found.keys() == {what}
    assert told in found[what]


def test_a_halt_of_another_number_is_not_this_rows() -> None:
    assert waits(a_campaign(), a_fate(), a_halt(HaltScope.NUMBER, "2", "2")).keys() == {WaitFor.TURN}


def test_an_unknown_row_says_until_when_and_what_comes_then() -> None:
    fate = a_fate(RecipientState.UNKNOWN, unknown_since=NOW)
    (wait,) = waits_of(a_campaign(), fate, ())
    assert (wait.what, wait.until) == (WaitFor.STATUS, NOW + timedelta(seconds=900))
    assert "given up" in wait.words
    (wait,) = waits_of(a_campaign(on_unknown="resend"), fate, ())
    assert "sent again" in wait.words
    due = a_fate(RecipientState.UNKNOWN, due_at=NOW)
    assert waits(a_campaign(on_unknown="resend"), due).keys() == {WaitFor.TURN}, "its resend is decided"


def test_earlier_attempts_are_told_with_words() -> None:
    earlier = Attempt(
        attempt=1, state=RecipientState.PENDING, reason=Reason.RETRYING, code=131000, proof=3, started_at=NOW,
        sent_at=None, failed_at=NOW,
    )  # fmt: skip
    (told,) = why_of(a_campaign(), a_fate(attempt=2, earlier=(earlier,)), ()).earlier_attempts
    assert (told.reason_words, told.code_words) == (REASON_WORDS[Reason.RETRYING], "unknown failure")
