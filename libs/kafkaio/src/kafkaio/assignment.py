"""Which partitions of one topic the group gives to this member, without reading a record of it.

Invariant: `partitions` is the last completed assignment; during a rebalance, and while the broker is away, it stays.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final, Self

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from kafkaio.consumer import Listener, Member, TopicPartition
from kafkaio.settings import KafkaSettings
from runtime.background import Background
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.logs import get_logger

POLL_S: Final = 0.2
REJOIN_S: Final = 2.0

_log = get_logger()


class Assignment:
    """A hint about who does what; whoever acts on it must hold a permission from elsewhere. Open it with `open`."""

    def __init__(self, settings: KafkaSettings, *, group: str, topic: str, clock: Clock, rng: Random) -> None:
        self._settings = settings
        self._group = group
        self._topic = topic
        self._clock = clock
        self._rng = rng
        self._member: Member | None = None
        self._partitions: frozenset[int] = frozenset()
        self._version = 0
        self._rebalancing_since: float | None = None
        self._completed = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: KafkaSettings,
        *,
        group: str,
        topic: str,
        clock: Clock = SYSTEM_CLOCK,
        rng: Random | None = None,
    ) -> AsyncIterator[Self]:
        """Be a member for the block. The broker may be away: then the member joins when it comes back."""
        assignment = cls(settings, group=group, topic=topic, clock=clock, rng=rng or Random())
        stop = asyncio.Event()
        async with Background() as tasks:
            tasks.create_task(assignment._keep(stop))
            try:
                yield assignment
            finally:
                stop.set()

    @property
    def partitions(self) -> frozenset[int]:
        return self._partitions

    @property
    def version(self) -> int:
        """0 before the first assignment; rises with each completed one, the same partitions or others."""
        return self._version

    @property
    def is_connected(self) -> bool:
        """The member knows its coordinator and no rebalance is under way, as far as known."""
        return self._rebalancing_since is None and self._member is not None and self._member.is_connected

    async def changed(self, since_version: int) -> int:
        """Wait for an assignment later than `since_version` and return its version. The caller bounds the wait."""
        while self._version <= since_version:
            self._completed.clear()
            await self._completed.wait()
        return self._version

    async def _keep(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            member = Member(
                self._settings,
                group=self._group,
                topics=(self._topic,),
                listener=Listener(self._lose, self._gain),
                # Ranges, since neighbours in `contracts.partition.slot_order` then never share a member.
                assignor=RangePartitionAssignor,
                rng=self._rng,
            )
            self._member = member
            self._rebalancing_since = self._clock.boottime()
            async with member:
                if await member.start(stop):
                    await self._take_part(member, stop)

    async def _take_part(self, member: Member, stop: asyncio.Event) -> None:
        while not stop.is_set() and not self._is_stuck():
            try:
                await member.poll(
                    POLL_S
                )  # brings nothing: all is paused. Without it the library leaves the group
            except KafkaError as error:
                _log.warning("assignment.failed", group=self._group, error=error)
                try:
                    async with asyncio.timeout(REJOIN_S):
                        await stop.wait()
                except TimeoutError:
                    pass
                return

    def _is_stuck(self) -> bool:
        """A rebalance that outlives all time-outs won't end any more: join anew."""
        since = self._rebalancing_since
        limit_s = self._settings.session_s + 3 * self._settings.rebalance_s
        return since is not None and self._clock.boottime() - since > limit_s

    async def _lose(self) -> None:
        self._rebalancing_since = self._clock.boottime()

    def _gain(self, partitions: frozenset[TopicPartition]) -> None:
        if self._member is not None:
            self._member.pause(partitions)
        self._rebalancing_since = None
        self._partitions = frozenset(at.partition for at in partitions)
        self._version += 1
        self._completed.set()
        _log.info("assignment.completed", group=self._group, partitions_count=len(partitions))
