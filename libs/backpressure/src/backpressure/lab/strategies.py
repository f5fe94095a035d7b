"""The six strategies by name, in the order in which they are told, and how one of them is run."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random

from backpressure.lab import credit_window, shedding, stop_and_wait, unbounded
from backpressure.lab.bench import Bench, now
from backpressure.lab.load import Load
from backpressure.lab.meter import Meter, Sample

SAMPLES_PER_RUN = 80


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to join producer and consumer, and what it does in a sentence."""

    name: str
    run: Callable[[Bench], Coroutine[None, None, None]]
    meaning: str


STRATEGIES = (
    Strategy("unbounded", unbounded.run, "Everything is taken in, whatever is already waiting."),
    Strategy(
        "stop-and-wait", stop_and_wait.run, "One message at a time; the next leaves when its answer is here."
    ),
    Strategy(
        "credit window",
        credit_window.run,
        "The consumer asks for batches; the producer sends no more than that.",
    ),
    Strategy("reject", shedding.reject, "Full means no: the sender is told at once and keeps the message."),
    Strategy("drop newest", shedding.drop_newest, "Full means that the newcomer is lost, silently."),
    Strategy("drop oldest", shedding.drop_oldest, "Full means that the longest waiting is lost, silently."),
)


async def measure(
    strategy: Strategy, load: Load, memory_bytes: Callable[[], int], report: Callable[[Sample], None]
) -> None:
    """Run a strategy for the load's seconds; `report` gets a sample before the first message and then regularly."""
    meter = Meter(memory_bytes)
    began = now()
    report(meter.sample(0.0))

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(strategy.run(Bench(load, meter, Random(load.seed))))
        for n in range(1, SAMPLES_PER_RUN + 1):
            await asyncio.sleep(max(0.0, began + n * load.seconds / SAMPLES_PER_RUN - now()))
            report(meter.sample(now() - began))
        running.cancel()
