"""When a number was last heard of: the newest trace of a webhook that reached the database.

Invariant: it reads a bounded share of the rows, by their keys. Of a busy number's messages and recipients it sees some
thousands, so it may name a moment a little before the last one, and never one at which nothing came.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from ledger.inbox import KEPT_S, WEEK_S
from ledger.pool import Ledger

ROWS_MAX = 5_000
CAMPAIGNS_MAX = 3


class Hearing(Struct, frozen=True, kw_only=True):
    """What was heard of a number, and what it sent; None: nothing that is still known."""

    heard_at: datetime | None
    """A message was taken in then, or Meta dated a status then."""
    sent_at: datetime | None
    """The newest message that Meta accepted was sent then."""


async def last_heard(ledger: Ledger, *, phone_number_ids: Sequence[str]) -> dict[str, Hearing]:
    """Return a `Hearing` for each of these numbers."""
    rows = await ledger.rows(
        "last_heard",
        """
        SELECT n.phone_number_id, greatest(seen.at, told.at) AS heard_at, told.sent_at
        FROM unnest($1::text[]) AS n(phone_number_id),
        LATERAL (
            SELECT max(i.seen_at) AS at
            FROM generate_series(0, $2::bigint) AS ago,
            LATERAL (SELECT seen_at FROM inbox
                     WHERE week = floor(extract(epoch FROM now()) / $3)::bigint - ago AND phone_number_id = n.phone_number_id
                     LIMIT $4) i
        ) seen,
        LATERAL (
            SELECT max(greatest(s.sent_at, s.delivered_at, s.read_at)) AS at,
                   max(s.started_at) FILTER (WHERE s.state IN ('accepted', 'sent', 'delivered', 'read')) AS sent_at
            FROM (SELECT campaign_id, seq_from, cursor FROM parts WHERE phone_number_id = n.phone_number_id
                  ORDER BY campaign_id DESC LIMIT $5) p,
            LATERAL (SELECT state, started_at, sent_at, delivered_at, read_at FROM recipient_states
                     WHERE campaign_id = p.campaign_id AND seq >= p.seq_from AND seq <= p.cursor AND seq > p.cursor - $4) s
        ) told
        """,
        list(phone_number_ids), KEPT_S // WEEK_S + 1, WEEK_S, ROWS_MAX, CAMPAIGNS_MAX,
    )  # fmt: skip
    return {row["phone_number_id"]: Hearing(heard_at=row["heard_at"], sent_at=row["sent_at"]) for row in rows}
