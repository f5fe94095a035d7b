"""One batch of records becomes durable: rows updated, early statuses parked, poison set aside.

Invariant: `flush` says True only when every status of every record is in Postgres, in the dead letters, or counted as
none of ours. Whatever goes wrong it says False and raises nothing: then the process must end unacknowledged.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec import Struct, structs

from backpressure.backoff import backoff_s
from contracts.campaign import Rank
from contracts.codec import Undecodable, decode, encode
from contracts.contact import folded_phone
from contracts.status import CampaignRow, StatusBatch, StatusReported
from kafkaio import deadletter
from kafkaio import metrics as kafka_metrics
from kafkaio.consumer import Record
from kafkaio.disposition import DeadLetterReason, DropReason
from kafkaio.fuse import DlqLimit, FuseTripped
from kafkaio.producer import NotPublished, Producer
from ledger import statuses
from ledger.pool import Ledger, LedgerUnavailable
from ledger.statuses import AttemptStatus, ParkedStatus
from runtime.clock import Clock
from runtime.logs import get_logger
from status_aggregator import metrics
from status_aggregator.fold import Proof, RowKey, WamidKey, add, chunks, sort_out
from status_aggregator.retry import retry_in_s

GROUP: Final = "status-aggregator"
ROWS_MAX: Final = 1_000
AGAIN_BASE_S: Final = 0.1
AGAIN_CAP_S: Final = 2.0

_STATUSES = ("folded", "foreign", "unsupported_target", "unknown_word", "dead_lettered")
_MESSAGES = ("applied", "unresolved", "parked", "park_refused")
_DISPOSITIONS = (
    ("done", "", "done"),
    ("dead_letter", DeadLetterReason.UNDECODABLE, "undecodable"),
    ("drop", DropReason.REPLAY_FOR_OTHER_GROUP, "replay_for_other_group"),
)

log = get_logger()


class Item(Struct, frozen=True):
    """One status and the record that brought it."""

    record: Record
    status: StatusReported


class Flusher:
    """Writes batches, one after the other."""

    def __init__(
        self,
        ledger: Ledger,
        dead_letters: Producer,
        *,
        installation: str,
        retry_base_s: float,
        parked_max: int,
        deadline_s: float,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._ledger = ledger
        self._dead_letters = dead_letters
        self._installation = installation
        self._retry_base_s = retry_base_s
        self._parked_max = parked_max
        self._deadline_s = deadline_s
        self._clock = clock
        self._rng = rng
        self._fuse = DlqLimit()

    async def flush(self, records: Sequence[Record]) -> bool:
        """Return True when the records may be acknowledged; False when the deadline passed or nothing more helps."""
        started = self._clock.boottime()
        try:
            async with asyncio.timeout(self._deadline_s):
                tally = await self._flush(records)
        except (
            Exception
        ):  # a raise would be acknowledged: the stream ends the process instead (see stream.py)
            log.exception("batch.failed", records=len(records), seconds=self._since(started))
            return False
        seconds = self._since(started)
        _count(tally, seconds)
        metrics.LAST_BATCH.set(self._clock.wall())
        log.info("batch.flushed", records=len(records), seconds=seconds, **tally)
        return True

    async def _flush(self, records: Sequence[Record]) -> Counter[str]:
        tally: Counter[str] = Counter()
        items: list[Item] = []
        for record in records:
            if record.envelope.replay_for not in (None, GROUP):
                tally["replay_for_other_group"] += 1
                continue
            try:
                batch = decode(StatusBatch, record.value)
            except Undecodable:
                await self._set_aside(record, DeadLetterReason.UNDECODABLE)
                tally["undecodable"] += 1
                continue
            tally["done"] += 1
            items += [Item(record, status) for status in batch.statuses]
        return tally + await self._settle(items)

    async def _settle(self, items: Sequence[Item]) -> Counter[str]:
        """Write the items; those that can't be written for ever are found by halving, and set aside."""
        try:
            tally = await self._write_at_last(items)
        except (
            Exception
        ) as error:  # a bug that one status sets off costs that status alone (nobody else pays for it)
            if len(items) > 1:
                half = len(items) // 2
                return await self._settle(items[:half]) + await self._settle(items[half:])
            log.exception("status.poisonous")
            await self._set_aside_status(items[0], error)
            return Counter(dead_lettered=1)
        self._fuse.settle(None)
        return tally

    async def _write_at_last(self, items: Sequence[Item]) -> Counter[str]:
        attempt = 0
        while True:
            try:
                return await self._write(items)
            except Exception as error:
                if not passes(error):
                    raise
                log.warning("batch.delayed", error=error, attempt=attempt)
            await self._pause(attempt)
            attempt += 1

    async def _write(self, items: Sequence[Item]) -> Counter[str]:
        batch = sort_out(self._installation, [item.status for item in items])
        left_alone = Counter(
            foreign=batch.foreign,
            unsupported_target=batch.unsupported_target,
            unknown_word=batch.unknown_word,
        )
        tally = left_alone + Counter(folded=len(items) - left_alone.total())
        rows = dict(batch.rows)
        parked = await self._resolve(batch.wamids, rows)
        attempts = [self._attempt(key, proof, batch.names.get(key)) for key, proof in rows.items()]
        attempts.sort(key=_row_order)
        for chunk in chunks(attempts, ROWS_MAX, lambda one: one.row):
            unresolved = len(await statuses.apply(self._ledger, chunk))
            tally += Counter(applied=len(chunk) - unresolved, unresolved=unresolved)
        early = [
            self._early(key, parked[key], batch.recipients[key]) for key in sorted(parked, key=_wamid_order)
        ]
        for parking in chunks(early, ROWS_MAX, lambda one: one.wamid):
            refused = await statuses.park(self._ledger, parking, parked_max=self._parked_max)
            tally += Counter(parked=len(parking) - refused, park_refused=refused)
        return tally

    async def _resolve(
        self, wamids: dict[WamidKey, Proof], rows: dict[RowKey, Proof]
    ) -> dict[WamidKey, Proof]:
        """Move what is known of wamids into `rows`; return what isn't known yet."""
        known: dict[str, CampaignRow] = {}
        for chunk in chunks(sorted({key.wamid for key in wamids}), ROWS_MAX, lambda wamid: wamid):
            known |= await statuses.rows_of_wamids(self._ledger, chunk)
        early: dict[WamidKey, Proof] = {}
        for key, proof in wamids.items():
            row = known.get(key.wamid)
            if row is None:
                early[key] = proof
            else:
                add(rows, RowKey(row, key.phone_number_id), proof)
        return early

    def _attempt(self, key: RowKey, proof: Proof, wamid: str | None) -> AttemptStatus:
        return AttemptStatus(
            row=key.row,
            phone_number_id=key.phone_number_id,
            wamid=wamid,
            sent_s=proof.sent_s,
            delivered_s=proof.delivered_s,
            read_s=proof.read_s,
            failed_s=proof.failed_s,
            code=proof.code,
            retry_in_s=self._retry_in_s(proof),
        )

    def _early(self, key: WamidKey, proof: Proof, recipient: str) -> ParkedStatus:
        return ParkedStatus(
            wamid=key.wamid,
            phone_number_id=key.phone_number_id,
            recipient=folded_phone(recipient),
            sent_s=proof.sent_s,
            delivered_s=proof.delivered_s,
            read_s=proof.read_s,
            failed_s=proof.failed_s,
            code=proof.code,
            retry_in_s=self._retry_in_s(proof),
        )

    def _retry_in_s(self, proof: Proof) -> float | None:
        """A failure that something better outranks isn't tried again: the message arrived."""
        if proof.rank is not Rank.FAILED:
            return None
        return retry_in_s(proof.code, base_s=self._retry_base_s, rng=self._rng)

    async def _set_aside_status(self, item: Item, error: Exception) -> None:
        reason = DeadLetterReason.POISON if is_data_error(error) else DeadLetterReason.BUG
        alone = structs.replace(item.record, value=encode(StatusBatch((item.status,))))
        await self._set_aside(alone, reason)

    async def _set_aside(self, record: Record, reason: DeadLetterReason) -> None:
        if self._fuse.settle(reason):
            raise FuseTripped("statuses fail one after the other: the fault must be ours")
        attempt = 0
        while True:
            try:
                return await deadletter.write(
                    self._dead_letters, record, group=GROUP, reason=reason, attempts=1
                )
            except NotPublished as error:
                log.warning("dead_letter.delayed", error=error, attempt=attempt)
            await self._pause(attempt)
            attempt += 1

    async def _pause(self, attempt: int) -> None:
        metrics.FLUSH_RETRIES.inc()
        await self._clock.sleep(backoff_s(attempt, base_s=AGAIN_BASE_S, cap_s=AGAIN_CAP_S, rng=self._rng))

    def _since(self, moment: float) -> float:
        return round(self._clock.boottime() - moment, 3)


