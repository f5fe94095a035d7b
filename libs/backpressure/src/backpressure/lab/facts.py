"""What a run must show, whatever the machine: the sentences under the table, each held against the figures."""

from collections.abc import Mapping
from dataclasses import dataclass

from backpressure.lab.bench import TICK_S
from backpressure.lab.load import Load
from backpressure.lab.meter import Summary

MIB = 2**20
SLACK_BYTES = 4 * MIB
"""What the interpreter itself may come to hold in a run, beside the messages."""
MESSAGE_OVERHEAD_BYTES = 1_024


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence with its figures, and whether they bear it out."""

    text: str
    holds: bool


def memory_max_bytes(load: Load) -> int:
    """Return what a bounded strategy may grow by: the messages it may hold, and some slack."""
    held = max(load.credit, load.capacity)
    return held * (load.payload_bytes + MESSAGE_OVERHEAD_BYTES) + SLACK_BYTES


def facts(load: Load, summaries: Mapping[str, Summary]) -> list[Fact]:
    """Return what there is to see in a run of all strategies."""
    return [
        _unbounded(load, summaries["unbounded"]),
        _bounded(load, summaries),
        _stop_and_wait(load, summaries["stop-and-wait"]),
        _credit_window(load, summaries["credit window"]),
        _shedding(summaries),
    ]


def _unbounded(load: Load, summary: Summary) -> Fact:
    overload = (load.producer_per_s - load.consumer_per_s) * summary.seconds
    grown = summary.memory_growth_bytes
    return Fact(
        f"Unbounded: {summary.last.waiting:,} messages wait after {summary.seconds:.0f} s (the overload alone makes"
        f" {overload:,.0f}), and {grown / MIB:.0f} MiB of memory went with them.",
        summary.last.waiting > 0.8 * overload and grown > 0.7 * summary.last.waiting * load.payload_bytes,
    )


def _bounded(load: Load, summaries: Mapping[str, Summary]) -> Fact:
    most = max(s.memory_growth_bytes for name, s in summaries.items() if name != "unbounded")
    allowed = memory_max_bytes(load)
    return Fact(
        f"All others stay within {allowed / MIB:.1f} MiB, stated before the run; the most that any grew is"
        f" {most / MIB:.1f} MiB.",
        most <= allowed,
    )


def _stop_and_wait(load: Load, summary: Summary) -> Fact:
    allowed = load.stop_and_wait_per_s
    return Fact(
        f"Stop-and-wait handles {summary.handled_per_s:.1f} a second where the round trip allows {allowed:.1f};"
        f" late answers: {summary.last.late_answers}, none of them taken for another's.",
        # Three wake-ups a message: a busy machine makes each a little late. In virtual time it is exact.
        0.4 * allowed <= summary.handled_per_s <= 1.25 * allowed and summary.waiting_max <= 1,
    )


def _credit_window(load: Load, summary: Summary) -> Fact:
    share = summary.handled_per_s / load.consumer_per_s
    text = f"The credit window handles {share:.1%} of what the consumer can, with at most {summary.waiting_max} of its"
    text += f" {load.credit} credits in flight"
    if load.low_water * load.service_s >= load.round_trip_s + TICK_S:
        return Fact(f"{text}.", share >= 0.9 and summary.waiting_max <= load.credit)
    return Fact(
        f"{text}: what is left at its low mark lasts for less than the round trip, so the consumer runs dry, and more than"
        f" {load.credit_window_per_s:.0f} a second can't be.",
        summary.handled_per_s <= 1.1 * load.credit_window_per_s and summary.waiting_max <= load.credit,
    )


def _shedding(summaries: Mapping[str, Summary]) -> Fact:
    lasts = [summary.last for summary in summaries.values()]
    return Fact(
        "Offered = kept + rejected + dropped, in every row.",
        all(last.offered == last.kept + last.rejected + last.dropped for last in lasts),
    )
