"""Takes messages into the inbox: those that arrive while one statement runs go together in the next.

Invariant: a message is answered only when it is durable, and never for longer than one statement may take, twice.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from contracts.inbound import MessageReceived, spoken_words
from conversations import admission, metrics, optout, window
from conversations.identity import identities
from ledger import inbox
from ledger.inbox import Arrival, SeenAs
from ledger.pool import Ledger, LedgerUnavailable

BATCH_MAX: Final = 500
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024


def arrival_of(message: MessageReceived, record: bytes, timestamp_s: int) -> Arrival:
    """Return the message as the inbox keeps it, with all that is decided about it; `timestamp_s` counts as its time."""
    return Arrival(
        phone_number_id=message.phone_number_id,
        wamid=message.wamid,
        contact_key=message.contact_key,
        timestamp_s=timestamp_s,
        received_s=admission.received_s(message),
        position=admission.position(message),
        closes_at_s=window.closes_at_s(message.type, timestamp_s),
        consent=optout.consent(spoken_words(message.raw)),
        identities=identities(message),
        record=record,
    )


class _Waiting:
    """One message on its way, and what became of it."""

    __slots__ = ("arrival", "is_over", "outcome")

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.outcome: SeenAs | None = None
        self.is_over = False


class Intake:
    """Group commit: whoever gets the lock takes along all who wait for it. As many wait as callers there are."""

    def __init__(self, ledger: Ledger, *, hold_s: float, note_due: Callable[[float], None]) -> None:
        self._ledger = ledger
        self._hold_s = hold_s
        self._note_due = note_due
        self._waiting: list[_Waiting] = []
        self._lock = asyncio.Lock()

    async def see(self, arrival: Arrival) -> SeenAs:
        """Write one message into the inbox; raises `LedgerUnavailable` when it may not be there: offer it again."""
        mine = _Waiting(arrival)
        self._waiting.append(mine)
        async with self._lock:
            while not mine.is_over:
                await self._see_together()
        if mine.outcome is None:
            raise LedgerUnavailable("inbox_see: the batch failed")
        metrics.SEEN.labels(mine.outcome).inc()
        return mine.outcome

    async def _see_together(self) -> None:
        batch = self._batch()
        try:
            outcomes = await inbox.see(
                self._ledger, [waiting.arrival for waiting in batch], hold_s=self._hold_s
            )
            for waiting, outcome in zip(batch, outcomes, strict=True):
                waiting.outcome = outcome
            self._note_due(self._hold_s)
        finally:  # also when it is cancelled: nobody waits for what nobody does
            for waiting in batch:
                waiting.is_over = True
        metrics.SEEN_BATCH.observe(len(batch))

    def _batch(self) -> list[_Waiting]:
        count = size_bytes = 0
        for waiting in self._waiting[:BATCH_MAX]:
            size_bytes += len(waiting.arrival.record)
            if count and size_bytes > BATCH_BYTES_MAX:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch
