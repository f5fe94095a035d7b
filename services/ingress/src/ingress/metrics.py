"""What ingress counts; each series exists from the start, at 0."""

from enum import StrEnum

from prometheus_client import Counter, Gauge, Histogram

from contracts.topics import ACCOUNT_EVENTS, INBOUND_MESSAGES, MESSAGE_STATUSES, OTHER_EVENTS, WEBHOOKS_DLQ


class Outcome(StrEnum):
    """What became of one request."""

    PUBLISHED = "published"
    UNPUBLISHED = "unpublished"
    FULL = "full"
    NOT_GENUINE = "not_genuine"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    GONE = "gone"
    CHALLENGED = "challenged"
    NOT_CHALLENGED = "not_challenged"
    NO_CHALLENGE = "no_challenge"
    NO_ROUTE = "no_route"


REQUESTS = Counter(
    "sluice_ingress_requests_total",
    "Requests by outcome. unpublished: look at the broker. full: add processes. not_genuine: app secrets, or a proxy "
    "that rewrites bodies.",
    ["outcome"],
)
ITEMS = Counter(
    "sluice_ingress_items_total",
    "Items acknowledged by the broker, by topic. webhooks.dlq rises: `sluice dead-letters list`, the format has changed.",
    ["topic"],
)
BYTES_IN_FLIGHT = Gauge(
    "sluice_ingress_in_flight_bytes",
    "Body bytes taken and not settled. Near inflight_bytes_max for long: the broker is slow, or processes are too few.",
)
PUBLISH_SECONDS = Histogram(
    "sluice_ingress_publish_seconds",
    "From a verified body to the last acknowledgement. Above 0.1 for long: look at the broker.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5),
)
GATHERED_STATUSES = Histogram(
    "sluice_ingress_gathered_statuses_count",
    "Statuses a record. At 1 it is calm; always at the top, acknowledgements are slow.",
    buckets=(1, 2, 5, 10, 25, 50, 100, 200),
)
WINDOW_FULL = Counter(
    "sluice_ingress_window_full_total",
    "Webhooks refused because the in-flight window was full; Meta repeats them. Rising: as for in_flight_bytes.",
)
LOAD_UNCOUNTED = Counter(
    "sluice_ingress_load_uncounted_total",
    "Messages of numbers beyond those whose load is counted. Rising: senders don't see that inbound traffic.",
)

REQUESTS_BY = {outcome: REQUESTS.labels(outcome.value) for outcome in Outcome}
for _topic in (INBOUND_MESSAGES, MESSAGE_STATUSES, ACCOUNT_EVENTS, OTHER_EVENTS, WEBHOOKS_DLQ):
    ITEMS.labels(_topic.name)
