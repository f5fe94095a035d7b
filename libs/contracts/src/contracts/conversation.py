"""What `conversations` tells the world, on `conversation-events`, keyed by contact.

Invariant: per contact, `turn` rises by one with each handled message and never repeats.
"""

from enum import StrEnum

import msgspec
from msgspec import Struct

from contracts.contact import ContactKey


class Consent(StrEnum):
    """What a message said about being written to."""

    OPTED_OUT = "opted_out"
    OPTED_IN = "opted_in"


class MessageHandled(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="message_handled"
):
    """One inbound message, handled once, in the contact's order."""

    event_id: str
    phone_number_id: str
    contact_key: ContactKey
    contact_id: int
    turn: int
    """1 for the contact's first message to this number, then rising by one."""
    wamid: str
    type: str
    timestamp_s: int
    window_closes_at_s: int | None = None
    """End of the 24-hour customer service window, Unix seconds; None when the message opens none."""
    consent: Consent | None = None
    raw: msgspec.Raw = msgspec.Raw(b"null")

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"MessageHandled(event_id={self.event_id!r}, turn={self.turn})"


class MediaStored(Struct, frozen=True, kw_only=True, tag_field="event", tag="media_stored"):
    """A file of an inbound message is in the object store."""

    event_id: str
    contact_key: ContactKey
    media_id: str
    sha256: str
    bytes_count: int
