"""(d) Shedding: the source can't be slowed (webhooks come when they come), so the channel is bounded and its policy decides.

`reject` refuses early: the sender still has the message, is told so, and may bring it again. `drop_newest` loses the
newcomer, `drop_oldest` the one that waited longest, and neither tells anybody: what differs is how old the survivors are.
"""

import asyncio

from backpressure.channel import Channel, Policy
from backpressure.lab.bench import Bench, Message, SlowConsumer, now


async def reject(bench: Bench) -> None:
    """Run until cancelled."""
    await _shed(bench, Policy.REJECT)


async def drop_newest(bench: Bench) -> None:
    """Run until cancelled."""
    await _shed(bench, Policy.DROP_NEWEST)


async def drop_oldest(bench: Bench) -> None:
    """Run until cancelled."""
    await _shed(bench, Policy.DROP_OLDEST)


async def _shed(bench: Bench, policy: Policy) -> None:
    inbox: Channel[Message] = Channel(bench.load.capacity, policy)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_consume(bench, inbox))
        async for due in bench.pace():
            for _ in range(due):
                message = bench.make()
                message.arrived_at = now()
                inbox.put_nowait(message)
            counts = inbox.statistics()
            meter = bench.meter
            meter.kept, meter.rejected, meter.dropped = counts.kept, counts.rejected, counts.dropped


async def _consume(bench: Bench, inbox: Channel[Message]) -> None:
    consumer = SlowConsumer(bench)
    async for message in inbox:
        await consumer.handle(message)
