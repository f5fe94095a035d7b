"""The wish for a single message and the fact of a settled one.

Invariant: `request_id` is the producer's own; the same id is the same message, whatever happens in between.
"""

from enum import StrEnum

import msgspec
from msgspec import Struct

from contracts.campaign import OnUnknown, TemplateRef


class Purpose(StrEnum):
    """Why a single message is sent; one-time codes and replies go before campaigns."""

    REPLY = "reply"
    ONE_TIME_CODE = "one_time_code"
    NOTICE = "notice"


class SendMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command on `send-requests`, keyed by phone number id."""

    request_id: str
    phone_number_id: str
    to: str
    purpose: Purpose
    message: msgspec.Raw
    """The type-specific part of the Cloud API body: `{"type": …, …}`."""
    not_after_s: float | None = None
    """Unix seconds; checked just before the POST."""
    on_unknown: OnUnknown = OnUnknown.GIVE_UP
    fallback: TemplateRef | None = None
    """Template to use when the 24-hour window is closed."""

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"SendMessage(phone_number_id={self.phone_number_id!r}, purpose={self.purpose.value!r})"


class SendSettled(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one attempt, on `send-outcomes`: best effort, Postgres is the truth."""

    phone_number_id: str
    row: str
    """`c:<campaign>:<seq>` or `r:<row id>`."""
    attempt: int
    outcome: str
    code: int | None = None
    settled_at_s: float = 0.0
