"""What the status aggregator measures."""

from prometheus_client import Counter, Gauge, Histogram

STATUSES = Counter(
    "sluice_status_aggregator_statuses_total",
    "Statuses by what became of them. Foreign: another application's, left alone. Unknown_word rising: Meta has a new"
    " status. Dead_lettered: look at the dead letters.",
    ["disposition"],
)
MESSAGES = Counter(
    "sluice_status_aggregator_messages_total",
    "Messages in bulk updates, folded from their statuses. Unresolved: rows dropped by retention, or a number that"
    " isn't the row's. Park_refused: the parking is full and statuses get lost, raise parked_max.",
    ["outcome"],
)
FLUSH_SECONDS = Histogram(
    "sluice_status_aggregator_flush_seconds",
    "Time to make one batch durable. Near flush_deadline_s: the database is too slow, and the process will end.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20),
)
FLUSH_RETRIES = Counter(
    "sluice_status_aggregator_flush_retries_total",
    "Writes begun again because Postgres or the broker was away. Steadily rising: look at both.",
)
LAST_BATCH = Gauge(
    "sluice_status_aggregator_last_batch_timestamp_seconds",
    "When the last batch became durable, Unix seconds. Standing still while the group lags: restart the process.",
)
PARKED_JOINED = Counter(
    "sluice_status_aggregator_parked_joined_total",
    "Parked messages that found their row. Never, though many are parked: they are another application's.",
)
PARKED_FORGOTTEN = Counter(
    "sluice_status_aggregator_parked_forgotten_total",
    "Parked messages dropped after their time. Expected of another application's messages, else statuses are lost.",
)

for _disposition in ("folded", "foreign", "unsupported_target", "unknown_word", "dead_lettered"):
    STATUSES.labels(_disposition)
for _outcome in ("applied", "unresolved", "parked", "park_refused"):
    MESSAGES.labels(_outcome)
