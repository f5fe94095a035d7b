"""What every consumer and producer reports, under the same names everywhere; each series exists from the start, at 0."""

from collections.abc import Iterator

from prometheus_client import Counter, Gauge, Histogram

from backpressure.batch import Trigger
from kafkaio.disposition import DeadLetterReason, DropReason, RetryReason

RECORDS = Counter(
    "sluice_consumer_records_total",
    "Records by what became of them. Dead letters rise: read them (`sluice dead-letters`), fix, replay.",
    ["group", "disposition", "reason"],
)
PROCESSING = Histogram(
    "sluice_consumer_processing_seconds",
    "One attempt at one record. Slow: look at what the handler waits for (database, peer).",
    ["group"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
)
IN_FLIGHT = Gauge(
    "sluice_consumer_in_flight_records",
    "Records taken and not settled. At its limit: partitions pause.",
    ["group"],
)
PAUSED = Gauge(
    "sluice_consumer_paused_partitions",
    "Partitions not fetched because the service is full. For long: add processes or look at the slowest handler.",
    ["group"],
)
LAG_RECORDS = Gauge(
    "sluice_consumer_lag_records",
    "Records on the topic that are not settled. Growing: too few processes, or one is stuck.",
    ["group", "topic"],
)
LAG_SECONDS = Gauge(
    "sluice_consumer_lag_seconds",
    "Age of the oldest record taken and not settled. Growing: as for lag in records.",
    ["group", "topic"],
)
COMMIT_AGE = Gauge(
    "sluice_consumer_commit_age_seconds",
    "Time since offsets were last stored while there were some to store. Growing: the broker refuses commits.",
    ["group"],
)
BATCH_SIZE = Histogram(
    "sluice_consumer_batch_size_records",
    "Records taken at once, by what ended the batch: its size, the wait for more, or a stop. Mostly `size`: the consumer is"
    " behind.",
    ["group", "trigger"],
    buckets=(1, 10, 50, 100, 250, 500),
)
REBALANCES = Counter(
    "sluice_consumer_rebalances_total",
    "Times the partitions were given out anew. Often: members come and go, look at restarts and session time-outs.",
    ["group"],
)
PRODUCER_PENDING = Gauge(
    "sluice_producer_pending_records",
    "Records sent and not yet acknowledged. At its limit: callers are refused or wait.",
)
PRODUCER_REBUILDS = Counter(
    "sluice_producer_rebuilds_total",
    "Times the producer was given up and built anew. Rising: the broker doesn't answer.",
)
PRODUCER_FAILURES = Counter(
    "sluice_producer_failures_total",
    "Sends that ended without an acknowledgement. Rising: look at the broker.",
)


def _dispositions() -> Iterator[tuple[str, str]]:
    yield "done", ""
    yield from (("retry", reason) for reason in RetryReason)
    yield from (("dead_letter", reason) for reason in DeadLetterReason)
    yield from (("drop", reason) for reason in DropReason)


def precreate(group: str, topics: tuple[str, ...]) -> None:
    """Let each series of one consumer exist, so that alerts can tell 0 from absent."""
    for disposition, reason in _dispositions():
        RECORDS.labels(group, disposition, reason)
    for metric in (IN_FLIGHT, PAUSED, COMMIT_AGE, PROCESSING, REBALANCES):
        metric.labels(group)
    for trigger in Trigger:
        BATCH_SIZE.labels(group, trigger)
    for topic in topics:
        LAG_RECORDS.labels(group, topic)
        LAG_SECONDS.labels(group, topic)


def observe_batch(group: str, records_count: int, records_max: int) -> None:
    """Count what was taken at once, of at most `records_max`."""
    trigger = Trigger.SIZE if records_count >= records_max else Trigger.LINGER
    BATCH_SIZE.labels(group, trigger).observe(records_count)
