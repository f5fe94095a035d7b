"""(e) The same story through the real thing: ingress, a consumer and a Kafka broker, each a process.

First the consumer is paused: the records wait on the broker's disk (lag) and no process grows. Then the broker is frozen:
ingress's window fills, it answers 503, and the sender keeps what it has. In the end everything is handled.
"""

import asyncio
import multiprocessing
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from contracts.topics import TOPICS
from deploy.local.fleet import Fleet, Setup, running_fleet
from deploy.local.lab import consumer
from deploy.local.lab.webhooks import Webhooks
from deploy.local.process import StackError
from deploy.local.stack import Stack, open_stack
from kafkaio.admin import apply_topics
from kafkaio.settings import KafkaSettings

WINDOW_REQUESTS_MAX = 100
SAMPLE_S = 0.2
CATCH_UP_LIMIT_S = 60.0
READY_LIMIT_S = 30.0
WARMING_UP, FLOWING, PAUSED, CATCHING_UP, FROZEN, ENDING = (
    "warm-up",
    "all is well",
    "consumer paused",
    "consumer back",
    "broker frozen",
    "broker back",
)
# The shares of the making. A broker just started is slow, hence a while that doesn't count.
PHASES = (
    (WARMING_UP, 0.1),
    (FLOWING, 0.1),
    (PAUSED, 0.3),
    (CATCHING_UP, 0.15),
    (FROZEN, 0.2),
    (ENDING, 0.15),
)


@dataclass(frozen=True, slots=True)
class RealSample:
    """The counts since the start, and what the processes hold now."""

    at_s: float
    phase: str
    made: int
    accepted: int
    refused: int
    handled: int
    in_flight: int
    paused_partitions: int
    ingress_bytes: int
    consumer_bytes: int

    @property
    def lag(self) -> int:
        """Answered 200, so on the topic, and not handled yet."""
        return max(0, self.accepted - self.handled)


Report = Callable[[RealSample], None]


def run_real(
    folder: Path, *, seconds: float, rate_per_s: int, echo: Callable[[str], None], report: Report
) -> None:
    """Run all phases; `report` gets a sample five times a second. Raises StackError, also without a Kafka."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with open_stack(folder, echo=echo) as stack, _ingress(stack, folder, echo) as fleet:
            prefix = fleet.setup.topic_prefix
            webhooks_max = int(seconds * rate_per_s * 1.5) + 1_000
            with _consumer(stack.endpoints.kafka_bootstrap, prefix, webhooks_max) as (child, link):
                asyncio.run(_Story(stack, fleet, child, link, report).tell(seconds, rate_per_s))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ingress(stack: Stack, folder: Path, echo: Callable[[str], None]) -> Iterator[Fleet]:
    prefix = f"lab{secrets.token_hex(3)}."
    settings = KafkaSettings(bootstrap=stack.endpoints.kafka_bootstrap, client_id="lab", topic_prefix=prefix)
    asyncio.run(apply_topics(settings, partitions_count=4, replication=1, min_insync=1, topics=TOPICS))
    setup = Setup(
        endpoints=stack.endpoints,
        database_url=stack.endpoints.database_url,
        folder=folder / "run",
        topic_prefix=prefix,
        extra={"ingress": {"INGRESS_INFLIGHT_REQUESTS_MAX": str(WINDOW_REQUESTS_MAX)}},
    )
    with running_fleet(setup, echo=echo) as fleet:
        fleet.start("ingress")
        fleet.wait_ready("ingress")
        yield fleet


@contextmanager
def _consumer(bootstrap: str, prefix: str, webhooks_max: int) -> Iterator[tuple[Any, Connection]]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(
        target=consumer.consume, args=(bootstrap, prefix, webhooks_max, theirs), daemon=True
    )
    child.start()
    try:
        yield child, ours
        ours.send("stop")
        child.join(10.0)
    finally:
        child.terminate()
        child.join()


class _Story:
    """The phases, one after the other, and who watches meanwhile."""

    def __init__(self, stack: Stack, fleet: Fleet, child: Any, link: Connection, report: Report) -> None:
        assert stack.kafka is not None
        assert stack.kafka.pid is not None
        self._fleet = fleet
        self._broker = psutil.Process(stack.kafka.pid)
        self._ingress = psutil.Process(fleet.pid("ingress"))
        self._consumer = psutil.Process(child.pid)
        self._link = link
        self._report = report
        self._told = consumer.Told(is_ready=False, handled=0, in_flight=0, paused_partitions=0)
        self._phase = WARMING_UP

    async def tell(self, seconds: float, rate_per_s: int) -> None:
        await self._until(lambda: self._told.is_ready, READY_LIMIT_S, "the consumer to join its group")
        webhooks = Webhooks(self._fleet.webhook_port, rate_per_s)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(webhooks.run()), tasks.create_task(self._watch(webhooks))]
            try:
                for phase, share in PHASES:
                    self._enter(phase)
                    await asyncio.sleep(seconds * share)
                webhooks.is_making = False
                await self._until(
                    lambda: webhooks.is_done and self._told.handled == webhooks.made,
                    CATCH_UP_LIMIT_S,
                    "all webhooks to be handled",
                )
                await asyncio.sleep(2 * SAMPLE_S)
            finally:
                self._broker.send_signal(signal.SIGCONT)
                for one in running:
                    one.cancel()

    def _enter(self, phase: str) -> None:
        self._phase = phase
        if phase in (PAUSED, CATCHING_UP):
            self._link.send("pause" if phase == PAUSED else "resume")
        elif phase in (FROZEN, ENDING):
            self._broker.send_signal(signal.SIGSTOP if phase == FROZEN else signal.SIGCONT)

    async def _watch(self, webhooks: Webhooks) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            self._listen()
            self._report(
                RealSample(
                    at_s=loop.time() - began,
                    phase=self._phase,
                    made=webhooks.made,
                    accepted=webhooks.accepted,
                    refused=webhooks.refused,
                    handled=self._told.handled,
                    in_flight=self._told.in_flight,
                    paused_partitions=self._told.paused_partitions,
                    ingress_bytes=self._ingress.memory_info().rss,
                    consumer_bytes=self._consumer.memory_info().rss,
                )
            )
            await asyncio.sleep(SAMPLE_S)

    def _listen(self) -> None:
        self._fleet.check_alive()
        try:
            while self._link.poll():
                self._told = self._link.recv()
        except EOFError:
            raise StackError("the lab's consumer ended by itself") from None

    async def _until(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        try:
            async with asyncio.timeout(limit_s):
                while not condition():
                    self._listen()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise StackError(f"waited {limit_s:.0f} s in vain for {what}") from None
