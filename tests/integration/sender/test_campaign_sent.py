"""A campaign leaves once each, at the pace of its number; paused it stops at once, resumed it continues exactly."""

import asyncio

from cloudapi.testing import Received, accepted, accepts, scripted_transport
from contracts.campaign import CampaignState, RecipientState
from ledger import campaigns, numbers
from tests.integration.sender.conftest import SettingsFor
from tests.integration.sender.driving import (
    JITTER_S,
    a_campaign,
    a_sender,
    a_sender_process,
    add_number,
    all_are,
    claims_left,
    largest_window,
    launch,
    posts_of,
    report,
    row_of,
    starts_second_max,
    until,
)
from tests.stalls import watching

ACCEPTED = RecipientState.ACCEPTED


async def test_a_campaign_goes_out_once_each_at_the_setting(
    database_url: str, settings_for: SettingsFor
) -> None:
    setting = 76
    async with (
        a_campaign(database_url, 200, limit=80, setting=setting) as (ledger, campaign_id),
        scripted_transport() as far_side,
        watching() as stalls,
        a_sender_process(settings_for(far_side.url)) as sender,
    ):
        await all_are(ledger, campaign_id, {ACCEPTED: 200})
        assert posts_of(far_side.requests) == {(campaign_id, seq): 1 for seq in range(1, 201)}
        times = [request.at_s for request in far_side.requests]
        steady = [at for at in times if at > times[0] + 0.5]  # the first connections are being made before
        most = starts_second_max(await sender.metrics())
        report(
            most_starts=most, largest_second=largest_window(times), largest_tenth=largest_window(times, 0.1)
        )
        # What was read at once, as this process had stood still, may have started at any time.
        assert largest_window(stalls.clear(steady, JITTER_S), 1.0 - JITTER_S) <= setting
        # How near it comes to the setting is a figure of this machine's load; the unit tests prove it in virtual time.
        assert setting / 2 < most <= setting
        assert await claims_left(ledger) == 0


async def test_a_pause_stops_the_last_start_at_once_and_a_resume_continues_exactly(
    database_url: str, settings_for: SettingsFor
) -> None:
    size = 600  # seconds of sends: a pause that takes long still meets rows
    async with (
        a_campaign(database_url, size, limit=200, setting=150) as (ledger, campaign_id),
        scripted_transport() as far_side,
        watching(lambda: ledger.value("watch", "SELECT 1")) as stalls,
        a_sender(settings_for(far_side.url)),
    ):
        await far_side.received(60)
        await campaigns.move(ledger, campaign_id, CampaignState.PAUSED, actor="test")
        paused_at = asyncio.get_running_loop().time()

        async def settled() -> bool:
            return await claims_left(ledger) == 0

        await until(settled, "claimed rows to be given back or sent")
        await asyncio.sleep(0.6)  # longer than a poll: what would start now is wrong
        sent = len(far_side.requests)
        last_at = far_side.requests[-1].at_s
        report(pause_to_last_start_s=round(last_at - paused_at, 3))
        assert last_at - paused_at <= 1.0 + stalls.lost_s(paused_at, last_at)
        await all_are(ledger, campaign_id, {ACCEPTED: sent, RecipientState.PENDING: size - sent})
        touched = await ledger.value(
            "touched",
            "SELECT count(*) FROM recipient_states WHERE state = 'pending' AND (tries <> 0 OR attempt <> 0)",
        )
        assert touched == 0, "a row that went back unsent has spent a try, or kept the attempt"
        given_back = await ledger.value(
            "given_back", "SELECT count(*) FROM recipient_states WHERE reason = 'released'"
        )
        assert given_back > 0, "the pause met no claimed row: the test shows nothing"
        await add_number(ledger, limit=1000, setting=500)
        await campaigns.move(ledger, campaign_id, CampaignState.RUNNING, actor="test")
        await all_are(ledger, campaign_id, {ACCEPTED: size})
        assert set(posts_of(far_side.requests).values()) == {1}


