"""Take a signed body apart: every entry, every change, every item, each as the bytes it came in.

Invariant: nothing is lost and nobody pays for a sibling. Each level is decoded with its parts left raw, so a part that
can't be read becomes one `Malformed` and the others go on.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

OBJECT = "whatsapp_business_account"
MESSAGES_FIELD = "messages"
# Half a surrogate pair is valid in JSON's grammar and in no UTF-8 text; the alternatives keep whole pairs and other escapes.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\."
)
_HALF_BYTES = len(rb"\ud83d")
_NULL = Raw(b"null")
T = TypeVar("T")


class Kind(StrEnum):
    """What an item is, by the place where it stood."""

    MESSAGE = "message"
    STATUS = "status"
    ERROR = "error"
    CHANGE = "change"
    """A whole change whose field isn't `messages`."""


class Reason(StrEnum):
    """Why something goes to the dead letters."""

    NOT_JSON = "not_json"
    NOT_A_WEBHOOK = "not_a_webhook"
    NOT_UTF8 = "not_utf8"
    UNREADABLE_ENTRY = "unreadable_entry"
    UNREADABLE_CHANGE = "unreadable_change"
    UNREADABLE_ITEM = "unreadable_item"
    NO_FIELD = "no_field"
    NO_NUMBER = "no_number"
    NO_ID = "no_id"
    NO_STATUS = "no_status"


class Contact(Struct, frozen=True):
    """One readable element of `contacts[]`."""

    wa_id: str | None
    user_id: str | None
    parent_user_id: str | None
    name: str | None


class Item(Struct, frozen=True, kw_only=True):
    """One thing to route, with what it needs of the levels above it."""

    kind: Kind
    field: str
    waba_id: str
    phone_number_id: str | None
    raw: Raw
    position: int = 0
    """Its place among the items of the body."""
    entry_time: bytes = b""
    """`entry[].time` as it came: tells two equal changes at different times apart."""
    contacts: tuple[Contact, ...] = ()


class Malformed(Struct, frozen=True, kw_only=True):
    """Bytes that can't be routed: a part, or the whole body."""

    reason: Reason
    raw: bytes
    waba_id: str = ""


class _Body(Struct):
    object: Raw = _NULL
    entry: Raw | UnsetType = UNSET


class _Entry(Struct):
    id: Raw = _NULL
    time: Raw | UnsetType = UNSET
    changes: Raw | UnsetType = UNSET


class _Change(Struct):
    field: Raw = _NULL
    value: Raw = _NULL


class _Value(Struct):
    metadata: Raw | UnsetType = UNSET
    contacts: Raw | UnsetType = UNSET
    messages: Raw | UnsetType = UNSET
    statuses: Raw | UnsetType = UNSET
    errors: Raw | UnsetType = UNSET


class _Metadata(Struct):
    phone_number_id: object = None


class _Profile(Struct):
    name: object = None


class _Contact(Struct):
    wa_id: object = None
    user_id: object = None
    parent_user_id: object = None
    profile: Raw | UnsetType = UNSET


def decoder(wanted: type[T]) -> msgspec.json.Decoder[T]:
    """Return a decoder that takes each named field as it comes and ignores the others."""
    return msgspec.json.Decoder(wanted)


_BODY = decoder(_Body)
_ENTRY = decoder(_Entry)
_CHANGE = decoder(_Change)
_VALUE = decoder(_Value)
_METADATA = decoder(_Metadata)
_PROFILE = decoder(_Profile)
_CONTACT = decoder(_Contact)
_LIST = decoder(list[Raw])
_ANY = decoder(object)


