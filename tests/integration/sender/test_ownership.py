"""One owner a number: handed over in a moment, fenced when another takes the lease, undisturbed by lost connections."""

import asyncio
from itertools import pairwise

from cloudapi.testing import Received, scripted_transport
from contracts.campaign import CampaignState, RecipientState
from ledger import campaigns
from ledger.pool import Ledger
from sender.timing import Timing
from tests.integration.sender.conftest import SettingsFor
from tests.integration.sender.driving import (
    JITTER_S,
    NUMBER,
    OTHER_NUMBER,
    a_campaign,
    a_sender,
    a_sender_process,
    add_number,
    all_are,
    claims_left,
    count_of,
    largest_window,
    launch,
    posts_of,
    report,
    until,
)
from tests.stalls import watching

ACCEPTED = RecipientState.ACCEPTED
TIMING = Timing()


def times_of(requests: list[Received], number: str) -> list[float]:
    return [request.at_s for request in requests if f"/{number}/" in request.path]


async def owners_count(ledger: Ledger) -> int:
    return int(
        await ledger.value(
            "owners", "SELECT count(DISTINCT owner) FROM number_leases WHERE owner IS NOT NULL"
        )
    )


async def test_numbers_are_handed_over_at_a_stop_and_never_go_faster(
    database_url: str, settings_for: SettingsFor
) -> None:
    setting, before, after = 80, 300, 600
    async with (
        a_campaign(database_url, 1, limit=100, setting=setting) as (ledger, _),
        scripted_transport() as far_side,
        watching(lambda: ledger.value("watch", "SELECT 1")) as stalls,
        a_sender(settings_for(far_side.url)),
    ):
        await add_number(ledger, OTHER_NUMBER, limit=100, setting=setting)
        first = await launch(ledger, before, senders=(NUMBER, OTHER_NUMBER))
        async with a_sender_process(settings_for(far_side.url)) as other:

            async def shared() -> bool:
                return await owners_count(ledger) == 2

            await until(shared, "the second sender to take its share")
            # However long it took to join, there is now enough to send for the way back.
            second = await launch(ledger, after, senders=(NUMBER, OTHER_NUMBER))
            begun, begun_at = len(far_side.requests), asyncio.get_running_loop().time()
            await far_side.received(begun + 80)
            stopped_at = asyncio.get_running_loop().time()
            assert await other.stop() == 0
        await all_are(ledger, first, {ACCEPTED: before})
        await all_are(ledger, second, {ACCEPTED: after})
        assert set(posts_of(far_side.requests).values()) == {1}
        for number in (NUMBER, OTHER_NUMBER):
            times = times_of(far_side.requests, number)
            under_load = [at for at in times if at > begun_at]
            longest = max(later - earlier for earlier, later in pairwise(under_load))
            report(number=number, largest_second=largest_window(times), longest_silence_s=round(longest, 2))
            assert longest < TIMING.lease_s, "the next owner has waited for the lease to run out"
            assert largest_window(stalls.clear(times, JITTER_S), 1.0 - JITTER_S) <= setting
        assert max(times_of(far_side.requests, OTHER_NUMBER)) > stopped_at


async def test_a_number_whose_lease_another_takes_is_left_alone_until_it_is_free(
    database_url: str, settings_for: SettingsFor
) -> None:
    async with (
        a_campaign(database_url, 250, limit=1000, setting=100) as (ledger, campaign_id),
        scripted_transport() as far_side,
        watching(lambda: ledger.value("watch", "SELECT 1")) as stalls,
        a_sender(settings_for(far_side.url)),
    ):
        await far_side.received(50)
        epoch = await ledger.value(
            "usurp",
            "UPDATE number_leases SET owner = gen_random_uuid(), epoch = epoch + 1,"
            " expires_at = clock_timestamp() + interval '1 hour' RETURNING epoch",
        )
        taken_at = asyncio.get_running_loop().time()
        deadline_s = TIMING.lease_s - TIMING.margin_s - TIMING.http_s

        async def gave_up() -> bool:
            return await claims_left(ledger) == 0

        await until(gave_up, "the rows in hand to be given back or sent")
        await asyncio.sleep(0.5)  # what would start now is wrong
        stopped, last_at = len(far_side.requests), far_side.requests[-1].at_s
        report(last_start_after_s=round(last_at - taken_at, 2))
        assert last_at - taken_at <= deadline_s + stalls.lost_s(taken_at, last_at)
        assert await claims_left(ledger) == 0, "rows stayed in hand without a lease"
        freed_at = asyncio.get_running_loop().time()
        await ledger.run("free", "UPDATE number_leases SET expires_at = clock_timestamp()")
        await far_side.received(stopped + 1)
        assert far_side.requests[stopped].at_s - freed_at >= TIMING.grace_s
        assert await ledger.value("epoch", "SELECT epoch FROM number_leases") == epoch + 1
        await all_are(ledger, campaign_id, {ACCEPTED: 250})
        assert set(posts_of(far_side.requests).values()) == {1}


async def test_lost_connections_to_postgres_lose_and_double_nothing(
    database_url: str, settings_for: SettingsFor
) -> None:
    async with (
        a_campaign(database_url, 300, limit=1000, setting=150) as (ledger, campaign_id),
        scripted_transport() as far_side,
        a_sender(settings_for(far_side.url)),
    ):

        async def terminated() -> int:
            return int(
                await ledger.value(
                    "terminate",
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE application_name = 'sender' AND datname = current_database()",
                )
            )

        for sent in (30, 90, 150):
            await far_side.received(sent)
            await until(terminated, "a connection that can be ended")
        await all_are(ledger, campaign_id, {ACCEPTED: 300})
        assert set(posts_of(far_side.requests).values()) == {1}

        async def forgotten() -> bool:
            return await claims_left(ledger) == 0

        await until(forgotten, "claims to be forgotten")

        async def listens() -> bool:
            return (
                await ledger.value(
                    "listens",
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sender'"
                    " AND datname = current_database() AND query LIKE '%LISTEN%'",
                )
                > 0
            )

        await until(listens, "the sender to listen again")


async def test_a_resumed_campaign_is_noticed_without_notifications(
    database_url: str, settings_for: SettingsFor
) -> None:
    async with (
        a_campaign(database_url, 20, limit=1000, setting=150) as (ledger, campaign_id),
        scripted_transport() as far_side,
    ):
        await campaigns.move(ledger, campaign_id, CampaignState.PAUSED, actor="test")
        async with a_sender(settings_for(far_side.url)) as app:

            async def owned() -> bool:
                return NUMBER in app.ownership.numbers

            await until(owned, "the number to be owned")
            assert await count_of(ledger, campaign_id, RecipientState.PENDING) == 20
            # By SQL: nobody is notified.
            await ledger.run("resume", "UPDATE campaigns SET state = 'running'")
            await all_are(ledger, campaign_id, {ACCEPTED: 20})
