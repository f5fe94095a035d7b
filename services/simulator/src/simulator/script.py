"""Which POST meets which fault: drawn from seed, recipient and occurrence alone, so arrival order changes nothing."""

from enum import StrEnum
from hashlib import blake2b
from math import exp
from random import Random
from typing import Annotated

from msgspec import Meta, Struct

from simulator.journey import Status
from simulator.scenario import FAULT_NAMES, Digits, Faults, Latency


class Behaviour(StrEnum):
    """How a POST that passed every check is treated; see `Faults` for what each means."""

    NORMAL = "normal"
    TIMEOUT_AFTER_ACCEPT = "timeout_after_accept"
    HANG_WITHOUT_ACCEPT = "hang_without_accept"
    RESET_AFTER_ACCEPT = "reset_after_accept"
    RESET_BEFORE_ACCEPT = "reset_before_accept"
    HTTP_500_HTML = "http_500_html"
    HTTP_500_HTML_AFTER_ACCEPT = "http_500_html_after_accept"
    HTTP_503_CODE2 = "http_503_code2"
    HTTP_500_CODE131016 = "http_500_code131016"
    REJECTED = "rejected"
    WEBHOOK_BEFORE_ANSWER = "webhook_before_answer"


ACCEPTING = frozenset(
    {
        Behaviour.NORMAL,
        Behaviour.TIMEOUT_AFTER_ACCEPT,
        Behaviour.RESET_AFTER_ACCEPT,
        Behaviour.HTTP_500_HTML_AFTER_ACCEPT,
        Behaviour.WEBHOOK_BEFORE_ANSWER,
    }
)


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the next `times` POSTs to one recipient meet, in place of what the odds would say."""

    recipient: Digits
    times: Annotated[int, Meta(ge=1)] = 1
    behaviour: Behaviour = Behaviour.NORMAL
    code: int = 131009
    """Of `rejected`."""
    http_status: Annotated[int, Meta(ge=400, le=599)] | None = None
    """Of any refusal, in place of the code's usual one."""
    retry_after_s: Annotated[int, Meta(ge=0)] | None = None
    """Of `rejected`: adds a Retry-After header."""
    statuses: tuple[Status, ...] | None = None
    """The journey: for instance `["sent", "failed"]`; `[]` is silence; None leaves it to the odds."""
    failed_code: int = 131026
    texts: tuple[str, ...] = ()
    """What the person writes back."""


class Plan(Struct, frozen=True):
    """What one POST meets, and the randomness left for its journey."""

    behaviour: Behaviour
    latency_s: float
    rng: Random
    code: int = 0
    rule: Rule | None = None


class Script:
    """Draws a plan for each POST and keeps the two things it must count: occurrences and the rules left."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._occurrences: dict[str, int] = {}
        self._rules: dict[str, list[tuple[Rule, int]]] = {}

    def add(self, rule: Rule) -> None:
        """Queue a rule behind those the recipient already has."""
        self._rules.setdefault(rule.recipient, []).append((rule, rule.times))

    def plan(self, who: str, faults: Faults, latency: Latency) -> Plan:
        """The plan of this recipient's next occurrence."""
        occurrence = self._occurrences.get(who, 0) + 1
        self._occurrences[who] = occurrence
        rng = rng_for(self._seed, who, occurrence)
        behaviour, code = draw(faults, rng)
        latency_s = latency_of(latency, rng)
        rule = self._next_rule(who) if self._rules else None
        if rule is None:
            return Plan(behaviour, latency_s, rng, code)
        return Plan(rule.behaviour, latency_s, rng, rule.code, rule)

    def _next_rule(self, who: str) -> Rule | None:
        queued = self._rules.get(who)
        if not queued:
            return None
        rule, left = queued[0]
        if left > 1:
            queued[0] = (rule, left - 1)
        else:
            queued.pop(0)
            if not queued:
                del self._rules[who]
        return rule


def rng_for(seed: int, who: str, occurrence: int) -> Random:
    """The same numbers for the same three, in any process."""
    digest = blake2b(f"{seed}/{who}/{occurrence}".encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest))


def draw(faults: Faults, rng: Random) -> tuple[Behaviour, int]:
    """One behaviour by the odds, with the code of a rejection. Takes two numbers from `rng`, whatever comes."""
    point, pick = rng.random(), rng.random()
    for name in FAULT_NAMES:
        odds: float = getattr(faults, name)
        if point < odds:
            if name != "rejected":
                return Behaviour(name), 0
            return Behaviour.REJECTED, faults.rejected_codes[int(pick * len(faults.rejected_codes))]
        point -= odds
    return Behaviour.NORMAL, 0


def latency_of(latency: Latency, rng: Random) -> float:
    """Seconds until the answer."""
    spread = exp(latency.sigma * rng.normalvariate(0, 1))
    return min(latency.base_ms * spread, latency.max_ms) / 1_000


def is_throttled(faults: Faults, seed: int, phone_number_id: str, elapsed_s: float) -> bool:
    """Whether a number is inside one of its throttle windows, `elapsed_s` after the start. Numbers differ in phase;
    no number starts throttled."""
    if faults.throttle_every_s <= 0:
        return False
    phase = rng_for(seed, phone_number_id, 0).random()
    room = faults.throttle_every_s - faults.throttle_s
    into = (elapsed_s % faults.throttle_every_s) - phase * room
    return 0 <= into < faults.throttle_s
