"""States and the moves between them."""

from collections.abc import Iterable

import msgspec
import pytest

from contracts.campaign import (
    MOVES,
    OPEN_STATES,
    RANK_OF_STATUS,
    CampaignDefinition,
    CampaignState,
    Rank,
    RecipientState,
    TemplateRef,
)

S = CampaignState
FINAL = {S.COMPLETED, S.CANCELLED}


def reachable(start: CampaignState) -> set[CampaignState]:
    seen: set[CampaignState] = set()
    ahead: list[CampaignState] = [start]
    while ahead:
        state = ahead.pop()
        if state not in seen:
            seen.add(state)
            ahead += MOVES[state]
    return seen


def test_every_state_has_its_moves() -> None:
    assert set(MOVES) == set(CampaignState)


def test_every_state_can_be_reached_from_a_draft() -> None:
    assert reachable(S.DRAFT) == set(CampaignState)


@pytest.mark.parametrize("state", list(CampaignState))
def test_a_campaign_can_be_cancelled_until_it_is_over(state: CampaignState) -> None:
    assert (S.CANCELLED in MOVES[state]) is (state not in FINAL)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_nothing_leaves_a_final_state(state: CampaignState) -> None:
    assert MOVES[state] == frozenset()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (S.DRAFT, S.PAUSED),
        (S.DRAFT, S.COMPLETED),
        (S.SCHEDULED, S.PAUSED),
        (S.RUNNING, S.DRAFT),
        (S.RUNNING, S.SCHEDULED),
        (S.RUNNING, S.COMPLETED),
        (S.PAUSED, S.COMPLETED),
        (S.PAUSED, S.DRAFT),
    ],
)
def test_no_move_skips_what_it_must_pass(old: CampaignState, new: CampaignState) -> None:
    assert new not in MOVES[old]


@pytest.mark.parametrize("state", list(CampaignState))
def test_no_state_moves_to_itself(state: CampaignState) -> None:
    assert state not in MOVES[state]


def test_running_and_paused_lead_to_each_other() -> None:
    assert S.PAUSED in MOVES[S.RUNNING]
    assert S.RUNNING in MOVES[S.PAUSED]


def test_open_recipients_are_those_that_may_still_be_sent() -> None:
    assert {state.value for state in OPEN_STATES} == {"pending", "deferred", "sending", "unknown"}
    assert set(OPEN_STATES) < set(RecipientState)


def in_order(ranks: Iterable[Rank]) -> bool:
    found = list(ranks)
    return found == sorted(found)


def test_the_proof_ranks_as_the_design_says() -> None:
    assert in_order([Rank.NONE, Rank.ACCEPTED, Rank.SENT, Rank.FAILED, Rank.DELIVERED, Rank.READ])
    assert RANK_OF_STATUS["played"] is RANK_OF_STATUS["read"]
    assert RANK_OF_STATUS["failed"] < RANK_OF_STATUS["delivered"]


@pytest.mark.parametrize("name", ["", "Sale", "sale-1", "sale\n", "a b", "x" * 513, "é"])
def test_a_template_name_is_lower_case_digits_and_underscores(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": name, "language": "en_US"}, TemplateRef)


@pytest.mark.parametrize("language", ["", "english", "en-US", "en_us", "en_US\n", "EN"])
def test_a_language_has_metas_form(language: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "sale", "language": language}, TemplateRef)


def a_definition(**changed: object) -> dict[str, object]:
    return {
        "name": "July",
        "template": {"name": "sale", "language": "en_US", "body": ["first_name"]},
        "numbers": ["300000000000001"],
    } | changed


def test_a_definition_has_careful_defaults() -> None:
    definition = msgspec.convert(a_definition(), CampaignDefinition)
    assert definition.on_unknown.value == "give_up"
    assert definition.unknown_wait_s == 900


@pytest.mark.parametrize(
    "changed",
    [
        {"name": ""},
        {"name": "x" * 201},
        {"numbers": []},
        {"unknown_wait_s": 0},
        {"valid_for_s": 59},
        {"tries_max": 0},
        {"tries_max": 21},
        {"on_unknown": "perhaps"},
        {"on_unkown": "resend"},
    ],
)
def test_a_definition_out_of_bounds_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(a_definition(**changed), CampaignDefinition)


def test_a_template_does_not_print_its_values() -> None:
    assert "Ada" not in repr(TemplateRef(name="sale", language="en", body=("Ada",)))
