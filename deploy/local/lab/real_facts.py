"""What the run on a real Kafka must show: the sentences under its table, each held against the samples."""

from collections.abc import Sequence

from backpressure.lab.facts import MIB, Fact
from deploy.local.lab.consumer import INFLIGHT_MAX
from deploy.local.lab.real import FROZEN, PAUSED, WARMING_UP, WINDOW_REQUESTS_MAX, RealSample

GROWTH_MAX_BYTES = 24 * MIB
"""What ingress and the consumer may each grow by after the warm-up: their windows, and what an interpreter takes."""


def real_facts(samples: Sequence[RealSample]) -> list[Fact]:
    """Return what there is to see in a whole run."""
    return [_paused(samples), _frozen(samples), _memory(samples), _nothing_lost(samples)]


def during(samples: Sequence[RealSample], phase: str) -> list[RealSample]:
    return [sample for sample in samples if sample.phase == phase]


def growth_bytes(samples: Sequence[RealSample]) -> tuple[int, int]:
    """Return the most by which ingress and the consumer grew after the warm-up."""
    counted = [sample for sample in samples if sample.phase != WARMING_UP]
    return (
        max(sample.ingress_bytes for sample in counted) - counted[0].ingress_bytes,
        max(sample.consumer_bytes for sample in counted) - counted[0].consumer_bytes,
    )


def _paused(samples: Sequence[RealSample]) -> Fact:
    first, *_, last = during(samples, PAUSED)
    accepted = last.accepted - first.accepted
    return Fact(
        f"Consumer paused: ingress answers 200 to {accepted:,} more, the lag on the broker grows to {last.lag:,} records,"
        f" and the consumer holds {last.in_flight} of them (at most {INFLIGHT_MAX}), with {last.paused_partitions}"
        " partitions paused.",
        accepted > 0 and last.lag > 0.5 * accepted and last.in_flight <= INFLIGHT_MAX,
    )


def _frozen(samples: Sequence[RealSample]) -> Fact:
    first, *_, last = during(samples, FROZEN)
    refused, accepted = last.refused - first.refused, last.accepted - first.accepted
    return Fact(
        f"Broker frozen: {refused:,} webhooks get 503 at once, because {WINDOW_REQUESTS_MAX} are already in the window;"
        f" {accepted} get 200. The sender keeps what it has.",
        refused > accepted,
    )


def _memory(samples: Sequence[RealSample]) -> Fact:
    ingress, consumer = growth_bytes(samples)
    return Fact(
        f"Through all of it ingress grows by {ingress / MIB:.1f} MiB and the consumer by {consumer / MIB:.1f} MiB"
        f" (allowed: {GROWTH_MAX_BYTES // MIB} each).",
        max(ingress, consumer) <= GROWTH_MAX_BYTES,
    )


def _nothing_lost(samples: Sequence[RealSample]) -> Fact:
    last = samples[-1]
    return Fact(
        f"Nothing is lost: {last.made:,} webhooks made, {last.accepted:,} answered 200, {last.handled:,} handled.",
        last.made == last.accepted == last.handled,
    )
