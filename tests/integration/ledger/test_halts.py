"""A halt stops the next claim within its scope and no other, until it is lifted by its name."""

import asyncio
from uuid import uuid4

import pytest

from contracts.campaign import CampaignState, RecipientState
from ledger import campaigns, halts, leases, numbers, recipients
from ledger.campaigns import Refusal
from ledger.halts import EVERYTHING, Halt, HaltScope
from ledger.pool import Ledger
from tests.integration.ledger.campaigns_for_tests import (
    NUMBER,
    a_running_campaign,
    add_number,
    claim,
    counters_equal_rows,
    launch_campaign,
)

WABA = "200000000000001"
OTHER_NUMBER = "100000000000002"


async def place(
    ledger: Ledger, scope: HaltScope, key: str, reason: str = "wrong picture"
) -> tuple[Halt, bool]:
    return await halts.place(ledger, scope=scope, key=key, actor="test", reason=reason)


async def parts_of(ledger: Ledger, number: str = NUMBER) -> list[int]:
    """The campaigns that a number's sender is told of."""
    return [
        part.campaign_id for part in (await numbers.work(ledger, phone_number_ids=[number]))[number].parts
    ]


@pytest.mark.parametrize("scope", list(HaltScope))
async def test_a_halt_refuses_claims_within_its_scope_until_it_is_lifted(
    database_url: str, scope: HaltScope
) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        key = {"campaign": str(campaign_id), "number": NUMBER, "waba": WABA, "all": EVERYTHING}[scope]
        assert [row.seq for row in (await claim(ledger, campaign_id, epoch, 2)).rows] == [1, 2]
        await place(ledger, scope, key)
        assert (await claim(ledger, campaign_id, epoch, 5)).outcome == "closed"
        assert await parts_of(ledger) == [], "its sender would keep its rows"
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.PENDING] == 8
        assert await halts.lift(ledger, scope=scope, key=key)
        assert await parts_of(ledger) == [campaign_id]
        assert [row.seq for row in (await claim(ledger, campaign_id, epoch, 2)).rows] == [3, 4]
        assert not await halts.lift(ledger, scope=scope, key=key), "it was lifted twice"


async def test_what_is_outside_of_a_halts_scope_goes_on(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await numbers.add(
            ledger, phone_number_id=OTHER_NUMBER, waba_id="200000000000002", portfolio_id="p1", display="",
            limit_per_s=80, setting_per_s=76, slots_count=4,
        )  # fmt: skip
        both = await launch_campaign(ledger, on_numbers=(NUMBER, OTHER_NUMBER))
        other = await leases.take(ledger, phone_number_id=OTHER_NUMBER, owner=uuid4(), lease_s=60, grace_s=2)
        assert other is not None

        async def open_claims() -> set[str]:
            """Who gets a row: the first campaign, the second on its first number, the second on its other number."""
            asked = {
                "first": (NUMBER, epoch, campaign_id),
                "both": (NUMBER, epoch, both),
                "other": (OTHER_NUMBER, other.epoch, both),
            }
            found = set()
            for name, (number, held, campaign) in asked.items():
                answer = await recipients.claim(
                    ledger, phone_number_id=number, epoch=held, campaign_id=campaign, limit=1, name=uuid4(),
                    ends_in_s=60,
                )  # fmt: skip
                if answer.outcome == "claimed":
                    found.add(name)
            return found

        assert await open_claims() == {"first", "both", "other"}
        for scope, key, still_open in (
            (HaltScope.CAMPAIGN, str(both), {"first"}),
            (HaltScope.NUMBER, NUMBER, {"other"}),
            (HaltScope.NUMBER, OTHER_NUMBER, {"first", "both"}),
            (HaltScope.WABA, "200000000000002", {"first", "both"}),
        ):
            await place(ledger, scope, key)
            assert await open_claims() == still_open
            told = [(stop.halt.scope, stop.numbers) for stop in await halts.of_campaign(ledger, both)]
            stopped = {"campaign": (NUMBER, OTHER_NUMBER), "number": (key,), "waba": (OTHER_NUMBER,)}[scope]
            assert told == [(scope, stopped)]
            await halts.lift(ledger, scope=scope, key=key)
        assert await halts.of_campaign(ledger, both) == []


async def test_a_halt_is_lifted_by_name_alone(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        await place(ledger, HaltScope.ALL, EVERYTHING)
        await place(ledger, HaltScope.CAMPAIGN, str(campaign_id))
        await campaigns.move(ledger, campaign_id, CampaignState.PAUSED, actor="test")
        await campaigns.move(ledger, campaign_id, CampaignState.RUNNING, actor="test")
        assert (await claim(ledger, campaign_id, epoch, 1)).outcome == "closed", "a resume lifted it"
        await halts.lift(ledger, scope=HaltScope.ALL, key=EVERYTHING)
        assert (await claim(ledger, campaign_id, epoch, 1)).outcome == "closed", "one lift lifted both"
        assert [(halt.scope, halt.key) for halt in await halts.listed(ledger)] == [
            ("campaign", str(campaign_id))
        ]
        await halts.lift(ledger, scope=HaltScope.CAMPAIGN, key=str(campaign_id))
        assert (await claim(ledger, campaign_id, epoch, 1)).outcome == "claimed"
    async with Ledger.open(database_url, shard=2) as ledger:
        assert await halts.listed(ledger) == []


async def test_a_halt_outlives_the_process_that_placed_it(database_url: str) -> None:
    async with a_running_campaign(database_url) as (ledger, campaign_id, epoch):
        async with Ledger.open(database_url, shard=2) as another:
            await place(another, HaltScope.NUMBER, NUMBER)
        assert (await claim(ledger, campaign_id, epoch, 1)).outcome == "closed"


async def test_the_first_to_halt_is_the_one_who_is_named(database_url: str) -> None:
    async with Ledger.open(database_url, shard=1) as ledger:
        await add_number(ledger)
        first, is_new = await place(ledger, HaltScope.NUMBER, NUMBER, "wrong picture")
        assert is_new
        again, is_new = await place(ledger, HaltScope.NUMBER, NUMBER, "another reason")
        assert (again, is_new) == (first, False)
        assert await halts.listed(ledger) == [first]
        raced = await asyncio.gather(*(place(ledger, HaltScope.ALL, EVERYTHING, str(n)) for n in range(8)))
        assert sum(is_new for _, is_new in raced) == 1
        assert len({halt.reason for halt, _ in raced}) == 1


async def test_what_does_not_exist_is_not_halted(database_url: str) -> None:
    async with Ledger.open(database_url, shard=1) as ledger:
        await add_number(ledger)
        for scope, key in ((HaltScope.CAMPAIGN, "7"), (HaltScope.NUMBER, "1"), (HaltScope.WABA, NUMBER)):
            with pytest.raises(Refusal, match=key):
                await place(ledger, scope, key)
        assert await halts.listed(ledger) == []


async def test_a_halt_and_its_lift_are_told_to_the_senders(database_url: str) -> None:
    heard = asyncio.Queue()
    async with (
        Ledger.open(database_url, shard=1) as ledger,
        ledger.listening("sluice_work", heard.put_nowait),
    ):
        await place(ledger, HaltScope.ALL, EVERYTHING)
        async with asyncio.timeout(30):
            await heard.get()
        await halts.lift(ledger, scope=HaltScope.ALL, key=EVERYTHING)
        async with asyncio.timeout(30):
            await heard.get()
