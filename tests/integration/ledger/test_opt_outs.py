"""Lists of opt-outs: once is enough, whoever is new is known from then on, and a claim passes them by."""

import asyncio

import pytest

from contracts.campaign import RecipientState
from contracts.contact import folded_phone
from contracts.conversation import Consent
from ledger import contacts, suppressions
from ledger.pool import Ledger
from tests.integration.ledger.campaigns_for_tests import (
    a_running_campaign,
    claim,
    counters_equal_rows,
    launch_campaign,
)

PHONES = [folded_phone(f"+447700900{i:03}") for i in range(1, 4)]


async def opt_out(ledger: Ledger, phones: list[str], portfolio_id: str = "p1") -> int:
    return await suppressions.opt_out_phones(
        ledger, portfolio_id=portfolio_id, folded=phones, source="import"
    )


async def listed(ledger: Ledger, portfolio_id: str = "p1") -> list[tuple[str, ...]]:
    found = await suppressions.page(ledger, portfolio_id, after_contact_id=0)
    return sorted(contact.phones for contact in found)


async def test_people_of_a_list_are_passed_by_in_running_and_in_later_campaigns(database_url: str) -> None:
    async with a_running_campaign(database_url, size=4) as (ledger, campaign_id, epoch):
        assert await opt_out(ledger, [*PHONES, "15550100000"]) == 4
        assert [row.seq for row in (await claim(ledger, campaign_id, epoch, 4)).rows] == [4]
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.SUPPRESSED] == 3
        later = await launch_campaign(ledger, size=4)
        assert [row.seq for row in (await claim(ledger, later, epoch, 4)).rows] == [4]


async def test_the_same_list_twice_is_the_list_once(database_url: str) -> None:
    async with Ledger.open(database_url, shard=1) as ledger:
        assert await opt_out(ledger, PHONES) == 3
        first = await suppressions.page(ledger, "p1", after_contact_id=0)
        assert await opt_out(ledger, [*PHONES, *PHONES]) == 0
        assert await suppressions.page(ledger, "p1", after_contact_id=0) == first
        assert await ledger.value("contacts", "SELECT count(*) FROM contacts") == 3
        assert await listed(ledger, "p2") == []
        assert await opt_out(ledger, PHONES[:1], "p2") == 1
        assert await listed(ledger, "p2") == [(PHONES[0],)]


async def test_a_list_opts_out_again_who_had_opted_in_and_leaves_a_block_alone(database_url: str) -> None:
    async with Ledger.open(database_url, shard=1) as ledger:
        back, blocked = [
            await contacts.resolve(ledger, portfolio_id="p1", identities=[("phone", phone)])
            for phone in PHONES[:2]
        ]
        for consent, at_s in ((Consent.OPTED_OUT, 1000.0), (Consent.OPTED_IN, 2000.0)):
            await suppressions.set_consent(
                ledger, contact_id=back, consent=consent, at_s=at_s, source="message"
            )
        await ledger.run(
            "block",
            "INSERT INTO suppressions (contact_id, reason, source) VALUES ($1, 'blocked', 'test')",
            blocked,
        )
        assert await opt_out(ledger, PHONES[:2]) == 1
        found = {c.contact_id: c.reason for c in await suppressions.page(ledger, "p1", after_contact_id=0)}
        assert found == {back: "opted_out", blocked: "blocked"}


async def test_merged_contacts_opt_out_together_and_are_listed_once(database_url: str) -> None:
    async with a_running_campaign(database_url, size=3) as (ledger, campaign_id, epoch):
        person = [("bsuid", "US.1"), ("phone", PHONES[0]), ("phone", PHONES[1])]
        await contacts.resolve(ledger, portfolio_id="p1", identities=person)
        assert await opt_out(ledger, PHONES[1:2]) == 1
        assert [row.seq for row in (await claim(ledger, campaign_id, epoch, 3)).rows] == [3]
        (contact,) = await suppressions.page(ledger, "p1", after_contact_id=0)
        assert (contact.phones, contact.user_ids) == (tuple(PHONES[:2]), ("US.1",))
        assert PHONES[0] not in repr(contact)


async def test_lists_at_once_over_the_same_people_and_merges_settle(database_url: str) -> None:
    phones = [folded_phone(f"+44770090{i:04}") for i in range(200)]
    async with Ledger.open(database_url, shard=1, statement_s=20.0) as ledger:
        pairs = [
            contacts.resolve(ledger, portfolio_id="p1", identities=[("phone", a), ("phone", b)])
            for a, b in zip(phones[:40:2], phones[1:40:2], strict=True)
        ]
        lists = [opt_out(ledger, phones[start : start + 120]) for start in (0, 40, 80)]
        await asyncio.gather(*lists, *pairs)
        assert await opt_out(ledger, phones) == 0
        assert sorted(phone for found in await listed(ledger) for phone in found) == sorted(phones)


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_pages_hold_everybody_once(database_url: str, limit: int) -> None:
    async with Ledger.open(database_url, shard=1) as ledger:
        await opt_out(ledger, PHONES)
        await opt_out(ledger, PHONES, "p2")
        found, after = [], 0
        while page := await suppressions.page(ledger, "p1", after_contact_id=after, limit=limit):
            found += [phone for contact in page for phone in contact.phones]
            after = page[-1].contact_id
        assert sorted(found) == PHONES
