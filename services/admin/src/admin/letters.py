"""How a dead letter is told without what it holds, and why one can't be replayed, in words.

Invariant: of a contact key (`<phone_number_id>:<person>`) a mask shows the business's part, and two characters of the other.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

SHOWN_LENGTH: Final = 2
_MASKED_LENGTH_MIN: Final = 6
_EPOCH: Final = datetime.fromtimestamp(0, UTC)

REFUSALS: Final[Mapping[str, str]] = {
    "unreadable_webhook": (
        "what it holds is a webhook, or a part of one, that could not be read: no topic has a type for it. Read it with"
        " --body; when a release can read it, post a whole webhook to ingress again, signed with the app secret"
    ),
    "cut": "its value was cut to fit; the whole one stood at its origin",
    "no_group": "it doesn't say which group failed on it",
    "no_origin": "it doesn't say where it came from, or that is no partition of the topic beside it",
}


def refusal_words(refusal: str, *, origin: str | None, full_bytes: int | None, value_bytes: int) -> str:
    """Return why a letter can't be replayed, and what can be done."""
    if refusal != "cut":
        return REFUSALS[refusal]
    sizes = f"from {full_bytes:,} to {value_bytes:,} bytes" if full_bytes is not None else "to fit"
    stood = (
        f"stood at {origin}, for as long as that topic keeps it"
        if origin
        else "is not known to stand anywhere"
    )
    return f"its value was cut {sizes}: the whole one {stood}"


def masked(key: bytes | None) -> str | None:
    """Return a key with what names a person hidden, but for its last characters; the business's number stays."""
    if key is None:
        return None
    head, colon, person = key.decode("utf-8", "replace").rpartition(":")
    if not (head.isascii() and head.isdecimal()):
        head, colon, person = "", "", head + colon + person
    shown = person[-SHOWN_LENGTH:] if len(person) >= _MASKED_LENGTH_MIN else ""
    return f"{head}{colon}…{shown}"


def moment_of(seconds: float) -> datetime:
    """Return the moment of Unix seconds; what is no moment is 1970."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return _EPOCH


def text_of(content: bytes) -> str | None:
    """Return bytes as text; None when they are no UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def printable(text: str) -> str:
    """Return `text` so that a terminal shows it and obeys nothing in it."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode()
        for one in text
    )
