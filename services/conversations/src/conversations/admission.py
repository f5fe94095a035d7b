"""Whether a message can be taken into the inbox, and which moment counts as its own.

Invariant: what is admitted fits the inbox's columns and indexes, so that no input can make a statement fail.
"""

import math
from typing import Final

from contracts.inbound import MessageReceived

DAY_S: Final = 86_400
TEXT_LENGTH_MAX: Final = 512
"""Of whatever stands in an index; real ids are a tenth of it."""
POSITION_MAX: Final = 2**31 - 1


def is_storable(message: MessageReceived) -> bool:
    """Return whether the texts that identify the message can be stored and indexed."""
    texts = (message.phone_number_id, message.wamid, message.contact_key)
    return all(0 < len(text) <= TEXT_LENGTH_MAX and text.isprintable() for text in texts)


def moment_s(message: MessageReceived, *, now_s: float, kept_s: float) -> int | None:
    """Return the message's own time, Unix seconds; None when it is over `kept_s` old (or before 1970).

    A time more than a day ahead is no time: the moment at which it was received takes its place.
    """
    own_s = message.timestamp_s
    if own_s > now_s + DAY_S:
        # Not a number and infinity end up at `now_s`, too.
        received_s = message.received_at_s
        own_s = int(received_s if 0 < received_s < now_s else now_s)
    return own_s if own_s >= max(0.0, now_s - kept_s) else None


def received_s(message: MessageReceived) -> float:
    """Return when its webhook was taken in; what is no time sorts first."""
    return message.received_at_s if math.isfinite(message.received_at_s) else 0.0


def position(message: MessageReceived) -> int:
    """Return the message's place within its webhook, as far as it can be one."""
    return min(max(message.position, 0), POSITION_MAX)
