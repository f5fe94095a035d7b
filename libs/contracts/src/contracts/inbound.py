"""Messages that people write to a business number, as they travel on `inbound-messages`.

Invariant: `raw` is the JSON of the message as it came; what Sluice understands of it is a lenient view on top.
"""

import msgspec
from msgspec import Struct

from contracts.contact import ContactKey


class MessageReceived(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One element of `messages[]`, with the parts of its change that belong to it."""

    event_id: str
    phone_number_id: str
    waba_id: str
    contact_key: ContactKey
    wamid: str
    type: str
    timestamp_s: int
    """The message's own time, Unix seconds."""
    received_at_s: float
    """When ingress took it, Unix seconds."""
    position: int = 0
    """Its place within the webhook: ties of the same second are broken by it."""
    wa_id: str | None = None
    user_id: str | None = None
    parent_user_id: str | None = None
    profile_name: str | None = None
    raw: msgspec.Raw = msgspec.Raw(b"null")

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"MessageReceived(event_id={self.event_id!r}, type={self.type!r})"


class _Text(Struct):
    body: str | None = None


class _Button(Struct):
    payload: str | None = None
    text: str | None = None


class _Reply(Struct):
    id: str | None = None
    title: str | None = None


class _Interactive(Struct):
    button_reply: _Reply | None = None
    list_reply: _Reply | None = None


class _Spoken(Struct):
    text: _Text | None = None
    button: _Button | None = None
    interactive: _Interactive | None = None


def spoken_words(raw: msgspec.Raw | bytes) -> tuple[str, ...]:
    """Return what the person said, in words that can be compared: a text, a button's payload and text, a reply's title.

    Anything else, and anything malformed, is no words; never an error.
    """
    try:
        spoken = msgspec.json.decode(raw, type=_Spoken)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    words: list[str | None] = []
    if spoken.text:
        words.append(spoken.text.body)
    if spoken.button:
        words += [spoken.button.payload, spoken.button.text]
    if spoken.interactive:
        for reply in (spoken.interactive.button_reply, spoken.interactive.list_reply):
            if reply:
                words += [reply.id, reply.title]
    return tuple(word for word in words if word)
