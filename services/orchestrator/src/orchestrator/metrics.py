"""What the orchestrator measures."""

from prometheus_client import Counter, Gauge

IS_LEADER = Gauge(
    "sluice_orchestrator_is_leader",
    "1 while this process leads. Sum over all must be 1; 0 for long: nobody acts.",
)
ROWS = Counter(
    "sluice_orchestrator_rows_total",
    "Rows acted on, by act. Reclaimed rising: senders die or stall; given_up rising: answers and statuses get lost.",
    ["act"],
)
FAILED_ROUNDS = Counter(
    "sluice_orchestrator_failed_rounds_total",
    "Rounds that Postgres or Kafka broke off. Rising: look there; nothing is lost meanwhile.",
)
for act in ("reclaimed", "resent", "given_up", "ended"):
    ROWS.labels(act)
