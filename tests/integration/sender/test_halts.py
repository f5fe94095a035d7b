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
    all_are,
    claims_left,
    posts_of,
    report,
    until,
)

ACCEPTED = RecipientState.ACCEPTED
STOPS_S = 0.3
SIZE = 200
TRIES = 3


@pytest.mark.parametrize("scope", list(HaltScope))
async def test_a_halt_stops_the_last_start_at_once_and_its_lift_continues_exactly(
    database_url: str, settings_for: SettingsFor, scope: HaltScope
) -> None:
    async with (
        a_campaign(database_url, SIZE, limit=200, setting=150) as (ledger, campaign_id),
        scripted_transport() as far_side,
        a_sender(settings_for(far_side.url)),
    ):
        key = {"campaign": str(campaign_id), "number": NUMBER, "waba": "200000000000001", "all": EVERYTHING}[
            scope
        ]

        async def settled() -> bool:
            return await claims_left(ledger) == 0

        async def halted() -> float:
            """Place the halt while it is sending; return how long after the answer the last call started."""
            await far_side.received(len(far_side.requests) + 40)
            await halts.place(ledger, scope=scope, key=key, actor="test", reason="wrong picture")
            halted_at = asyncio.get_running_loop().time()
            await until(settled, "claimed rows to be given back or sent")
            await asyncio.sleep(0.6)  # longer than a poll: what would start now is wrong
            last_start_s = far_side.requests[-1].at_s - halted_at
            report(scope=scope, halt_to_last_start_s=round(last_start_s, 3))
            return last_start_s

        # A machine that stood still for a moment spoils one try, not three.
        for _ in range(TRIES - 1):
            if await halted() <= STOPS_S:
                break
            await halts.lift(ledger, scope=scope, key=key)
        else:
            assert await halted() <= STOPS_S
        sent = len(far_side.requests)
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
