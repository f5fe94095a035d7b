"""Conversations, put together: the only place where its objects meet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import SystemRandom
from typing import Final

from contracts.topics import CONVERSATION_EVENTS, INBOUND_MESSAGES
from conversations import kafka
from conversations.config import Config
from conversations.seeing import Intake
from conversations.sweep import Sweeper
from conversations.turn import Turns
from kafkaio.admin import topics_fault
from kafkaio.producer import Producer
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings
from ledger.migrate import schema_fault
from ledger.pool import Ledger
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.health import Health, serve_health

READINESS_INTERVAL_S: Final = 1.0
TOPICS_INTERVAL_S: Final = 60.0
TOPICS = (INBOUND_MESSAGES, CONVERSATION_EVENTS)


class App:
    """A running `conversations`."""

    def __init__(
        self,
        *,
        health: Health,
        health_port: int,
        ledger: Ledger,
        settings: KafkaSettings,
        runner: Runner,
        turns: Turns,
        sweeper: Sweeper,
        handlers: int,
    ) -> None:
        self.health = health
        self.health_port = health_port
        self._ledger = ledger
        self._settings = settings
        self._runner = runner
        self._turns = turns
        self._sweeper = sweeper
        self._handlers = handlers

    async def run(self, stop: asyncio.Event) -> None:
        """Take messages in and handle them until `stop`, then finish what was begun. What waits is others' to handle."""
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch_readiness()), tasks.create_task(self._watch_topics())
            tasks.create_task(self._turns.run(self._handlers, enough))
            tasks.create_task(self._sweeper.run(enough))
            await self._runner.run(stop)
            enough.set()
            for watch in watching:
                watch.cancel()

    async def _watch_readiness(self) -> None:
        while True:
            fault = await schema_fault(self._ledger)
            self.health.set_ready("database", not fault, fault)
            joined = self._runner.is_ready
            self.health.set_ready("kafka", joined, "" if joined else "waiting for an assignment")
            await asyncio.sleep(READINESS_INTERVAL_S)

    async def _watch_topics(self) -> None:
        while True:
            fault = await topics_fault(self._settings, TOPICS)
            self.health.set_ready("topics", not fault, fault)
            await asyncio.sleep(READINESS_INTERVAL_S if fault else TOPICS_INTERVAL_S)


@asynccontextmanager
async def open_app(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[App]:
    """Open `conversations`; `App.run` makes it work. Broker and database may come later."""
    hold_s = config.hold_ms / 1000
    async with AsyncExitStack() as stack:
        health = Health("database", "topics", "kafka")
        port = await stack.enter_async_context(serve_health(health, config.health_host, config.health_port))
        ledger = await stack.enter_async_context(
            Ledger.open(
                config.database_url,
                access=config.database,
                shard=SystemRandom().randrange(64),
                connections_max=config.handlers + 4,  # the intake, the sweeper, readiness, and one to spare
                application="conversations",
            )
        )
        settings = kafka.settings(config)
        producer = await stack.enter_async_context(Producer.open(settings, deadline_s=config.publish_s))
        events = kafka.EventTopic(producer, publish_s=config.publish_s, clock=clock)
        turns = Turns(
            ledger, events.tell, lanes_max=config.lanes_max, per_lane_max=config.per_lane_max, clock=clock
        )
        intake = Intake(ledger, hold_s=hold_s, note_due=turns.note_due)
        runner = kafka.inbound_runner(settings, intake, producer, concurrency=config.concurrency, clock=clock)
        sweeper = Sweeper(ledger, turns, older_s=2 * config.publish_s, clock=clock)
        yield App(
            health=health,
            health_port=port,
            ledger=ledger,
            settings=settings,
            runner=runner,
            turns=turns,
            sweeper=sweeper,
            handlers=config.handlers,
        )
