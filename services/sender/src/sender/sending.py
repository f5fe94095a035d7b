"""One number being sent from: rows are claimed, wait for their token, and start; each POST's outcome is handed on.

Invariant: the token is taken last, with a connection slot in hand, and between the last check and the POST nothing waits.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from contracts.outcome import Outcome, Scope, Throttled, Unknown, UnknownReason, Unsent, UnsentReason
from contracts.status import CampaignRow
from ledger.numbers import PartWork, Work
from runtime.clock import Clock
from runtime.logs import get_logger
from sender import metrics
from sender.claiming import Claimer, Ready
from sender.dispatch import Turns, shares
from sender.pacing import Pacer
from sender.retry import reconnect_delay_s
from sender.settling import Result, Settler
from sender.tenure import Tenure
from sender.timing import Timing
from sender.verdict import hold_of, released, settlement

LOOK_AGAIN_S = 0.1
DUE_ROWS_WANTED = 1_000
log = get_logger()


class Fence(Protocol):
    """Says that the loop stood still, and that nothing may start until the leases are renewed."""

    fenced: bool


class Graph(Protocol):
    """Meta's side: one POST, once, whose every end is an outcome."""

    async def send_template(
        self,
        phone_number_id: str,
        *,
        to: str,
        template: str,
        language: str,
        body: Sequence[str],
        row: CampaignRow,
    ) -> Outcome: ...


class Slots:
    """POSTs that may be under way at once, of all numbers of this process."""

    def __init__(self, count: int) -> None:
        self._semaphore = asyncio.Semaphore(count)
        self.free = count

    async def acquire(self) -> None:
        await self._semaphore.acquire()
        self.free -= 1

    def release(self) -> None:
        self.free += 1
        self._semaphore.release()


