"""Bytes to structs and back, and the envelope that travels in record headers.

Invariant: unknown fields are ignored on reading (the one place where they are), and a struct encodes to the same bytes
every time. `Undecodable` is the only error: its text names the field, never the content.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")

SCHEMA_VERSION = "1"
REPLAY_FOR = "replay-for"
_encoder = msgspec.json.Encoder()
# The fault's path, at the very end of msgspec's text: what stands before it may quote the content.
_FAULT_PATH = re.compile(r" - at (`[^`]*`)\Z")
_UNKNOWN_FIELD = "Object contains unknown field"
_decoders: dict[type, msgspec.json.Decoder[object]] = {}


class Undecodable(Exception):
    """Bytes that are not a value of the expected type; the text names the type and the path of the fault."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says about itself, in its headers."""

    event_id: str
    event_type: str
    schema_version: str = SCHEMA_VERSION
    produced_at_s: float = 0.0
    replay_for: str | None = None
    """Name of the only consumer group that shall handle this record again; others skip it."""


def encode(value: object) -> bytes:
    """Return `value` as JSON bytes."""
    return _encoder.encode(value)


def decode(value_type: type[T], payload: bytes | None) -> T:
    """Return the value in `payload`; raise `Undecodable` when it isn't one."""
    decoder = _decoders.get(value_type)
    if decoder is None:
        decoder = _decoders[value_type] = msgspec.json.Decoder(value_type)
    try:
        return decoder.decode(payload or b"")  # type: ignore[return-value]  # the decoder is for T by its key
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Undecodable(f"not a {value_type.__name__}: at {_fault_path(str(error))}") from None


def _fault_path(text: str) -> str:
    found = None if text.startswith(_UNKNOWN_FIELD) else _FAULT_PATH.search(text)
    return found[1] if found else "`$`"


def event_id(*parts: str | bytes) -> str:
    """Return the id of an event, derived from what it is, so that a redelivery has the same one (32 hex digits)."""
    raws = [part.encode() if isinstance(part, str) else part for part in parts]
    framed = b"".join(len(raw).to_bytes(4, "big") + raw for raw in raws)
    return hashlib.blake2b(framed, digest_size=16).hexdigest()


def to_headers(envelope: Envelope) -> list[tuple[str, bytes]]:
    """Return the record headers of an envelope."""
    headers = [
        ("event-id", envelope.event_id.encode()),
        ("event-type", envelope.event_type.encode()),
        ("schema-version", envelope.schema_version.encode()),
        ("produced-at", f"{envelope.produced_at_s:.3f}".encode()),
    ]
    if envelope.replay_for is not None:
        headers.append((REPLAY_FOR, envelope.replay_for.encode()))
    return headers


def from_headers(headers: Sequence[tuple[str, bytes]] | Iterable[tuple[str, bytes]]) -> Envelope:
    """Return the envelope in record headers; what is absent or broken gets its default, never an error."""
    found = {name: (value or b"").decode("utf-8", "replace") for name, value in headers}
    try:
        produced_at_s = float(found.get("produced-at", "0"))
    except ValueError:
        produced_at_s = 0.0
    if not math.isfinite(produced_at_s):
        produced_at_s = 0.0
    return Envelope(
        event_id=found.get("event-id", ""),
        event_type=found.get("event-type", ""),
        schema_version=found.get("schema-version", SCHEMA_VERSION),
        produced_at_s=produced_at_s,
        replay_for=found.get(REPLAY_FOR),
    )
