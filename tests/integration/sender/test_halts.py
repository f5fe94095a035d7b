"""A halt stops the last start at once, whatever its scope; rows in hand go back with nothing spent; lifted, it goes on."""

import asyncio

import pytest

from cloudapi.testing import scripted_transport
from contracts.campaign import RecipientState
from ledger import halts
from ledger.halts import EVERYTHING, HaltScope
from tests.integration.sender.conftest import SettingsFor
from tests.integration.sender.driving import (
    NUMBER,
    a_campaign,
    a_sender,
    add_number,
    all_are,
    claims_left,
    posts_of,
    report,
    until,
)
from tests.stalls import watching

ACCEPTED = RecipientState.ACCEPTED
STOPS_S = 0.3
SIZE = 500  # seconds of sends: a halt whose statement takes long still meets rows


@pytest.mark.parametrize("scope", list(HaltScope))
async def test_a_halt_stops_the_last_start_at_once_and_its_lift_continues_exactly(
    database_url: str, settings_for: SettingsFor, scope: HaltScope
) -> None:
    async with (
        a_campaign(database_url, SIZE, limit=200, setting=150) as (ledger, campaign_id),
        scripted_transport() as far_side,
        watching(lambda: ledger.value("watch", "SELECT 1")) as stalls,
        a_sender(settings_for(far_side.url)),
    ):
        key = {"campaign": str(campaign_id), "number": NUMBER, "waba": "200000000000001", "all": EVERYTHING}[
            scope
        ]
        await far_side.received(60)
        await halts.place(ledger, scope=scope, key=key, actor="test", reason="wrong picture")
        halted_at = asyncio.get_running_loop().time()

        async def settled() -> bool:
            return await claims_left(ledger) == 0

        await until(settled, "claimed rows to be given back or sent")
        await asyncio.sleep(0.6)  # longer than a poll: what would start now is wrong
        sent = len(far_side.requests)
        last_at = far_side.requests[-1].at_s
        lost_s = stalls.lost_s(halted_at, last_at)
        report(
            scope=scope, halt_to_last_start_s=round(last_at - halted_at, 3), stood_still_s=round(lost_s, 3)
        )
        assert last_at - halted_at <= STOPS_S + lost_s
        await all_are(ledger, campaign_id, {ACCEPTED: sent, RecipientState.PENDING: SIZE - sent})
        touched = await ledger.value(
            "touched",
            "SELECT count(*) FROM recipient_states WHERE state = 'pending' AND (tries <> 0 OR attempt <> 0)",
        )
        assert touched == 0, "a row that went back unsent has spent a try, or kept the attempt"
        given_back = await ledger.value(
            "given_back", "SELECT count(*) FROM recipient_states WHERE reason = 'released'"
        )
        assert given_back > 0, "the halt met no claimed row: the test shows nothing"
        await add_number(ledger, limit=1000, setting=500)
        await halts.lift(ledger, scope=scope, key=key)
        await all_are(ledger, campaign_id, {ACCEPTED: SIZE})
        assert set(posts_of(far_side.requests).values()) == {1}


async def test_a_sender_that_starts_under_a_halt_sends_nothing_until_it_is_lifted(
    database_url: str, settings_for: SettingsFor
) -> None:
    async with (
        a_campaign(database_url, 20, setting=200) as (ledger, campaign_id),
        scripted_transport() as far_side,
    ):
        await halts.place(ledger, scope=HaltScope.ALL, key=EVERYTHING, actor="test", reason="wrong picture")
        async with a_sender(settings_for(far_side.url)) as sender:

            async def owns() -> bool:
                return NUMBER in sender.ownership.numbers

            await until(owns, "the number to be taken")
            await asyncio.sleep(0.5)  # what would start now is wrong
            assert far_side.requests == []
            await halts.lift(ledger, scope=HaltScope.ALL, key=EVERYTHING)
            await all_are(ledger, campaign_id, {ACCEPTED: 20})
