"""(b) Stop-and-wait: one message is on its way at a time, and the next leaves when its answer has come.

Every try carries a reference of its own and only the answer with that reference counts. Without it, an answer that comes
after its time-out would be taken for the answer to the next message, and from there on all of them would be off by one.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from backpressure.channel import Channel, Policy
from backpressure.lab.bench import Bench, Link, Message, SlowConsumer, now


@dataclass(frozen=True, slots=True)
class Request:
    reference: int
    message: Message


@dataclass(frozen=True, slots=True)
class Answer:
    reference: int
    number: int


class Producer:
    """Knows one reference at a time: that of the try whose answer it waits for."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._reference = 0
        self._answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    async def deliver(self, message: Message, there: Link[Request]) -> None:
        """Send the message, and again under a new reference at each time-out, until an answer to it comes in time."""
        while True:
            self._reference += 1
            self._answered = asyncio.get_running_loop().create_future()
            there.send(Request(self._reference, message))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._bench.load.timeout_s):
                    answer = await self._answered
                assert answer.number == message.number, "an answer was taken for another's"
                return
            self._bench.meter.repeated += 1

    def hear(self, answer: Answer) -> None:
        """Take the answer that is waited for; any other is late, counted, and means nothing."""
        if answer.reference == self._reference and not self._answered.done():
            self._answered.set_result(answer)
        else:
            self._bench.meter.late_answers += 1


async def run(bench: Bench) -> None:
    """Run until cancelled."""
    producer = Producer(bench)
    inbox: Channel[Request] = Channel(1, Policy.DROP_OLDEST)  # a repeat takes the place of one not yet read
    there = Link[Request](bench.load.round_trip_s / 2, inbox.put_nowait)
    back = Link[Answer](bench.load.round_trip_s / 2, producer.hear)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_consume(bench, inbox, back))
        async for due in bench.pace():
            for _ in range(due):
                message = bench.make()
                bench.meter.kept += 1
                await producer.deliver(message, there)


async def _consume(bench: Bench, inbox: Channel[Request], back: Link[Answer]) -> None:
    consumer, newest = SlowConsumer(bench), 0
    async for request in inbox:
        message = request.message
        if message.number > newest:  # else it came before: it is answered again and not handled again
            newest, message.arrived_at = message.number, now()
            await consumer.handle(message)
        is_late = bench.rng.random() < bench.load.late_share
        back.send(Answer(request.reference, message.number), late_s=bench.load.timeout_s if is_late else 0.0)
