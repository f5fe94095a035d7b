"""What happens to accounts and numbers, and everything that is neither message nor status.

Invariant: nothing that a webhook carries is dropped; an unknown field travels raw.
"""

from enum import StrEnum

import msgspec
from msgspec import Struct


class AccountChanged(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of an account, template or preference field, or a `value.errors` of a number."""

    event_id: str
    waba_id: str
    field: str
    phone_number_id: str | None = None
    timestamp_s: int = 0
    """When Meta says that it happened, its entry's time; 0: not told."""
    received_at_s: float = 0.0
    raw: msgspec.Raw = msgspec.Raw(b"null")

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"AccountChanged(event_id={self.event_id!r})"


class TemplateState(StrEnum):
    """Where a template stands with Meta, as far as its events tell; only an approved one can be sent."""

    APPROVED = "APPROVED"
    PENDING = "PENDING"
    REJECTED = "REJECTED"
    PAUSED = "PAUSED"
    DISABLED = "DISABLED"
    IN_APPEAL = "IN_APPEAL"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    ARCHIVED = "ARCHIVED"
    PENDING_DELETION = "PENDING_DELETION"
    DELETED = "DELETED"


class TemplateChanged(Struct, frozen=True, kw_only=True):
    """A template of a WABA took a state."""

    waba_id: str
    name: str
    language: str
    state: TemplateState
    reason: str | None
    at_s: float


class OtherEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change, or an item of one, whose field Sluice doesn't read: echoes, standby, calls, fields of tomorrow."""

    event_id: str
    waba_id: str
    field: str
    phone_number_id: str | None = None
    received_at_s: float = 0.0
    raw: msgspec.Raw = msgspec.Raw(b"null")

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"OtherEvent(event_id={self.event_id!r})"


class NumberLoad(Struct, frozen=True, kw_only=True):
    """How many messages a number received within one interval, as one ingress process counted them."""

    phone_number_id: str
    counted_by: str
    until_s: float
    """End of the interval, Unix seconds; older totals are stale."""
    interval_s: float
    received_count: int
