"""What a check of `sluice doctor` comes to, and the facts that it is made from.

Invariant: a failed finding names its remedy; none holds a token, a secret, or anything of a person.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

from cloudapi.nodes import ListedNumber, NumberNode, Refused, Subscription, TokenInfo
from ledger.hearing import Hearing
from ledger.numbers import Number

LISTED_MAX = 3


class Check(StrEnum):
    """In the order in which one would repair."""

    DATABASE = "database"
    SCHEMA = "schema"
    BROKER = "broker"
    TOPICS = "topics"
    GRAPH = "graph"
    CLOCK = "clock"
    TOKEN = "token"  # noqa: S105  # the name of a check
    EXPIRY = "token expiry"
    MAY_MANAGE = "manage permission"
    MAY_SEND = "send permission"
    NUMBERS = "numbers"
    CALLBACK = "callback"
    SUBSCRIPTION = "subscription"
    REGISTRATION = "registration"
    QUALITY = "quality"
    THROUGHPUT = "throughput"
    LAST_WEBHOOK = "last webhook"


class Verdict(StrEnum):
    """What a check came to."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class Finding(Struct, frozen=True, kw_only=True):
    """One check's result; `subject` is a WABA, a number or a topic where there are several."""

    check: Check
    verdict: Verdict
    says: str
    subject: str = ""
    remedy: str = ""


class Trouble(Struct, frozen=True):
    """It was asked, and no usable answer came."""

    words: str


class Skew(Struct, frozen=True):
    """How far another clock is ahead of ours, give or take."""

    ahead_s: float
    within_s: float


class TopicFault(Struct, frozen=True, kw_only=True):
    """One setting of one topic that isn't as declared."""

    topic: str
    setting: str
    expected: str
    found: str


class Facts(Struct, frozen=True, kw_only=True):
    """What was learned; None is what could not be asked, since what it takes was missing."""

    database: Trouble | None = None
    schema_lacking: tuple[str, ...] | Trouble | None = None
    database_skew: Skew | Trouble | None = None
    numbers: tuple[Number, ...] | Trouble | None = None
    hearings: Mapping[str, Hearing] | Trouble | None = None
    broker: Trouble | None = None
    topic_faults: tuple[TopicFault, ...] | None = None
    topics_count: int = 0
    graph: Trouble | None = None
    graph_root: str = ""
    """The address that ids stand behind, for commands to copy."""
    graph_skew: Skew | None = None
    token: TokenInfo | Refused | None = None
    subscriptions: tuple[Subscription, ...] | Refused | Trouble | None = None
    apps: Mapping[str, tuple[str, ...] | Refused | Trouble] = {}
    listed: Mapping[str, tuple[ListedNumber, ...] | Refused | Trouble] = {}
    nodes: Mapping[str, NumberNode | Refused | Trouble] = {}


def ok(check: Check, says: str, subject: str = "") -> Finding:
    return Finding(check=check, verdict=Verdict.OK, says=says, subject=subject)


def failed(check: Check, says: str, remedy: str, subject: str = "") -> Finding:
    return Finding(check=check, verdict=Verdict.FAILED, says=says, subject=subject, remedy=remedy)


def skipped(check: Check, why: str, subject: str = "") -> Finding:
    return Finding(check=check, verdict=Verdict.SKIPPED, says=why, subject=subject)


def some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else ""
    return ", ".join(names[:LISTED_MAX]) + more


def at(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def connected(facts: Facts) -> tuple[Number, ...]:
    return facts.numbers if isinstance(facts.numbers, tuple) else ()
