"""What the sender measures."""

from prometheus_client import Counter, Gauge, Histogram

from backpressure.batch import Trigger
from contracts.outcome import Scope

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
STARTS = Counter(
    "sluice_sender_starts_total",
    "POSTs begun, per number. Flat while its campaign runs: ask `sluice why`, and look at the throttles.",
    ["phone_number_id"],
)
STARTS_SECOND_MAX = Gauge(
    "sluice_sender_starts_second_max",
    "The most starts in any sliding second of this process. Above the setting: a bug, stop and report.",
    ["phone_number_id"],
)
SETTING = Gauge(
    "sluice_sender_setting_starts_per_second",
    "The pace in force, after throttles and inbound traffic. Below the number's setting for long: Meta throttles it.",
    ["phone_number_id"],
)
TOKENS = Gauge(
    "sluice_sender_tokens",
    "Tokens saved up when the last start asked for one. Always full: too little work is claimed, look at Postgres.",
    ["phone_number_id"],
)
OWNED = Gauge(
    "sluice_sender_numbers_owned", "Numbers whose lease this process holds. Sum over all: all numbers."
)
IN_FLIGHT = Gauge(
    "sluice_sender_posts_in_flight",
    "POSTs awaiting an answer. At inflight_max: answers are slow; more slots, or more senders.",
)
CLAIMED_ROWS = Counter(
    "sluice_sender_claimed_rows_total",
    "Rows claimed. Flat while campaigns run: look at leases (numbers owned), halts and throttles.",
)
SETTLED_BATCH = Histogram(
    "sluice_sender_settled_batch_rows",
    "Results written by one statement, by what ended the batch: its size, the wait for more, or a stop. Mostly `size`:"
    " Postgres is slower than the sending.",
    ["trigger"],
    buckets=(1, 8, 40, 100, 250, 500),
)
FENCED_CLAIMS = Counter(
    "sluice_sender_fenced_claims_total",
    "Claims refused for an old epoch: another process owns the number. Often: this one stalls, look at its CPU.",
)

RELEASES = ("stale", "fenced", "held", "stopped", "over", "answer_lost")

for _outcome in ("accepted", "rejected", "unsent", "unknown"):
    OUTCOMES.labels(_outcome, "")
for _scope in Scope:
    OUTCOMES.labels("throttled", _scope.value)
for _why in RELEASES:
    RELEASED.labels(_why)
for _trigger in Trigger:
    SETTLED_BATCH.labels(_trigger)


def declare_number(phone_number_id: str) -> None:
    """Let a number's series exist from the first moment of its tenure."""
    for metric in (STARTS, STARTS_SECOND_MAX, SETTING, TOKENS):
        metric.labels(phone_number_id)


def forget_number(phone_number_id: str) -> None:
    """Take away what is true of an owner alone: another process tells it now. Counters and the most stay."""
    for gauge in (SETTING, TOKENS):
        gauge.remove(phone_number_id)
