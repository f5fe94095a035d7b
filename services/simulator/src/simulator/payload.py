"""Webhook bodies in Meta's shape and in Meta's bytes (`\\uXXXX`, `\\/`), their signature, and wamids; pure."""

import hmac
import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from simulator.records import InboundRecord, MessageRecord, StatusRecord
from simulator.refusal import title
from simulator.scenario import Number

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))

ERRORS_HREF = "/documentation/business-messaging/whatsapp/support/error-codes"


class StatusUpdate(Struct, frozen=True, gc=False):
    """A status on its way to the webhook."""

    number: Number
    message: MessageRecord
    record: StatusRecord
    carries_pricing: bool = False


class TextUpdate(Struct, frozen=True, gc=False):
    """A person's text on its way to the webhook."""

    number: Number
    record: InboundRecord


Update = StatusUpdate | TextUpdate


def encode(value: Any) -> bytes:
    """JSON as Meta serialises it: compact, non-ASCII as lower-case `\\uXXXX`, every slash as `\\/`."""
    return _ENCODER.encode(value).replace("/", "\\/").encode("ascii")


def signature(secret: bytes, body: bytes) -> str:
    """The value of `X-Hub-Signature-256` for exactly these bytes."""
    return "sha256=" + hmac.digest(secret, body, "sha256").hex()


def wamid(who: str, run_id: int, n: int, *, inbound: bool = False) -> str:
    """A message id with the counterpart inside, like Meta's; unique by run and number."""
    token = f"{run_id & 0xFFFFFFFF:08X}{n:0{12 if inbound else 10}X}".encode()
    person = who.encode()
    marker = b"\x12" if inbound else b"\x11"
    raw = b"\x1c\x18" + bytes([len(person)]) + person + b"\x15\x02\x00" + marker
    return "wamid." + b64encode(raw + b"\x18" + bytes([len(token)]) + token + b"\x00").decode()


def is_user_id(who: str) -> bool:
    """Whether a person is known by a business-scoped user id and not by phone."""
    return "." in who


def user_id(who: str) -> str:
    """The business-scoped user id of a person; one who is known by phone has one too, always the same."""
    return who if is_user_id(who) else f"US.9{who:0>19}"


def wa_id(digits: str) -> str:
    """Meta's canonical form of a Brazilian mobile (55 + area + 9 + 8 digits loses the 9) or an Argentine number
    (54 gains a 9); any other number stays."""
    if len(digits) == 13 and digits.startswith("55") and digits[4] == "9":
        return digits[:4] + digits[5:]
    if len(digits) == 12 and digits.startswith("54") and digits[2] != "9":
        return "549" + digits[2:]
    return digits


def accepted_body(to: str, who: str, message_id: str, *, is_template: bool) -> bytes:
    """The 200 answer. `message_status` comes with templates alone."""
    contact = {"input": to, "user_id" if is_user_id(who) else "wa_id": who}
    message = {"id": message_id}
    if is_template:
        message["message_status"] = "accepted"
    answer = {"messaging_product": "whatsapp", "contacts": [contact], "messages": [message]}
    return msgspec.json.encode(answer)


def webhook_body(updates: Sequence[Update], *, user_ids: bool = False) -> bytes:
    """One POST: an entry for each WABA in order of appearance, a change for each run of the same number and
    shape of value. With `user_ids`, a phone number is never without its person's user id, except in a failure."""
    entries: dict[str, list[dict[str, Any]]] = {}
    for run in _runs(updates):
        number = run[0].number
        change = {"field": "messages", "value": _value(number, run, user_ids)}
        entries.setdefault(number.waba_id, []).append(change)
    return encode(
        {
            "object": "whatsapp_business_account",
            "entry": [{"id": waba_id, "changes": changes} for waba_id, changes in entries.items()],
        }
    )


def _runs(updates: Sequence[Update]) -> list[list[Update]]:
    runs: list[list[Update]] = []
    previous: tuple[str, str] | None = None
    for update in updates:
        shape = (update.number.phone_number_id, _shape(update))
        if shape == previous:
            runs[-1].append(update)
        else:
            runs.append([update])
        previous = shape
    return runs


def _shape(update: Update) -> str:
    if isinstance(update, TextUpdate):
        return "messages"
    return "failed" if update.record.status == "failed" else "statuses"


def _value(number: Number, run: list[Update], user_ids: bool) -> dict[str, Any]:
    value: dict[str, Any] = {
        "messaging_product": "whatsapp",
        "metadata": {
            "display_phone_number": number.display_phone_number,
            "phone_number_id": number.phone_number_id,
        },
    }
    statuses = [update for update in run if isinstance(update, StatusUpdate)]
    texts = [update for update in run if isinstance(update, TextUpdate)]
    if texts:
        value["contacts"] = _contacts([update.record.sender for update in texts], user_ids)
        value["messages"] = [_text(update.number, update.record, user_ids) for update in texts]
    elif statuses[0].record.status == "failed":  # a value with failures has no contacts
        value["statuses"] = [_status(update, user_ids=False) for update in statuses]
    else:
        value["contacts"] = _contacts([update.message.to for update in statuses], user_ids)
        value["statuses"] = [_status(update, user_ids) for update in statuses]
    return value


def _identity(who: str, user_ids: bool, *, phone: str, user: str) -> dict[str, str]:
    """The members that say who it is, under the names they have there; what is unknown is left out."""
    if is_user_id(who):
        return {user: who}
    return {phone: who, user: user_id(who)} if user_ids else {phone: who}


def _contacts(people: list[str], user_ids: bool) -> list[dict[str, Any]]:
    return [
        {
            "profile": {"name": f"Zoë / {who[-4:]} \N{THUMBS UP SIGN}"},
            **_identity(who, user_ids, phone="wa_id", user="user_id"),
        }
        for who in dict.fromkeys(people)
    ]


def _status(update: StatusUpdate, user_ids: bool) -> dict[str, Any]:
    message, record = update.message, update.record
    status: dict[str, Any] = {
        "id": message.wamid,
        "status": record.status,
        "timestamp": str(record.timestamp),
        **_identity(message.to, user_ids, phone="recipient_id", user="recipient_user_id"),
    }
    if message.callback_data is not None and record.callback_data_sent:
        status["biz_opaque_callback_data"] = message.callback_data
    if update.carries_pricing:
        status["pricing"] = {
            "billable": True,
            "pricing_model": "PMP",
            "type": "regular",
            "category": message.category,
        }
    if record.status == "failed":
        status["errors"] = [
            {
                "code": record.code,
                "title": title(record.code),
                "message": title(record.code),
                "error_data": {"details": f"{title(record.code)}."},
                "href": ERRORS_HREF,
            }
        ]
    return status


def _text(number: Number, record: InboundRecord, user_ids: bool) -> dict[str, Any]:
    text: dict[str, Any] = {
        **_identity(record.sender, user_ids, phone="from", user="from_user_id"),
        "id": record.wamid,
        "timestamp": str(record.timestamp),
        "type": "text",
        "text": {"body": record.text},
    }
    if record.answers is not None and record.order == 1:
        text["context"] = {"from": number.display_phone_number, "id": record.answers}
    return text
