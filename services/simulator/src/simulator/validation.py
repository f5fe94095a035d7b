"""What the Graph API checks before it accepts a message.

Invariant: any body becomes an order, a read mark or a refusal, never an exception.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from simulator.refusal import Refusal
from simulator.scenario import Number, Template

BODY_BYTES_MAX = 1 << 20
CALLBACK_DATA_CHARS_MAX = 512
TEXT_CHARS_MAX = 4096
CAPTION_CHARS_MAX = 1024
BUTTONS_MAX = 3
LIST_ROWS_MAX = 10

_DECODER = msgspec.json.Decoder()
_NOT_DIGITS = re.compile(r"[+\-() ]")
_PHONE = re.compile(r"[1-9][0-9]{6,14}")
_BSUID = re.compile(r"[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}")
_MEDIA = ("image", "video", "audio", "document", "sticker")

Templates = Mapping[tuple[str, str], Template]
Found = Refusal | None


class Order(Struct, frozen=True):
    """A message that Meta would take. `who` is the recipient's digits, or a BSUID; `to` is what was written."""

    to: str
    who: str
    kind: str
    callback_data: str | None = None
    template: str | None = None
    language: str | None = None
    params: tuple[str, ...] = ()
    category: str = "service"


class ReadMark(Struct, frozen=True):
    """A read receipt, with or without a typing indicator. It has no wamid of its own."""

    message_id: str


def read_order(raw: bytes, number: Number, templates: Templates) -> Order | ReadMark | Refusal:
    """Check one body of `POST /{phone_number_id}/messages` in the order in which Meta complains."""
    try:
        body = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Refusal(100, "The body is not valid JSON.")
    if not isinstance(body, dict):
        return Refusal(100, "The body is not a JSON object.")
    if body.get("messaging_product") != "whatsapp":
        return Refusal(100, "The parameter messaging_product is required.")
    if "status" in body:
        return _read_mark(body)
    recipient = _recipient(body, number)
    if isinstance(recipient, Refusal):
        return recipient
    return _envelope(body) or _order(body, recipient, templates)


def _read_mark(body: dict[str, Any]) -> ReadMark | Refusal:
    message_id = body.get("message_id")
    if body["status"] != "read" or not isinstance(message_id, str) or not message_id:
        return Refusal(100, "A read mark needs status read and a message_id.")
    return ReadMark(message_id)


def _recipient(body: dict[str, Any], number: Number) -> tuple[str, str] | Refusal:
    """`(input, digits or BSUID)`; a phone number wins over a BSUID."""
    to = body.get("to")
    if to is None and "recipient" in body:
        user_id = body["recipient"]
        if isinstance(user_id, str) and _BSUID.fullmatch(user_id):
            return user_id, user_id
        return Refusal(131009, "The parameter recipient is not a user id.")
    if not isinstance(to, str):
        return Refusal(131009, "The parameter to is missing or not a string.")
    digits = _NOT_DIGITS.sub("", to)
    if not _PHONE.fullmatch(digits):
        return Refusal(131009, "The parameter to is not a phone number.")
    if digits == number.display_phone_number:
        return Refusal(131021, "The sender and the recipient are the same.")
    return to, digits


def _envelope(body: dict[str, Any]) -> Found:
    if body.get("recipient_type", "individual") != "individual":
        return Refusal(100, "The parameter recipient_type must be individual.")
    callback_data = body.get("biz_opaque_callback_data")
    if callback_data is not None and not _is_text(callback_data, CALLBACK_DATA_CHARS_MAX):
        return Refusal(100, "biz_opaque_callback_data must be a string of at most 512 characters.")
    context = body.get("context")
    if context is not None and not (isinstance(context, dict) and _is_text(context.get("message_id"))):
        return Refusal(131009, "context needs a message_id.")
    return None


def _order(body: dict[str, Any], recipient: tuple[str, str], templates: Templates) -> Order | Refusal:
    to, who = recipient
    kind = body.get("type", "text")
    if kind == "template":
        return _template_order(body, recipient, templates)
    check = _CHECKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        return Refusal(131051, "The message type is not supported.")
    content = body.get(kind)
    if content is None:
        return Refusal(131008, "The object of the message type is missing.")
    return check(content) or Order(to, who, kind, body.get("biz_opaque_callback_data"))


def _template_order(
    body: dict[str, Any], recipient: tuple[str, str], templates: Templates
) -> Order | Refusal:
    to, who = recipient
    content = body.get("template")
    if not isinstance(content, dict):
        return Refusal(131008, "The template object is missing.")
    name, language = content.get("name"), content.get("language")
    code = language.get("code") if isinstance(language, dict) else None
    if not isinstance(name, str) or not isinstance(code, str):
        return Refusal(131008, "A template needs a name and a language code.")
    template = templates.get((name, code))
    if template is None:
        return Refusal(132001, "The template does not exist in this language or is not approved.")
    if template.category == "authentication" and "." in who:
        return Refusal(131062, "Authentication templates need a phone number.")
    params = _body_params(content.get("components"))
    if isinstance(params, Refusal):
        return params
    if len(params) != template.body_params:
        return Refusal(132000, "body: the count of parameters does not match the template.")
    return Order(
        to, who, "template", body.get("biz_opaque_callback_data"), name, code, params, template.category
    )


