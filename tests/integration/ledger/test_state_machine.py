"""Rows on the real Postgres against the pure transition table: any sequence of commands and events, equal after each step.

A run says how often each transition really happened, and fails if one that it is there for never did.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from contracts.campaign import CampaignState, OnUnknown, Reason
from ledger.pool import Ledger
from tests.integration.ledger.driven import NUMBERS, OPEN, SIZE, Driven, a_ledger, some_events, some_outcome

SEQUENCES = 60

MUST_HAPPEN = """
claim: pending → sending; claim: unknown → sending; claim: pending → suppressed; claim: unknown → given_up
claim: pending → failed; accepted: sending → accepted; accepted: unknown → accepted; accepted: given_up → accepted
accepted late; refused: sending → failed; refused: unknown → failed
returned: sending → pending; returned: sending → unknown; returned: sending → failed; returned: unknown → pending
returned: sending → cancelled; unknown: sending → unknown; reclaim: sending → unknown; resend: unknown → unknown
give up: unknown → given_up; status: sending → sent; status: sending → delivered; status: sending → pending
status: sending → failed; status: accepted → sent; status: accepted → pending; status: sent → delivered
status: delivered → read; status: unknown → sent; status: unknown → pending; status: pending → failed
status: pending → delivered; status: given_up → sent; status: given_up → pending; status: failed → delivered
status of an earlier attempt: sending → sending; status of an earlier attempt: sending → delivered
end: pending → cancelled; end: pending → expired; end: pending → failed; end: unknown → given_up
status that finds nothing; fenced; closed; completed; pause; resume; hand over; fall due
"""

# The steps: each is drawn with a seed of its own, so that leaving one out doesn't change the others.


async def claim(d: Driven, rng: Random) -> None:
    await d.claim(rng.choice(NUMBERS), rng.randint(1, 4), epoch_behind=rng.random() < 0.05)


async def fall_due_and_claim(d: Driven, rng: Random) -> None:
    await d.fall_due()
    await d.claim(rng.choice(NUMBERS), rng.randint(1, 3))


async def settle(d: Driven, rng: Random) -> None:
    items = sorted(d.unsettled)
    await d.settle(
        [(item, some_outcome(rng)) for item in rng.sample(items, min(len(items), rng.randint(1, 5)))]
    )


async def settle_once_more(d: Driven, rng: Random) -> None:
    await d.settle(rng.sample(d.settled, min(len(d.settled), 1)))


async def apply(d: Driven, rng: Random) -> None:
    batch = {}
    tried = [seq for seq, row in d.rows.items() if row.attempt_last]
    for seq in rng.choices(tried, k=rng.randint(1, 6) if tried else 0):
        current, last = d.rows[seq].attempt, d.rows[seq].attempt_last
        attempt = rng.choice([current, rng.randint(1, last)])
        batch[seq, attempt] = (seq, some_events(rng, attempt), True)
    await d.apply(list(batch.values()), retry_in_s=rng.choice([0.0, 7000.0]))


async def apply_what_finds_nothing(d: Driven, rng: Random) -> None:
    seq = rng.randint(1, SIZE)
    last = d.rows[seq].attempt_last
    # The same attempt from its own number and from another, in one batch.
    batch = [(seq, some_events(rng, last), True), (seq, some_events(rng, last), False)]
    batch += [(seq, some_events(rng, last + 1), True), (SIZE + 1, some_events(rng, 1), True)]
    await d.apply(rng.sample(batch, len(batch)))


async def hand_over(d: Driven, rng: Random) -> None:
    number = rng.choice(NUMBERS)
    d.epochs[number] = await d.taken(number)
    d.happened["hand over"] += 1


async def reclaim(d: Driven, rng: Random) -> None:
    await d.reclaim()


async def reconcile(d: Driven, rng: Random) -> None:
    await d.reconcile(
        proven=rng.random() < 0.7,
        patience_s=rng.choice([0.0, 1e6]),
        parked_for=rng.choice([None, rng.randint(1, SIZE)]),
    )


async def suppress(d: Driven, rng: Random) -> None:
    await d.suppress(rng.randint(1, SIZE), rng.choice([Reason.OPTED_OUT, Reason.BLOCKED]))


async def pause(d: Driven, rng: Random) -> None:
    if d.state is CampaignState.RUNNING:
        await d.move(CampaignState.PAUSED, "pause")


async def resume(d: Driven, rng: Random) -> None:
    if d.state is CampaignState.PAUSED:
        await d.move(CampaignState.RUNNING, "resume")


async def complete(d: Driven, rng: Random) -> None:
    if d.state is CampaignState.RUNNING:
        await d.complete(settle_s=rng.choice([0.0, 60.0]))


async def cancel(d: Driven, rng: Random) -> None:
    if d.state in OPEN:
        await d.move(CampaignState.CANCELLED, "cancel")


async def expire(d: Driven, rng: Random) -> None:
    await d.expire()


async def end_rows(d: Driven, rng: Random) -> None:
    await d.end_rows()


Step = Callable[[Driven, Random], Coroutine[Any, Any, None]]
OFTEN: dict[Step, int] = {
    claim: 8, fall_due_and_claim: 16, settle: 24, settle_once_more: 3, apply: 14, apply_what_finds_nothing: 1,
    hand_over: 1, reclaim: 3, reconcile: 10, suppress: 3, pause: 1, resume: 5, complete: 1, end_rows: 1,
}  # fmt: skip
AT_THE_END: dict[Step, int] = OFTEN | {cancel: 6, expire: 6, end_rows: 12}


Sequence = list[tuple[Step, int]]


def some_sequence(rng: Random) -> Sequence:
    steps = rng.choices(list(OFTEN), list(OFTEN.values()), k=40)
    steps += rng.choices(list(AT_THE_END), list(AT_THE_END.values()), k=15)
    return [(step, rng.getrandbits(32)) for step in steps]


async def failure_of(
    ledger: Ledger, sequence: Sequence, seed: int, happened: Counter[str]
) -> AssertionError | None:
    rng = Random(seed)
    driven = Driven(ledger, happened)
    await driven.start(on_unknown=rng.choice(list(OnUnknown)), tries_max=rng.randint(1, 3))
    try:
        for step, step_seed in sequence:
            await step(driven, Random(step_seed))
            await driven.compare()
    except AssertionError as error:
        return error
    return None


async def shortest_failure(ledger: Ledger, sequence: Sequence, seed: int) -> str:
    """Leave out every step without which it still fails."""
    for position in reversed(range(len(sequence))):
        shorter = sequence[:position] + sequence[position + 1 :]
        if await failure_of(ledger, shorter, seed, Counter()):
            sequence = shorter
    steps = [(step.__name__, step_seed) for step, step_seed in sequence]
    return f"seed {seed}: {steps}: {await failure_of(ledger, sequence, seed, Counter())}"


def test_any_sequence_leaves_the_rows_that_the_transition_table_says(database_url: str) -> None:
    happened: Counter[str] = Counter()
    with a_ledger(database_url) as (run, ledger):
        # Most sequences are the same in each run; the others are new, so that many runs see many.
        for seed in [*range(SEQUENCES), *(secrets.randbits(32) for _ in range(SEQUENCES // 4))]:
            sequence = some_sequence(Random(seed))
            if run.run(failure_of(ledger, sequence, seed, happened)):
                pytest.fail(run.run(shortest_failure(ledger, sequence, seed)))
    print("\n".join(f"{count:6} {what}" for what, count in sorted(happened.items())))
    required = [part.strip() for line in MUST_HAPPEN.strip().splitlines() for part in line.split(";")]
    assert not [what for what in required if not happened[what]]
