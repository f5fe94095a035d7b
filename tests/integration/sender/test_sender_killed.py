"""What a killed sender had in hand is nobody's: it becomes unknown, and only the campaign's policy sends it again."""

import asyncio

import pytest

from cloudapi.testing import Received, accepted, accepts, refused, scripted_transport
from contracts.campaign import OnUnknown, RecipientState
from contracts.status import CampaignRow
from ledger import campaigns, recipients, statuses
from ledger.statuses import AttemptStatus
from tests.integration.sender.conftest import SettingsFor
from tests.integration.sender.driving import (
    NUMBER,
    a_campaign,
    a_sender,
    a_sender_process,
    add_number,
    all_are,
    launch,
    posts_of,
    report,
    row_of,
    until,
)

ACCEPTED, UNKNOWN, GIVEN_UP = RecipientState.ACCEPTED, RecipientState.UNKNOWN, RecipientState.GIVEN_UP
SIZE = 150


@pytest.mark.bco("G05")
async def test_bco_g05_rows_of_a_killed_sender_are_neither_lost_nor_sent_again(
    database_url: str, settings_for: SettingsFor
) -> None:
    killed = False

    def meta(request: Received):
        if killed:
            return accepts(request)
        if row_of(request)[1] % 2:
            return accepted(f"wamid.UNSEEN{request.number}", after_s=60.0)
        play = refused(131009)
        return type(play)(play.status, play.body, play.headers, after_s=60.0)

    async with (
        a_campaign(database_url, SIZE, setting=50, on_unknown=OnUnknown.GIVE_UP) as (ledger, cautious),
        scripted_transport(meta) as far_side,
    ):
        bold = await launch(ledger, SIZE, on_unknown=OnUnknown.RESEND)
        async with a_sender_process(settings_for(far_side.url)) as sender:
            await far_side.received(30)
            await sender.kill()

        async def all_is_read() -> bool:
            before = len(far_side.requests)
            for _ in range(5):  # one alone may pass while this process stands still
                await asyncio.sleep(0.1)
            return len(far_side.requests) == before

        await until(all_is_read, "what the killed one had written to be read")
        killed = True
        await add_number(ledger, limit=1000, setting=200)
        called = set(posts_of(far_side.requests))
        left = await ledger.rows(
            "left", "SELECT campaign_id, seq FROM recipient_states WHERE state = 'sending'"
        )
        abandoned = {(row["campaign_id"], row["seq"]) for row in left}
        report(called=len(called), abandoned=len(abandoned))
        assert called < abandoned, "some rows must be claimed and not called, or the test shows nothing"

        async with a_sender(settings_for(far_side.url)):
            lost = {c: sum(row[0] == c for row in abandoned) for c in (cautious, bold)}

            async def rest_is_sent() -> bool:
                return len(posts_of(far_side.requests)) == 2 * SIZE - len(abandoned - called)

            took_s = await until(rest_is_sent, "the rest to be sent")
            report(rest_sent_after_s=round(took_s, 2))
            assert set(posts_of(far_side.requests).values()) == {1}

            async def all_reclaimed() -> bool:
                await recipients.reclaim(ledger)
                counts = await campaigns.counts(ledger, bold)
                return counts[UNKNOWN] == lost[bold] and counts[ACCEPTED] == SIZE - lost[bold]

            await until(all_reclaimed, "abandoned rows to be reclaimed")
            await all_are(ledger, cautious, {UNKNOWN: lost[cautious], ACCEPTED: SIZE - lost[cautious]})
            assert set(posts_of(far_side.requests).values()) == {1}, "sent again before anyone decided so"

            # The waits are over; statuses of the number were heard since.
            await ledger.run("age", "UPDATE unknown_rows SET since = since - interval '61 s'")
            await statuses.note_overdue(ledger, end_offsets={0: 5})
            await statuses.reach_notes(ledger, committed={0: 5})
            later = AttemptStatus(
                row=CampaignRow(bold, SIZE, 1), phone_number_id=NUMBER, sent_s=2_000_000_000
            )
            await statuses.apply(ledger, [later])
            await recipients.reconcile(ledger, patience_s=60)
            await all_are(ledger, cautious, {GIVEN_UP: lost[cautious], ACCEPTED: SIZE - lost[cautious]})
            await all_are(ledger, bold, {ACCEPTED: SIZE - 1, RecipientState.SENT: 1})
        posts = posts_of(far_side.requests)
        again = {row for row, count in posts.items() if count > 1}
        assert again == {row for row in called if row[0] == bold}, "again, although its policy says give up"
        assert max(posts.values()) == 2
        assert {row for row in abandoned - called if row in posts} == {
            r for r in abandoned - called if r[0] == bold
        }
