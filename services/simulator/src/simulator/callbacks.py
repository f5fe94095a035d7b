"""Signed webhooks to whoever listens: batched, at times doubled or shuffled, redelivered byte for byte until 200.

Invariant: what waits is bounded, and an update leaves only by an answer of exactly 200 or by giving up, counted.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import httpx
from msgspec import Struct

from runtime.clock import Clock
from runtime.config import Secret
from simulator.metrics import WEBHOOK_POSTS_TOTAL, WEBHOOKS_PENDING
from simulator.payload import TextUpdate, Update, signature, webhook_body
from simulator.records import InboundRecord, StatusRecord
from simulator.scenario import Webhooks

CONNECTIONS = 6  # httpx's own pool is slow beyond a handful
SHUFFLE_WINDOW_BATCHES = 4
DOUBLED_AFTER_S = 1.0

Told = StatusRecord | InboundRecord


class Tally(Struct):
    """Counts of one run. `unreachable` had no HTTP answer at all."""

    posts: int = 0
    acked: int = 0
    non_200: int = 0
    unreachable: int = 0
    redeliveries: int = 0
    doubled: int = 0
    shuffled: int = 0
    gave_up: int = 0
    updates: int = 0


class Parcel(Struct, eq=False):
    """One body on its way. `records` are those of the updates inside."""

    body: bytes
    records: list[Told]
    first_at: float
    generation: int
    attempts: int = 0
    is_copy: bool = False


class _Waiting(NamedTuple):
    since: float
    update: Update


class _Retry(NamedTuple):
    at: float
    n: int
    parcel: Parcel


class Callbacks:
    """The outgoing side. `offer` never waits: ask `room` first."""

    def __init__(
        self, settings: Callable[[], Webhooks], *, url: str, secret: Secret, clock: Clock, rng: Random
    ) -> None:
        self._settings = settings
        self._url = url
        self._secret = secret.reveal().encode()
        self._clock = clock
        self._rng = rng
        self._waiting: deque[_Waiting] = deque()
        self._retries: list[_Retry] = []
        self._held = 0
        self._retry_n = 0
        self._generation = 0
        self._in_flight = 0
        self._wake = asyncio.Event()
        self._watched: dict[int, asyncio.Event] = {}
        self.tally = Tally()

    @property
    def room(self) -> int:
        """Updates that may be offered now."""
        return max(0, self._settings().pending_max - self.pending)

    @property
    def pending(self) -> int:
        """Updates not yet delivered: waiting, under way, or to be redelivered."""
        return len(self._waiting) + self._held

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self._retries or self._in_flight)

    def offer(self, update: Update, *, urgent: bool = False) -> None:
        """Take an update. An urgent one travels in the next POST."""
        if urgent:
            self._waiting.appendleft(_Waiting(float("-inf"), update))
        else:
            self._waiting.append(_Waiting(self._clock.boottime(), update))
        self._wake.set()

    def offer_body(self, body: bytes) -> None:
        """Take a whole body made by the caller."""
        self._again(self._parcel(body, []), self._clock.boottime())

    def direct(self, url: str) -> None:
        """Deliver to another address from now on, redeliveries included."""
        self._url = url

    def reset(self) -> None:
        """Forget all that waits and all counts; the answers of POSTs under way no longer matter."""
        self._waiting.clear()
        self._retries.clear()
        self._held = 0
        self._generation += 1
        self.tally = Tally()

    async def until_delivered(self, record: StatusRecord, timeout_s: float) -> None:
        """Return when the status has been answered 200, or when the time is over."""
        if record.acked:
            return
        event = self._watched.setdefault(id(record), asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._watched.pop(id(record), None)

    async def run(self) -> None:
        """Deliver until cancelled."""
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        slots = asyncio.Semaphore(CONNECTIONS)
        async with (
            httpx.AsyncClient(limits=limits, timeout=None, trust_env=False) as client,  # noqa: S113 - see _post
            asyncio.TaskGroup() as tasks,
        ):
            while True:
                await slots.acquire()
                parcel = await self._next_parcel()
                self._in_flight += 1
                tasks.create_task(self._deliver(client, parcel, slots))

    async def handshake(self, verify_token: str, challenge: str, timeout_s: float = 10.0) -> bool:
        """Meta's GET before it trusts an address; True when the challenge came back bare, with 200."""
        query = {"hub.mode": "subscribe", "hub.challenge": challenge, "hub.verify_token": verify_token}
        try:
            async with asyncio.timeout(timeout_s), httpx.AsyncClient(trust_env=False) as client:
                answer = await client.get(self._url, params=query, timeout=timeout_s)
        except (httpx.HTTPError, TimeoutError):
            return False
        return answer.status_code == 200 and answer.content == challenge.encode()

    async def _next_parcel(self) -> Parcel:
        while True:
            now = self._clock.boottime()
            settings = self._settings()
            if self._retries and self._retries[0].at <= now:
                return heapq.heappop(self._retries).parcel
            linger_s = settings.batch_linger_ms / 1_000
            full = len(self._waiting) >= settings.batch_max
            if full or (self._waiting and self._waiting[0].since + linger_s <= now):
                return self._composed(settings)
            times = [self._retries[0].at] if self._retries else []
            if self._waiting:
                times.append(self._waiting[0].since + linger_s)
            await self._sleep(min(times) - now if times else None)

    async def _sleep(self, seconds: float | None) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _composed(self, settings: Webhooks) -> Parcel:
        size = min(settings.batch_max, len(self._waiting))
        if self._rng.random() < settings.shuffled:
            self.tally.shuffled += 1
            span = min(len(self._waiting), settings.batch_max * SHUFFLE_WINDOW_BATCHES)
            window = [self._waiting.popleft() for _ in range(span)]
            places = shuffled_places(
                [isinstance(item.update, TextUpdate) for item in window], size, self._rng
            )
            taken = set(places)
            self._waiting.extendleft(window[place] for place in reversed(range(span)) if place not in taken)
            updates = [window[place].update for place in places]
        else:
            updates = [self._waiting.popleft().update for _ in range(size)]
        self._held += size
        self.tally.updates += size
        body = webhook_body(updates, user_ids=settings.user_ids)
        return self._parcel(body, [update.record for update in updates])

    def _parcel(self, body: bytes, records: list[Told]) -> Parcel:
        return Parcel(body, records, self._clock.boottime(), self._generation)

    async def _deliver(self, client: httpx.AsyncClient, parcel: Parcel, slots: asyncio.Semaphore) -> None:
        wall = self._clock.wall()
        for record in parcel.records:
            if record.first_posted_at is None:
                record.first_posted_at = wall
        try:
            status = await self._post(client, parcel.body)
        finally:
            self._in_flight -= 1
            slots.release()
        if parcel.generation == self._generation:
            self._settle(parcel, status)
        WEBHOOKS_PENDING.set(self.pending)
        self._wake.set()

    async def _post(self, client: httpx.AsyncClient, body: bytes) -> int:
        """The answer's status; 0 when there was none in time."""
        headers = {"Content-Type": "application/json", "X-Hub-Signature-256": signature(self._secret, body)}
        try:
            async with asyncio.timeout(self._settings().timeout_s):
                answer = await client.post(self._url, content=body, headers=headers)
        except (httpx.HTTPError, TimeoutError):
            return 0
        return answer.status_code

    def _settle(self, parcel: Parcel, status: int) -> None:
        now = self._clock.boottime()
        parcel.attempts += 1
        self.tally.posts += 1
        self.tally.redeliveries += parcel.attempts > 1 or parcel.is_copy
        for record in parcel.records:
            record.posted += 1
        if status == 200:
            self._acked(parcel, now)
            return
        self.tally.non_200 += status != 0
        self.tally.unreachable += status == 0
        WEBHOOK_POSTS_TOTAL.labels("unreachable" if status == 0 else "non_200").inc()
        settings = self._settings()
        expired = now - parcel.first_at >= settings.retry_for_s
        if parcel.attempts >= settings.attempts_max or expired:
            self._gave_up(parcel)
        else:
            self._again(parcel, now + redelivery_s(parcel.attempts, settings, self._rng))

    def _acked(self, parcel: Parcel, now: float) -> None:
        self.tally.acked += 1
        WEBHOOK_POSTS_TOTAL.labels("acked").inc()
        wall = self._clock.wall()
        for record in parcel.records:
            record.acked += 1
            if record.first_acked_at is None:
                record.first_acked_at = wall
            if self._watched and (event := self._watched.get(id(record))):
                event.set()
        self._release(parcel)
        if not parcel.is_copy and self._rng.random() < self._settings().doubled:
            self.tally.doubled += 1
            copy = Parcel(parcel.body, parcel.records, now, self._generation, is_copy=True)
            self._again(copy, now + DOUBLED_AFTER_S * self._rng.random())

    def _gave_up(self, parcel: Parcel) -> None:
        self.tally.gave_up += 1
        WEBHOOK_POSTS_TOTAL.labels("gave_up").inc()
        for record in parcel.records:
            record.gave_up = record.acked == 0
        self._release(parcel)

    def _release(self, parcel: Parcel) -> None:
        if not parcel.is_copy:
            self._held -= len(parcel.records)

    def _again(self, parcel: Parcel, at: float) -> None:
        self._retry_n += 1
        heapq.heappush(self._retries, _Retry(at, self._retry_n, parcel))
        self._wake.set()


def redelivery_s(attempts: int, settings: Webhooks, rng: Random) -> float:
    """Seconds until the next delivery after `attempts` failed ones: none after the first, then growing."""
    if attempts <= 1:
        return 0.0
    grown = settings.retry_base_s * 2.0 ** min(attempts - 2, 30)
    return min(grown, settings.retry_cap_s) * rng.uniform(0.8, 1.2)


def shuffled_places(is_text: Sequence[bool], size: int, rng: Random) -> list[int]:
    """`size` places of the window in random order; texts come in the order in which they wait, none left out
    before a later one."""
    places = rng.sample(range(len(is_text)), size)
    texts = iter([place for place, text in enumerate(is_text) if text])
    return [next(texts) if is_text[place] else place for place in places]
