"""Which dead letters were replayed, so that a replay that was cut goes on where it was and a repeat leaves out the done.

Invariant: a letter that is marked stands on its topic again. One that isn't marked may, too, if the process died in
between: its group knows what it has handled, so that doing it once more changes nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from ledger.pool import Ledger

LETTERS_MAX: Final = 1_000
KEPT_DAYS: Final = 40
"""Longer than any dead-letter topic keeps its records (30 days, and the rest of a segment)."""


class LetterName(NamedTuple):
    """A dead letter: its place, and when it was written, Unix milliseconds."""

    topic: str
    partition: int
    offset: int
    written_at_ms: int


async def replayed(ledger: Ledger, names: Sequence[LetterName]) -> Mapping[LetterName, datetime]:
    """Return when each of these was replayed last; those that never were are absent."""
    assert len(names) <= LETTERS_MAX
    rows = await ledger.rows(
        "dead_letters_replayed",
        """
        SELECT asked.place, r.replayed_at
        FROM unnest($1::text[], $2::int4[], $3::int8[], $4::int8[])
             WITH ORDINALITY AS asked (topic, partition, letter_offset, written_at_ms, place)
        JOIN dead_letter_replays r USING (topic, partition, letter_offset, written_at_ms)
        """,
        [name.topic for name in names],
        [name.partition for name in names],
        [name.offset for name in names],
        [name.written_at_ms for name in names],
    )
    return {names[row["place"] - 1]: row["replayed_at"] for row in rows}


async def mark_replayed(ledger: Ledger, name: LetterName, *, actor: str) -> None:
    """Note that a letter stands on its topic again."""
    await ledger.run(
        "dead_letter_mark",
        """
        INSERT INTO dead_letter_replays (topic, partition, letter_offset, written_at_ms, actor)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (topic, partition, letter_offset, written_at_ms)
            DO UPDATE SET actor = excluded.actor, replayed_at = excluded.replayed_at
        """,
        *name,
        actor,
    )


async def forget_old(ledger: Ledger) -> None:
    """Drop the marks of letters that no topic holds any more."""
    await ledger.run(
        "dead_letters_forget",
        "DELETE FROM dead_letter_replays WHERE written_at_ms < 1000 * (extract(epoch FROM now()) - 86400 * $1::int)",
        KEPT_DAYS,
    )
