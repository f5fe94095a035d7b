"""Which identities a message ties to one person: phone, business-scoped user id and its parent, and changes of them.

Invariant: only what the message itself says of its sender; a phone counts in its folded form, everything else as it came.
"""

from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from contracts.contact import folded_phone, is_bsuid
from contracts.inbound import MessageReceived

VALUE_LENGTH_MAX: Final = 256
PHONE: Final = "phone"
BSUID: Final = "bsuid"
PARENT_BSUID: Final = "parent_bsuid"

# The person stays, an id of theirs is new; other system messages say nothing of identities. Meta's page
# "Business-scoped user IDs" and its changelog of 2026-08-11; the others are older words for the same.
_CHANGES = frozenset(
    {"user_changed_number", "user_changed_user_id", "customer_changed_number", "user_id_update"}
)


class Identity(NamedTuple):
    """One way to name a person."""

    kind: str
    value: str


class _Change(Struct):
    type: str | None = None
    wa_id: str | None = None
    new_wa_id: str | None = None
    user_id: str | None = None
    parent_user_id: str | None = None
    previous_user_id: str | None = None
    previous_parent_user_id: str | None = None


class _System(Struct):
    system: _Change | None = None


_decoder = msgspec.json.Decoder(_System)


def identities(message: MessageReceived) -> tuple[Identity, ...]:
    """Return the identities of the sender, sorted; none when the message says nothing of who it is from."""
    found = {
        _phone(message.wa_id),
        _user(message.user_id),
        _named(PARENT_BSUID, message.parent_user_id),
    }
    if message.type == "system":
        found |= _changed(message.raw)
    return tuple(sorted(identity for identity in found if identity is not None))


def _changed(raw: msgspec.Raw) -> set[Identity | None]:
    try:
        change = _decoder.decode(raw).system
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return set()
    if change is None or change.type not in _CHANGES:
        return set()
    return {
        _phone(change.wa_id or change.new_wa_id),
        _user(change.user_id),
        _user(change.previous_user_id),
        _named(PARENT_BSUID, change.parent_user_id),
        _named(PARENT_BSUID, change.previous_parent_user_id),
    }


def _phone(wa_id: str | None) -> Identity | None:
    if wa_id and is_bsuid(wa_id):
        return _named(BSUID, wa_id)  # seen in the phone's place
    return _named(PHONE, folded_phone(wa_id)) if wa_id else None


def _user(user_id: str | None) -> Identity | None:
    return _named(BSUID, user_id)


def _named(kind: str, value: str | None) -> Identity | None:
    if not value or len(value) > VALUE_LENGTH_MAX or not value.isprintable():
        return None
    return Identity(kind, value)
