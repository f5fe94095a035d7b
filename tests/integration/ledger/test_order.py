"""For a given sequence of our commands as they took effect, the row doesn't depend on how the provider's events arrive."""

from collections import Counter
from random import Random
from typing import Any

from msgspec.structs import replace

from contracts.campaign import CampaignState, OnUnknown
from ledger.pool import Ledger
from ledger.states import Events, Row
from tests.integration.ledger.campaigns_for_tests import rows_as_they_are
from tests.integration.ledger.driven import NUMBERS, Driven, a_ledger, some_events, some_outcome

EXAMPLES = 40
LENGTH = 14
COMMANDS = ["claim"] * 5 + ["settle"] * 6 + ["reclaim", "resend", "resend", "give up", "complete", "cancel"]
Event = tuple[int, Events]
Trace = list[Any]


async def command(d: Driven, what: str, rng: Random) -> None:
    match what:
        case "claim":
            await d.fall_due()
            await d.claim(rng.choice(NUMBERS), rng.randint(2, 6))
        case "settle":
            items = sorted(d.unsettled)
            count = min(len(items), rng.randint(1, 6))
            await d.settle([(item, some_outcome(rng)) for item in rng.sample(items, count)])
        case "reclaim":
            await d.reclaim()
        case "resend" | "give up":
            await d.reconcile(proven=what == "resend", patience_s=0.0, parked_for=None)
        case "complete" if d.state is CampaignState.RUNNING:
            await d.complete(settle_s=0.0)
        case "cancel" if d.state is CampaignState.RUNNING and rng.random() < 0.3:
            await d.move(CampaignState.CANCELLED, "cancel")
            await d.end_rows()


async def run_through(
    ledger: Ledger, seed: int, arrivals: dict[int, list[list[Event]]], happened: Counter[str]
) -> tuple[Trace, Driven]:
    """Follow the commands of a seed; before the n-th of them the batches `arrivals[n]` are applied. Return what they did."""
    rng = Random(seed)
    d = Driven(ledger, happened)
    await d.start(on_unknown=rng.choice(list(OnUnknown)), tries_max=rng.randint(1, 3))
    trace: Trace = []
    for position in range(LENGTH + 1):
        for batch in arrivals.get(position, []):
            await d.apply([(seq, e, True) for seq, e in batch], retry_in_s=0.0)
        if position < LENGTH:
            await command(d, rng.choice(COMMANDS), Random(f"{seed} {position}"))
        trace.append(
            (d.state, list(d.returns), [(r.attempt, r.attempt_last, r.tries) for r in d.rows.values()])
        )
    return trace, d


def batches(events: list[Event], rng: Random) -> list[list[Event]]:
    """Shuffle events, and cut them into batches; those of one attempt in one batch are folded, as the aggregator does."""
    found: list[list[Event]] = []
    rest = rng.sample(events, len(events))
    while rest:
        count = rng.randint(1, len(rest))
        folded: dict[tuple[int, int], Event] = {}
        for seq, e in rest[:count]:
            key = (seq, e.attempt)
            folded[key] = (seq, merged(folded[key][1], e) if key in folded else e)
        found.append(rng.sample(list(folded.values()), len(folded)))
        rest = rest[count:]
    return found


def merged(a: Events, b: Events) -> Events:
    def least(x: int | None, y: int | None) -> int | None:
        return min((v for v in (x, y) if v is not None), default=None)

    def failure(e: Events) -> tuple[float, float]:
        if e.failed_s is None:
            return (float("inf"), 0)
        return (e.failed_s, float("inf") if e.code is None else e.code)

    winner = min(a, b, key=failure)
    return Events(
        attempt=a.attempt, sent_s=least(a.sent_s, b.sent_s), delivered_s=least(a.delivered_s, b.delivered_s),
        read_s=least(a.read_s, b.read_s), failed_s=winner.failed_s, code=winner.code, may_pass=winner.may_pass,
    )  # fmt: skip


async def rows_of(d: Driven) -> dict[int, Row]:
    """The rows as they are; an earlier attempt's reason is not what the row shows, and its failure decides if it returns."""
    rows = await rows_as_they_are(d.ledger, d.campaign_id)
    return {
        seq: replace(row, earlier={n: replace(e, reason=None) for n, e in row.earlier.items()})
        for seq, row in rows.items()
    }


def first_positions(trace: Trace) -> dict[tuple[int, int], int]:
    """Before which command, at the earliest, a status of each attempt can come."""
    first: dict[tuple[int, int], int] = {}
    for position, (_, _, rows) in enumerate(trace):
        for seq, (_, last, _) in enumerate(rows, start=1):
            for attempt in range(1, last + 1):
                first.setdefault((seq, attempt), position + 1)
    return first


async def example(ledger: Ledger, seed: int, happened: Counter[str]) -> None:
    rng = Random(f"events {seed}")
    trace, d = await run_through(ledger, seed, {}, happened)
    first = first_positions(trace)
    events = [(seq, some_events(rng, n)) for seq, n in sorted(first) for _ in range(rng.randint(0, 3))]
    for batch in batches(events, rng):
        await d.apply([(seq, e, True) for seq, e in batch])
    expected = await rows_of(d)

    # All at the end, in another order, some twice or three times.
    again, d = await run_through(ledger, seed, {}, happened)
    assert again == trace
    for batch in batches(
        events + rng.sample(events, len(events) // 2) + rng.sample(events, len(events) // 3), rng
    ):
        await d.apply([(seq, e, True) for seq, e in batch])
    assert await rows_of(d) == expected, seed

    # Some of them, each time others, as early as they can come; then all of them once more.
    for _ in range(2):
        early = [(seq, e) for seq, e in events if rng.random() < 0.3]
        arriving: dict[int, list[Event]] = {}
        for seq, e in early:
            arriving.setdefault(rng.randint(first[seq, e.attempt], LENGTH), []).append((seq, e))
        arrivals = {position: batches(found, rng) for position, found in arriving.items()}
        interleaved, d = await run_through(ledger, seed, arrivals, happened)
        if interleaved != trace:
            happened["the commands did something else"] += 1
            continue
        happened["the commands did the same"] += 1
        happened["events that came early"] += len(early)
        for batch in batches(events, rng):
            await d.apply([(seq, e, True) for seq, e in batch])
        assert await rows_of(d) == expected, seed


def test_the_order_repetition_and_batching_of_statuses_leave_the_same_rows(database_url: str) -> None:
    happened: Counter[str] = Counter()
    with a_ledger(database_url) as (run, ledger):
        for seed in range(EXAMPLES):
            run.run(example(ledger, seed, happened))
    print("\n".join(f"{count:6} {what}" for what, count in sorted(happened.items())))
    assert happened["the commands did the same"] > EXAMPLES / 4
    assert happened["events that came early"] > EXAMPLES