async def test_a_setting_of_zero_claims_nothing_and_one_that_falls_to_zero_gives_rows_back(
    database_url: str, settings_for: SettingsFor
) -> None:
    async with (
        a_campaign(database_url, 200, limit=200, setting=150) as (ledger, campaign_id),
        scripted_transport() as far_side,
        a_sender(settings_for(far_side.url)),
    ):
        await far_side.received(40)
        await add_number(ledger, limit=200, setting=0)

        async def settled() -> bool:
            return await claims_left(ledger) == 0

        await until(settled, "rows to be given back")
        sent = len(far_side.requests)
        for _ in range(5):
            await asyncio.sleep(0.1)
            assert await claims_left(ledger) == 0, "a row was claimed for which there is no token"
        assert len(far_side.requests) == sent
        await add_number(ledger, limit=200, setting=150)
        await all_are(ledger, campaign_id, {ACCEPTED: 200})
        assert set(posts_of(far_side.requests).values()) == {1}


async def test_a_slow_number_serves_its_campaigns_in_turns(
    database_url: str, settings_for: SettingsFor
) -> None:
    async with (
        a_campaign(database_url, 20, limit=80, setting=3) as (ledger, first),
        scripted_transport() as far_side,
    ):
        second = await launch(ledger, 20)
        async with a_sender(settings_for(far_side.url)):
            received = await far_side.received(4)
        assert sorted(row_of(request)[0] for request in received[:4]) == [first, first, second, second]


async def test_more_rows_are_not_claimed_than_there_are_slots_for(
    database_url: str, settings_for: SettingsFor
) -> None:
    def slow(request: Received):
        return accepted(f"wamid.SLOW{request.number}", after_s=0.5)

    async with (
        a_campaign(database_url, 60, limit=1000, setting=950) as (ledger, campaign_id),
        scripted_transport(slow) as far_side,
        watching(lambda: ledger.value("watch", "SELECT 1")) as stalls,
        a_sender(settings_for(far_side.url, inflight_max=20)),
    ):
        began = asyncio.get_running_loop().time()
        await all_are(ledger, campaign_id, {ACCEPTED: 60})
        assert set(posts_of(far_side.requests).values()) == {1}
        attempts = await ledger.value("attempts", "SELECT max(attempt_last) FROM recipient_states")
        # A claim lives for a second: rows also go back when the machine has stood still for a good part of that.
        stood_still = stalls.lost_s(began, asyncio.get_running_loop().time()) > 0.5
        assert attempts == 1 or stood_still, "rows were claimed that no slot was free for, and went back"


async def test_a_setting_is_changed_live(database_url: str, settings_for: SettingsFor) -> None:
    async with (
        a_campaign(database_url, 300, limit=1000, setting=5) as (ledger, campaign_id),
        scripted_transport(accepts) as far_side,
        a_sender(settings_for(far_side.url)),
    ):
        await far_side.received(5)
        await add_number(ledger, limit=1000, setting=500)
        assert await all_are(ledger, campaign_id, {ACCEPTED: 300}) < 40.0, "as before it takes a minute"
        assert [number.setting_per_s for number in await numbers.listed(ledger)] == [500]
        assert set(posts_of(far_side.requests).values()) == {1}


async def test_a_stop_leaves_no_row_between_claim_and_result(
    database_url: str, settings_for: SettingsFor
) -> None:
    async with (
        a_campaign(database_url, 200, limit=80, setting=76) as (ledger, campaign_id),
        scripted_transport() as far_side,
    ):
        async with a_sender(settings_for(far_side.url)):
            await far_side.received(30)
        sent = len(far_side.requests)
        await all_are(ledger, campaign_id, {ACCEPTED: sent, RecipientState.PENDING: 200 - sent})
        assert await claims_left(ledger) == 0
        owner = await ledger.value("owner", "SELECT owner FROM number_leases")
        assert owner is None, "the lease was not given back"
