"""The ledger's statements on the real Postgres: claims, results, statuses and counters, one rule a test."""

from uuid import uuid4

import pytest

from contracts.campaign import CampaignState, OnUnknown, Reason, RecipientState
from contracts.status import CampaignRow
from ledger import campaigns, recipients, statuses
from ledger.recipients import Settlement
from tests.integration.ledger.campaigns_for_tests import (
    NUMBER,
    a_running_campaign,
    claim,
    counters_equal_rows,
    status,
)


async def test_a_row_goes_from_pending_to_read_and_the_counters_follow(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        claimed = await claim(ledger, campaign_id, epoch, 4)
        assert [row.seq for row in claimed.rows] == [1, 2, 3, 4]
        assert {row.attempt for row in claimed.rows} == {1}
        await recipients.settle(
            ledger,
            [
                Settlement(campaign_id=campaign_id, seq=1, attempt=1, kind="accepted", wamid="wamid.1"),
                Settlement(campaign_id=campaign_id, seq=2, attempt=1, kind="refused", code=131009),
                Settlement(campaign_id=campaign_id, seq=3, attempt=1, kind="unknown", reason=Reason.NO_ANSWER),
                Settlement(
                    campaign_id=campaign_id, seq=4, attempt=1, kind="returned", reason=Reason.THROTTLED, due_in_s=0,
                    gives_back=True,
                ),
            ],
            finished_claims=[],
        )  # fmt: skip
        counts = await counters_equal_rows(ledger, campaign_id)
        assert (
            counts[RecipientState.ACCEPTED]
            == counts[RecipientState.FAILED]
            == counts[RecipientState.UNKNOWN]
            == 1
        )
        await statuses.apply(
            ledger, [status(campaign_id, 1, read_s=1000), status(campaign_id, 3, sent_s=900)]
        )
        counts = await counters_equal_rows(ledger, campaign_id)
        assert counts[RecipientState.READ] == counts[RecipientState.SENT] == 1
        again = await claim(ledger, campaign_id, epoch, 2)
        assert [(row.seq, row.attempt) for row in again.rows] == [(4, 2), (5, 1)]


async def test_a_claim_under_an_old_epoch_returns_nothing(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        assert (await claim(ledger, campaign_id, epoch - 1, 5)).outcome == "fenced"
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.PENDING] == 10


async def test_a_paused_campaign_gives_no_rows(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await campaigns.move(ledger, campaign_id, CampaignState.PAUSED, actor="test")
        assert (await claim(ledger, campaign_id, epoch, 5)).outcome == "closed"


@pytest.mark.parametrize("on_unknown", list(OnUnknown))
async def test_an_abandoned_claim_becomes_unknown_and_then_what_the_policy_says(
    database_url: str, on_unknown: OnUnknown
) -> None:
    async with a_running_campaign(database_url, on_unknown=on_unknown) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 3, ends_in_s=60)
        assert await recipients.reclaim(ledger) == 0, "their POSTs may still be under way"
        await ledger.run("age", "UPDATE claim_batches SET ends_at = ends_at - interval '60 s'")
        assert await recipients.reclaim(ledger) == 3
        counts = await counters_equal_rows(ledger, campaign_id)
        assert counts[RecipientState.UNKNOWN] == 3
        await ledger.run("age", "UPDATE unknown_rows SET since = since - interval '10 s'")
        await recipients.reconcile(ledger, patience_s=60)
        assert await statuses.note_overdue(ledger, end_offsets={0: 5}) == (
            3 if on_unknown is OnUnknown.RESEND else 0
        )
        assert await statuses.reach_notes(ledger, committed={0: 4}) == 0
        await statuses.reach_notes(ledger, committed={0: 5})
        # A later start's status proves that statuses still arrive.
        await claim(ledger, campaign_id, epoch, 1)
        await statuses.apply(ledger, [status(campaign_id, 4, sent_s=1000)])
        await recipients.reconcile(ledger, patience_s=60)
        counts = await counters_equal_rows(ledger, campaign_id)
        if on_unknown is OnUnknown.GIVE_UP:
            assert counts[RecipientState.GIVEN_UP] == 3
        else:
            assert counts[RecipientState.UNKNOWN] == 3
            again = await claim(ledger, campaign_id, epoch, 3)
            assert [(row.seq, row.attempt) for row in again.rows] == [(1, 2), (2, 2), (3, 2)]
        await counters_equal_rows(ledger, campaign_id)


async def test_an_owner_that_looks_its_lost_claim_up_after_the_reclaim_still_gives_its_rows_back(
    database_url: str,
) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        name = uuid4()
        await recipients.claim(
            ledger, phone_number_id=NUMBER, epoch=epoch, campaign_id=campaign_id, limit=3, name=name, ends_in_s=0
        )  # fmt: skip
        assert await recipients.reclaim(ledger) == 3
        assert await recipients.reclaim(ledger) == 0, "a claim is reclaimed once"
        found = await recipients.claimed_under(ledger, name=name)
        assert found == [(campaign_id, seq, 1) for seq in (1, 2, 3)]
        released = [
            Settlement(
                campaign_id=campaign_id, seq=seq, attempt=attempt, kind="returned", reason=Reason.RELEASED, due_in_s=0.0,
                gives_back=True,
            )
            for _, seq, attempt in found
        ]  # fmt: skip
        await recipients.settle(ledger, released, finished_claims=[name])
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.UNKNOWN] == 0
        assert [row.seq for row in (await claim(ledger, campaign_id, epoch, 3)).rows] == [1, 2, 3]
        assert await recipients.claimed_under(ledger, name=name) == []


