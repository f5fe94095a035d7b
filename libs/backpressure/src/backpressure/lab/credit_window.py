"""(c) A credit window: the consumer says how many it wants, the producer sends no more, and many are on their way at once.

When half of what it asked for is handled, the consumer asks again, in one batch: while the question and its answer travel,
it works on the other half. So it never runs dry, unless the round trip takes longer than the low mark lasts.
"""

import asyncio

from backpressure.channel import Channel, Policy
from backpressure.lab.bench import Bench, Link, Message, SlowConsumer, now
from backpressure.window import InFlightWindow


class Source:
    """The fast producer, which makes a message only for a credit."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._credit = 0
        self._wanted = asyncio.Event()

    def ask(self, n: int) -> None:
        """Hear that the consumer wants `n` more."""
        self._credit += n
        self._wanted.set()

    async def serve(self, there: Link[Message]) -> None:
        """Make and send what is asked for, at the producer's own pace; run until cancelled."""
        async for due in self._bench.pace():
            for _ in range(due):
                while not self._credit:
                    self._wanted.clear()
                    await self._wanted.wait()
                self._credit -= 1
                there.send(self._bench.make())
                self._bench.meter.kept += 1


class Consumer:
    """Holds at most what it asked for: its inbox needs no policy, because it can't be full."""

    def __init__(self, bench: Bench) -> None:
        self._slow = SlowConsumer(bench)
        self._window = InFlightWindow(high=bench.load.credit, low=bench.load.low_water)
        self._credit_max = bench.load.credit
        self._inbox: Channel[Message] = Channel(bench.load.credit, Policy.REJECT)

    def take(self, message: Message) -> None:
        message.arrived_at = now()
        kept = self._inbox.put_nowait(message)
        assert kept, "the source sent more than it was asked for"

    async def run(self, back: Link[int]) -> None:
        """Ask, handle, ask again at the low mark; run until cancelled."""
        back.send(self._window.ask(self._credit_max))
        async for message in self._inbox:
            await self._slow.handle(message)
            self._window.settle()
            if wanted := self._window.ask(self._credit_max):
                back.send(wanted)


async def run(bench: Bench) -> None:
    """Run until cancelled."""
    one_way_s = bench.load.round_trip_s / 2
    source, consumer = Source(bench), Consumer(bench)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.run(Link(one_way_s, source.ask)))
        tasks.create_task(source.serve(Link(one_way_s, consumer.take)))