def _body_params(components: Any) -> tuple[str, ...] | Refusal:
    if components is None:
        return ()
    if not isinstance(components, list):
        return Refusal(100, "components must be an array.")
    params: list[str] = []
    for component in components:
        kind = _lowered(component.get("type")) if isinstance(component, dict) else None
        if kind not in _COMPONENTS:
            return Refusal(100, "A component has no known type.")
        texts = _texts(component.get("parameters", [])) if kind == "body" else []
        if isinstance(texts, Refusal):
            return texts
        params += texts
    return tuple(params)


def _texts(parameters: Any) -> list[str] | Refusal:
    if not isinstance(parameters, list):
        return Refusal(100, "parameters must be an array.")
    texts: list[str] = []
    for item in parameters:
        text = _param_text(item)
        if isinstance(text, Refusal):
            return text
        texts.append(text)
    return texts


def _param_text(item: Any) -> str | Refusal:
    """The text of one body parameter; money and dates show their fallback."""
    kind = item.get("type") if isinstance(item, dict) else None
    if kind == "text":
        text = item.get("text")
    elif kind in ("currency", "date_time") and isinstance(item.get(kind), dict):
        text = item[kind].get("fallback_value")
    else:
        return Refusal(132012, "body: a parameter is of the wrong type.")
    if not isinstance(text, str) or not text:
        return Refusal(131008, "body: a parameter has no text.")
    return text


_COMPONENTS = frozenset(
    {"header", "body", "button", "carousel", "limited_time_offer", "tap_target_configuration"}
)


def _lowered(value: Any) -> str | None:
    """The type of a component, which Meta takes in either case (libraries in daily use write `BODY`)."""
    return value.lower() if isinstance(value, str) else None


def _is_text(value: Any, chars_max: int = 1_000) -> bool:
    return isinstance(value, str) and 0 < len(value) <= chars_max


def _check_text(content: Any) -> Found:
    if not isinstance(content, dict) or not isinstance(content.get("body"), str) or not content["body"]:
        return Refusal(131008, "text.body is missing.")
    if len(content["body"]) > TEXT_CHARS_MAX:
        return Refusal(131009, "text.body is longer than 4096 characters.")
    return None


def _check_media(content: Any) -> Found:
    if not isinstance(content, dict):
        return Refusal(131008, "The media object is missing.")
    if ("id" in content) == ("link" in content):
        return Refusal(131009, "Media takes either id or link.")
    if not _is_text(content.get("id", content.get("link")), 4_096):
        return Refusal(131009, "The media's id or link is not a string.")
    caption = content.get("caption")
    if caption is not None and (not isinstance(caption, str) or len(caption) > CAPTION_CHARS_MAX):
        return Refusal(131009, "caption is longer than 1024 characters.")
    return None


def _check_location(content: Any) -> Found:
    if not isinstance(content, dict) or not {"latitude", "longitude"} <= content.keys():
        return Refusal(131008, "A location needs latitude and longitude.")
    return None


def _check_reaction(content: Any) -> Found:
    if not isinstance(content, dict) or not _is_text(content.get("message_id")):
        return Refusal(131008, "A reaction needs a message_id.")
    if not isinstance(content.get("emoji", ""), str):
        return Refusal(131009, "The emoji is not a string.")
    return None


def _check_contacts(content: Any) -> Found:
    if not isinstance(content, list) or not content:
        return Refusal(131008, "contacts must be a list of at least one.")
    for contact in content:
        name = contact.get("name") if isinstance(contact, dict) else None
        if not isinstance(name, dict) or not _is_text(name.get("formatted_name")):
            return Refusal(131008, "A contact needs a formatted_name.")
    return None


def _check_interactive(content: Any) -> Found:
    if not isinstance(content, dict) or not _is_text(content.get("type")):
        return Refusal(131008, "interactive.type is missing.")
    text = content.get("body")
    if isinstance(text, dict) and len(str(text.get("text", ""))) > CAPTION_CHARS_MAX:
        return Refusal(131009, "interactive.body is longer than 1024 characters.")
    action = content.get("action")
    if not isinstance(action, dict):
        return Refusal(131008, "interactive.action is missing.")
    if content["type"] == "button" and not 1 <= _length(action.get("buttons")) <= BUTTONS_MAX:
        return Refusal(131009, "interactive needs one to three buttons.")
    if content["type"] == "list" and not 1 <= _rows(action.get("sections")) <= LIST_ROWS_MAX:
        return Refusal(131009, "interactive needs one to ten rows.")
    return None


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _rows(sections: Any) -> int:
    if not isinstance(sections, list):
        return 0
    return sum(_length(section.get("rows")) for section in sections if isinstance(section, dict))


_CHECKS: dict[str, Callable[[Any], Found]] = {
    "text": _check_text,
    "location": _check_location,
    "reaction": _check_reaction,
    "contacts": _check_contacts,
    "interactive": _check_interactive,
    **dict.fromkeys(_MEDIA, _check_media),
}
