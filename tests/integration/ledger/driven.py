"""One campaign, driven in Postgres and in the pure transition table alike; what happened is counted."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from uuid import UUID, uuid4

from contracts.campaign import CampaignState, OnUnknown, Reason, RecipientState
from contracts.contact import folded_phone
from contracts.status import CampaignRow
from ledger import campaigns, leases, recipients, states, statuses
from ledger.pool import Ledger
from ledger.recipients import Settlement
from ledger.states import Events, Row
from ledger.statuses import AttemptStatus, ParkedStatus
from tests.integration.ledger.campaigns_for_tests import (
    NUMBER,
    OUR_TIME_S,
    add_number,
    launch_campaign,
    rows_as_they_are,
)

OTHER = "100000000000002"
NUMBERS = (NUMBER, OTHER)
SIZE = 16
WAIT_S = 3600
PASSING = (131049, 131048)
FINAL = (131026, 131050, None)
OPEN = (CampaignState.RUNNING, CampaignState.PAUSED, CampaignState.COMPLETING)

Outcome = dict[str, Any]


class Driven:
    """One campaign on two numbers: what is done to it in Postgres, and the same done to the model."""

    def __init__(self, ledger: Ledger, happened: Counter[str]) -> None:
        self.ledger = ledger
        self.happened = happened
        self.rows: dict[int, Row] = {}
        self.claims: dict[UUID, set[tuple[int, int]]] = {}
        """The claims of which Postgres still has a batch, with all their rows."""
        self.unsettled: dict[tuple[int, int], UUID] = {}
        self.settled: list[tuple[tuple[int, int], Outcome]] = []
        self.suppressed: dict[int, Reason] = {}
        self.cursor = {NUMBER: 0, OTHER: SIZE // 2}
        self.end = {NUMBER: SIZE // 2, OTHER: SIZE}
        self.state = CampaignState.RUNNING
        self.is_valid = True
        self.returns: list[tuple[int, int, bool]] = []
        """Of each `returned`: whether it took effect."""

    async def start(self, *, on_unknown: OnUnknown, tries_max: int) -> None:
        for table in (
            "suppressions",
            "due",
            "unknown_rows",
            "claim_batches",
            "parked_statuses",
            "status_progress",
        ):
            await self.ledger.run("clean", f"DELETE FROM {table}")
        self.on_unknown, self.tries_max = on_unknown, tries_max
        self.campaign_id = await launch_campaign(
            self.ledger,
            size=SIZE,
            on_unknown=on_unknown,
            wait_s=WAIT_S,
            tries_max=tries_max,
            on_numbers=NUMBERS,
        )
        self.epochs = {number: await self.taken(number) for number in NUMBERS}
        self.rows = {seq: Row() for seq in range(1, SIZE + 1)}

    async def taken(self, number: str) -> int:
        await self.ledger.run(
            "free", "UPDATE number_leases SET owner = NULL WHERE phone_number_id = $1", number
        )
        lease = await leases.take(self.ledger, phone_number_id=number, owner=uuid4(), lease_s=3600, grace_s=2)
        assert lease is not None
        return lease.epoch

    @property
    def campaign(self) -> states.Campaign:
        return states.Campaign(
            is_open=self.state in OPEN,
            is_cancelled=self.state is CampaignState.CANCELLED,
            tries_max=self.tries_max,
        )

    def number_of(self, seq: int) -> str:
        return NUMBER if seq <= SIZE // 2 else OTHER

    def become(self, what: str, seq: int, after: Row) -> None:
        before = self.rows[seq]
        if after != before:
            self.happened[f"{what}: {before.state.value} → {after.state.value}"] += 1
        self.rows[seq] = after

    async def compare(self) -> None:
        found = await rows_as_they_are(self.ledger, self.campaign_id)
        wrong = {seq: (found[seq], self.rows[seq]) for seq in found if found[seq] != self.rows[seq]}
        assert not wrong, "\n".join(f"{seq}:\n  is     {a}\n  should {b}" for seq, (a, b) in wrong.items())

    async def claim(self, number: str, limit: int, *, epoch_behind: int = 0) -> None:
        ripe = {
            row["seq"]
            for row in await self.ledger.rows(
                "ripe",
                "SELECT seq FROM due WHERE campaign_id = $1 AND phone_number_id = $2 AND due_at <= clock_timestamp()",
                self.campaign_id, number,
            )
        }  # fmt: skip
        name = uuid4()
        answer = await recipients.claim(
            self.ledger, phone_number_id=number, epoch=self.epochs[number] - epoch_behind, campaign_id=self.campaign_id,
            limit=limit, name=name, ends_in_s=0,
        )  # fmt: skip
        due_count = min(limit, len(ripe))
        first = self.cursor[number] + 1
        last = min(self.cursor[number] + limit - due_count, self.end[number])
        is_open = self.state is CampaignState.RUNNING and self.is_valid
        nothing = (
            "fenced"
            if epoch_behind
            else "closed"
            if not is_open
            else "empty"
            if last < first and not ripe
            else ""
        )
        if nothing:
            assert (answer.outcome, answer.rows) == (nothing, ())
            self.happened[nothing] += 1
            return
        assert answer.outcome == "claimed"
        now_due = {
            seq for seq, row in (await rows_as_they_are(self.ledger, self.campaign_id)).items() if row.is_due
        }
        picked = {seq for seq in ripe if seq not in now_due}
        assert len(picked) == due_count
        self.cursor[number] = last
        for seq in picked | set(range(first, last + 1)):
            self.become("claim", seq, states.claimed(self.rows[seq], suppression=self.suppressed.get(seq)))
        sending = {
            seq
            for seq in picked | set(range(first, last + 1))
            if self.rows[seq].state is RecipientState.SENDING
        }
        expected = {(seq, self.rows[seq].attempt) for seq in sending}
        assert {(row.seq, row.attempt) for row in answer.rows} == expected
        assert {(s, a) for _, s, a in await recipients.claimed_under(self.ledger, name=name)} == expected
        if expected:
            self.claims[name] = expected
            self.unsettled |= dict.fromkeys(expected, name)

    async def settle(self, results: list[tuple[tuple[int, int], Outcome]]) -> None:
        names = {self.unsettled.pop(item) for item, _ in results if item in self.unsettled}
        finished = [name for name in names if name not in self.unsettled.values()]
        await recipients.settle(
            self.ledger,
            [
                Settlement(
                    campaign_id=self.campaign_id, seq=seq, attempt=attempt, kind=o["kind"],
                    wamid=f"wamid.{self.campaign_id}.{seq}.{attempt}" if o["kind"] == "accepted" else None,
                    code=o["code"],
                    reason=Reason.NO_ANSWER if o["kind"] == "unknown" else o["reason"], due_in_s=o["due_in_s"],
                    gives_back=o["kind"] == "returned" and o["gives_back"],
                )
                for (seq, attempt), o in results
            ],
            finished_claims=finished,
        )  # fmt: skip
        for name in finished:
            self.claims.pop(name, None)
        self.settled += results
        # What is late is noted before anything else of the batch counts.
        for (seq, attempt), outcome in sorted(results, key=lambda r: r[0][1] == self.rows[r[0][0]].attempt):
            row = self.rows[seq]
            after = self.after_result(row, attempt, outcome)
            if outcome["kind"] == "accepted" and attempt != row.attempt and after != row:
                self.happened["accepted late"] += 1
            if outcome["kind"] == "returned":
                self.returns.append((seq, attempt, after != row))
            self.become(outcome["kind"], seq, after)

    def after_result(self, row: Row, attempt: int, o: Outcome) -> Row:
        match o["kind"]:
            case "accepted":
                return states.accepted(row, attempt)
            case "refused":
                return states.refused(row, attempt, code=o["code"], now_s=OUR_TIME_S)
            case "unknown":
                return states.lost(row, attempt, Reason.NO_ANSWER)
        return states.returned(
            row,
            attempt,
            self.campaign,
            reason=o["reason"],
            code=o["code"],
            gives_back=o["gives_back"],
            now_s=OUR_TIME_S,
        )

    async def apply(self, batch: list[tuple[int, Events, bool]], *, retry_in_s: float = 0.0) -> None:
        """Apply statuses of (seq, events, whether they come from the row's number)."""
        unresolved = await statuses.apply(
            self.ledger,
            [
                AttemptStatus(
                    row=CampaignRow(self.campaign_id, seq, e.attempt),
                    phone_number_id=self.number_of(seq) if is_ours else "100000000000009",
                    sent_s=e.sent_s, delivered_s=e.delivered_s, read_s=e.read_s, failed_s=e.failed_s, code=e.code,
                    retry_in_s=retry_in_s if e.may_pass else None,
                )
                for seq, e, is_ours in batch
            ],
        )  # fmt: skip
        expected = []
        for position, (seq, e, is_ours) in enumerate(batch):
            row = self.rows.get(seq)
            if row is None or not is_ours or not 1 <= e.attempt <= row.attempt_last:
                expected.append(position)
                continue
            what = "status" if e.attempt == row.attempt else "status of an earlier attempt"
            self.become(what, seq, states.applied(row, e, self.campaign))
        assert unresolved == expected
        self.happened["status that finds nothing"] += len(expected)

    async def reclaim(self) -> None:
        moved = await recipients.reclaim(self.ledger)
        before = dict(self.rows)
        for seq, attempt in (item for items in self.claims.values() for item in items):
            self.become("reclaim", seq, states.lost(self.rows[seq], attempt, Reason.RECLAIMED))
        self.claims.clear()
        assert moved == sum(before[seq] != row for seq, row in self.rows.items())

    async def reconcile(self, *, proven: bool, patience_s: float, parked_for: int | None) -> None:
        await self.ledger.run("age", "UPDATE unknown_rows SET since = since - interval '2 h'")
        await self.ledger.run("progress", "DELETE FROM status_progress")
        if proven:
            await statuses.note_overdue(self.ledger, end_offsets={0: 5})
            await statuses.reach_notes(self.ledger, committed={0: 5})
            await self.ledger.run(
                "progress",
                "INSERT INTO status_progress SELECT phone_number_id, clock_timestamp() FROM numbers",
            )
        if parked_for is not None:
            parked = ParkedStatus(
                wamid="wamid.parked", phone_number_id=self.number_of(parked_for),
                recipient=folded_phone(f"+447700900{parked_for:03}"), sent_s=1,
            )  # fmt: skip
            assert await statuses.park(self.ledger, [parked], parked_max=10) == 0
        counts = await recipients.reconcile(self.ledger, patience_s=patience_s)
        await self.ledger.run("unpark", "DELETE FROM parked_statuses")
        expected = [0, 0]
        for seq, row in self.rows.items():
            if row.state is not RecipientState.UNKNOWN or row.is_due:
                continue
            wanted = (
                self.on_unknown is OnUnknown.RESEND and self.campaign.is_open and self.is_valid
                and row.tries < self.tries_max
            )  # fmt: skip
            if wanted and proven and seq != parked_for:
                self.become("resend", seq, states.resend_due(row))
                expected[0] += 1
            elif not wanted or patience_s == 0:
                reason = Reason.NO_LATER_STATUS if wanted else Reason.SILENT
                self.become("give up", seq, states.given_up(row, reason))
                expected[1] += 1
        assert list(counts) == expected

    async def end_rows(self) -> None:
        before = dict(self.rows)
        ended = await recipients.end_rows(self.ledger, campaign_id=self.campaign_id, after_seq=0, span=SIZE)
        if self.state is CampaignState.CANCELLED or (self.state in OPEN and not self.is_valid):
            for seq, row in self.rows.items():
                self.become("end", seq, states.ended(row, self.campaign))
        assert ended == sum(before[seq] != row for seq, row in self.rows.items())

    async def move(self, to: CampaignState, what: str) -> None:
        assert await campaigns.move(self.ledger, self.campaign_id, to, actor="test")
        self.state = to
        self.happened[what] += 1

    async def complete(self, *, settle_s: float) -> None:
        await self.move(CampaignState.COMPLETING, "completing")
        answer = await campaigns.complete(self.ledger, self.campaign_id, settle_s=settle_s)
        found = {row.state.value for row in self.rows.values()}
        if found & {"pending", "deferred", "sending", "unknown"}:
            assert answer is CampaignState.RUNNING
        elif settle_s == 0 or "accepted" not in found:
            assert answer is CampaignState.COMPLETED
            self.happened["completed"] += 1
        else:
            assert answer is None
            await self.move(CampaignState.RUNNING, "resume")
        self.state = answer or self.state

    async def suppress(self, seq: int, reason: Reason) -> None:
        await self.ledger.run(
            "suppress",
            "INSERT INTO suppressions (contact_id, reason, source)"
            " SELECT contact_id, $3, 'test' FROM recipients WHERE campaign_id = $1 AND seq = $2 ON CONFLICT DO NOTHING",
            self.campaign_id, seq, reason.value,
        )  # fmt: skip
        self.suppressed.setdefault(seq, reason)

    async def fall_due(self) -> None:
        self.happened["fall due"] += await self.ledger.run(
            "fall_due", "UPDATE due SET due_at = due_at - interval '2 h' WHERE due_at > clock_timestamp()"
        )

    async def expire(self) -> None:
        await self.ledger.run(
            "expire",
            "UPDATE campaigns SET valid_until = clock_timestamp() WHERE campaign_id = $1",
            self.campaign_id,
        )
        self.is_valid = False


def some_events(rng: Random, attempt: int) -> Events:
    failed_s = rng.choice([None, rng.randint(1, 9)])
    code = None if failed_s is None else rng.choice(PASSING + FINAL)
    return Events(
        attempt=attempt,
        sent_s=rng.choice([None, rng.randint(1, 9)]),
        delivered_s=rng.choice([None] * 14 + [rng.randint(1, 9)]),
        read_s=rng.choice([None] * 20 + [rng.randint(1, 9)]),
        failed_s=failed_s,
        code=code,
        may_pass=code in PASSING,
    )


def some_outcome(rng: Random) -> Outcome:
    return {
        "kind": rng.choice(["accepted", "accepted", "refused", "returned", "returned", "unknown", "unknown"]),
        "reason": rng.choice([Reason.THROTTLED, Reason.RELEASED]),
        "code": rng.choice([None, 130429]),
        "gives_back": rng.random() < 0.7,
        "due_in_s": rng.choice([0.0, 0.0, 7000.0]),
    }


@contextmanager
def a_ledger(database_url: str) -> Iterator[tuple[asyncio.Runner, Ledger]]:
    """A loop and a pool for all examples; commits don't wait for the disk: what they leave is the same."""
    with asyncio.Runner() as run:
        opening = Ledger.open(f"{database_url}?options=-csynchronous_commit%3Doff", shard=1)
        ledger = run.run(opening.__aenter__())
        try:
            for number in NUMBERS:
                run.run(add_number(ledger, number))
            yield run, ledger
        finally:
            run.run(opening.__aexit__(None, None, None))
