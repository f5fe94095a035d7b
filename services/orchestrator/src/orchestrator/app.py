"""The orchestrator, put together: the only place where its objects meet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import SystemRandom
from uuid import uuid4

from kafkaio.admin import BrokerAway
from kafkaio.settings import KafkaSettings
from ledger.migrate import schema_fault
from ledger.pool import Ledger
from orchestrator import metrics
from orchestrator.config import Config
from orchestrator.finish import Finish
from orchestrator.kafka import CampaignTopic, StatusTopic
from orchestrator.leader import Leader
from orchestrator.recover import Recovery
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.health import Health, serve_health

LOOK_EVERY_S = 0.5


class App:
    """A running orchestrator."""

    def __init__(self, *, health: Health, health_port: int, leader: Leader, ledger: Ledger) -> None:
        self.health = health
        self.health_port = health_port
        self._leader = leader
        self._ledger = ledger

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch_readiness())
            await self._leader.run(stop)
            watching.cancel()

    async def _watch_readiness(self) -> None:
        while True:
            fault = await schema_fault(self._ledger)
            if not fault and not self._leader.has_looked:
                fault = "the first round isn't over"
            self.health.set_ready("database", not fault, fault)
            await asyncio.sleep(LOOK_EVERY_S)


@asynccontextmanager
async def open_app(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[App]:
    """Open an orchestrator; `App.run` makes it work."""
    settings = KafkaSettings(
        bootstrap=config.kafka_bootstrap,
        access=config.kafka,
        client_id="orchestrator",
        topic_prefix=config.topic_prefix,
    )
    async with AsyncExitStack() as stack:
        health = Health("database")
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
        topic = await stack.enter_async_context(CampaignTopic.open(settings))
        status_topic = StatusTopic(settings)
        recovery = Recovery(
            ledger,
            patience_s=config.patience_s,
            end=status_topic.end,
            committed=status_topic.committed,
        )
        finish = Finish(ledger, settle_s=config.settle_s, tell=topic.tell, clock=clock)

        async def act() -> None:
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
        yield App(health=health, health_port=port, leader=leader, ledger=ledger)
