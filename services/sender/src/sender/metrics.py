"""What the sender measures."""

from prometheus_client import Counter, Gauge, Histogram

OUTCOMES = Counter(
    "sluice_sender_outcomes_total",
    "Outcomes of POSTs. Unknown rising: answers get lost, look at the network; throttled rising: the setting is too"
    " near the limit, or a template or account is held back.",
    ["outcome", "scope"],
)
RELEASED = Counter(
    "sluice_sender_released_total",
    "Claimed rows that went back unsent, by why. Stale rising: the process has too little CPU for its numbers.",
    ["why"],
)
TOKEN_WAIT = Histogram(
    "sluice_sender_token_wait_seconds",
    "Time a ready row waited for its number's token. It is the pace itself; zero all the time means too little work.",
    buckets=(0.001, 0.005, 0.01, 0.02, 0.05, 0.2, 1.0),
)
POST_SECONDS = Histogram(
    "sluice_sender_post_seconds",
    "Time from a POST's call to its answer. Near the time-out: expect unknowns.",
    buckets=(0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2),
)
STARTS = Counter("sluice_sender_starts_total", "POSTs begun, per number.", ["phone_number_id"])
STARTS_SECOND_MAX = Gauge(
    "sluice_sender_starts_second_max",
    "The most starts in any sliding second of this process. Above the setting: a bug, stop and report.",
    ["phone_number_id"],
)
SETTING = Gauge(
    "sluice_sender_setting_starts_per_second", "The pace in force, after throttles.", ["phone_number_id"]
)
OWNED = Gauge(
    "sluice_sender_numbers_owned", "Numbers whose lease this process holds. Sum over all: all numbers."
)
IN_FLIGHT = Gauge("sluice_sender_posts_in_flight", "POSTs awaiting an answer.")
CLAIMED_ROWS = Counter("sluice_sender_claimed_rows_total", "Rows claimed.")
FENCED_CLAIMS = Counter(
    "sluice_sender_fenced_claims_total", "Claims refused for an old epoch: another process owns the number."
)
