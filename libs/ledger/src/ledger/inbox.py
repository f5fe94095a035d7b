"""The inbox of messages and the outbox of events: seen once, handled one at a time per contact, told at least once.

Invariant: a message's effects, its `handled` mark and its outbox row are committed together or not at all. Whoever
handles holds the lane of the contact key and the row of the contact, so two processes never work for one person at
the same time, and an event of a lane is committed only when all earlier ones of that lane are known to be told.

While handling is SQL alone, these row locks are the whole lease. Work outside a transaction (a bot's answer) cannot
hold them: it is to note the conversation's `version`, and to commit only `WHERE version` is still what it noted; every
change raises it.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from contracts.contact import ContactKey
from contracts.conversation import Consent
from ledger.pool import Ledger, Row

DAY_S = 86_400
WEEK_S = 7 * DAY_S
KEPT_S = 30 * DAY_S
"""How long a message is remembered; one that is older when it arrives can't be told from a repeat."""
ARRIVALS_MAX = 1_000


class Arrival(Struct, frozen=True, kw_only=True):
    """A message as it goes into the inbox. Texts are free of NUL and short enough for an index."""

    phone_number_id: str
    wamid: str
    contact_key: ContactKey
    timestamp_s: int
    """The message's own time, Unix seconds, not negative: its week is derived from it."""
    received_s: float
    """When its webhook was taken in, Unix seconds: messages of the same second are in this order."""
    position: int
    """Its place within that webhook."""
    closes_at_s: int | None
    """End of the customer service window that it opens, Unix seconds; None when it opens none."""
    consent: Consent | None
    identities: tuple[tuple[str, str], ...]
    """(kind, value) pairs; values are printable."""
    record: bytes

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"Arrival({len(self.record)} bytes)"


class SeenAs(StrEnum):
    """What the inbox made of a message."""

    SEEN = "seen"
    DUPLICATE = "duplicate"
    FOREIGN_NUMBER = "foreign_number"


class Told(Struct, frozen=True, kw_only=True):
    """A handled message whose event is still to be told."""

    outbox_id: int
    contact_key: ContactKey
    contact_id: int
    turn: int
    closes_at_s: int | None
    timestamp_s: int
    consent: Consent | None
    record: bytes

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"Told(outbox_id={self.outbox_id}, turn={self.turn})"


class Handled(Struct, frozen=True):
    """What one call handled: events in order within each contact key, and how many messages were set aside."""

    events: tuple[Told, ...]
    faults_count: int


class Backlog(Struct, frozen=True):
    """What is behind: lanes that are due, the age of the longest overdue in seconds, events not yet told."""

    lanes_count: int
    overdue_s: float
    untold_count: int


class Conversation(Struct, frozen=True, kw_only=True):
    """What is known of a contact's conversation with a number; times in Unix seconds."""

    turn: int
    version: int
    last_inbound_at_s: float | None
    window_closes_at_s: float | None


async def see(ledger: Ledger, arrivals: Sequence[Arrival], *, hold_s: float) -> list[SeenAs]:
    """Write messages into the inbox, durable when this returns; each is due `hold_s` seconds later."""
    assert 0 < len(arrivals) <= ARRIVALS_MAX
    outcomes = await ledger.value(
        "inbox_see",
        "SELECT inbox_see($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        hold_s,
        [a.phone_number_id for a in arrivals],
        [a.wamid for a in arrivals],
        [a.contact_key for a in arrivals],
        [a.timestamp_s for a in arrivals],
        [a.received_s for a in arrivals],
        [a.position for a in arrivals],
        [a.closes_at_s for a in arrivals],
        [a.consent for a in arrivals],
        ["\n".join(kind for kind, _ in a.identities) for a in arrivals],
        ["\n".join(value for _, value in a.identities) for a in arrivals],
        [a.record for a in arrivals],
    )
    return [SeenAs(outcome) for outcome in outcomes]


async def handle(ledger: Ledger, *, lanes_max: int, per_lane_max: int) -> Handled:
    """Handle what is due, in one transaction: at most `per_lane_max` messages of each of `lanes_max` contact keys."""
    rows = await ledger.rows("inbox_handle", "SELECT * FROM inbox_handle($1, $2)", lanes_max, per_lane_max)
    events = tuple(_told(row) for row in rows if row["outbox_id"] is not None)
    return Handled(events, len(rows) - len(events))


async def take_untold(ledger: Ledger, *, older_s: float, lanes_max: int) -> tuple[Told, ...]:
    """Take over events that nobody has told for `older_s` seconds: whoever handled them is gone."""
    rows = await ledger.rows("outbox_take", "SELECT * FROM outbox_take($1, $2)", older_s, lanes_max)
    return tuple(_told(row) for row in rows)


async def forget_told(ledger: Ledger, events: Sequence[Told]) -> bool:
    """Remove events that are on the topic; return whether their lanes have more to do now."""
    more = await ledger.value(
        "outbox_published",
        "SELECT outbox_published($1, $2)",
        [event.contact_key for event in events],
        [event.outbox_id for event in events],
    )
    return bool(more)


async def backlog(ledger: Ledger) -> Backlog:
    """Return what is behind at this moment, in all processes."""
    row = await ledger.row(
        "inbox_backlog",
        """
        SELECT count(*) AS lanes, greatest(0, extract(epoch FROM clock_timestamp() - min(due_at)))::float8 AS overdue_s,
               (SELECT count(*) FROM outbox) AS untold
        FROM inbox_lanes WHERE due_at <= clock_timestamp()
        """,
    )
    assert row is not None
    return Backlog(row["lanes"], row["overdue_s"] or 0.0, row["untold"])


async def drop_old_weeks(ledger: Ledger, *, now_s: float) -> int:
    """Drop the weeks that ended longer than `KEPT_S` before `now_s`; return how many."""
    return int(await ledger.value("inbox_drop", "SELECT drop_inbox_weeks($1)", int(now_s - KEPT_S) // WEEK_S))


async def conversation(ledger: Ledger, *, phone_number_id: str, contact_id: int) -> Conversation | None:
    """Return a conversation; None when the contact never wrote to the number."""
    row = await ledger.row(
        "conversation",
        """
        SELECT turn, version, extract(epoch FROM last_inbound_at)::float8 AS last_inbound_at_s,
               extract(epoch FROM window_closes_at)::float8 AS window_closes_at_s
        FROM conversations WHERE phone_number_id = $1 AND contact_id = $2
        """,
        phone_number_id,
        contact_id,
    )
    return None if row is None else Conversation(**dict(row))


def _told(row: Row) -> Told:
    return Told(
        outbox_id=row["outbox_id"],
        contact_key=ContactKey(row["contact_key"]),
        contact_id=row["contact_id"],
        turn=row["turn"],
        closes_at_s=row["closes_at_s"],
        timestamp_s=row["timestamp_s"],
        consent=None if row["consent"] is None else Consent(row["consent"]),
        record=row["record"],
    )
