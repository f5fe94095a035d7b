"""What the ledger measures of itself."""

from prometheus_client import Counter, Histogram

CONNECTION_WAIT = Histogram(
    "sluice_ledger_connection_wait_seconds",
    "Time a caller waited for a connection. Rising: more callers than connections; look at slow statements first.",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2.0),
)
STATEMENT = Histogram(
    "sluice_ledger_statement_seconds",
    "Time of a statement, by its name. Rising for one name: read its plan; rising for all: the database is busy.",
    ["name"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0),
)
UNAVAILABLE = Counter(
    "sluice_ledger_unavailable_total",
    "Statements that failed because the database was away, busy or timed out. Rising: look at the database.",
    ["name"],
)
