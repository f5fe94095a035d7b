"""Statuses on the real topic become row states, whatever their order, repetition and batching."""

import itertools
import random
import signal

import pytest

from contracts.campaign import RecipientState
from ledger import campaigns
from tests.integration.status_aggregator.driving import (
    T0,
    a_campaign,
    a_status,
    accept,
    aggregating,
    all_committed,
    counters_equal_rows,
    eventually,
    publish,
    states,
)


@pytest.mark.bco("F04")
async def test_bco_f04_any_order_repetition_and_batching_ends_as_read_with_each_status_own_time(
    settings, database_url
):
    """All 24 orders of four statuses, each three times, in batches that mix 500 messages, over two processes."""
    rng = random.Random(4)
    size = 500
    events = [("sent", T0), ("delivered", T0 + 1), ("read", T0 + 2), ("delivered", T0 + 1)]
    orders = list(itertools.permutations(events))
    async with a_campaign(database_url, size + 1) as (ledger, campaign_id):
        await accept(ledger, campaign_id, range(1, size + 2))
        streams = {}
        for seq in range(1, size + 1):
            by_row = campaign_id if seq % 2 else None  # the other half by wamid alone
            order = [event for event in orders[seq % 24] for _ in range(3)]
            streams[seq] = [a_status(word, seq, at_s, campaign_id=by_row) for word, at_s in order]
        records = []
        waiting = [seq for seq in streams for _ in range(12)]
        rng.shuffle(waiting)
        mixed = [(seq % 2, streams[seq].pop(0)) for seq in waiting]
        for start in range(0, len(mixed), 100):
            batch = mixed[start : start + 100]
            records += [(partition, [s for p, s in batch if p == partition]) for partition in (0, 1)]
        records.append((0, [a_status("read", size + 1, T0 + 2, campaign_id=campaign_id)]))
        async with aggregating(settings, database_url) as one, aggregating(settings, database_url) as two:

            async def both_ready():
                return one.is_ready and two.is_ready

            await eventually(both_ready)
            await publish(settings, records)

            async def done():
                counts = await campaigns.counts(ledger, campaign_id)
                return counts.get(RecipientState.READ, 0) == size + 1

            await eventually(done)
            await eventually(lambda: all_committed(settings))
            assert one.named("batch.flushed"), "the first process took no part"
            assert two.named("batch.flushed"), "the second process took no part"
        found = await states(ledger, campaign_id)
        assert found.pop(size + 1) == ("read", None, None, T0 + 2)
        assert set(found.values()) == {("read", T0, T0 + 1, T0 + 2)}
        assert await counters_equal_rows(ledger, campaign_id)


@pytest.mark.bco("F01")
async def test_bco_f01_a_status_that_precedes_its_send_result_is_applied_once_the_result_is_stored(
    settings, database_url
):
    async with a_campaign(database_url, 3) as (ledger, campaign_id):
        async with aggregating(settings, database_url) as aggregator:
            early = [
                a_status("delivered", 1, T0 + 1, campaign_id=campaign_id),
                a_status("delivered", 2, T0 + 1),
                a_status("sent", 2, T0),
                a_status("read", 2, T0 + 9),
            ]
            await publish(settings, [(0, early[:3]), (0, early[3:])])
            await eventually(lambda: all_committed(settings))
            found = await states(ledger, campaign_id)
            assert found[1] == ("delivered", None, T0 + 1, None)
            assert found[2][0] == "sending"
            assert sum(line.get("parked", 0) for line in aggregator.named("batch.flushed")) >= 1
            # A sender that crashed after the POST never stores row 1's wamid; row 2's result comes late.
            await accept(ledger, campaign_id, [2])

            async def joined():
                return (await states(ledger, campaign_id))[2] == ("read", T0, T0 + 1, T0 + 9)

            await eventually(joined, limit_s=30)
            await accept(ledger, campaign_id, [1])
        found = await states(ledger, campaign_id)
        assert found[1] == ("delivered", None, T0 + 1, None)
        assert found[3][0] == "sending"
        assert await counters_equal_rows(ledger, campaign_id)


async def test_a_failure_that_may_pass_is_due_again_and_a_refusal_is_final(settings, database_url):
    async with a_campaign(database_url, 4) as (ledger, campaign_id):
        await accept(ledger, campaign_id, range(1, 5))
        failed = [
            a_status("failed", 1, T0, campaign_id=campaign_id, code=131016),
            a_status("failed", 2, T0, campaign_id=campaign_id, code=131026),
            a_status("failed", 3, T0, campaign_id=campaign_id, code=131049),
            a_status("failed", 4, T0, campaign_id=campaign_id),
        ]
        async with aggregating(settings, database_url):
            await publish(settings, [(0, failed)])
            await eventually(lambda: all_committed(settings))
        found = await states(ledger, campaign_id)
        assert [found[seq][0] for seq in (1, 2, 3, 4)] == ["pending", "failed", "pending", "failed"]
        due = await ledger.rows("due", "SELECT seq, due_at - clock_timestamp() AS wait FROM due ORDER BY seq")
        assert [row["seq"] for row in due] == [1, 3]
        assert due[0]["wait"].total_seconds() < 1
        assert due[1]["wait"].total_seconds() > 23.9 * 3600
        assert await counters_equal_rows(ledger, campaign_id)


async def test_a_stop_finishes_the_batch_commits_and_ends_in_peace(settings, database_url):
    async with a_campaign(database_url, 100) as (ledger, campaign_id):
        await accept(ledger, campaign_id, range(1, 101))
        async with aggregating(settings, database_url) as aggregator:
            records = [(0, [a_status("sent", seq, T0, campaign_id=campaign_id)]) for seq in range(1, 101)]
            await publish(settings, records)

            async def begun():
                return bool(aggregator.named("batch.flushed"))

            await eventually(begun)
            aggregator.process.send_signal(signal.SIGTERM)
            assert await aggregator.process.wait() == 0
        async with aggregating(settings, database_url):
            await eventually(lambda: all_committed(settings))
        assert {state for state, *_ in (await states(ledger, campaign_id)).values()} == {"sent"}
