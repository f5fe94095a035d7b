"""What the judge reads: the simulator's records, an export, the audience's truth, counts and events, as plain values.

Invariant: fields nobody asked for are ignored, what is missing or broken raises `Unreadable`, and no text made here
holds a phone number. Knows the formats from their documentation alone: nothing of the judged code is imported.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_CALLBACK = re.compile(r"sl1:[^:]+:c:(\d+):(\d+):(\d+)")


class Unreadable(Exception):
    """An input is missing, broken or incomplete: there is nothing to judge by."""


@dataclass(frozen=True, slots=True)
class Told:
    """A status of one message. `posted` counts deliveries, `acked` those answered 200; times are Unix seconds.

    `posted_at` is when the first delivery began.
    """

    status: str
    timestamp: int
    code: int = 0
    posted: int = 0
    acked: int = 0
    posted_at: float | None = None
    acked_at: float | None = None
    has_callback: bool = True


@dataclass(frozen=True, slots=True)
class Post:
    """One POST as it arrived. `seq` and `attempt` are those of its campaign's callback data, else None."""

    n: int
    number: str
    arrived_at: float
    to: str = field(default="", repr=False)
    campaign: int | None = None
    seq: int | None = None
    attempt: int | None = None
    template: str | None = None
    params: tuple[str, ...] = field(default=(), repr=False)
    accepted: bool = False
    wamid: str | None = field(default=None, repr=False)
    behaviour: str = ""
    code: int = 0
    statuses: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """What a person wrote, the `order`-th of its row; `answers` names the row."""

    n: int
    wamid: str = field(repr=False)
    number: str
    sender: str = field(repr=False)
    order: int
    timestamp: int
    answers: str | None = field(default=None, repr=False)
    posted_at: float | None = None
    acked: int = 0
    acked_at: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A recipient in the export; times are Unix seconds."""

    seq: int
    line: int
    address: str = field(repr=False)
    number: str
    state: str
    reason: str = ""
    code: int | None = None
    attempt: int = 0
    wamid: str = field(default="", repr=False)
    sent_at: float | None = None
    delivered_at: float | None = None
    read_at: float | None = None
    failed_at: float | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """A line of the imported file, and what the import had to make of it; `params` is empty where nothing is said."""

    line: int
    phone: str = field(repr=False)
    expected: str
    params: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """A record of `conversation-events`, where it stands and what it says."""

    partition: int
    offset: int
    key: str | None = field(repr=False)
    event_id: str
    wamid: str = field(repr=False)
    turn: int


@dataclass(frozen=True, slots=True)
class Number:
    """A sending number: Meta's limit and our setting, both a second."""

    phone_number_id: str
    limit: float
    setting: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is judged. `starts` is the largest sliding second of starts a number; None where it wasn't measured."""

    posts: tuple[Post, ...]
    texts: tuple[Text, ...]
    rows: tuple[Row, ...]
    people: tuple[Person, ...]
    counts: Mapping[str, int]
    starts: Mapping[str, float | None]
    numbers: tuple[Number, ...]
    events: tuple[Event, ...]
    on_unknown: str = "give_up"
    campaign: int | None = None
    allowed_open: frozenset[str] = frozenset()

    def campaign_posts(self) -> list[Post]:
        """The POSTs of the judged campaign, in order of arrival."""
        found = [post for post in self.posts if post.seq is not None and post.campaign == self.campaign]
        return sorted(found, key=lambda post: (post.arrived_at, post.n))


def campaign_of(posts: Iterable[Post], wanted: int | None) -> int | None:
    """Return which campaign is judged; raise `Unreadable` when there are several and none is named."""
    seen = {post.campaign for post in posts if post.campaign is not None}
    if wanted is None and len(seen) > 1:
        raise Unreadable(f"POSTs of {len(seen)} campaigns: say which is judged (--campaign)")
    return wanted if wanted is not None else next(iter(seen), None)


def read_posts(lines: Iterable[str]) -> tuple[Post, ...]:
    """Return the rows of `GET /sim/report/messages`."""
    return _each_line(lines, _post)


def read_texts(lines: Iterable[str]) -> tuple[Text, ...]:
    """Return the rows of `GET /sim/report/inbound`."""
    return _each_line(lines, _text)


def require_complete(summary: Mapping[str, Any], posts: int, texts: int) -> None:
    """Raise `Unreadable` when the summary knows of records that the rows don't have."""
    unrecorded = int(summary.get("unrecorded", 0))
    if unrecorded:
        raise Unreadable(f"the simulator remembers {unrecorded} POSTs less than it got")
    for name, count in (("messages", posts), ("inbound", texts)):
        if count < int(summary.get(name, 0)):
            raise Unreadable(f"{count} rows of {name} where the summary counts {summary[name]}")


def read_rows(lines: Iterable[str]) -> tuple[Row, ...]:
    """Return the lines of `recipients export`."""
    return _each_record(lines, _row)


def read_people(lines: Iterable[str]) -> tuple[Person, ...]:
    """Return the lines of the audience's truth: line, phone, expected, and p1, p2, ... if it has them."""
    return _each_record(lines, _person)


