"""All strategies side by side, each in a process of its own, so that the memory of each can be told.

Invariant: no child outlives the race, however it ends.
"""

import asyncio
import gc
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from threading import Barrier

from backpressure.lab.load import Load
from backpressure.lab.meter import Sample, resident_bytes
from backpressure.lab.strategies import STRATEGIES, Strategy, measure

START_LIMIT_S = 30.0
SILENCE_MAX_S = 30.0


class RaceFailed(Exception):
    """A strategy's process ended before its time, or fell silent; the text says which."""


def race(load: Load, strategies: Sequence[Strategy] = STRATEGIES) -> Iterator[tuple[str, Sample]]:
    """Yield each sample with the name of its strategy, as it is taken. Raises `RaceFailed`."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(len(strategies))
    pipes = [context.Pipe(duplex=False) for _ in strategies]
    children = [
        context.Process(target=_run_one, args=(strategy.name, load, theirs, start), daemon=True)
        for strategy, (_, theirs) in zip(strategies, pipes, strict=True)
    ]
    names = {ours: strategy.name for strategy, (ours, _) in zip(strategies, pipes, strict=True)}
    try:
        for child, (_, theirs) in zip(children, pipes, strict=True):
            child.start()
            theirs.close()
        yield from _listen(names)
    finally:
        started = [child for child in children if child.pid]
        for child in started:
            child.terminate()  # who has told all has nothing left to do
        for child in started:
            child.join()
        for connection in names:
            connection.close()


def _listen(names: dict[Connection, str]) -> Iterator[tuple[str, Sample]]:
    running = dict(names)
    while running:
        spoken = [one for one in wait(list(running), SILENCE_MAX_S) if isinstance(one, Connection)]
        if not spoken:
            raise RaceFailed(
                f"nothing was heard for {SILENCE_MAX_S:.0f} s from {', '.join(running.values())}"
            )
        for connection in spoken:
            try:
                sample = connection.recv()
            except EOFError:
                raise RaceFailed(f"{running[connection]} ended before its time") from None
            if sample is None:
                del running[connection]
            else:
                yield running[connection], sample


def _run_one(name: str, load: Load, told: Connection, start: Barrier) -> None:
    """In the child: wait until all are there, then run and tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    strategy = next(one for one in STRATEGIES if one.name == name)
    gc.collect()
    start.wait(START_LIMIT_S)
    asyncio.run(measure(strategy, load, resident_bytes, told.send))
    told.send(None)
