"""A template's events: the newest counts whatever order they come in, and what it stops is paused with it."""

import pytest

from contracts.account import TemplateChanged, TemplateState
from contracts.campaign import CampaignState, RecipientState
from ledger import campaigns, numbers, templates
from ledger.campaigns import TemplateUnsendable
from ledger.pool import Ledger
from ledger.templates import Noted
from tests.integration.ledger.campaigns_for_tests import (
    NUMBER,
    a_running_campaign,
    claim,
    counters_equal_rows,
    launch_campaign,
)

WABA, OTHER_WABA = "200000000000001", "200000000000002"
OTHER_NUMBER = "100000000000002"
APPROVED, PAUSED = TemplateState.APPROVED, TemplateState.PAUSED
NOTHING = Noted(is_news=False, paused=())


def a_change(state: TemplateState, at_s: float, **changes: str) -> TemplateChanged:
    told = {"waba_id": WABA, "name": "hello", "language": "en", "reason": "NONE", **changes}
    return TemplateChanged(state=state, at_s=at_s, **told)


async def state_of(ledger: Ledger, campaign_id: int) -> CampaignState:
    campaign = await campaigns.find(ledger, campaign_id)
    assert campaign is not None
    return campaign.state


async def known(ledger: Ledger) -> list[tuple[str, float]]:
    rows = await ledger.rows(
        "t", "SELECT state, extract(epoch FROM changed_at)::float8 AS at_s FROM templates"
    )
    return [(row["state"], row["at_s"]) for row in rows]


@pytest.mark.parametrize("state", [state for state in TemplateState if state is not APPROVED])
async def test_a_template_that_cant_be_sent_pauses_its_campaign_and_says_what_lifts_it(
    database_url: str, state: TemplateState
) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 2)
        assert await templates.note(ledger, a_change(state, 1_000)) == Noted(True, (campaign_id,))
        campaign = await campaigns.find(ledger, campaign_id)
        assert campaign is not None
        assert (campaign.state, campaign.pause_actor) == (CampaignState.PAUSED, "template")
        assert campaign.pause_reason == f"Meta says that template hello (en) is {state} on WABA {WABA}"
        assert campaign.pause_evidence == (
            f"message_template_status_update: {state} at 1970-01-01 00:16:40 UTC, reason NONE"
        )
        assert campaign.pause_lifted_by is not None
        assert "does not resume by itself" in campaign.pause_lifted_by
        assert (await claim(ledger, campaign_id, epoch, 5)).outcome == "closed"
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.PENDING] == 8


async def test_an_older_event_never_overwrites_a_newer_one(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, _epoch):
        assert (await templates.note(ledger, a_change(APPROVED, 2_000))).is_news
        assert await templates.note(ledger, a_change(PAUSED, 1_000)) == NOTHING
        assert await known(ledger) == [("APPROVED", 2_000)]
        assert await state_of(ledger, campaign_id) is CampaignState.RUNNING
        assert (await templates.note(ledger, a_change(PAUSED, 2_001))).paused == (campaign_id,)
        assert await templates.note(ledger, a_change(APPROVED, 2_000)) == NOTHING
        assert await known(ledger) == [("PAUSED", 2_001)]


async def test_a_repeat_changes_nothing(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, _epoch):
        await templates.note(ledger, a_change(PAUSED, 1_000))
        written = await ledger.value("written", "SELECT xmin::text FROM templates")
        paused = await campaigns.find(ledger, campaign_id)
        assert await templates.note(ledger, a_change(PAUSED, 1_000)) == NOTHING
        assert await ledger.value("written", "SELECT xmin::text FROM templates") == written
        assert await campaigns.find(ledger, campaign_id) == paused
        await templates.note(ledger, a_change(APPROVED, 1_001))
        await campaigns.move(ledger, campaign_id, CampaignState.RUNNING, actor="test")
        assert await templates.note(ledger, a_change(PAUSED, 1_000)) == NOTHING
        assert await state_of(ledger, campaign_id) is CampaignState.RUNNING


