"""What all strategies share: the messages, the fast producer's pace, the slow consumer, the distance between them.

Invariant: the producer's pace and the consumer's cost hold on average however the loop jitters, since each is kept by a
schedule and not by a sleep. Seconds are the event loop's, so the same code runs in real and in virtual time.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from backpressure.lab.load import Load
from backpressure.lab.meter import Meter

T = TypeVar("T")

TICK_S = 0.01
"""How often a producer looks at what is due; it then makes all of it."""


@dataclass(slots=True)
class Message:
    """A numbered message, when it was made, and bytes that weigh something."""

    number: int
    made_at: float
    payload: bytes
    arrived_at: float = 0.0


@dataclass(frozen=True)
class Bench:
    """One strategy's place at the table."""

    load: Load
    meter: Meter
    rng: Random

    def make(self) -> Message:
        """Make the next message now. Random bytes, because zeros need no memory until they are written."""
        number = self.meter.made()
        return Message(number, now(), self.rng.randbytes(self.load.payload_bytes))

    async def pace(self) -> AsyncIterator[int]:
        """Yield how many messages are due, every tick, for ever: the fast producer's own speed."""
        began, done = now(), 0
        while True:
            await asyncio.sleep(TICK_S)
            due = int((now() - began) * self.load.producer_per_s) - done
            done += due
            yield due


class SlowConsumer:
    """Handles one message after the other, each for `service_s`; late wake-ups don't add up."""

    def __init__(self, bench: Bench) -> None:
        self._service_s = bench.load.service_s
        self._meter = bench.meter
        self._free_at = 0.0

    async def handle(self, message: Message) -> None:
        self._free_at = max(self._free_at, message.arrived_at) + self._service_s
        await asyncio.sleep(max(0.0, self._free_at - now()))
        self._meter.handled(now() - message.made_at)


class Link(Generic[T]):
    """A one-way distance of `delay_s`; what is sent arrives in order, except what is made to be late."""

    def __init__(self, delay_s: float, arrive: Callable[[T], object]) -> None:
        self._delay_s = delay_s
        self._arrive = arrive
        self._under_way: deque[T] = deque()

    def send(self, item: T, *, late_s: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        if late_s:
            loop.call_later(self._delay_s + late_s, self._arrive, item)
        else:
            self._under_way.append(item)
            loop.call_later(self._delay_s, self._arrive_next)

    def _arrive_next(self) -> None:
        self._arrive(self._under_way.popleft())


def now() -> float:
    return asyncio.get_running_loop().time()
