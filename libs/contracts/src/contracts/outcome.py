"""The five outcomes of one POST of a message: a value each, so that every caller handles every case.

Invariant: `Unknown` is never blindly sent again; only `Unsent` and `Throttled` are surely not accepted.
"""

from enum import StrEnum

from msgspec import Struct

from contracts.contact import Wamid


class Scope(StrEnum):
    """What a throttle slows: siblings within the scope obey it too."""

    PAIR = "pair"
    NUMBER = "number"
    WABA = "waba"
    APP = "app"
    TEMPLATE = "template"
    PORTFOLIO = "portfolio"


class UnsentReason(StrEnum):
    """Why a POST was surely not accepted."""

    NOT_CONNECTED = "not_connected"
    RETRY_CODE = "retry_code"
    """The answer named a code that stands for a passing fault; costs one try."""
    REFUSED_WITHOUT_CODE = "refused_without_code"
    """Refused by HTTP status, with no word of Meta's application; costs one try."""
    STALE_CLAIM = "stale_claim"
    FENCED = "fenced"


class UnknownReason(StrEnum):
    """Why nobody can say whether a POST was accepted."""

    TIMEOUT = "timeout"
    CONNECTION_LOST = "connection_lost"
    UNREADABLE_ANSWER = "unreadable_answer"
    UNEXPECTED_ERROR = "unexpected_error"


class Accepted(Struct, frozen=True, tag="accepted"):
    """Meta took the message; `wa_id` is its canonical form of the recipient, where it gave one."""

    wamid: Wamid
    wa_id: str | None = None

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return "Accepted()"


class Rejected(Struct, frozen=True, tag="rejected"):
    """Refused by code: this message never, to this recipient."""

    code: int


class Throttled(Struct, frozen=True, tag="throttled"):
    """Refused for now, for everything within the scope; not this message's fault, so it costs no try."""

    scope: Scope
    retry_after_s: float
    code: int


class Unsent(Struct, frozen=True, tag="unsent"):
    """Surely not accepted: safe to try again."""

    reason: UnsentReason
    code: int | None = None


class Unknown(Struct, frozen=True, tag="unknown"):
    """Perhaps accepted: only a status, or the campaign's policy after a wait, decides."""

    reason: UnknownReason


Outcome = Accepted | Rejected | Throttled | Unsent | Unknown
