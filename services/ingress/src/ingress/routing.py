"""From item to record: the topic, the key or partition, the value and the event id of each.

Invariant: the same item gives the same event id and the same key on every delivery, and an item that can't be routed
becomes a dead letter with its bytes and a reason; nothing raises and nothing disappears.
"""

import math

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from contracts.account import AccountChanged, OtherEvent
from contracts.codec import Envelope, encode, event_id
from contracts.contact import contact_key, digits, is_bsuid
from contracts.inbound import MessageReceived
from contracts.status import StatusReported
from contracts.topics import ACCOUNT_EVENTS, INBOUND_MESSAGES, OTHER_EVENTS, WEBHOOKS_DLQ
from ingress.webhook import Contact, Item, Kind, Malformed, Reason, decoder, read, text

# Meta's webhook reference, as of 2026-09-11; what is in neither list goes to `other-events`.
_ACCOUNT_PREFIXES = ("account_", "message_template_", "template_", "phone_number_", "business_")
_ACCOUNT_FIELDS = frozenset(
    {"user_preferences", "security", "partner_solutions", "payment_configuration_update"}
)
# System messages whose sender has a new identity; `identity` changes alone keep the person's ids.
_CHANGED_IDENTITY = frozenset(
    {"user_changed_number", "user_changed_user_id", "customer_changed_number", "user_id_update"}
)
_MILLISECONDS_FROM = 1e11
"""Seconds reach this in the year 5138; milliseconds have been above it since 1973."""
_TIMESTAMP_MAX_S = 1e11
NOBODY = b"-"
"""The key of what names neither number nor account: a null key would scatter."""


class Record(Struct, frozen=True, kw_only=True):
    """One record to publish under a key."""

    topic: str
    key: bytes
    value: bytes
    envelope: Envelope


class Status(Struct, frozen=True, kw_only=True):
    """One status for the next record of its partition; `value` is the encoded `StatusReported`."""

    wamid: bytes
    event_id: str
    value: bytes


Routed = Record | Status


class _Message(Struct):
    id: object = None
    sender: object = msgspec.field(name="from", default=None)
    from_user_id: object = None
    from_parent_user_id: object = None
    timestamp: object = None
    type: object = None
    system: Raw | UnsetType = UNSET


class _System(Struct):
    type: object = None
    previous_user_id: object = None
    previous_parent_user_id: object = None
    customer: object = None


class _Status(Struct):
    id: object = None
    status: object = None
    type: object = None
    timestamp: object = None
    recipient_id: object = None
    recipient_user_id: object = None
    recipient_participant_id: object = None
    recipient_participant_user_id: object = None
    biz_opaque_callback_data: object = None
    errors: Raw | UnsetType = UNSET


class _Error(Struct):
    code: object = None


class _Person(Struct, frozen=True):
    """Who sent a message, as far as the webhook says."""

    wa_id: str | None
    user_id: str | None
    parent_user_id: str | None
    name: str | None = None


_MESSAGE = decoder(_Message)
_SYSTEM = decoder(_System)
_STATUS = decoder(_Status)
_ERRORS = decoder(list[Raw])
_ERROR = decoder(_Error)
_TIME = decoder(object)


def routed(one: Item | Malformed, *, received_at_s: float) -> Routed:
    """Return the record (or the status to gather) of one item; `received_at_s` is in Unix seconds."""
    if isinstance(one, Malformed):
        return _dead_letter(one.reason, one.raw, one.waba_id, received_at_s)
    found: Routed | Reason
    match one.kind:
        case Kind.MESSAGE:
            found = _message(one, received_at_s)
        case Kind.STATUS:
            found = _status(one, received_at_s)
        case Kind.ERROR | Kind.CHANGE:
            return _change(one, received_at_s)
    if isinstance(found, Reason):
        return _dead_letter(found, bytes(one.raw), one.phone_number_id or one.waba_id, received_at_s)
    return found


def _dead_letter(reason: Reason, raw: bytes, key: str, received_at_s: float) -> Record:
    envelope = Envelope(
        event_id=event_id("webhook", raw), event_type=f"webhook.{reason}", produced_at_s=received_at_s
    )
    return Record(topic=WEBHOOKS_DLQ.name, key=key.encode() or NOBODY, value=raw, envelope=envelope)


def _message(item: Item, received_at_s: float) -> Record | Reason:
    message = read(_MESSAGE, item.raw)
    if message is None:
        return Reason.UNREADABLE_ITEM
    if item.phone_number_id is None:
        return Reason.NO_NUMBER
    wamid = text(message.id)
    if wamid is None:
        return Reason.NO_ID
    person = _sender(message, item.contacts)
    key = contact_key(item.phone_number_id, user_id=person.user_id, wa_id=person.wa_id)
    value = MessageReceived(
        event_id=event_id("message", item.phone_number_id, wamid),
        phone_number_id=item.phone_number_id,
        waba_id=item.waba_id,
        contact_key=key,
        wamid=wamid,
        type=text(message.type) or "unsupported",
        timestamp_s=timestamp_s(message.timestamp, default_s=received_at_s),
        received_at_s=received_at_s,
        position=item.position,
        wa_id=person.wa_id,
        user_id=person.user_id,
        parent_user_id=person.parent_user_id,
        profile_name=person.name,
        raw=item.raw,
    )
    envelope = Envelope(event_id=value.event_id, event_type="message.received", produced_at_s=received_at_s)
    return Record(topic=INBOUND_MESSAGES.name, key=key.encode(), value=encode(value), envelope=envelope)


