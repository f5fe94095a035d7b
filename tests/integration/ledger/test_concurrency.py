"""Many connections at once on the same rows: no deadlock, no row claimed twice, counters that equal the rows throughout."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from contracts.campaign import CampaignState, OnUnknown, Reason, RecipientState
from contracts.status import CampaignRow
from ledger import campaigns, leases, recipients, states, statuses
from ledger.pool import Ledger
from ledger.recipients import Settlement
from ledger.states import Events, Row
from ledger.statuses import AttemptStatus
from tests.integration.ledger.campaigns_for_tests import (
    NUMBER,
    a_running_campaign,
    claim,
    counters_equal_rows,
    rows_as_they_are,
    status,
)

SIZE = 600
Change = Callable[[], Coroutine[Any, Any, object]]


@asynccontextmanager
async def ledgers(database_url: str, count: int) -> AsyncIterator[list[Ledger]]:
    """One pool of one connection for each of `count` processes."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                Ledger.open(database_url, shard=n + 2, connections_max=1, statement_s=10.0, acquire_s=10.0)
            )
            for n in range(count)
        ]


async def deadlocks(ledger: Ledger) -> int:
    await ledger.run("flush", "SELECT pg_stat_force_next_flush()")
    found: int = await ledger.value(
        "deadlocks", "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return found


async def waiting_for_locks(ledger: Ledger, count: int) -> None:
    """Return when `count` connections of this database wait for a lock."""
    deadline = time.monotonic() + 10
    while (
        await ledger.value(
            "waiting",
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        < count
    ):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


def accepted(campaign_id: int, seq: int, attempt: int = 1) -> Settlement:
    return Settlement(
        campaign_id=campaign_id, seq=seq, attempt=attempt, kind="accepted", wamid=f"wamid.{seq}.{attempt}"
    )


async def at_the_same_row(
    ledger: Ledger, campaign_id: int, seqs: Sequence[int], changes: Sequence[Change]
) -> None:
    """Hold these rows until all changes wait for them, in this order, then let them go: the closest race there is."""
    async with asyncio.TaskGroup() as group, ledger.transaction("hold") as connection:
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout = '20s'")
        await connection.execute(
            "SELECT 1 FROM recipient_states WHERE campaign_id = $1 AND seq = ANY ($2::bigint[]) FOR UPDATE",
            campaign_id, list(seqs),
        )  # fmt: skip
        for count, change in enumerate(changes, start=1):
            group.create_task(change())
            await waiting_for_locks(ledger, count)


@pytest.mark.parametrize("settle_comes_first", [True, False])
async def test_a_status_that_meets_the_settle_of_its_row_counts_it_once(
    database_url: str, settle_comes_first: bool
) -> None:
    async with (
        a_running_campaign(database_url, size=24) as (ledger, campaign_id, epoch),
        ledgers(database_url, 2) as two,
    ):
        await claim(ledger, campaign_id, epoch, 24)
        for first in range(1, 24, 4):
            seqs = range(first, first + 4)
            changes = [
                lambda seqs=seqs: recipients.settle(
                    two[0], [accepted(campaign_id, seq) for seq in seqs], finished_claims=[]
                ),
                lambda seqs=seqs: statuses.apply(
                    two[1], [status(campaign_id, seq, delivered_s=9) for seq in reversed(seqs)]
                ),
            ]
            await at_the_same_row(ledger, campaign_id, seqs, changes if settle_comes_first else changes[::-1])
            counts = await counters_equal_rows(ledger, campaign_id)
            assert counts[RecipientState.DELIVERED] == seqs[-1]
        assert await deadlocks(ledger) == 0


async def test_two_batches_of_statuses_that_meet_count_each_row_once(database_url: str) -> None:
    async with (
        a_running_campaign(database_url, size=8) as (ledger, campaign_id, epoch),
        ledgers(database_url, 3) as three,
    ):
        await claim(ledger, campaign_id, epoch, 8)
        batches = [
            [status(campaign_id, seq, sent_s=5) for seq in range(1, 9)],
            [status(campaign_id, seq, delivered_s=7) for seq in range(8, 0, -1)],
            [status(campaign_id, seq, read_s=9) for seq in (5, 6, 1, 2, 8, 7, 4, 3)],
        ]
        await at_the_same_row(
            ledger, campaign_id, range(1, 9),
            [lambda i=i: statuses.apply(three[i], batches[i]) for i in range(3)],
        )  # fmt: skip
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.READ] == 8
        assert await deadlocks(ledger) == 0


@pytest.mark.parametrize("first", ["end", "reclaim", "settle"])
async def test_reclaim_and_cancel_that_meet_a_result_count_each_row_once(
    database_url: str, first: str
) -> None:
    async with (
        a_running_campaign(database_url, size=8) as (ledger, campaign_id, epoch),
        ledgers(database_url, 3) as three,
    ):
        await claim(ledger, campaign_id, epoch, 4)
        lost = [
            Settlement(campaign_id=campaign_id, seq=seq, attempt=1, kind="unknown", reason=Reason.NO_ANSWER)
            for seq in (1, 2)
        ]
        await recipients.settle(ledger, lost, finished_claims=[])
        await campaigns.move(ledger, campaign_id, CampaignState.CANCELLED, actor="test")
        results = [accepted(campaign_id, seq) for seq in (4, 3, 2, 1)]
        changes: dict[str, Change] = {
            "end": lambda: recipients.end_rows(three[0], campaign_id=campaign_id, after_seq=0, span=8),
            "reclaim": lambda: recipients.reclaim(three[1]),
            "settle": lambda: recipients.settle(three[2], results, finished_claims=[]),
        }
        order = sorted(changes, key=lambda what: what != first)
        await at_the_same_row(ledger, campaign_id, range(1, 9), [changes[what] for what in order])
        counts = await counters_equal_rows(ledger, campaign_id)
        assert (counts[RecipientState.ACCEPTED], counts[RecipientState.CANCELLED]) == (4, 4)


async def test_a_claim_that_meets_a_status_of_a_due_row_leaves_it_alone(database_url: str) -> None:
    async with (
        a_running_campaign(database_url, size=2) as (ledger, campaign_id, epoch),
        ledgers(database_url, 2) as two,
    ):
        await claim(ledger, campaign_id, epoch, 2)
        returned = [
            Settlement(
                campaign_id=campaign_id, seq=seq, attempt=1, kind="returned", reason=Reason.RELEASED, due_in_s=0.0
            )
            for seq in (1, 2)
        ]  # fmt: skip
        await recipients.settle(ledger, returned, finished_claims=[])
        await at_the_same_row(
            ledger, campaign_id, [1],
            [
                lambda: statuses.apply(two[0], [status(campaign_id, 1, delivered_s=9)]),
                lambda: claim(two[1], campaign_id, epoch, 2),
            ],
        )  # fmt: skip
        counts = await counters_equal_rows(ledger, campaign_id)
        assert (counts[RecipientState.DELIVERED], counts[RecipientState.SENDING]) == (1, 1)
        await rows_as_they_are(ledger, campaign_id)


def some_status(campaign_id: int, seq: int, e: Events) -> AttemptStatus:
    return AttemptStatus(
        row=CampaignRow(campaign_id, seq, e.attempt), phone_number_id=NUMBER, sent_s=e.sent_s, delivered_s=e.delivered_s,
        read_s=e.read_s, failed_s=e.failed_s, code=e.code, retry_in_s=0.0 if e.may_pass else None,
    )  # fmt: skip


async def aggregate_all(
    ledger: Ledger, campaign_id: int, rounds: list[dict[int, Events]], rng: Random
) -> None:
    """Apply each round's events in batches of 60, in an order of our own."""
    for found in rounds:
        order = rng.sample(sorted(found), len(found))
        for start in range(0, len(order), 60):
            batch = [some_status(campaign_id, seq, found[seq]) for seq in order[start : start + 60]]
            assert await statuses.apply(ledger, batch) == []


async def settle_all(ledger: Ledger, campaign_id: int, rng: Random) -> None:
    order = rng.sample(range(1, SIZE + 1), SIZE)
    for start in range(0, SIZE, 60):
        batch = [accepted(campaign_id, seq) for seq in order[start : start + 60]]
        await recipients.settle(ledger, batch, finished_claims=[])


async def pause_and_look(ledger: Ledger, campaign_id: int) -> None:
    for _ in range(15):
        await campaigns.move(ledger, campaign_id, CampaignState.PAUSED, actor="test")
        await campaigns.move(ledger, campaign_id, CampaignState.RUNNING, actor="test")
        await counters_equal_rows(ledger, campaign_id)


@pytest.mark.bco("F03")
async def test_bulk_changes_of_the_same_rows_in_different_orders_do_not_deadlock_bco_f03(
    database_url: str,
) -> None:
    """Four aggregators, the sender's results and a pause over the same rows: what is left is what a serial run leaves."""
    rng = Random(3)
    kinds = ["sent_s", "delivered_s", "read_s", "failed_s"]
    rounds = [
        {seq: Events(attempt=1, **{rng.choice(kinds): rng.randint(1, 99)}) for seq in range(1, SIZE + 1)}
        for _ in range(8)
    ]
    async with (
        a_running_campaign(database_url, size=SIZE) as (ledger, campaign_id, epoch),
        ledgers(database_url, 6) as six,
    ):
        for _ in range(2):
            await claim(ledger, campaign_id, epoch, SIZE // 2)
        async with asyncio.TaskGroup() as group:
            for n in range(4):
                group.create_task(aggregate_all(six[n], campaign_id, rounds[n::4], Random(n)))
            group.create_task(settle_all(six[4], campaign_id, rng))
            group.create_task(pause_and_look(six[5], campaign_id))

        expected = {seq: states.accepted(states.claimed(Row()), 1) for seq in range(1, SIZE + 1)}
        for found in rounds:
            for seq, e in found.items():
                expected[seq] = states.applied(expected[seq], e, states.Campaign(tries_max=3))
        assert await rows_as_they_are(ledger, campaign_id) == expected
        assert await deadlocks(ledger) == 0


AGE = """
WITH held AS MATERIALIZED (  -- recipients by key first, as everybody does
    SELECT s.campaign_id, s.seq FROM recipient_states s JOIN unknown_rows u USING (campaign_id, seq)
    ORDER BY 1, 2 FOR UPDATE OF s)
UPDATE unknown_rows u SET since = u.since - interval '1 h' FROM held h
WHERE u.campaign_id = h.campaign_id AND u.seq = h.seq
"""


class Crowd:
    """Owners under several epochs, aggregators and a recovering orchestrator, all at one campaign."""

    def __init__(self, campaign_id: int, epoch: int) -> None:
        self.campaign_id = campaign_id
        self.epochs = [epoch]
        self.claimed: Counter[tuple[int, int]] = Counter()
        self.outcomes: Counter[str] = Counter()

    async def own(self, ledger: Ledger, rng: Random) -> None:
        """Claim under an epoch that is an old one for a while, and settle most of what was claimed."""
        held = self.epochs[-1]
        for _ in range(40):
            if rng.random() < 0.2:
                held = self.epochs[-1]
            answer = await claim(ledger, self.campaign_id, held, rng.randint(1, 30), ends_in_s=0.05)
            self.outcomes[answer.outcome] += 1
            self.claimed.update((row.seq, row.attempt) for row in answer.rows)
            answered = [(row.seq, row.attempt) for row in answer.rows if rng.random() < 0.9]
            results = [self.result(seq, attempt, rng) for seq, attempt in rng.sample(answered, len(answered))]
            self.outcomes["settled"] += await recipients.settle(ledger, results, finished_claims=[])

    def result(self, seq: int, attempt: int, rng: Random) -> Settlement:
        return Settlement(
            campaign_id=self.campaign_id, seq=seq, attempt=attempt, wamid=f"wamid.{seq}.{attempt}",
            kind=rng.choice(["accepted", "refused", "returned", "returned", "returned", "unknown"]),
            reason=Reason.RELEASED, due_in_s=0.0, gives_back=True,
        )  # fmt: skip

    async def recover(self, ledger: Ledger) -> None:
        for turn in range(15):
            await ledger.run("free", "UPDATE number_leases SET owner = NULL")
            taken = await leases.take(ledger, phone_number_id=NUMBER, owner=uuid4(), lease_s=60, grace_s=2)
            assert taken is not None
            self.epochs.append(taken.epoch)
            self.outcomes["reclaimed"] += await recipients.reclaim(ledger)
            await ledger.run("age", AGE)
            await recipients.reconcile(ledger, patience_s=1e6 if turn % 3 else 0.0)

    async def aggregate(self, ledger: Ledger, rng: Random) -> None:
        for _ in range(40):
            known = rng.sample(sorted(self.claimed), min(len(self.claimed), 40))
            batch = [
                (
                    seq,
                    Events(
                        attempt=n, sent_s=rng.choice([None, 5]), failed_s=rng.choice([None, 7]), may_pass=True
                    ),
                )
                for seq, n in known
            ]
            await statuses.apply(ledger, [some_status(self.campaign_id, seq, e) for seq, e in batch])
            self.outcomes["statuses"] += len(batch)

    async def watch(self, ledger: Ledger) -> None:
        for _ in range(40):
            await counters_equal_rows(ledger, self.campaign_id)


async def test_whatever_runs_at_once_no_row_is_claimed_twice_and_the_counters_follow(
    database_url: str,
) -> None:
    async with (
        a_running_campaign(database_url, size=SIZE, on_unknown=OnUnknown.RESEND, tries_max=9) as (
            ledger,
            campaign_id,
            epoch,
        ),
        ledgers(database_url, 8) as eight,
    ):
        crowd = Crowd(campaign_id, epoch)
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(crowd.own(eight[n], Random(n)))
                group.create_task(crowd.aggregate(eight[3 + n], Random(10 + n)))
            group.create_task(crowd.recover(eight[6]))
            group.create_task(crowd.watch(eight[7]))

        print(crowd.outcomes)
        assert not [item for item, times in crowd.claimed.items() if times > 1]
        assert (
            min(crowd.outcomes[what] for what in ("claimed", "fenced", "settled", "statuses", "reclaimed"))
            > 0
        )
        await rows_as_they_are(ledger, crowd.campaign_id)
        await counters_equal_rows(ledger, crowd.campaign_id)
        assert await deadlocks(ledger) == 0


async def test_a_pause_is_not_starved_by_those_who_share_the_campaign(database_url: str) -> None:
    async with (
        a_running_campaign(database_url, size=SIZE) as (ledger, campaign_id, epoch),
        ledgers(database_url, 8) as eight,
    ):
        for _ in range(2):
            await claim(ledger, campaign_id, epoch, SIZE // 2)
        done = asyncio.Event()

        async def results(ours: Ledger, rng: Random) -> None:
            while not done.is_set():
                seqs = rng.sample(range(1, SIZE + 1), 40)
                await recipients.settle(
                    ours, [accepted(campaign_id, seq) for seq in seqs], finished_claims=[]
                )

        waits: list[float] = []
        async with asyncio.TaskGroup() as group:
            for n in range(8):
                group.create_task(results(eight[n], Random(n)))
            for _ in range(10):
                started = time.monotonic()
                await campaigns.move(ledger, campaign_id, CampaignState.PAUSED, actor="test")
                waits.append(time.monotonic() - started)
                await campaigns.move(ledger, campaign_id, CampaignState.RUNNING, actor="test")
            done.set()
        print(f"the longest of {len(waits)} pauses took {max(waits):.3f} s")
        assert max(waits) < 1.0
