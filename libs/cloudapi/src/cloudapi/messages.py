"""Bodies of `POST /{phone_number_id}/messages`, as bytes.

Invariant: a phone number goes out as a plus sign and its digits, since Meta may put the business number's own country
code before a number without one; a business-scoped user id goes into `recipient`, since Meta answers 200 to one in `to`
and drops the message (Meta's send page, as of 2026-09-11).
"""

from collections.abc import Mapping, Sequence

import msgspec

from contracts.contact import digits, is_bsuid

CALLBACK_DATA_CHARS_MAX = 512
"""The longest `biz_opaque_callback_data` (official changelog, as of 2026-11)."""
_encoder = msgspec.json.Encoder()


def template_message(
    *, to: str, template_name: str, language: str, body_parameters: Sequence[str], callback_data: str
) -> bytes:
    """Return the body of a template message with positional body parameters, which `parameter_fault` has passed."""
    template: dict[str, object] = {"name": template_name, "language": {"code": language}}
    if body_parameters:
        parameters = [{"type": "text", "text": value} for value in body_parameters]
        template["components"] = [{"type": "body", "parameters": parameters}]
    return _body(to, callback_data, {"type": "template", "template": template})


def text_message(*, to: str, text: str, callback_data: str, reply_to: str | None = None) -> bytes:
    """Return the body of a text message (≤ 4,096 characters), quoting the message `reply_to` if there is one."""
    message: dict[str, object] = {"type": "text", "text": {"body": text}}
    if reply_to is not None:
        message["context"] = {"message_id": reply_to}
    return _body(to, callback_data, message)


def typed_message(*, to: str, message: msgspec.Raw | bytes, callback_data: str) -> bytes:
    """Return the body around a type-specific part, `{"type": …, …}`; who it goes to and the callback data are ours.

    Raise `ValueError` when `message` is not a JSON object.
    """
    try:
        part = msgspec.json.decode(message, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("the type-specific part is no JSON object") from None
    for name in ("to", "recipient"):
        part.pop(name, None)
    return _body(to, callback_data, part)


def _body(to: str, callback_data: str, part: Mapping[str, object]) -> bytes:
    assert 0 < len(callback_data) <= CALLBACK_DATA_CHARS_MAX
    return _encoder.encode(
        {
            **part,
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            **_address(to),
            "biz_opaque_callback_data": callback_data,
        }
    )


def _address(to: str) -> dict[str, str]:
    if is_bsuid(to):
        return {"recipient": to}
    number = digits(to)
    assert number, "an audience holds numbers and user ids only"
    return {"to": f"+{number}"}