def _sender(message: _Message, contacts: tuple[Contact, ...]) -> _Person:
    """Return who sent it; of a changed identity the previous one, which is the key its earlier messages have."""
    wa_id, user_id = _by_shape(text(message.sender), text(message.from_user_id))
    system = read(_SYSTEM, message.system)
    if system is not None and text(system.type) in _CHANGED_IDENTITY:
        previous = text(system.previous_user_id)
        former = wa_id or _phone(text(system.customer))
        return _Person(
            former, previous or (None if former else user_id), text(system.previous_parent_user_id)
        )
    parent = text(message.from_parent_user_id)
    for contact in contacts:
        its_wa_id, its_user_id = _by_shape(contact.wa_id, contact.user_id)
        if (wa_id and its_wa_id == wa_id) or (user_id and its_user_id == user_id):
            return _Person(
                wa_id or its_wa_id, user_id or its_user_id, parent or contact.parent_user_id, contact.name
            )
    return _Person(wa_id, user_id, parent)


def _by_shape(phone: str | None, user_id: str | None) -> tuple[str | None, str | None]:
    """Return (wa_id, user id): a business-scoped id has been seen in the phone's place (courier's tests, 2026-08)."""
    if phone is not None and is_bsuid(phone):
        return None, user_id or phone
    return _phone(phone), user_id


def _phone(found: str | None) -> str | None:
    return (digits(found) or None) if found is not None else None


def _status(item: Item, received_at_s: float) -> Routed | Reason:
    status = read(_STATUS, item.raw)
    if status is None:
        return Reason.UNREADABLE_ITEM
    if status.type == "call":  # a call's states mean other things, wherever they stand
        return _other(item, received_at_s)
    wamid = text(status.id)
    word = text(status.status) if isinstance(status.status, str) else None
    if wamid is None:
        return Reason.NO_ID
    if word is None:
        return Reason.NO_STATUS
    if item.phone_number_id is None:
        return Reason.NO_NUMBER
    participant = text(status.recipient_participant_user_id) or text(status.recipient_participant_id) or ""
    value = StatusReported(
        event_id=event_id("status", item.phone_number_id, wamid, word, participant),
        phone_number_id=item.phone_number_id,
        waba_id=item.waba_id,
        wamid=wamid,
        status=word,
        timestamp_s=timestamp_s(status.timestamp, default_s=received_at_s),
        recipient_id=text(status.recipient_id),
        recipient_user_id=text(status.recipient_user_id),
        callback_data=text(status.biz_opaque_callback_data),
        code=_first_code(status.errors),
        raw=item.raw,
    )
    return Status(wamid=wamid.encode(), event_id=value.event_id, value=encode(value))


def _first_code(errors: Raw | UnsetType) -> int | None:
    for raw in read(_ERRORS, errors) or ():
        error = read(_ERROR, raw)
        number = None if error is None else _number(error.code)
        if number is not None and abs(number) < 2**31:
            return int(number)
    return None


def _change(item: Item, received_at_s: float) -> Record:
    if item.kind is Kind.ERROR or _is_account(item.field):
        return _account(item, received_at_s)
    return _other(item, received_at_s)


def _is_account(field: str) -> bool:
    return field.startswith(_ACCOUNT_PREFIXES) or field in _ACCOUNT_FIELDS


def _account(item: Item, received_at_s: float) -> Record:
    value = AccountChanged(
        event_id=_change_id(item),
        waba_id=item.waba_id,
        field=item.field,
        phone_number_id=item.phone_number_id,
        timestamp_s=timestamp_s(read(_TIME, item.entry_time), default_s=0),
        received_at_s=received_at_s,
        raw=item.raw,
    )
    envelope = Envelope(event_id=value.event_id, event_type="account.changed", produced_at_s=received_at_s)
    key = item.waba_id.encode() or NOBODY
    return Record(topic=ACCOUNT_EVENTS.name, key=key, value=encode(value), envelope=envelope)


def _other(item: Item, received_at_s: float) -> Record:
    value = OtherEvent(
        event_id=_change_id(item),
        waba_id=item.waba_id,
        field=item.field,
        phone_number_id=item.phone_number_id,
        received_at_s=received_at_s,
        raw=item.raw,
    )
    envelope = Envelope(event_id=value.event_id, event_type="other.received", produced_at_s=received_at_s)
    key = (item.phone_number_id or item.waba_id).encode() or NOBODY
    return Record(topic=OTHER_EVENTS.name, key=key, value=encode(value), envelope=envelope)


def _change_id(item: Item) -> str:
    """A change has no id of its own: its bytes and its entry's time are one, since Meta repeats identical bytes."""
    return event_id(
        "change", item.waba_id, item.phone_number_id or "", item.field, item.entry_time, bytes(item.raw)
    )


def timestamp_s(value: object, *, default_s: float) -> int:
    """Return Unix seconds from seconds or milliseconds, text or number; `default_s` for what is no moment."""
    number = _number(value)
    if number is None:
        return int(default_s)
    seconds = number / 1000 if number > _MILLISECONDS_FROM else number
    return int(seconds) if 0 < seconds < _TIMESTAMP_MAX_S else int(default_s)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value) if len(value) <= 32 else math.nan
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return None
