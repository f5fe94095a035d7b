"""What Meta says of templates, and the campaigns that it stops.

Invariant: an older event never overwrites a newer one, a repeat changes nothing, and what an event stops is paused in
the transaction that notes it.
"""

from msgspec import Struct

from contracts.account import TemplateChanged
from ledger.pool import Ledger


class Noted(Struct, frozen=True):
    """What became of an event: whether it was news, and the campaigns that it paused."""

    is_news: bool
    paused: tuple[int, ...]


async def note(ledger: Ledger, change: TemplateChanged) -> Noted:
    """Note a template's state, and pause the running campaigns that can't be sent with it."""
    row = await ledger.row(
        "template_note",
        "SELECT * FROM note_template($1, $2, $3, $4, $5, $6)",
        change.waba_id,
        change.name,
        change.language,
        change.state.value,
        change.reason,
        change.at_s,
    )
    assert row is not None
    return Noted(row["is_news"], tuple(row["paused"]))


async def pause_unsendable(ledger: Ledger) -> tuple[int, ...]:
    """Pause the campaigns that began to run just as their template's event was noted; return their ids."""
    return tuple(await ledger.value("templates_pause", "SELECT pause_unsendable(NULL, NULL)"))
