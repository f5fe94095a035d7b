"""Setting a record aside: the record as it came, with where it was and why in its headers.

Invariant: a dead letter is acknowledged by the broker before the original counts as finished.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from contracts.topics import dead_letter_name
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
_OURS = frozenset({GROUP, REASON, ATTEMPTS, ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, VALUE_BYTES})


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
    return [(name, content) for name, content in headers if name not in _OURS]


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
    return Letter(None, b"", [(name, content) for name, content in headers if name in _OURS])


async def write(
    producer: Producer, record: Record, *, group: str, reason: DeadLetterReason, attempts: int
) -> None:
    """Set the record aside in `<topic>.dlq`; raises what `Producer.send` raises."""
    topic = dead_letter_name(record.topic)
    headers = headers_of(record, group=group, reason=reason, attempts=attempts)
    letter = fitted(topic, record.key, record.value or b"", headers)
    await producer.send(topic, value=letter.value, key=letter.key, headers=letter.headers)
