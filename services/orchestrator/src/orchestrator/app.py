"""The orchestrator, put together: the only place where its objects meet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import SystemRandom
from uuid import uuid4

from contracts.topics import ACCOUNT_EVENTS, CAMPAIGN_EVENTS
from kafkaio.admin import BrokerAway, topics_fault
from kafkaio.producer import Producer
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings
from ledger.migrate import schema_fault
from ledger.pool import Ledger
from orchestrator import metrics
from orchestrator.config import Config
from orchestrator.finish import Finish
from orchestrator.guard import pause_unsendable
from orchestrator.kafka import GROUP, CampaignTopic, StatusTopic, account_runner
from orchestrator.leader import Leader
from orchestrator.recover import Recovery
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.health import Health, serve_health

LOOK_EVERY_S = 0.5
REBALANCE_S = 30.0
"""A third of it is for the drain: with the commits it fits into `drain_s`."""
TOPICS_EVERY_S = 60.0
TOPICS = (ACCOUNT_EVENTS, CAMPAIGN_EVENTS)


class App:
    """A running orchestrator."""

    def __init__(
        self,
        *,
        health: Health,
        health_port: int,
        leader: Leader,
        ledger: Ledger,
        settings: KafkaSettings,
        runner: Runner,
    ) -> None:
        self.health = health
        self.health_port = health_port
        self._leader = leader
        self._ledger = ledger
        self._settings = settings
        self._runner = runner

    async def run(self, stop: asyncio.Event) -> None:
        """Note what Meta says and, while leading, act, until `stop`; neither waits for the other."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch_readiness()), tasks.create_task(self._watch_topics())
            async with asyncio.TaskGroup() as work:
                work.create_task(self._leader.run(stop))
                work.create_task(self._runner.run(stop))
            for watch in watching:
                watch.cancel()

    async def _watch_readiness(self) -> None:
        while True:
            fault = await schema_fault(self._ledger)
            if not fault and not self._leader.has_looked:
                fault = "the first round isn't over"
            self.health.set_ready("database", not fault, fault)
            joined = self._runner.is_ready
            self.health.set_ready("kafka", joined, "" if joined else "waiting for an assignment")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _watch_topics(self) -> None:
        while True:
            fault = await topics_fault(self._settings, TOPICS)
            self.health.set_ready("topics", not fault, fault)
            await asyncio.sleep(LOOK_EVERY_S if fault else TOPICS_EVERY_S)


@asynccontextmanager
async def open_app(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[App]:
    """Open an orchestrator; `App.run` makes it work."""
    settings = KafkaSettings(
        bootstrap=config.kafka_bootstrap,
        access=config.kafka,
        client_id=GROUP,
        topic_prefix=config.topic_prefix,
        rebalance_s=REBALANCE_S,
    )
    async with AsyncExitStack() as stack:
        health = Health("database", "topics", "kafka")
        port = await stack.enter_async_context(serve_health(health, config.health_host, config.health_port))
        ledger = await stack.enter_async_context(
            Ledger.open(
                config.database_url,
                access=config.database,
                shard=SystemRandom().randrange(64),
                statement_s=5.0,
                application="orchestrator",
            )
        )
        producer = await stack.enter_async_context(Producer.open(settings))
        topic = CampaignTopic(producer)
        status_topic = StatusTopic(settings)
        recovery = Recovery(
            ledger,
            patience_s=config.patience_s,
            end=status_topic.end,
            committed=status_topic.committed,
        )
        finish = Finish(ledger, settle_s=config.settle_s, tell=topic.tell, clock=clock)

        async def act() -> None:
            await pause_unsendable(ledger)
            await recovery.reclaim()
            try:
                await recovery.note()
            except (BrokerAway, TimeoutError):
                metrics.FAILED_ROUNDS.inc()
            await recovery.reconcile()
            await finish.look()

        leader = Leader(
            ledger,
            owner=uuid4(),
            lease_s=config.lease_s,
            look_every_s=config.look_every_s,
            act=act,
            clock=clock,
        )
        yield App(
            health=health,
            health_port=port,
            leader=leader,
            ledger=ledger,
            settings=settings,
            runner=account_runner(settings, ledger, producer, clock=clock),
        )
