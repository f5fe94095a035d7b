"""Runs a handler over a group's records: at least once, in order per key, wider than the partitions.

Invariant: a commit never passes a record without a final disposition, whatever raises, rebalances, stops or dies.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final

from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from backpressure.backoff import backoff_s
from backpressure.lanes import Lanes
from backpressure.window import InFlightWindow
from kafkaio import deadletter, metrics
from kafkaio.consumer import RECORDS_MAX, Listener, Member, Record, TopicPartition
from kafkaio.disposition import (
    DeadLetter,
    DeadLetterReason,
    Disposition,
    Done,
    Drop,
    DropReason,
    Retry,
)
from kafkaio.fuse import DlqLimit, FuseTripped
from kafkaio.producer import NotPublished, Producer, ProducerFull
from kafkaio.settings import KafkaSettings
from kafkaio.tenure import Tenure, Tracker
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.logs import get_logger

POLL_S: Final = 0.2
HELD_POLL_S: Final = 0.02
COMMIT_EVERY_S: Final = 1.0
COMMIT_EVERY_RECORDS: Final = 5_000
RETRY_MIN_S: Final = 0.01
STOOD_S: Final = 15.0
"""No round takes as long: this process itself was frozen, or its machine."""

_log = get_logger()


class Stalled(Exception):
    """Records wait and nothing moves: the process is to end and start anew."""


class _Abandoned(Exception):
    """Running work did not end in time and is cancelled; it comes again."""


class Runner:
    """One consumer of one group. `run` it once.

    `handle` returns what becomes of a record; an exception sets the record aside as a bug. It is called again for the
    same record after a crash or a rebalance, and it must bound its own waiting. `key_of` names the lane: records with
    the same key are handled one at a time, in order. `producer` writes dead letters; without one, a record that
    needs to be set aside ends the run. Without `attempts_max`, a record is retried for ever.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        group: str,
        topics: Sequence[str],
        handle: Callable[[Record], Awaitable[Disposition]],
        key_of: Callable[[Record], str],
        producer: Producer | None,
        concurrency: int = 64,
        per_key_max: int = 100,
        inflight_max: int = 2_000,
        span_max: int = 20_000,
        attempts_max: int | None = None,
        stall_s: float = 120.0,
        limit: DlqLimit | None = None,
        clock: Clock = SYSTEM_CLOCK,
        rng: Random | None = None,
    ) -> None:
        assert concurrency <= inflight_max
        self._settings = settings
        self._group = group
        self._topics = tuple(topics)
        self._handle = handle
        self._key_of = key_of
        self._producer = producer
        # What the lanes hold, counted so that partitions are paused when it is full and resumed when it is half empty.
        self._window = InFlightWindow(high=inflight_max, low=inflight_max // 2)
        self._span_max = span_max
        self._attempts_max = attempts_max
        self._stall_s = stall_s
        self._limit = limit or DlqLimit()
        self._clock = clock
        self._rng = rng or Random()
        # A record that waits for its next attempt stays in its lane but holds no slot, so that slow keys don't
        # keep the others from running.
        self._slots = asyncio.Semaphore(concurrency)
        self._lanes = Lanes(capacity=inflight_max, per_key_max=per_key_max, concurrency=inflight_max)
        self._member = Member(
            settings,
            group=group,
            topics=self._topics,
            listener=Listener(self._lose, self._gain),
            assignor=RoundRobinPartitionAssignor,
            rng=self._rng,
        )
        self._tenure: Tenure | None = None
        self._lost_at = 0.0
        self._looked_at = 0.0
        self._commit_lock = asyncio.Lock()
        self._commit_due = asyncio.Event()
        self._finished = 0
        self._committed_at = 0.0
        self._fatal: Exception | None = None
        metrics.precreate(group, self._topics)

    @property
    def is_ready(self) -> bool:
        """The member is in its group, as far as known; it may hold no partition."""
        return self._tenure is not None and self._member.is_connected

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop` is set, then let running work end, commit and leave the group.

        Raises `FuseTripped`, `Stalled`, or what the library can't mend: the process should then end.
        """
        self._lost_at = self._committed_at = self._looked_at = self._clock.boottime()
        async with self._member:
            if not await self._member.start(stop):
                return
            try:
                async with self._lanes:
                    await self._consume(stop)
            except* _Abandoned:
                _log.warning("work.abandoned", group=self._group)
        if self._fatal is not None:
            raise self._fatal

    async def _consume(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            keeper = tasks.create_task(self._keep_time())
            while not stop.is_set() and self._fatal is None:
                try:
                    await self._turn()
                except KafkaError as error:
                    self._fail(error)
            keeper.cancel()
        tenure, self._tenure = self._tenure, None
        if tenure is not None and not await self._end(tenure):
            raise _Abandoned

    # --- partitions come and go

    def _gain(self, partitions: frozenset[TopicPartition]) -> None:
        metrics.REBALANCES.labels(self._group).inc()
        self._tenure = Tenure(partitions, span_max=self._span_max, now=self._clock.boottime())
        _log.info("partitions.assigned", group=self._group, partitions_count=len(partitions))

    async def _lose(self) -> None:
        # From here on, polls may still bring records of the old assignment. They are let go: the position of
        # whoever gets the partition next starts at what is committed.
        tenure, self._tenure = self._tenure, None
        self._lost_at = self._clock.boottime()
        if tenure is not None:
            await self._end(tenure)

    async def _end(self, tenure: Tenure) -> bool:
        """Start nothing more, wait for what runs, commit; False if something still runs."""
        tenure.ending.set()
        dropped = self._lanes.drop_queued()
        if dropped:
            self._window.settle(dropped)
        is_idle = await self._lanes.wait_idle(self._settings.drain_s)
        await self._commit(tenure)
        tenure.is_over = True
        _log.info("partitions.released", group=self._group, dropped_count=dropped, is_idle=is_idle)
        return is_idle

    # --- records in

    async def _turn(self) -> None:
        if (tenure := self._tenure) is not None:
            for tracker in tenure.trackers.values():
                self._submit(tenure, tracker)
            self._set_pauses(tenure)
        is_held = tenure is not None and any(tracker.held for tracker in tenure.trackers.values())
        fetched = await self._member.poll(HELD_POLL_S if is_held or not self._window.may_resume else POLL_S)
        # Without a wait between the poll's end and here, what it brought belongs to the tenure of this moment.
        if fetched and (tenure := self._tenure) is not None:
            metrics.observe_batch(self._group, sum(map(len, fetched.values())), RECORDS_MAX)
            now = self._clock.boottime()
            for at, records in fetched.items():
                tracker = tenure.trackers[at]
                tracker.receive(records, now)
                self._submit(tenure, tracker)
        await asyncio.sleep(0)

    def _submit(self, tenure: Tenure, tracker: Tracker) -> None:
        while tracker.may_begin:
            record = tracker.held[0]
            work = partial(self._work, tenure, tracker, record)
            if not self._lanes.submit(self._lane_of(record), work):
                return
            admitted = self._window.admit()
            assert admitted, "the window is as wide as the lanes"
            tracker.begin()

    def _lane_of(self, record: Record) -> str:
        try:
            return self._key_of(record)
        except Exception:  # noqa: BLE001  # the handler meets the same record and settles it
            return f"{record.topic}/{record.partition}"

    def _set_pauses(self, tenure: Tenure) -> None:
        for at, tracker in tenure.trackers.items():
            wanted = tracker.should_pause(is_full=not self._window.may_resume)
            if wanted != tracker.is_paused:
                tracker.is_paused = wanted
                (self._member.pause if wanted else self._member.resume)([at])

    # --- one record

    async def _work(self, tenure: Tenure, tracker: Tracker, record: Record) -> None:
        try:
            await self._see_through(tenure, tracker, record)
        finally:
            self._window.settle()

    async def _see_through(self, tenure: Tenure, tracker: Tracker, record: Record) -> None:
        """Try the record until it is finished with, or the tenure ends."""
        attempt = 0
        while not tenure.ending.is_set():
            attempt += 1
            disposition = await self._attempt(tenure, record, attempt)
            tracker.moved_at = self._clock.boottime()
            if isinstance(disposition, Retry):
                metrics.RECORDS.labels(self._group, "retry", disposition.reason).inc()
                await tenure.pause(max(RETRY_MIN_S, disposition.after_s))
            elif disposition is not None and await self._settle(tenure, record, disposition, attempt):
                tracker.finish(record)
                self._finished += 1
                if self._finished % COMMIT_EVERY_RECORDS == 0:
                    self._commit_due.set()
                return
            else:
                return

    async def _attempt(self, tenure: Tenure, record: Record, attempt: int) -> Disposition | None:
        """Return what becomes of the record; None when the tenure ended before that was known."""
        if record.envelope.replay_for not in (None, self._group):
            return Drop(DropReason.REPLAY_FOR_OTHER_GROUP)
        async with self._slots:
            if tenure.ending.is_set():
                return None
            began = self._clock.boottime()
            disposition: Disposition | None
            try:
                disposition = await self._handle(record)
            except Exception:  # noqa: BLE001  # a bug: whatever it is, it must not stop the partition
                _log.exception(
                    "record.failed", topic=record.topic, partition=record.partition, offset=record.offset
                )
                # When everything is closing, handlers fail for no fault of the record: it comes again.
                disposition = None if tenure.ending.is_set() else DeadLetter(DeadLetterReason.BUG)
            finally:
                metrics.PROCESSING.labels(self._group).observe(self._clock.boottime() - began)
        if isinstance(disposition, Retry) and attempt == self._attempts_max:
            return DeadLetter(DeadLetterReason.TOO_MANY_ATTEMPTS)
        return disposition

    async def _settle(
        self, tenure: Tenure, record: Record, disposition: Done | DeadLetter | Drop, attempt: int
    ) -> bool:
        """Turn a final disposition into its effects and counts; True when the record is finished with."""
        reason = disposition.reason if isinstance(disposition, DeadLetter) else None
        if self._limit.settle(reason):
            self._fail(FuseTripped("too many records failed through a fault of ours"))
        match disposition:
            case Done():
                metrics.RECORDS.labels(self._group, "done", "").inc()
            case Drop(why):
                metrics.RECORDS.labels(self._group, "drop", why).inc()
            case DeadLetter(why):
                if not await self._set_aside(tenure, record, why, attempt):
                    return False
                metrics.RECORDS.labels(self._group, "dead_letter", why).inc()
        return True

    async def _set_aside(
        self, tenure: Tenure, record: Record, reason: DeadLetterReason, attempts: int
    ) -> bool:
        if self._producer is None:
            self._fail(RuntimeError("a record is to be set aside and there is no producer"))
        tries = 0
        while self._producer is not None and self._fatal is None and not tenure.ending.is_set():
            try:
                await deadletter.write(
                    self._producer, record, group=self._group, reason=reason, attempts=attempts
                )
            except (NotPublished, ProducerFull):
                await tenure.pause(backoff_s(tries, base_s=0.2, cap_s=10.0, rng=self._rng))
                tries += 1
                continue
            _log.warning("record.dead_lettered", topic=record.topic, group=self._group, reason=reason)
            return True
        return False

    def _fail(self, error: Exception) -> None:
        if self._tenure is not None:
            self._tenure.ending.set()  # else the next record of the key would overtake the one that is left
        if self._fatal is None:
            self._fatal = error
            _log.error("consumer.failed", group=self._group, error=error)

    # --- once a second

    async def _keep_time(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_EVERY_S):
                    await self._commit_due.wait()
            self._commit_due.clear()
            if (tenure := self._tenure) is not None:
                await self._commit(tenure)
                self._report(tenure)
            await self._look_for_stall()

    async def _commit(self, tenure: Tenure) -> None:
        async with self._commit_lock:
            offsets = tenure.committable()
            if tenure.is_over or (offsets and not await self._member.commit(offsets)):
                return
            for at, offset in offsets.items():
                tenure.trackers[at].committed(offset)
            self._committed_at = self._clock.boottime()

    def _report(self, tenure: Tenure) -> None:
        now_s = self._clock.wall()
        lag = dict.fromkeys(self._topics, 0)
        age_s = dict.fromkeys(self._topics, 0.0)
        for at, tracker in tenure.trackers.items():
            lag[at.topic] += tracker.unsettled
            if tracker.next_offset is not None and (end := self._member.high_water(at)) is not None:
                lag[at.topic] += max(0, end - tracker.next_offset)
            if (oldest_s := tracker.oldest_s) is not None:
                age_s[at.topic] = max(age_s[at.topic], now_s - oldest_s)
        for topic in self._topics:
            metrics.LAG_RECORDS.labels(self._group, topic).set(lag[topic])
            metrics.LAG_SECONDS.labels(self._group, topic).set(age_s[topic])
        metrics.IN_FLIGHT.labels(self._group).set(self._window.in_flight)
        paused = sum(tracker.is_paused for tracker in tenure.trackers.values())
        metrics.PAUSED.labels(self._group).set(paused)
        metrics.COMMIT_AGE.labels(self._group).set(self._clock.boottime() - self._committed_at)

    async def _look_for_stall(self) -> None:
        """The library can fall silent without an error: no partitions for ever, or no records though there are some."""
        now = self._clock.boottime()
        stood_s, self._looked_at = now - self._looked_at, now
        tenure = self._tenure
        if stood_s > STOOD_S:  # nothing could move meanwhile
            self._lost_at += stood_s
            for tracker in tenure.trackers.values() if tenure is not None else ():
                tracker.moved_at += stood_s
            return
        if tenure is None:
            if now - self._lost_at > self._stall_s:
                self._fail(Stalled("no assignment"))
            return
        for at in tenure.stalled(now, self._stall_s):
            self._fail(Stalled(f"nothing ends in {at.topic}/{at.partition}"))
        silent = list(tenure.silent(now, self._stall_s))
        for at in await self._member.unread(silent):
            self._fail(Stalled(f"nothing comes from {at.topic}/{at.partition}"))
        for at in silent:
            tenure.trackers[at].moved_at = now  # asked again after another `stall_s`