@pytest.mark.parametrize(
    "elsewhere", [{"name": "hello_again"}, {"language": "en_US"}, {"waba_id": OTHER_WABA}], ids=str
)
async def test_another_template_pauses_nobody(database_url: str, elsewhere: dict[str, str]) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, _epoch):
        assert await templates.note(ledger, a_change(PAUSED, 1_000, **elsewhere)) == Noted(True, ())
        assert await templates.pause_unsendable(ledger) == ()
        assert await state_of(ledger, campaign_id) is CampaignState.RUNNING


async def test_every_running_campaign_on_the_account_pauses_and_one_pause_of_an_operator_stays_his(
    database_url: str,
) -> None:
    async with a_running_campaign(database_url) as (ledger, first, _epoch):
        await numbers.add(
            ledger, phone_number_id=OTHER_NUMBER, waba_id=OTHER_WABA, portfolio_id="p1", display="",
            limit_per_s=80, setting_per_s=76, slots_count=4,
        )  # fmt: skip
        both = await launch_campaign(ledger, on_numbers=(NUMBER, OTHER_NUMBER))
        other = await launch_campaign(ledger, on_numbers=(OTHER_NUMBER,))
        by_hand = await launch_campaign(ledger)
        await campaigns.move(ledger, by_hand, CampaignState.PAUSED, actor="operator", reason="lunch")
        assert (await templates.note(ledger, a_change(PAUSED, 1_000))).paused == (first, both)
        assert await state_of(ledger, other) is CampaignState.RUNNING
        campaign = await campaigns.find(ledger, by_hand)
        assert campaign is not None
        assert (campaign.pause_actor, campaign.pause_reason) == ("operator", "lunch")
        with pytest.raises(TemplateUnsendable, match="template hello"):
            await campaigns.move(ledger, by_hand, CampaignState.RUNNING, actor="operator")


async def test_a_campaign_resumes_by_its_operator_alone_and_only_once_its_template_is_approved(
    database_url: str,
) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await templates.note(ledger, a_change(PAUSED, 1_000))
        with pytest.raises(TemplateUnsendable, match=r"is PAUSED on WABA .* since 1970-01-01 00:16:40 UTC"):
            await campaigns.move(ledger, campaign_id, CampaignState.RUNNING, actor="operator")
        assert await templates.note(ledger, a_change(APPROVED, 2_000)) == Noted(True, ())
        assert await state_of(ledger, campaign_id) is CampaignState.PAUSED
        assert await campaigns.move(ledger, campaign_id, CampaignState.RUNNING, actor="operator")
        assert (await claim(ledger, campaign_id, epoch, 1)).outcome == "claimed"


async def test_a_launch_with_a_template_that_cant_be_sent_is_refused_and_stays_a_draft(
    database_url: str,
) -> None:
    async with a_running_campaign(database_url) as (ledger, _campaign_id, _epoch):
        await templates.note(ledger, a_change(TemplateState.REJECTED, 1_000))
        with pytest.raises(TemplateUnsendable, match="is REJECTED on WABA"):
            await launch_campaign(ledger)
        (draft,) = await campaigns.listed(ledger, states=[CampaignState.DRAFT])
        await templates.note(ledger, a_change(APPROVED, 2_000))
        assert await campaigns.launch(ledger, draft.campaign_id) == 10


async def test_what_came_to_run_beside_its_templates_event_is_found_and_paused(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await templates.note(ledger, a_change(PAUSED, 1_000))
        await ledger.run("race", "UPDATE campaigns SET state = 'running'")
        assert await templates.pause_unsendable(ledger) == (campaign_id,)
        assert await templates.pause_unsendable(ledger) == ()
        assert (await claim(ledger, campaign_id, epoch, 1)).outcome == "closed"
