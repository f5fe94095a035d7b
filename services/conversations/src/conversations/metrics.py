"""What conversations measures."""

from prometheus_client import Counter, Gauge, Histogram

SEEN = Counter(
    "sluice_conversations_seen_total",
    "Messages offered to the inbox, by what it made of them. Foreign numbers rising: an app sends us another's traffic,"
    " or a number was not connected; connect it and replay the dead letters.",
    ["outcome"],
)
SEEN_BATCH = Histogram(
    "sluice_conversations_seen_batch_messages",
    "Messages written into the inbox by one statement. Always at the top: raise concurrency or add processes.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
)
HANDLED = Counter(
    "sluice_conversations_handled_total", "Messages handled. Flat while messages come: look at the ledger."
)
SET_ASIDE = Counter(
    "sluice_conversations_set_aside_total",
    "Messages that could not be handled, kept in the inbox with their fault. Above 0: read the fault, it is a bug.",
)
CONSENTS = Counter(
    "sluice_conversations_consents_total",
    "Opt-outs and opt-ins by message. Opt-outs rising: look at what the campaigns of the hour say.",
    ["consent"],
)
EVENTS = Counter(
    "sluice_conversations_events_total",
    "Events for conversation-events, by what became of them. Untold rising: the broker does not acknowledge;"
    " retold rising: processes die or stall between commit and publication.",
    ["outcome"],
)
LANES_DUE = Gauge(
    "sluice_conversations_lanes_due",
    "Contacts with messages that are due, in all processes. Rising: add processes.",
)
OVERDUE_SECONDS = Gauge(
    "sluice_conversations_overdue_seconds",
    "How long the longest of them is due. Above a second for long: add processes.",
)
UNTOLD = Gauge(
    "sluice_conversations_untold_events", "Events in the outbox. Rising: the broker does not acknowledge."
)

for _outcome in ("seen", "duplicate", "foreign_number"):
    SEEN.labels(_outcome)
for _outcome in ("told", "retold", "untold"):
    EVENTS.labels(_outcome)
for _consent in ("opted_out", "opted_in"):
    CONSENTS.labels(_consent)
