"""What the orchestrator measures."""

from prometheus_client import Counter, Gauge

from orchestrator.account import Kind

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
ACCOUNT_EVENTS = Counter(
    "sluice_orchestrator_account_events_total",
    "Events of account-events, by kind. Unreadable above 0: look at account-events.dlq, then replay it; template_other"
    " rising: Meta has a new word for a template's state, or one that stops nothing.",
    ["kind"],
)
PAUSED = Counter(
    "sluice_orchestrator_campaigns_paused_total",
    "Campaigns paused because of what Meta said, by what of. Rising: read the campaign's pause, it says what lifts it.",
    ["cause"],
)
for act in ("reclaimed", "resent", "given_up", "ended"):
    ROWS.labels(act)
for kind in Kind:
    ACCOUNT_EVENTS.labels(kind.value)
PAUSED.labels("template")
