"""What the witness testifies: the summary of a run, taken from its records and counters and nothing else."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from simulator.throughput import Throughput
from simulator.world import World

ROWS_PER_CHUNK = 500


class NumberReport(Struct, frozen=True):
    """One number. Largest seconds are half-open sliding ones; the mean is accepted per second between the first
    and the last."""

    phone_number_id: str
    waba_id: str
    limit_per_s: int
    arrivals: int
    accepted: int
    throttled: int
    inbound: int
    arrivals_largest_second: int
    accepted_largest_second: int
    load_largest_second: int
    accepted_mean_per_s: float
    accepted_span_s: float


class Report(Struct, frozen=True):
    """The whole run but its rows. `outcomes` counts POSTs by behaviour, or by code where one was refused."""

    seed: int
    messages: int
    accepted: int
    inbound: int
    read_marks: int
    unrecorded: int
    outcomes: dict[str, int]
    numbers: tuple[NumberReport, ...]
    webhooks: dict[str, int]
    journeys_pending: int
    updates_pending: int


def report(world: World, *, seed: int, webhooks: Struct, updates_pending: int) -> Report:
    """The summary as of now."""
    numbers = tuple(
        _number(world.throughputs[number.phone_number_id], number.phone_number_id, number.waba_id)
        for number in world.numbers.values()
    )
    return Report(
        seed=seed,
        messages=len(world.messages),
        accepted=sum(number.accepted for number in numbers),
        inbound=len(world.inbound),
        read_marks=world.read_marks,
        unrecorded=world.unrecorded,
        outcomes=dict(sorted(world.outcomes.items())),
        numbers=numbers,
        webhooks=msgspec.to_builtins(webhooks),
        journeys_pending=world.journeys_count,
        updates_pending=updates_pending,
    )


def _number(throughput: Throughput, phone_number_id: str, waba_id: str) -> NumberReport:
    accepted = throughput.accepted
    return NumberReport(
        phone_number_id=phone_number_id,
        waba_id=waba_id,
        limit_per_s=throughput.limit_per_s,
        arrivals=throughput.arrivals.total,
        accepted=accepted.total,
        throttled=throughput.throttled,
        inbound=throughput.inbound,
        arrivals_largest_second=throughput.arrivals.largest,
        accepted_largest_second=accepted.largest,
        load_largest_second=throughput.load.largest,
        accepted_mean_per_s=round(accepted.mean_per_s(), 3),
        accepted_span_s=round((accepted.last or 0.0) - (accepted.first or 0.0), 6),
    )


def ndjson_chunks(rows: Sequence[Any], offset: int, limit: int | None) -> Iterator[bytes]:
    """The rows from `offset` on, at most `limit`, a JSON object a line; rows added meanwhile are left out."""
    encoder = msgspec.json.Encoder()
    end = len(rows) if limit is None else min(len(rows), offset + limit)
    for start in range(offset, end, ROWS_PER_CHUNK):
        yield b"".join(encoder.encode(row) + b"\n" for row in rows[start : min(start + ROWS_PER_CHUNK, end)])
