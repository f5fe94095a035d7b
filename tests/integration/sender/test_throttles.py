"""Meta's throttles slow a number down and fail nobody; they are in the ledger, where siblings and operators find them."""

import asyncio

import pytest

from cloudapi.testing import Received, accepts, refused, scripted_transport
from contracts.campaign import RecipientState
from ledger.pool import Ledger
from sender import metrics
from tests.integration.sender.conftest import SettingsFor
from tests.integration.sender.driving import (
    NUMBER,
    a_campaign,
    a_sender,
    all_are,
    claims_left,
    launch,
    row_of,
    until,
)

ACCEPTED = RecipientState.ACCEPTED


def pace_now() -> float:
    return metrics.SETTING.labels(NUMBER)._value.get()


async def lift_throttles(ledger: Ledger) -> None:
    """What an operator does once the cause is gone."""
    await ledger.run("lift", "DELETE FROM throttles")


async def nothing_was_lost(ledger: Ledger, campaign_id: int, accepted: list[Received], size: int) -> None:
    await all_are(ledger, campaign_id, {ACCEPTED: size})
    assert sorted(row_of(request)[1] for request in accepted) == list(range(1, size + 1)), "once each"
    assert await ledger.value("tries", "SELECT max(tries) FROM recipient_states") == 1, (
        "a throttle burnt a try"
    )
    assert await claims_left(ledger) == 0


@pytest.mark.bco("H01")
async def test_bco_h01_throughput_reached_is_no_failed_message(
    database_url: str, settings_for: SettingsFor
) -> None:
    """Three windows of 0.5 s in which Meta refuses everything, each with another HTTP status for the same code."""
    size, setting = 170, 300
    windows: list[tuple[float, int]] = []
    statuses = [429, 400, 403]
    refusals: list[Received] = []
    accepted: list[Received] = []

    def meta(request: Received):
        if statuses and len(accepted) >= 40 * (len(windows) + 1):
            windows.append((request.at_s, statuses.pop(0)))
        if windows and request.at_s - windows[-1][0] < 0.5:
            refusals.append(request)
            return refused(130429, status=windows[-1][1])
        accepted.append(request)
        return accepts(request)

    async with (
        a_campaign(database_url, size, limit=1000, setting=setting) as (ledger, campaign_id),
        scripted_transport(meta) as far_side,
        a_sender(settings_for(far_side.url)),
    ):
        await all_are(ledger, campaign_id, {ACCEPTED: size})
        assert len(windows) == 3
        throttles = await ledger.rows("throttles", "SELECT scope, key, code FROM throttles")
        assert [tuple(row) for row in throttles] == [("number", NUMBER, 130429)]
        assert 0 < len(refusals) <= 3 * 100, "the number went on knocking while it was held back"
        for begun_at, _status in windows:
            later = [request.at_s for request in far_side.requests if request.at_s > begun_at + 0.5]
            assert later[0] - begun_at >= 1.0, "it didn't hold still for the second that the code asks for"
        cut = pace_now()
        assert 0.1 * setting <= cut <= 0.6 * setting, "the pace was not cut"
        await nothing_was_lost(ledger, campaign_id, accepted, size)
        # Calm again: with every second of sends the pace comes back.
        calm = await launch(ledger, 60)
        await all_are(ledger, calm, {ACCEPTED: 60})
        assert pace_now() > cut


@pytest.mark.bco("H01")
async def test_bco_h01_call_limits_of_app_and_account_fail_nobody(
    database_url: str, settings_for: SettingsFor
) -> None:
    refusing: list[int] = []
    accepted: list[Received] = []

    def meta(request: Received):
        if refusing:
            return refused(refusing[0], status=[400, 403, 429][request.number % 3])
        accepted.append(request)
        return accepts(request)

    async with (
        a_campaign(database_url, 200, setting=100) as (ledger, campaign_id),
        scripted_transport(meta) as far_side,
        a_sender(settings_for(far_side.url)),
    ):
        for code, scope in ((4, "app"), (613, "app"), (80007, "waba")):
            await far_side.received(len(far_side.requests) + 20)
            refusing.append(code)

            async def held(code: int = code, scope: str = scope) -> bool:
                found = await ledger.value(
                    "found", "SELECT count(*) FROM throttles WHERE scope = $1 AND code = $2", scope, code
                )
                return found == 1 and await claims_left(ledger) == 0

            await until(held, "the throttle in the ledger, and no row in hand")
            knocks = len(far_side.requests)
            await asyncio.sleep(0.4)
            assert len(far_side.requests) == knocks, "something was sent into a throttle"
            refusing.clear()
            await lift_throttles(ledger)
        await nothing_was_lost(ledger, campaign_id, accepted, 200)


async def test_a_lifted_stop_of_a_number_is_obeyed_within_seconds(
    database_url: str, settings_for: SettingsFor
) -> None:
    lifted = False

    def meta(request: Received):
        return accepts(request) if lifted else refused(131045)  # holds the number for 15 min

    async with (
        a_campaign(database_url, 20, setting=200) as (ledger, campaign_id),
        scripted_transport(meta) as far_side,
        a_sender(settings_for(far_side.url)),
    ):

        async def held() -> bool:
            return await ledger.value("held", "SELECT count(*) FROM throttles") == 1

        await until(held, "the stop in the ledger")
        lifted = True
        await lift_throttles(ledger)
        await all_are(ledger, campaign_id, {ACCEPTED: 20})  # in a minute, not in fifteen


async def test_codes_that_may_pass_cost_a_try_and_those_that_refuse_end_the_row(
    database_url: str, settings_for: SettingsFor
) -> None:
    seen: set[int] = set()

    def meta(request: Received):
        seq = row_of(request)[1]
        if seq <= 5:
            return refused(131009)
        if seq <= 10 and seq not in seen:
            seen.add(seq)
            return refused(131000, status=500)
        return accepts(request)

    async with (
        a_campaign(database_url, 30) as (ledger, campaign_id),
        scripted_transport(meta) as far_side,
        a_sender(settings_for(far_side.url)),
    ):
        await all_are(ledger, campaign_id, {ACCEPTED: 25, RecipientState.FAILED: 5})
        tries = await ledger.rows(
            "tries", "SELECT seq, tries FROM recipient_states WHERE tries > 1 ORDER BY 1"
        )
        assert [tuple(row) for row in tries] == [(seq, 2) for seq in range(6, 11)]