async def test_what_was_reclaimed_is_forgotten_after_an_hour(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 1)
        assert await recipients.reclaim(ledger) == 1
        await ledger.run("age", "UPDATE claim_batches SET reclaimed_at = reclaimed_at - interval '61 min'")
        await claim(ledger, campaign_id, epoch, 1)
        assert await recipients.reclaim(ledger) == 1
        assert await ledger.value("left", "SELECT count(*) FROM claim_batches") == 1


async def test_a_cancelled_campaign_ends_its_rows_as_what_they_were(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 2)
        await recipients.settle(
            ledger,
            [Settlement(campaign_id=campaign_id, seq=1, attempt=1, kind="unknown", reason=Reason.NO_ANSWER)],
            finished_claims=[],
        )
        await campaigns.move(ledger, campaign_id, CampaignState.CANCELLED, actor="test")
        assert await recipients.end_rows(ledger, campaign_id=campaign_id, after_seq=0, span=1000) == 9
        await recipients.settle(
            ledger,
            [
                Settlement(
                    campaign_id=campaign_id, seq=2, attempt=1, kind="returned", due_in_s=0, gives_back=True
                )
            ],
            finished_claims=[],
        )
        counts = await counters_equal_rows(ledger, campaign_id)
        assert (counts[RecipientState.GIVEN_UP], counts[RecipientState.CANCELLED]) == (1, 9)


async def test_early_statuses_are_parked_and_joined(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 1)
        parked = statuses.ParkedStatus(
            wamid="wamid.9", phone_number_id=NUMBER, recipient="", delivered_s=1000
        )
        assert await statuses.park(ledger, [parked], parked_max=10) == 0
        assert await statuses.join_parked(ledger) == 0
        await recipients.settle(
            ledger,
            [Settlement(campaign_id=campaign_id, seq=1, attempt=1, kind="accepted", wamid="wamid.9")],
            finished_claims=[],
        )
        assert await statuses.join_parked(ledger) == 1
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.DELIVERED] == 1


async def test_a_campaign_completes_only_when_nothing_is_open(database_url: str) -> None:
    async with a_running_campaign(database_url, size=1) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 1)
        await campaigns.move(ledger, campaign_id, CampaignState.COMPLETING, actor="test")
        assert await campaigns.complete(ledger, campaign_id, settle_s=60) is CampaignState.RUNNING
        await recipients.settle(
            ledger,
            [Settlement(campaign_id=campaign_id, seq=1, attempt=1, kind="accepted", wamid="wamid.9")],
            finished_claims=[],
        )
        await campaigns.move(ledger, campaign_id, CampaignState.COMPLETING, actor="test")
        assert await campaigns.complete(ledger, campaign_id, settle_s=60) is None
        await statuses.apply(ledger, [status(campaign_id, 1, sent_s=1000)])
        assert await campaigns.complete(ledger, campaign_id, settle_s=60) is CampaignState.COMPLETED


async def test_a_status_with_callback_data_teaches_the_wamid_that_a_lost_answer_did_not(
    database_url: str,
) -> None:
    """A sender died between Meta's answer and its result: later statuses without callback data still find the row."""
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 1)
        early = statuses.ParkedStatus(wamid="wamid.9", phone_number_id=NUMBER, recipient="", read_s=1002)
        await statuses.park(ledger, [early], parked_max=10)
        told = statuses.AttemptStatus(
            row=CampaignRow(campaign_id, 1, 1), phone_number_id=NUMBER, wamid="wamid.9", sent_s=1000
        )
        await statuses.apply(ledger, [told])
        assert await statuses.join_parked(ledger) == 1
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.READ] == 1