def read_counts(value: Any) -> dict[str, int]:
    """Return recipients by state, bare or as the API's `counts`."""
    found = value.get("counts", value) if isinstance(value, dict) else value
    if not isinstance(found, dict) or not all(isinstance(count, int) for count in found.values()):
        raise Unreadable("the counts are no object of numbers")
    return found


def read_starts(value: Any) -> dict[str, float | None]:
    """Return the largest sliding second of starts a number; null says that it wasn't measured."""
    if not isinstance(value, dict):
        raise Unreadable("the starts are no object")
    return {str(number): None if most is None else float(most) for number, most in value.items()}


def read_numbers(value: Any) -> tuple[Number, ...]:
    """Return the numbers with limit and setting."""
    try:
        return tuple(
            Number(str(each["phone_number_id"]), float(each["limit"]), float(each["setting"]))
            for each in value
        )
    except (KeyError, TypeError, ValueError):
        raise Unreadable("each number needs phone_number_id, limit and setting") from None


def read_event(partition: int, offset: int, key: bytes | None, value: bytes | None) -> Event | None:
    """Return a record as an event; None for one that isn't about a handled message."""
    try:
        found = json.loads(value or b"null")
        if not isinstance(found, dict) or found.get("event", "message_handled") != "message_handled":
            return None
        name = None if key is None else key.decode()
        return Event(partition, offset, name, found["event_id"], found["wamid"], int(found["turn"]))
    except (KeyError, TypeError, ValueError):
        raise Unreadable(f"the event at partition {partition} offset {offset} can't be read") from None


def _each_line(lines: Iterable[str], parse: Callable[[dict[str, Any]], Any]) -> tuple[Any, ...]:
    found = []
    for place, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(parse(json.loads(line)))
            except (AttributeError, KeyError, TypeError, ValueError):
                raise Unreadable(f"row {place} can't be read by {parse.__name__.strip('_')}") from None
    return tuple(found)


def _each_record(lines: Iterable[str], parse: Callable[[dict[str, str]], Any]) -> tuple[Any, ...]:
    found = []
    reader = csv.DictReader(lines)
    for record in reader:
        try:
            found.append(parse(record))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Unreadable(
                f"CSV line {reader.line_num} can't be read by {parse.__name__.strip('_')}"
            ) from None
    return tuple(found)


def _post(raw: dict[str, Any]) -> Post:
    named = _CALLBACK.fullmatch(raw.get("callback_data") or "")
    campaign, seq, attempt = (int(part) for part in named.groups()) if named else (None, None, None)
    return Post(
        n=int(raw["n"]),
        number=str(raw["phone_number_id"]),
        arrived_at=float(raw["arrived_at"]),
        to=raw.get("to") or "",
        campaign=campaign,
        seq=seq,
        attempt=attempt,
        template=raw.get("template"),
        params=tuple(raw.get("params") or ()),
        accepted=bool(raw.get("accepted", False)),
        wamid=raw.get("wamid"),
        behaviour=raw.get("behaviour") or "",
        code=int(raw.get("code") or 0),
        statuses=tuple(_told(each) for each in raw.get("statuses") or ()),
    )


def _told(raw: dict[str, Any]) -> Told:
    return Told(
        status="read" if raw["status"] == "played" else str(raw["status"]),
        timestamp=int(raw["timestamp"]),
        code=int(raw.get("code") or 0),
        posted=int(raw.get("posted") or 0),
        acked=int(raw.get("acked") or 0),
        posted_at=_number_or_none(raw.get("first_posted_at")),
        acked_at=_number_or_none(raw.get("first_acked_at")),
        has_callback=bool(raw.get("callback_data_sent", True)),
    )


def _text(raw: dict[str, Any]) -> Text:
    return Text(
        n=int(raw["n"]),
        wamid=str(raw["wamid"]),
        number=str(raw["phone_number_id"]),
        sender=str(raw["sender"]),
        order=int(raw["order"]),
        timestamp=int(raw["timestamp"]),
        answers=raw.get("answers"),
        posted_at=_number_or_none(raw.get("first_posted_at")),
        acked=int(raw.get("acked") or 0),
        acked_at=_number_or_none(raw.get("first_acked_at")),
    )


def _row(raw: dict[str, str]) -> Row:
    return Row(
        seq=int(raw["seq"]),
        line=int(raw["line"]),
        address=raw["address"],
        number=raw["phone_number_id"],
        state=raw["state"],
        reason=raw["reason"],
        code=int(raw["code"]) if raw["code"] else None,
        attempt=int(raw["attempt"] or 0),
        wamid=raw["wamid"],
        sent_at=_unix(raw["sent_at"]),
        delivered_at=_unix(raw["delivered_at"]),
        read_at=_unix(raw["read_at"]),
        failed_at=_unix(raw["failed_at"]),
    )


def _person(raw: dict[str, str]) -> Person:
    params: list[str] = []
    while (value := raw.get(f"p{len(params) + 1}")) is not None:
        params.append(value.strip())
    return Person(int(raw["line"]), raw["phone"], raw["expected"], tuple(params))


def _number_or_none(value: Any) -> float | None:
    return None if value is None else float(value)


def _unix(text: str) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None