def is_data_error(error: Exception) -> bool:
    """The database refuses a value (class 22 or 23), or the driver can't encode it (a `ValueError` behind it)."""
    return _sqlstate(error).startswith(("22", "23")) or isinstance(error.__cause__, ValueError)


def passes(error: Exception) -> bool:
    """Whether the same write may succeed later, so that no status is to blame.

    Whatever Postgres reports besides refused values (21, 22, 23) and the complaints of our own functions (P0) is its
    own trouble: a standby that can't write, a schema or a permission that isn't there yet, a closed database.
    """
    if is_data_error(error):
        return False
    state = _sqlstate(error)
    return isinstance(error, LedgerUnavailable) or bool(state and not state.startswith(("21", "P0")))


def _sqlstate(error: Exception) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _row_order(one: AttemptStatus) -> tuple[int, int, int, str]:
    return one.row.campaign_id, one.row.seq, one.row.attempt, one.phone_number_id


def _wamid_order(key: WamidKey) -> tuple[str, str]:
    return key.wamid, key.phone_number_id


def _count(tally: Counter[str], seconds: float) -> None:
    metrics.FLUSH_SECONDS.observe(seconds)
    kafka_metrics.PROCESSING.labels(GROUP).observe(seconds)
    for disposition, reason, name in _DISPOSITIONS:
        kafka_metrics.RECORDS.labels(GROUP, disposition, reason).inc(tally[name])
    for counter, names in (
        (metrics.STATUSES, _STATUSES),
        (metrics.MESSAGES, _MESSAGES),
    ):
        for name in names:
            counter.labels(name).inc(tally[name])
