"""The paused consumer of the laboratory: `kafkaio.Runner`, as every service has it, behind a gate that the lab closes."""

import asyncio
import logging
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from prometheus_client import REGISTRY

from contracts.topics import INBOUND_MESSAGES
from kafkaio.consumer import Record
from kafkaio.disposition import Disposition, Done
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings

GROUP = "lab"
INFLIGHT_MAX = 200
TELL_S = 0.1
HANDLING_S = 0.01
WAMID = re.compile(rb"wamid\.lab(\d{7})")


@dataclass(frozen=True, slots=True)
class Told:
    """What the consumer tells of itself."""

    is_ready: bool
    handled: int
    """Different webhooks; a repeat is no further one."""
    in_flight: int
    paused_partitions: int


class Handler:
    """Handles while the gate is open; remembers what it saw in a bit a webhook, so that it doesn't grow itself."""

    def __init__(self, webhooks_max: int) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.handled = 0
        self._seen = bytearray(webhooks_max)

    async def handle(self, record: Record) -> Disposition:
        await self.gate.wait()
        await asyncio.sleep(HANDLING_S)
        found = WAMID.search(record.value or b"")
        assert found, "the lab alone writes here"
        number = int(found[1])
        self.handled += 1 - self._seen[number]
        self._seen[number] = 1
        return Done()


def consume(bootstrap: str, prefix: str, webhooks_max: int, link: Connection) -> None:
    """Run in a process of its own until told to stop; takes `pause`, `resume` and `stop`."""
    sys.stdout = Path("/dev/null").open("w")  # noqa: SIM115 - log lines are written, nobody reads them
    logging.disable()
    with suppress(BrokenPipeError, EOFError):
        asyncio.run(_consume(bootstrap, prefix, webhooks_max, link))


async def _consume(bootstrap: str, prefix: str, webhooks_max: int, link: Connection) -> None:
    settings = KafkaSettings(bootstrap=bootstrap, client_id="lab", topic_prefix=prefix)
    handler, stop = Handler(webhooks_max), asyncio.Event()
    runner = Runner(
        settings,
        group=GROUP,
        topics=(INBOUND_MESSAGES.name,),
        handle=handler.handle,
        key_of=lambda record: (record.key or b"").decode(),
        producer=None,
        inflight_max=INFLIGHT_MAX,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.run(stop))
        while not stop.is_set():
            while link.poll():
                {"pause": handler.gate.clear, "resume": handler.gate.set, "stop": stop.set}[link.recv()]()
            link.send(Told(runner.is_ready, handler.handled, *_watched()))
            await asyncio.sleep(TELL_S)


def _watched() -> tuple[int, int]:
    """In flight and paused, from the metrics that every consumer exports."""
    names = ("sluice_consumer_in_flight_records", "sluice_consumer_paused_partitions")
    in_flight, paused = (REGISTRY.get_sample_value(name, {"group": GROUP}) or 0 for name in names)
    return int(in_flight), int(paused)
