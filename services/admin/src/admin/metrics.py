"""What admin counts."""

from enum import StrEnum

from prometheus_client import Counter, Histogram


class RowOutcome(StrEnum):
    """What became of a row of an imported file."""

    ADDED = "added"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"


REQUESTS = Counter(
    "sluice_admin_requests_total",
    "Requests by route and class of status. 5xx: read the log; with 503 look at Postgres. 4xx on none: a lost client.",
    ["route", "status"],
)
REQUEST_SECONDS = Histogram(
    "sluice_admin_request_seconds",
    "From request to the end of the answer. Slow status routes: look at sluice_ledger_statement_seconds.",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300),
)
IMPORT_ROWS = Counter(
    "sluice_admin_import_rows_total",
    "Rows of imported files. Many rejected: the report names reasons and lines; mend the export that made the file.",
    ["outcome"],
)
IMPORTS_FAILED = Counter(
    "sluice_admin_imports_failed_total",
    "Imports that changed nothing: refused, cut, or the database was away. Rising: read import.failed in the log.",
)

for _outcome in RowOutcome:
    IMPORT_ROWS.labels(_outcome.value)


def declare_route(name: str) -> None:
    """Show a route's series from the start, at 0."""
    REQUEST_SECONDS.labels(name)
    for status in ("2xx", "4xx", "5xx"):
        REQUESTS.labels(name, status)
