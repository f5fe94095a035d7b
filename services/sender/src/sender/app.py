"""The sender, put together: the only place where its objects meet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random, SystemRandom
from uuid import uuid4

from kafkaio.producer import CLOSE_S
from kafkaio.settings import KafkaSettings
from ledger.migrate import schema_fault
from ledger.pool import Ledger
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.health import Health, serve_health
from runtime.logs import get_logger
from runtime.watchdog import Watchdog
from sender import kafka
from sender.claiming import Claimer
from sender.config import Config
from sender.graph import GraphApi
from sender.inbound import InboundLoad
from sender.ownership import Ownership
from sender.sending import NumberSender, Slots
from sender.settling import Settler
from sender.tenure import Tenure
from sender.timing import Timing

LOOK_EVERY_S = 0.5
log = get_logger()


class App:
    """A running sender."""

    def __init__(
        self,
        *,
        health: Health,
        health_port: int,
        ownership: Ownership,
        settler: Settler,
        outcomes: kafka.OutcomeTopic,
        ledger: Ledger,
        settings: KafkaSettings,
        inbound: InboundLoad,
        finish_s: float,
        clock: Clock,
    ) -> None:
        self.health = health
        self.health_port = health_port
        self.ownership = ownership
        self._settler = settler
        self._outcomes = outcomes
        self._ledger = ledger
        self._kafka = settings
        self._inbound = inbound
        self._finish_s = finish_s
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop`, then hand over, write the last results and tell them."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch_readiness())
            sending = tasks.create_task(self._send(stop))
            telling = tasks.create_task(self._outcomes.run())
            following = tasks.create_task(kafka.follow_load(self._kafka, self._inbound, self._clock))
            await stop.wait()
            if (await asyncio.wait({sending}, timeout=self._finish_s))[1]:
                log.error(
                    "results.left"
                )  # the database is away: rows in hand become unknown, their statuses tell
                sending.cancel()
                await asyncio.wait({sending})
            self._outcomes.close()
            await asyncio.wait({telling}, timeout=kafka.TELL_S)
            telling.cancel()
            watching.cancel()
            following.cancel()

    async def _send(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._settler.run())
            await self.ownership.run(stop)
            self._settler.close()

    async def _watch_readiness(self) -> None:
        """Tell the probes what is missing; topics and schema are looked at until they are right."""
        faults = {"database": "not looked at yet", "kafka": "not looked at yet"}
        while True:
            if faults["database"]:
                faults["database"] = await schema_fault(self._ledger)
            if faults["kafka"]:
                faults["kafka"] = await kafka.topic_fault(self._kafka)
            if not self.ownership.has_followed_advice:
                self.health.set_ready("assignment", False, "waiting for an assignment")
            else:
                self.health.set_ready("assignment", True)
            for name, fault in faults.items():
                self.health.set_ready(name, not fault, fault)
            await asyncio.sleep(LOOK_EVERY_S)


@asynccontextmanager
async def open_app(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[App]:
    """Open a sender; `App.run` makes it work."""
    timing = Timing().scaled(config.timing_scale) if config.timing_scale < 1.0 else Timing()
    assert config.drain_s > timing.finish_s + timing.statement_s + 2 * kafka.TELL_S + 2 * CLOSE_S, (
        "what was begun ends within the drain, and then the producer closes"
    )
    rng = SystemRandom()
    async with AsyncExitStack() as stack:
        health = Health("assignment", "database", "kafka")
        port = await stack.enter_async_context(serve_health(health, config.health_host, config.health_port))
        ledger = await stack.enter_async_context(
            Ledger.open(
                config.database_url,
                access=config.database,
                shard=rng.randrange(64),
                statement_s=timing.statement_s,
                application="sender",
            )
        )
        graph = await stack.enter_async_context(
            GraphApi.open(
                config.graph_url,
                config.graph_version,
                config.access_token,
                installation=config.installation,
                timing=timing,
                connections_max=config.inflight_max,
            )
        )
        settings = kafka.settings(config, timing)
        outcomes = await stack.enter_async_context(kafka.OutcomeTopic.open(settings))
        settler = Settler(
            ledger,
            results_max=config.results_max,
            rows_max=config.settle_rows_max,
            linger_s=config.settle_linger_s,
            publish=outcomes.publish,
            clock=clock,
        )
        fence = await stack.enter_async_context(
            Watchdog(fence_after_s=timing.fence_s, exit_after_s=timing.lease_s, clock=clock)
        )
        advice = await stack.enter_async_context(kafka.open_advice(settings))
        slots = Slots(config.inflight_max)

        def make_sender(tenure: Tenure) -> NumberSender:
            return NumberSender(
                tenure,
                claimer=Claimer(ledger, tenure, timing=timing, clock=clock),
                graph=graph,
                settler=settler,
                slots=slots,
                fence=fence,
                timing=timing,
                clock=clock,
                rng=Random(rng.random()),
            )

        inbound = InboundLoad()
        ownership = Ownership(
            ledger,
            advice,
            owner=uuid4(),
            make_sender=make_sender,
            inbound=inbound,
            fence=fence,
            timing=timing,
            clock=clock,
        )
        yield App(
            health=health,
            health_port=port,
            ownership=ownership,
            settler=settler,
            outcomes=outcomes,
            ledger=ledger,
            settings=settings,
            inbound=inbound,
            finish_s=timing.finish_s,
            clock=clock,
        )