class NumberSender:
    """Sends from one number for the length of one tenure."""

    def __init__(
        self,
        tenure: Tenure,
        *,
        claimer: Claimer,
        graph: Graph,
        settler: Settler,
        slots: Slots,
        fence: Fence,
        timing: Timing,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._tenure = tenure
        self._number = tenure.phone_number_id
        self._claimer = claimer
        self._graph = graph
        self._settler = settler
        self._slots = slots
        self._fence = fence
        self._timing = timing
        self._clock = clock
        self._rng = rng
        self._pacer = Pacer(0, now=clock.boottime())
        self._turns: Turns[Ready] = Turns()
        self._parts: dict[int, PartWork] = {}
        self._wanted: dict[int, int] = {}
        self._claimed_at: dict[int, int] = {}
        """Campaign → the number of its last claim."""
        self._claims_count = 0
        self._dropped: list[Ready] = []
        self._claim_wish = asyncio.Event()
        self._rows_ready = asyncio.Event()
        self._connect_failures = 0

    def tell(self, work: Work, *, inbound_per_s: int = 0) -> None:
        """Take in what is to be done now: setting, inbound traffic, running campaigns. Others' rows go back unsent."""
        self._pacer.set_setting(work.setting_per_s, self._clock.boottime(), inbound=inbound_per_s)
        open_parts = {part.campaign_id: part for part in work.parts if part.throttled_s <= 0}
        self._parts = open_parts
        self._claimed_at = {c: n for c, n in self._claimed_at.items() if c in open_parts}
        self._wanted = {
            campaign_id: part.fresh_count
            + (DUE_ROWS_WANTED if part.due_in_s is not None and part.due_in_s <= 0 else 0)
            for campaign_id, part in open_parts.items()
        }
        self._dropped += self._turns.drop(keep=frozenset(open_parts))
        self.wake()

    def wake(self) -> None:
        """Look at the tenure, the work and the rows again."""
        self._claim_wish.set()
        self._rows_ready.set()

    async def run(self) -> None:
        """Send until the tenure is over; every row that was claimed is then sent or given back."""
        metrics.declare_number(self._number)
        try:
            await self._send()
        finally:
            metrics.forget_number(self._number)

    async def _send(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            claiming = tasks.create_task(self._claim_while_needed())
            await self._dispatch(lambda row: tasks.create_task(self._post(row)))
            self.wake()
            await claiming
            await self._give_back(self._turns.drop(), "over")
            await self._give_back_dropped()  # what the last answers took out of the turns

    # Claiming

    async def _claim_while_needed(self) -> None:
        while not self._tenure.is_over:
            self._claim_wish.clear()
            certain = await self._claimer.look_up_lost()
            await self._settle_given_back()
            await self._give_back_dropped()
            room = self._room() if certain else 0
            asked = shares(room, self._wanted_fairly()) if room > 0 else {}
            for campaign_id, limit in asked.items():
                await self._claim(campaign_id, limit)
            if not asked:
                await self._wait(self._claim_wish)
        await self._claimer.look_up_lost()
        await self._settle_given_back()
        await self._give_back_dropped()

    def _room(self) -> int:
        """How many rows to claim now: up to what the next half second's tokens and the free slots cover, when half of
        it is used up."""
        now = self._clock.boottime()
        if self._fence.fenced or not self._tenure.may_claim(now):
            return 0
        if self._pacer.wait_s(now) > self._timing.claim_cover_s:
            return 0
        cover = min(max(1, int(self._pacer.pace * self._timing.claim_cover_s)), self._slots.free)
        waiting = len(self._turns)
        return 0 if waiting > cover // 2 else cover - waiting

    def _wanted_fairly(self) -> dict[int, int]:
        """Those first whose last claim is longest ago: a room for few isn't always the same campaigns'."""
        order = sorted(self._wanted, key=lambda campaign_id: self._claimed_at.get(campaign_id, 0))
        return {campaign_id: self._wanted[campaign_id] for campaign_id in order}

    async def _claim(self, campaign_id: int, limit: int) -> None:
        part = self._parts.get(campaign_id)
        if part is None or self._tenure.is_over:
            return
        self._claims_count += 1
        self._claimed_at[campaign_id] = self._claims_count
        outcome, rows = await self._claimer.claim(part, limit)
        left = self._wanted.get(campaign_id, 0) - len(rows)
        self._wanted[campaign_id] = max(0, left) if outcome == "claimed" and rows else 0
        if outcome == "fenced":
            self._tenure.lost = True
        if campaign_id in self._parts:
            self._turns.add(campaign_id, rows)
        else:  # paused while the claim was on its way
            self._dropped += rows
        self._rows_ready.set()

    # Dispatching

    async def _dispatch(self, start: Callable[[Ready], object]) -> None:
        while not self._tenure.is_over:
            self._rows_ready.clear()
            if not len(self._turns):
                self._claim_wish.set()
                await self._wait(self._rows_ready)
                continue
            await self._slots.acquire()
            row = await self._next_row()
            if row is None:
                self._slots.release()
            else:
                start(row)

    async def _next_row(self) -> Ready | None:
        """Take a token and the row that may start with it; None when there is no such row any more."""
        while len(self._turns):
            why = self._cannot_start(self._turns.first())  # asked first, as a token isn't given back
            if not why and not await self._token():
                return None
            row = self._turns.take()
            if len(self._turns) <= int(self._pacer.pace * self._timing.claim_cover_s) // 2:
                self._claim_wish.set()
            why = why or self._cannot_start(row)
            if not why:
                return row
            await self._give_back([row], why)
        return None

    async def _token(self) -> bool:
        """Take one token, waiting for it; False when there is nothing to spend it on any more."""
        asked_at = self._clock.boottime()
        now = asked_at
        while not self._tenure.is_over and len(self._turns):
            wait_s = self._pacer.take(now)
            if wait_s == 0.0:
                metrics.TOKEN_WAIT.observe(now - asked_at)
                metrics.STARTS_SECOND_MAX.labels(self._number).set(self._pacer.starts.most)
                metrics.SETTING.labels(self._number).set(self._pacer.pace)
                metrics.TOKENS.labels(self._number).set(self._pacer.tokens(now))
                return True
            if wait_s > LOOK_AGAIN_S:
                await self._give_back_stale(now)
            await self._clock.sleep(min(wait_s, LOOK_AGAIN_S))
            now = self._clock.boottime()
        return False

    def _cannot_start(self, row: Ready) -> str:
        """Why a row may not start now; empty when it may."""
        now = self._clock.boottime()
        if now - row.claimed_at > self._timing.claim_life_s:
            return "stale"
        if self._fence.fenced or not self._tenure.may_start(now):
            return "fenced"
        return ""

    async def _post(self, row: Ready) -> None:
        started = self._clock.boottime()
        metrics.IN_FLIGHT.inc()
        try:
            outcome = await self._outcome(row)
            metrics.POST_SECONDS.observe(self._clock.boottime() - started)
            self._react(row, outcome)
            await self._hand_on(row, outcome)
        finally:
            metrics.IN_FLIGHT.dec()
            self._slots.release()
            if not len(self._turns):
                self._claim_wish.set()  # claims wait for slots

    async def _outcome(self, row: Ready) -> Outcome:
        why = self._cannot_start(row)
        if why:
            metrics.RELEASED.labels(why).inc()
            return Unsent(UnsentReason.STALE_CLAIM if why == "stale" else UnsentReason.FENCED)
        metrics.STARTS.labels(self._number).inc()
        try:
            return await self._graph.send_template(
                self._number,
                to=row.address,
                template=row.part.template_name,
                language=row.part.template_language,
                body=row.params,
                row=CampaignRow(row.post.campaign_id, row.post.seq, row.post.attempt),
            )
        except Exception:
            log.exception("post.failed")
            return Unknown(UnknownReason.UNEXPECTED_ERROR)

    def _react(self, row: Ready, outcome: Outcome) -> None:
        """Adapt the number's pace to an outcome, and stop spending tokens on what is held back."""
        now = self._clock.boottime()
        scope = outcome.scope if isinstance(outcome, Throttled) else None
        metrics.OUTCOMES.labels(type(outcome).__name__.lower(), scope.value if scope else "").inc()
        if isinstance(outcome, Unsent) and outcome.reason is UnsentReason.NOT_CONNECTED:
            if self._pacer.is_held(now):
                return  # one of many that failed together
            self._connect_failures += 1
            self._pacer.hold(reconnect_delay_s(self._connect_failures, self._rng), now, self._rng)
            return
        self._connect_failures = 0
        if not isinstance(outcome, Throttled) or scope is Scope.PAIR:
            return
        if scope is Scope.NUMBER:
            self._pacer.hold(outcome.retry_after_s, now, self._rng)
            self._pacer.cut(now)
        kept = (
            frozenset(self._parts) - {row.post.campaign_id} if scope is Scope.TEMPLATE else frozenset[int]()
        )
        self._dropped += self._turns.drop(keep=kept)
        self._wanted = {c: n for c, n in self._wanted.items() if c in kept}
        self._claim_wish.set()

    # Giving back and handing on

    async def _give_back_stale(self, now: float) -> None:
        """While the number is held, rows don't wait beyond the life of their claim."""
        if self._pacer.wait_s(now) > self._timing.claim_cover_s:
            await self._give_back(self._turns.drop(), "held")

    async def _give_back_dropped(self) -> None:
        dropped, self._dropped = self._dropped, []
        await self._give_back(dropped, "stopped")

    async def _give_back(self, rows: list[Ready], why: str) -> None:
        for row in rows:
            metrics.RELEASED.labels(why).inc()
            await self._hand_on(row, Unsent(UnsentReason.STALE_CLAIM))

    async def _settle_given_back(self) -> None:
        lost, self._claimer.given_back = self._claimer.given_back, []
        for post, claim in lost:
            metrics.RELEASED.labels("answer_lost").inc()
            await self._settler.put(
                Result(
                    settlement=released(post),
                    claim=claim,
                    phone_number_id=self._number,
                    outcome="unsent",
                    template_name="",
                    template_language="",
                )
            )

    async def _hand_on(self, row: Ready, outcome: Outcome) -> None:
        await self._settler.put(
            Result(
                settlement=settlement(row.post, outcome, self._rng),
                claim=row.claim,
                phone_number_id=self._number,
                outcome=type(outcome).__name__.lower(),
                template_name=row.part.template_name,
                template_language=row.part.template_language,
                hold=hold_of(outcome),
            )
        )

    async def _wait(self, event: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(LOOK_AGAIN_S):
                await event.wait()
        except TimeoutError:
            pass
