"""Who gets a number's lease, and under which epoch."""

from uuid import UUID, uuid4

from ledger import leases
from ledger.leases import Taken
from ledger.pool import Ledger
from tests.integration.ledger.campaigns_for_tests import NUMBER, a_running_campaign

FIRST, SECOND = uuid4(), uuid4()


async def take(ledger: Ledger, owner: UUID) -> Taken | None:
    return await leases.take(ledger, phone_number_id=NUMBER, owner=owner, lease_s=60, grace_s=10)


async def pass_by(ledger: Ledger, seconds: float) -> None:
    await ledger.run(
        "age",
        "UPDATE number_leases SET expires_at = expires_at - make_interval(secs => $1)",
        seconds,
    )


async def test_a_lease_is_anothers_until_it_is_given_back_or_over_for_longer_than_the_grace(
    database_url: str,
) -> None:
    async with a_running_campaign(database_url) as (ledger, _campaign, epoch):
        await leases.release(ledger, phone_number_id=NUMBER, epoch=epoch)
        assert await take(ledger, FIRST) == Taken(epoch + 1, planned=True)
        assert await take(ledger, SECOND) is None
        await pass_by(ledger, 65.0)
        assert await take(ledger, SECOND) is None, "bytes of the first may still be on their way"
        await pass_by(ledger, 5.0)
        assert await take(ledger, SECOND) == Taken(epoch + 2, planned=False)
        assert await leases.renew(ledger, owner=FIRST, epochs={NUMBER: epoch + 1}, lease_s=60) == set()
        assert not await leases.release(ledger, phone_number_id=NUMBER, epoch=epoch + 1)
        assert await leases.renew(ledger, owner=SECOND, epochs={NUMBER: epoch + 2}, lease_s=60) == {NUMBER}
        assert await leases.release(ledger, phone_number_id=NUMBER, epoch=epoch + 2)
        await pass_by(ledger, 2.0)
        assert await take(ledger, FIRST) == Taken(epoch + 3, planned=False), "its last start is long ago"


async def test_an_owner_whose_answer_was_lost_takes_its_lease_again_and_starts_afresh(
    database_url: str,
) -> None:
    async with a_running_campaign(database_url) as (ledger, _campaign, epoch):
        await leases.release(ledger, phone_number_id=NUMBER, epoch=epoch)
        await take(ledger, FIRST)
        assert await take(ledger, FIRST) == Taken(epoch + 2, planned=True), "it may have sent a moment ago"
        assert await leases.renew(ledger, owner=FIRST, epochs={NUMBER: epoch + 1}, lease_s=60) == set()
        assert await take(ledger, SECOND) is None
