"""Who may send from a number: Kafka's assignment is the advice, a lease in Postgres the permission, its epoch the fence.

Invariant: this process sends from a number only within a tenure; a hand-over once begun is finished; advice is the last
completed assignment, so a rebalance, or Kafka being away, interrupts no number that stays.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from ledger import leases, numbers
from ledger.pool import Ledger, LedgerUnavailable
from runtime.clock import Clock
from runtime.logs import get_logger
from sender import metrics
from sender.inbound import InboundLoad
from sender.sending import NumberSender
from sender.tenure import Tenure
from sender.timing import Timing

if TYPE_CHECKING:
    from ledger.numbers import Work

RETRY_S = 0.25
RELEASE_TRIES = 8
log = get_logger()


class Advice(Protocol):
    """What Kafka's group says: the slots this process should serve."""

    @property
    def partitions(self) -> frozenset[int]: ...

    @property
    def version(self) -> int: ...


class LoopFence(Protocol):
    """Set when the loop stood still; lifted once the leases are renewed."""

    fenced: bool

    def unfence(self) -> None: ...


class Ownership:
    """Takes, renews, and hands over the leases of this process, and runs a sender for each."""

    def __init__(
        self,
        ledger: Ledger,
        advice: Advice,
        *,
        owner: UUID,
        make_sender: Callable[[Tenure], NumberSender],
        inbound: InboundLoad,
        fence: LoopFence,
        timing: Timing,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._advice = advice
        self._owner = owner
        self._make_sender = make_sender
        self._inbound = inbound
        self._fence = fence
        self._timing = timing
        self._clock = clock
        self._tenures: dict[str, Tenure] = {}
        self._senders: dict[str, NumberSender] = {}
        self._work_changed = asyncio.Event()
        self.has_followed_advice = False

    @property
    def numbers(self) -> frozenset[str]:
        """The numbers held now."""
        return frozenset(self._tenures)

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the advice until `stop`, then hand every number over."""
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._renew()),
                tasks.create_task(self._refresh_work()),
                tasks.create_task(self._listen()),
            ]
            while not stop.is_set():
                await self._follow_advice(tasks)
                try:
                    async with asyncio.timeout(RETRY_S):
                        await stop.wait()
                except TimeoutError:
                    pass
            for number in list(self._tenures):
                self._leave(number)
            while self._tenures:
                await self._clock.sleep(0.02)
            for task in background:
                task.cancel()

    async def _follow_advice(self, tasks: asyncio.TaskGroup) -> None:
        if self._advice.version == 0:
            return
        try:
            advised = set(await leases.owned_numbers(self._ledger, slots=sorted(self._advice.partitions)))
        except LedgerUnavailable:
            return
        for number in self._tenures.keys() - advised:
            self._leave(number)
        for number in sorted(advised - self._tenures.keys()):
            await self._take(number, tasks)
        self.has_followed_advice = True

    async def _take(self, number: str, tasks: asyncio.TaskGroup) -> None:
        asked_at = self._clock.boottime()
        try:
            taken = await leases.take(
                self._ledger,
                phone_number_id=number,
                owner=self._owner,
                lease_s=self._timing.lease_s,
                grace_s=self._timing.grace_s,
            )
        except LedgerUnavailable:
            return
        if taken is None:
            return
        tenure = Tenure(
            number,
            taken.epoch,
            asked_at=asked_at,
            answered_at=self._clock.boottime(),
            planned=taken.planned,
            timing=self._timing,
        )
        self._tenures[number] = tenure
        metrics.OWNED.set(len(self._tenures))
        log.info("lease.taken", phone_number_id=number, epoch=taken.epoch)
        tasks.create_task(self._serve(tenure))

    async def _serve(self, tenure: Tenure) -> None:
        number = tenure.phone_number_id
        sender = self._make_sender(tenure)
        self._senders[number] = sender
        self._work_changed.set()
        try:
            await sender.run()
            if not tenure.lost:
                await self._release(tenure)
        finally:
            del self._senders[number], self._tenures[number]
            metrics.OWNED.set(len(self._tenures))
        log.info("lease.left", phone_number_id=number, epoch=tenure.epoch, lost=tenure.lost)

    async def _release(self, tenure: Tenure) -> None:
        for _ in range(RELEASE_TRIES):
            try:
                await leases.release(self._ledger, phone_number_id=tenure.phone_number_id, epoch=tenure.epoch)
            except LedgerUnavailable:
                await self._clock.sleep(RETRY_S)
            else:
                return

    def _leave(self, number: str) -> None:
        self._tenures[number].leaving = True
        if number in self._senders:
            self._senders[number].wake()

    async def _renew(self) -> None:
        wait_s = self._timing.renew_s
        while True:
            await self._clock.sleep(wait_s)
            held = {number: tenure for number, tenure in self._tenures.items() if not tenure.lost}
            asked_at = self._clock.boottime()
            try:
                kept = await leases.renew(
                    self._ledger,
                    owner=self._owner,
                    epochs={number: tenure.epoch for number, tenure in held.items()},
                    lease_s=self._timing.lease_s,
                )
            except LedgerUnavailable:
                log.warning("leases.unrenewed", numbers_count=len(held))
                wait_s = RETRY_S
                continue
            wait_s = self._timing.renew_s
            for number, tenure in held.items():
                if number in kept:
                    tenure.renewed(asked_at)
                elif not tenure.leaving:  # else it was just given back
                    tenure.lost = True
                    log.warning("lease.lost", phone_number_id=number, epoch=tenure.epoch)
                    if number in self._senders:
                        self._senders[number].wake()
            self._fence.unfence()

    async def _refresh_work(self) -> None:
        """Read what there is to do every 250 ms, and at once when the database says that it changed."""
        while True:
            self._work_changed.clear()
            self._inbound.watch(frozenset(self._senders))
            try:
                found: dict[str, Work] = await numbers.work(
                    self._ledger, phone_number_ids=list(self._senders)
                )
            except LedgerUnavailable:
                found = {}
            for number, work in found.items():
                if number in self._senders:
                    inbound = self._inbound.per_s(number, self._clock.boottime())
                    self._senders[number].tell(work, inbound_per_s=inbound)
            try:
                async with asyncio.timeout(RETRY_S):
                    await self._work_changed.wait()
            except TimeoutError:
                pass

    async def _listen(self) -> None:
        while True:
            try:
                async with self._ledger.listening(
                    "sluice_work", lambda _campaign: self._work_changed.set()
                ) as connection:
                    while not connection.is_closed():
                        await self._clock.sleep(1.0)
            except LedgerUnavailable:
                pass
            await self._clock.sleep(RETRY_S)
