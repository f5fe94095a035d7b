"""(a) An unbounded mailbox: nobody ever waits, and the queue is as long as the overload is old.

This is what `asyncio.Queue()`, a list that a worker empties, or a task a message amount to. It works in every test,
because tests end before it matters.
"""

import asyncio
from collections import deque

from backpressure.lab.bench import Bench, Message, SlowConsumer, now


class Mailbox:
    """Takes whatever is put into it."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._filled = asyncio.Event()

    def put(self, message: Message) -> None:
        self._messages.append(message)
        self._filled.set()

    async def get(self) -> Message:
        while not self._messages:
            self._filled.clear()
            await self._filled.wait()
        return self._messages.popleft()


async def run(bench: Bench) -> None:
    """Run until cancelled."""
    mailbox = Mailbox()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_consume(bench, mailbox))
        async for due in bench.pace():
            for _ in range(due):
                message = bench.make()
                message.arrived_at = now()
                mailbox.put(message)
            bench.meter.kept += due


async def _consume(bench: Bench, mailbox: Mailbox) -> None:
    consumer = SlowConsumer(bench)
    while True:
        await consumer.handle(await mailbox.get())
