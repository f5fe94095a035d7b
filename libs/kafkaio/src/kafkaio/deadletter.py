"""Setting a record aside, as it came, with where it was and why in its headers; and handing it to its group once more.

Invariant: a dead letter is acknowledged by the broker before the original counts as finished. A replay is the record as
it was, on the partition where it was, with the same key and the same `event-id`, for the one group that failed.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from contracts.codec import REPLAY_FOR
from contracts.topics import WEBHOOKS_DLQ, dead_letter_name
from kafkaio.consumer import Record
from kafkaio.disposition import DeadLetterReason
from kafkaio.producer import Header, Producer, bytes_max, record_bytes, value_bytes_max

GROUP: Final = "dead-letter-group"
REASON: Final = "dead-letter-reason"
ATTEMPTS: Final = "dead-letter-attempts"
ORIGIN_TOPIC: Final = "origin-topic"
ORIGIN_PARTITION: Final = "origin-partition"
ORIGIN_OFFSET: Final = "origin-offset"
VALUE_BYTES: Final = "origin-value-bytes"
"""Stands only where the value was cut to fit: its full length. The origin says where the whole one is."""
OURS: Final = frozenset({GROUP, REASON, ATTEMPTS, ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, VALUE_BYTES})
_WEBHOOK_TYPE: Final = "webhook."
_NAME_LENGTH_MAX: Final = 249
"""Kafka's own limit of a topic's name; a group's is taken to be no longer."""
_DIGITS_MAX: Final = 18


def headers_of(record: Record, *, group: str, reason: DeadLetterReason, attempts: int) -> list[Header]:
    """Return the record's own headers and those of a dead letter; those of an earlier dead letter are replaced."""
    return [
        *without(record.headers),
        (GROUP, group.encode()),
        (REASON, reason.value.encode()),
        (ATTEMPTS, str(attempts).encode()),
        (ORIGIN_TOPIC, record.topic.encode()),
        (ORIGIN_PARTITION, str(record.partition).encode()),
        (ORIGIN_OFFSET, str(record.offset).encode()),
    ]


def without(headers: Sequence[Header]) -> list[Header]:
    """Return the headers that the record had before it was set aside."""
    return [(name, content) for name, content in headers if name not in OURS]


class Letter(Struct, frozen=True):
    """What is written to the dead letters."""

    key: bytes | None
    value: bytes
    headers: list[Header]


def fitted(topic: str, key: bytes | None, value: bytes, headers: list[Header]) -> Letter:
    """Return what fits one record of `topic`: a value too long is cut, and a header says how long it was.

    Where even key and headers are too long, only the headers of the dead letter are left.
    """
    if record_bytes(key, value, headers) <= bytes_max(topic):
        return Letter(key, value, headers)
    headers = [*headers, (VALUE_BYTES, str(len(value)).encode())]
    if (room := value_bytes_max(topic, key, headers)) >= 0:
        return Letter(key, value[:room], headers)
    return Letter(None, b"", [(name, content) for name, content in headers if name in OURS])


async def write(
    producer: Producer, record: Record, *, group: str, reason: DeadLetterReason, attempts: int
) -> None:
    """Set the record aside in `<topic>.dlq`; raises what `Producer.send` raises."""
    topic = dead_letter_name(record.topic)
    headers = headers_of(record, group=group, reason=reason, attempts=attempts)
    letter = fitted(topic, record.key, record.value or b"", headers)
    await producer.send(topic, value=letter.value, key=letter.key, headers=letter.headers)


class Place(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Story(Struct, frozen=True, kw_only=True):
    """What a dead letter's headers tell; None where they don't. A foreign writer may have written anything there."""

    group: str | None
    reason: str | None
    attempts: int | None
    origin: Place | None
    value_bytes: int | None
    """The full length of a value that was cut to fit; None when it is whole."""
    is_cut: bool


class ReplayRefusal(StrEnum):
    """Why a dead letter can't be replayed."""

    UNREADABLE_WEBHOOK = "unreadable_webhook"
    CUT = "cut"
    NO_GROUP = "no_group"
    NO_ORIGIN = "no_origin"


class Replay(Struct, frozen=True, kw_only=True):
    """A record as it is produced once more; it may hold personal data."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: list[Header]

    def __repr__(self) -> str:
        return f"Replay({self.topic}/{self.partition})"


def story_of(letter: Record) -> Story:
    """Return what the letter's headers tell."""
    found = dict(letter.headers)
    group, reason = _name(found.get(GROUP)), _name(found.get(REASON))
    if (
        letter.topic == WEBHOOKS_DLQ.name
    ):  # ingress writes what no topic has a type for: no record was set aside
        group, reason = "ingress", _name(letter.envelope.event_type.removeprefix(_WEBHOOK_TYPE).encode())
    return Story(
        group=group,
        reason=reason,
        attempts=_number(found.get(ATTEMPTS)),
        origin=_origin(found),
        value_bytes=_number(found.get(VALUE_BYTES)),
        is_cut=VALUE_BYTES in found,
    )


def replay_of(letter: Record, *, partitions_count: int) -> Replay | ReplayRefusal:
    """Return the record to produce, or why there is none; its origin topic has `partitions_count` partitions.

    It is never larger than the letter, so what was set aside whole fits.
    """
    if letter.topic == WEBHOOKS_DLQ.name:
        return ReplayRefusal.UNREADABLE_WEBHOOK
    story = story_of(letter)
    if story.is_cut:
        return ReplayRefusal.CUT
    if story.group is None:
        return ReplayRefusal.NO_GROUP
    origin = story.origin
    if (
        origin is None
        or dead_letter_name(origin.topic) != letter.topic
        or origin.partition >= partitions_count
    ):
        return ReplayRefusal.NO_ORIGIN
    headers = [(name, content) for name, content in without(letter.headers) if name != REPLAY_FOR]
    return Replay(
        topic=origin.topic,
        # Not chosen anew: on some topics the key doesn't decide it, and order rests on it.
        partition=origin.partition,
        key=letter.key,
        value=letter.value or b"",
        headers=[*headers, (REPLAY_FOR, story.group.encode())],
    )


async def replay(producer: Producer, once_more: Replay) -> None:
    """Return when the record stands on its topic again; raises what `Producer.send` raises."""
    await producer.send(
        once_more.topic,
        value=once_more.value,
        key=once_more.key,
        partition=once_more.partition,
        headers=once_more.headers,
    )


def _origin(found: Mapping[str, bytes]) -> Place | None:
    topic, partition = _name(found.get(ORIGIN_TOPIC)), _number(found.get(ORIGIN_PARTITION))
    offset = _number(found.get(ORIGIN_OFFSET))
    if topic is None or partition is None or offset is None:
        return None
    return Place(topic, partition, offset)


def _name(content: bytes | None) -> str | None:
    text = (content or b"").decode("ascii", "replace")
    return text if 0 < len(text) <= _NAME_LENGTH_MAX and text.isascii() and text.isprintable() else None


def _number(content: bytes | None) -> int | None:
    return int(content) if content and len(content) <= _DIGITS_MAX and content.isdigit() else None
