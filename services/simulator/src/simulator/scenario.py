"""What the simulated world is like: numbers, templates, odds and delays.

Invariant: frozen and checked as a whole, so that one scenario and one seed give one run.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Probability = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0)]
Digits = Annotated[str, Meta(pattern=r"^\d{5,20}$")]


class Number(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A business phone number; `limit_per_s` is Meta's throughput limit, inbound and outbound together."""

    phone_number_id: Annotated[str, Meta(pattern=r"^\d{1,32}$")]
    display_phone_number: Digits
    waba_id: Annotated[str, Meta(pattern=r"^\d{1,32}$")]
    limit_per_s: Annotated[int, Meta(ge=1, le=100_000)] = 80
    status: str = "CONNECTED"
    """Of its registration, in Meta's words; anything else refuses every message with 133010."""
    quality_rating: str = "GREEN"
    messaging_limit: str = "TIER_UNLIMITED"

    @property
    def is_registered(self) -> bool:
        return self.status == "CONNECTED"


class Template(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An approved template in one language, with the count of its body parameters."""

    name: str
    language: str
    body_params: Annotated[int, Meta(ge=0, le=100)] = 0
    category: str = "marketing"


class Account(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The app, its token and what it asked to be told: what `/debug_token` and the reads of WABAs and numbers show."""

    app_id: Annotated[str, Meta(pattern=r"^\d{1,32}$")] = "600000000000001"
    token_expired: bool = False
    """Whatever comes with the token is refused with 190, subcode 463."""
    token_expires_in_s: Seconds = 0.0
    """What is told of the token; 0: it never expires."""
    scopes: tuple[str, ...] = ("whatsapp_business_management", "whatsapp_business_messaging")
    """Permissions of the token; what needs a missing one is refused with 200."""
    subscribed: bool = True
    """Whether the WABAs' webhooks go to the app."""
    callback_url: str = "https://sluice.example/webhook"
    """What is told of the app's address; empty: none is set. Webhooks go where they went."""
    fields: tuple[str, ...] = ("messages", "account_update", "message_template_status_update")
    """Webhook fields that the app asked for."""
    clock_ahead_s: float = 0.0
    """Added to the Date header of every answer."""


class Latency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long an answer takes: `base_ms * exp(sigma * N(0, 1))`, never above `max_ms`."""

    base_ms: Annotated[float, Meta(ge=0)] = 50.0
    sigma: Annotated[float, Meta(ge=0, le=3)] = 0.25
    max_ms: Annotated[float, Meta(ge=0)] = 2_000.0


class Faults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Odds that one POST meets one of these; they add up to at most 1, the rest are answered as usual."""

    timeout_after_accept: Probability = 0.0
    """Accepted, statuses follow, but the answer comes after `late_s`."""
    hang_without_accept: Probability = 0.0
    """Neither accepted nor answered: the connection is held for `late_s`, then reset."""
    reset_after_accept: Probability = 0.0
    """Accepted, then a TCP reset in place of the answer."""
    reset_before_accept: Probability = 0.0
    """A TCP reset, and nothing was accepted."""
    http_500_html: Probability = 0.0
    """A gateway's HTML page with status 500; nothing was accepted."""
    http_500_html_after_accept: Probability = 0.0
    """The same page, although the message was accepted."""
    http_503_code2: Probability = 0.0
    """Status 503 with code 2; not accepted."""
    http_500_code131016: Probability = 0.0
    """Status 500 with code 131016; not accepted."""
    rejected: Probability = 0.0
    """Refused with one of `rejected_codes`."""
    webhook_before_answer: Probability = 0.0
    """The first status is delivered before the HTTP answer leaves."""
    rejected_codes: tuple[int, ...] = (131009, 131021)
    late_s: Seconds = 8.0
    """Longer than the client's own time-out. Not scaled."""
    throttle_every_s: Seconds = 0.0
    """Each number refuses everything with 130429 for `throttle_s` in each such period; 0 is never."""
    throttle_s: Seconds = 1.0
    throttle_http_status: Annotated[int, Meta(ge=400, le=599)] = 429
    """Status of every 130429: the sources disagree about it."""
    throttle_retry_after_s: Annotated[int, Meta(ge=1)] | None = None
    """Adds a Retry-After header to every 130429; Meta documents none."""


class Journeys(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of an accepted message. Delays are means in seconds, times `time_scale`."""

    time_scale: Annotated[float, Meta(ge=0, le=1_000)] = 1.0
    silent: Probability = 0.01
    """No webhook ever."""
    failed: Probability = 0.02
    """Ends in `failed`."""
    failed_after_sent: Probability = 0.5
    """Of those: `sent` came first."""
    failed_retryable: Probability = 0.3
    """Of those: with one of `retryable_codes`, otherwise one of `failed_codes`."""
    failed_codes: tuple[int, ...] = (131026,)
    retryable_codes: tuple[int, ...] = (131016, 131000)
    stays_sent: Probability = 0.03
    """`sent` is the last word."""
    read: Probability = 0.5
    """Of those that arrive: `read` follows."""
    delivered_skipped: Probability = 0.05
    """Of those that read: `read` comes without `delivered`."""
    sent_skipped: Probability = 0.01
    late: Probability = 0.02
    """A status is told `late_s` after it happened, with its true timestamp."""
    late_s: Seconds = 60.0
    sent_after_s: Seconds = 0.5
    delivered_after_s: Seconds = 2.0
    read_after_s: Seconds = 10.0
    callback_data_missing: Annotated[int, Meta(ge=0)] = 0
    """One status in so many lacks `biz_opaque_callback_data`; 0 is none."""
    answers: Probability = 0.02
    """Of those that arrive: the person writes back."""
    answers_max: Annotated[int, Meta(ge=1, le=100)] = 3
    """At most so many messages in a row, numbered."""
    answer_gap_s: Seconds = 1.0
    answer_after_s: Seconds = 5.0
    answers_stop: Probability = 0.2
    """Of the answering: the last text is STOP, Stop or stop."""
    answers_before_delivered: Probability = 0.1
    """Of the answering: the answer is told before `delivered`."""


class Webhooks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How updates travel to the webhook."""

    batch_max: Annotated[int, Meta(ge=1, le=1_000)] = 100
    """Updates in one POST."""
    batch_linger_ms: Annotated[float, Meta(ge=0, le=60_000)] = 25.0
    doubled: Probability = 0.0
    """A delivered POST is delivered once more, byte for byte."""
    shuffled: Probability = 0.0
    """A batch is drawn at random from the statuses that wait; texts keep their order."""
    user_ids: bool = False
    """A phone number comes with its person's business-scoped user id, as in Meta's webhooks since April 2026."""
    timeout_s: Annotated[float, Meta(gt=0)] = 10.0
    retry_base_s: Annotated[float, Meta(gt=0)] = 0.25
    """First redelivery at once, then after this, doubling, up to `retry_cap_s`."""
    retry_cap_s: Annotated[float, Meta(gt=0)] = 15.0
    attempts_max: Annotated[int, Meta(ge=1)] = 200
    retry_for_s: Annotated[float, Meta(gt=0)] = 3_600.0
    pending_max: Annotated[int, Meta(ge=1)] = 200_000
    """Updates waiting or awaiting redelivery; above it journeys stand still."""


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole scenario file."""

    numbers: tuple[Number, ...] = ()
    templates: tuple[Template, ...] = ()
    account: Account = Account()
    latency: Latency = Latency()
    faults: Faults = Faults()
    journeys: Journeys = Journeys()
    webhooks: Webhooks = Webhooks()
    canonicalise: bool = False
    """Answer with Meta's own form of some Brazilian and Argentine numbers (`wa_id` differs from `input`)."""
    records_max: Annotated[int, Meta(ge=1)] = 2_000_000
    """POSTs remembered; above it every POST gets 503 with code 2."""


FAULT_NAMES = (
    "timeout_after_accept",
    "hang_without_accept",
    "reset_after_accept",
    "reset_before_accept",
    "http_500_html",
    "http_500_html_after_accept",
    "http_503_code2",
    "http_500_code131016",
    "rejected",
    "webhook_before_answer",
)


def parse(raw: bytes) -> Scenario:
    """Decode a scenario file. Raises `msgspec.ValidationError` with the path of the bad field, or ValueError."""
    return checked(msgspec.json.decode(raw, type=Scenario))


def merged(scenario: Scenario, change: dict[str, Any]) -> Scenario:
    """`scenario` with the given keys replaced; sections are merged key by key. Numbers and templates too are
    merged, by identity. Raises like `parse`."""
    whole: dict[str, Any] = msgspec.to_builtins(scenario)
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(whole.get(key), dict):
            whole[key] = {**whole[key], **value}
        elif key == "numbers" and isinstance(value, list):
            whole[key] = _upserted(whole[key], value, ("phone_number_id",))
        elif key == "templates" and isinstance(value, list):
            whole[key] = _upserted(whole[key], value, ("name", "language"))
        else:
            whole[key] = value
    return checked(msgspec.convert(whole, type=Scenario))


def checked(scenario: Scenario) -> Scenario:
    """The scenario itself. Raises ValueError where single fields are fine and their sum is not."""
    faults = scenario.faults
    if sum(getattr(faults, name) for name in FAULT_NAMES) > 1 + 1e-9:
        raise ValueError("faults: the odds add up to more than 1")
    if faults.rejected > 0 and not faults.rejected_codes:
        raise ValueError("faults: rejected needs rejected_codes")
    if faults.throttle_every_s and faults.throttle_s >= faults.throttle_every_s:
        raise ValueError("faults: throttle_s must be shorter than throttle_every_s")
    journeys = scenario.journeys
    if journeys.silent + journeys.failed + journeys.stays_sent > 1 + 1e-9:
        raise ValueError("journeys: silent, failed and stays_sent add up to more than 1")
    if journeys.failed > 0 and not (journeys.failed_codes and journeys.retryable_codes):
        raise ValueError("journeys: failed needs failed_codes and retryable_codes")
    return scenario


def _upserted(present: Any, given: list[Any], identity: tuple[str, ...]) -> list[Any]:
    by_key: dict[Any, Any] = {}
    for place, item in enumerate([*present, *given]):
        key = tuple(str(item.get(name)) for name in identity) if isinstance(item, dict) else place
        by_key[key] = item
    return list(by_key.values())