def read(how: msgspec.json.Decoder[T], raw: Raw | bytes | UnsetType) -> T | None:
    """Return the value in `raw`, or None when it is absent or isn't one."""
    if raw is UNSET:
        return None
    try:
        return how.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def text(value: object) -> str | None:
    """Return an id or a name as a text: numbers count as one, an empty text doesn't; no NUL ever goes further."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd") or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def items_of(body: bytes) -> list[Item | Malformed]:
    """Return everything that a signed body carries, in the order in which it stands; never raises."""
    outer = read(_BODY, body) or read(_BODY, _mended(body))
    if outer is None:
        return [Malformed(reason=_why_not(body), raw=body)]
    entries = _elements(outer.entry)
    if read(_ANY, outer.object) != OBJECT or entries is None:
        return [Malformed(reason=Reason.NOT_A_WEBHOOK, raw=body)]
    found: list[Item | Malformed] = []
    for entry in entries:
        _take_entry(entry, found)
    return found if body.isascii() or _is_utf8(body) else [_checked(one) for one in found]


def _take_entry(raw: Raw, found: list[Item | Malformed]) -> None:
    entry = read(_ENTRY, raw)
    changes = None if entry is None else _elements(entry.changes)
    if entry is None or changes is None:
        found.append(Malformed(reason=Reason.UNREADABLE_ENTRY, raw=bytes(raw)))
        return
    waba_id = text(read(_ANY, entry.id)) or ""
    entry_time = b"" if entry.time is UNSET else bytes(entry.time)
    for one in changes:
        change = read(_CHANGE, one)
        if change is None:
            found.append(Malformed(reason=Reason.UNREADABLE_CHANGE, raw=bytes(one), waba_id=waba_id))
            continue
        field = read(_ANY, change.field)
        if not isinstance(field, str) or not field:
            found.append(Malformed(reason=Reason.NO_FIELD, raw=bytes(one), waba_id=waba_id))
        elif field == MESSAGES_FIELD:
            _take_messages(change.value, waba_id, found)
        else:
            found.append(
                Item(
                    kind=Kind.CHANGE,
                    field=field,
                    waba_id=waba_id,
                    phone_number_id=_number(read(_VALUE, change.value)),
                    raw=change.value,
                    position=len(found),
                    entry_time=entry_time,
                )
            )


def _take_messages(raw: Raw, waba_id: str, found: list[Item | Malformed]) -> None:
    """Take the items of one `messages` value; a value without any is kept whole, it may hold what nobody knows yet."""
    if raw == _NULL:
        return
    value = read(_VALUE, raw)
    if value is None:
        found.append(Malformed(reason=Reason.UNREADABLE_CHANGE, raw=bytes(raw), waba_id=waba_id))
        return
    number = _number(value)
    taken_before = len(found)
    contacts: tuple[Contact, ...] | None = None
    for kind, listed in (
        (Kind.MESSAGE, value.messages),
        (Kind.STATUS, value.statuses),
        (Kind.ERROR, value.errors),
    ):
        elements = _elements(listed)
        if elements is None:
            assert listed is not UNSET
            found.append(Malformed(reason=Reason.UNREADABLE_CHANGE, raw=bytes(listed), waba_id=waba_id))
            continue
        if kind is Kind.MESSAGE and elements:
            contacts = tuple(_contacts(value.contacts))
        for element in elements:
            found.append(
                Item(
                    kind=kind,
                    field=MESSAGES_FIELD,
                    waba_id=waba_id,
                    phone_number_id=number,
                    raw=element,
                    position=len(found),
                    contacts=(contacts or ()) if kind is Kind.MESSAGE else (),
                )
            )
    if len(found) == taken_before:
        found.append(
            Item(
                kind=Kind.CHANGE,
                field=MESSAGES_FIELD,
                waba_id=waba_id,
                phone_number_id=number,
                raw=raw,
                position=taken_before,
            )
        )


def _number(value: _Value | None) -> str | None:
    """Return the item's own number; management hooks have none."""
    metadata = None if value is None else read(_METADATA, value.metadata)
    return None if metadata is None else text(metadata.phone_number_id)


def _contacts(listed: Raw | UnsetType) -> Iterator[Contact]:
    for raw in _elements(listed) or ():
        contact = read(_CONTACT, raw)
        if contact is not None:
            profile = read(_PROFILE, contact.profile)
            yield Contact(
                wa_id=text(contact.wa_id),
                user_id=text(contact.user_id),
                parent_user_id=text(contact.parent_user_id),
                name=None if profile is None else text(profile.name),
            )


def _elements(raw: Raw | UnsetType) -> list[Raw] | None:
    """Return the elements of a list, none of an absent or null one; None when it is something else."""
    if raw is UNSET or raw == _NULL:
        return []
    return read(_LIST, raw)


def _mended(body: bytes) -> bytes:
    r"""Return the body with each half of a surrogate pair as `\ufffd`: one broken emoji must not cost all siblings."""
    return _ESCAPE.sub(lambda found: rb"\ufffd" if len(found[0]) == _HALF_BYTES else found[0], body)


def _why_not(body: bytes) -> Reason:
    return Reason.NOT_JSON if read(_ANY, body) is None and body.strip() != b"null" else Reason.NOT_A_WEBHOOK


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _checked(one: Item | Malformed) -> Item | Malformed:
    """Skipping over a text doesn't check its encoding; no reader shall find a record that isn't UTF-8."""
    if isinstance(one, Malformed) or _is_utf8(bytes(one.raw)):
        return one
    return Malformed(reason=Reason.NOT_UTF8, raw=bytes(one.raw), waba_id=one.waba_id)
