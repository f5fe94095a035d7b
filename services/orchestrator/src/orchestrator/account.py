"""What an event of `account-events` means: a template's new state, or a kind that is only counted.

Invariant: nothing that stands in an event raises; a word of tomorrow is a kind, not an error.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from contracts.account import AccountChanged, TemplateChanged, TemplateState

TEMPLATE_FIELD: Final = "message_template_status_update"
# What each event leaves a template in. FLAGGED warns, LOCKED and UNLOCKED are about its editing: it can still be sent,
# or still can't. Meta's webhook reference, 2026-09-11.
STATE_AFTER: Final = {
    **{state.value: state for state in TemplateState},
    "REINSTATED": TemplateState.APPROVED,
    "UNARCHIVED": TemplateState.APPROVED,
}
NAME_MAX: Final = 512
REASON_MAX: Final = 200


class Kind(StrEnum):
    """What an event is about, as a metric's label."""

    TEMPLATE = "template"
    TEMPLATE_OTHER = "template_other"
    """A template's event that changes nothing about whether it can be sent."""
    ACCOUNT_UPDATE = "account_update"
    PHONE_NUMBER_QUALITY_UPDATE = "phone_number_quality_update"
    OTHER = "other"
    UNREADABLE = "unreadable"


_ONLY_COUNTED: Final = {kind.value: kind for kind in (Kind.ACCOUNT_UPDATE, Kind.PHONE_NUMBER_QUALITY_UPDATE)}


class _Template(Struct):
    event: str
    message_template_name: str
    message_template_language: str
    reason: object = None


def meaning(event: AccountChanged, *, now_s: float) -> TemplateChanged | Kind:
    """Return the template's new state, or the kind of an event that changes none."""
    if event.field != TEMPLATE_FIELD:
        return _ONLY_COUNTED.get(event.field, Kind.OTHER)
    try:
        said = msgspec.json.decode(event.raw, type=_Template)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Kind.UNREADABLE
    name, language = said.message_template_name, said.message_template_language.replace("-", "_")
    if not all(map(_is_key, (event.waba_id, name, language))):
        return Kind.UNREADABLE
    state = STATE_AFTER.get(said.event)
    if state is None:
        return Kind.TEMPLATE_OTHER
    return TemplateChanged(
        waba_id=event.waba_id,
        name=name,
        language=language,
        state=state,
        reason=said.reason.replace("\0", "")[:REASON_MAX] if isinstance(said.reason, str) else None,
        at_s=happened_at_s(event, now_s=now_s),
    )


def happened_at_s(event: AccountChanged, *, now_s: float) -> float:
    """Return Meta's time of the event, never later than ours of its arrival: a wrong clock must not outlast the truth."""
    arrived_s = event.received_at_s if 0 < event.received_at_s < now_s else now_s
    return min(float(event.timestamp_s), arrived_s) if event.timestamp_s > 0 else arrived_s


def _is_key(text: str) -> bool:
    return 0 < len(text) <= NAME_MAX and "\0" not in text
