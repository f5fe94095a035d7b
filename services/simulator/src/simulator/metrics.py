"""What the simulator counts for Prometheus; the exact account is its report."""

from prometheus_client import Counter, Gauge

POSTS_TOTAL = Counter(
    "sluice_simulator_posts_total",
    "POSTs to /messages by HTTP status of the answer (0: none). Many without 200 outside fault tests: read the report.",
    ["http_status"],
)
WEBHOOK_POSTS_TOTAL = Counter(
    "sluice_simulator_webhook_posts_total",
    "Webhook POSTs by outcome. Many unreachable or non_200: the webhook is down or refuses the signature.",
    ["outcome"],
)
WEBHOOKS_PENDING = Gauge(
    "sluice_simulator_webhooks_pending",
    "Updates not yet answered 200. Growing: the webhook does not keep up.",
)
for _outcome in ("acked", "non_200", "unreachable", "gave_up"):
    WEBHOOK_POSTS_TOTAL.labels(_outcome)
