"""Recipients become lines of CSV or NDJSON, opt-outs lines of CSV.

Invariant: no cell is a formula to a spreadsheet. A text that begins with `= + - @`, tab or return gets a `'` in front,
which our own import takes off again. Addresses keep their `+`: they are `+` and digits by construction, which no
spreadsheet can run as more than a number, and other programs read them.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

COLUMNS = (
    *("seq", "line", "address", "phone_number_id", "state", "reason", "code", "attempt", "tries", "wamid"),
    *("sent_at", "delivered_at", "read_at", "failed_at"),
)
OPT_OUT_COLUMNS = ("phone", "user_id", "reason", "source", "since")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_AS_THEY_ARE = frozenset({"address", "phone"})


class Line(Protocol):
    """A recipient with the fields of `COLUMNS`."""

    @property
    def seq(self) -> int: ...


class OptOut(Protocol):
    """Who must not be written to; phones are digits."""

    @property
    def phones(self) -> Sequence[str]: ...

    @property
    def user_ids(self) -> Sequence[str]: ...

    @property
    def reason(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def since(self) -> datetime: ...


def csv_header() -> bytes:
    """Return the header line."""
    return ",".join(COLUMNS).encode() + b"\r\n"


def csv_lines(recipients: Iterable[Line]) -> bytes:
    """Return a line for each, in RFC 4180's form."""
    text = io.StringIO()
    writer = csv.writer(text)
    for recipient in recipients:
        writer.writerow([_cell(column, getattr(recipient, column)) for column in COLUMNS])
    return text.getvalue().encode()


def ndjson_lines(recipients: Iterable[Line]) -> bytes:
    """Return an object a line for each; what is absent is null."""
    encoder = msgspec.json.Encoder()
    return b"".join(
        encoder.encode({column: _value(getattr(recipient, column)) for column in COLUMNS}) + b"\n"
        for recipient in recipients
    )


def opt_out_header() -> bytes:
    """Return the header line of a list of opt-outs."""
    return ",".join(OPT_OUT_COLUMNS).encode() + b"\r\n"


def opt_out_lines(contacts: Iterable[OptOut]) -> bytes:
    """Return a line for each phone number of each contact, or one without for a contact known by its user id alone."""
    text = io.StringIO()
    writer = csv.writer(text)
    for contact in contacts:
        user_id = contact.user_ids[0] if contact.user_ids else ""
        for phone in contact.phones or ("",):
            cells = (f"+{phone}" if phone else "", user_id, contact.reason, contact.source, contact.since)
            writer.writerow(
                [_cell(column, value) for column, value in zip(OPT_OUT_COLUMNS, cells, strict=True)]
            )
    return text.getvalue().encode()


def guarded(text: str) -> str:
    """Return `text`, with a `'` in front if a spreadsheet would run it."""
    return "'" + text if text.startswith(_FORMULA_STARTS) else text


def _cell(column: str, value: object) -> str:
    plain = _value(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) and column in _AS_THEY_ARE else guarded(str(plain))


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value
