"""The customer service window: which messages open it, and until when one may answer freely.

Invariant: it is reckoned from the message's own time, never from the moment at which we handle it.
"""

from typing import Final

WINDOW_S: Final = 24 * 3600
"""Counted from the person's last message (Meta's page on sending messages, 2026)."""
MARGIN_S: Final = 300
"""Meta may refuse a reply although the window is open by our reckoning (its list of known issues): stop a little earlier."""

# Of reactions, system messages, welcomes and what is unsupported it is not known whether they open it: not relied on.
_OPENING: Final = frozenset(
    {
        "text",
        "image",
        "video",
        "audio",
        "voice",
        "document",
        "sticker",
        "button",
        "interactive",
        "order",
        "location",
        "contacts",
    }
)


def closes_at_s(message_type: str, timestamp_s: int) -> int | None:
    """Return when the window that such a message opens closes, Unix seconds; None when it opens none."""
    return timestamp_s + WINDOW_S if message_type in _OPENING else None


def is_open(window_closes_at_s: float | None, now_s: float, margin_s: float = MARGIN_S) -> bool:
    """Return whether a free-form reply may start now."""
    return window_closes_at_s is not None and now_s < window_closes_at_s - margin_s
