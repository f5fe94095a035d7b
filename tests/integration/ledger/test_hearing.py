"""When a number was last heard of, from the inbox and from statuses, on the real Postgres."""

import time

from contracts.contact import ContactKey
from ledger import hearing, inbox, recipients, statuses
from ledger.hearing import Hearing
from ledger.inbox import Arrival
from ledger.pool import Ledger
from ledger.recipients import Settlement
from tests.integration.ledger.campaigns_for_tests import NUMBER, a_running_campaign, add_number, claim, status

OTHER = "100000000000002"
UNHEARD = Hearing(heard_at=None, sent_at=None)


async def heard(ledger: Ledger, number: str) -> Hearing:
    return (await hearing.last_heard(ledger, phone_number_ids=[NUMBER, OTHER]))[number]


async def test_a_message_is_heard_of_its_number_alone_when_it_is_taken_in(database_url: str) -> None:
    async with Ledger.open(database_url, shard=1) as ledger:
        for number in (NUMBER, OTHER):
            await add_number(ledger, number)
        assert await heard(ledger, NUMBER) == UNHEARD
        began = time.time()
        arrival = Arrival(
            phone_number_id=NUMBER, wamid="wamid.1", contact_key=ContactKey(f"{NUMBER}:U1"),
            timestamp_s=int(began) - 20 * inbox.DAY_S, received_s=began, position=0, closes_at_s=None, consent=None,
            identities=(("phone", "447700900001"),), record=b"{}",
        )  # fmt: skip
        await inbox.see(ledger, [arrival], hold_s=0)
        found = await heard(ledger, NUMBER)
        assert found.heard_at is not None
        assert abs(found.heard_at.timestamp() - await ledger.wall_s()) < time.time() - began + 1
        assert found.sent_at is None
        assert await heard(ledger, OTHER) == UNHEARD


async def test_a_status_is_heard_and_a_message_that_was_only_accepted_is_not(database_url: str) -> None:
    async with a_running_campaign(database_url, size=3) as (ledger, campaign_id, epoch):
        await add_number(ledger, OTHER)
        await claim(ledger, campaign_id, epoch, 2)
        accepted = [
            Settlement(campaign_id=campaign_id, seq=seq, attempt=1, kind="accepted", wamid=f"wamid.{seq}")
            for seq in (1, 2)
        ]
        assert (await heard(ledger, NUMBER)) == UNHEARD
        await recipients.settle(ledger, accepted, finished_claims=[])
        found = await heard(ledger, NUMBER)
        assert found.heard_at is None
        assert found.sent_at is not None
        await statuses.apply(
            ledger, [status(campaign_id, 1, sent_s=1_700_000_000, delivered_s=1_700_000_009)]
        )
        found = await heard(ledger, NUMBER)
        assert found.heard_at is not None
        assert found.heard_at.timestamp() == 1_700_000_009
        assert await heard(ledger, OTHER) == UNHEARD
