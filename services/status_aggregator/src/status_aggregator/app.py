"""The status aggregator, put together: the only place where its objects meet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random, SystemRandom

from contracts.topics import MESSAGE_STATUSES, TOPICS, dead_letter_name
from kafkaio.admin import topics_fault
from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from ledger.migrate import schema_fault
from ledger.pool import Ledger
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.health import Health, serve_health
from status_aggregator import stream
from status_aggregator.config import Config
from status_aggregator.flush import GROUP, Flusher
from status_aggregator.joining import Joiner

STATEMENT_S = 5.0
DEAD_LETTER_S = 5.0
LOOK_AGAIN_S = 2.0
_NEEDED = [
    topic
    for topic in TOPICS
    if topic.name in (MESSAGE_STATUSES.name, dead_letter_name(MESSAGE_STATUSES.name))
]


class App:
    """A running status aggregator."""

    def __init__(
        self,
        config: Config,
        settings: KafkaSettings,
        *,
        health: Health,
        health_port: int,
        ledger: Ledger,
        flusher: Flusher,
        joiner: Joiner,
        clock: Clock,
    ) -> None:
        self.health = health
        self.health_port = health_port
        self._config = config
        self._settings = settings
        self._ledger = ledger
        self._flusher = flusher
        self._joiner = joiner
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Apply statuses until `stop`, then finish the batch under way."""
        if not await self._all_is_there(stop):
            return
        async with asyncio.TaskGroup() as tasks:
            joining = tasks.create_task(self._joiner.run())
            await stream.run(self._config, self._flusher.flush, self.health, stop, self._clock)
            joining.cancel()

    async def _all_is_there(self, stop: asyncio.Event) -> bool:
        """Wait for schema and topics: a group that joins before its topic exists is assigned nothing. False when stopped."""
        while not stop.is_set():
            schema = await schema_fault(self._ledger)
            topics = await topics_fault(self._settings, _NEEDED)
            self.health.set_ready("database", not schema, schema)
            self.health.set_ready("topics", not topics, topics)
            if not schema and not topics:
                return True
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await stop.wait()
        return False


@asynccontextmanager
async def open_app(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[App]:
    """Open a status aggregator; `App.run` makes it work. Broker and database may come later."""
    rng = SystemRandom()
    async with AsyncExitStack() as stack:
        health = Health("database", "topics", "assignment")
        port = await stack.enter_async_context(serve_health(health, config.health_host, config.health_port))
        ledger = await stack.enter_async_context(
            Ledger.open(
                config.database_url,
                access=config.database,
                shard=rng.randrange(64),
                connections_max=2,  # a batch and a join
                statement_s=STATEMENT_S,
                application="status-aggregator",
            )
        )
        settings = KafkaSettings(
            bootstrap=config.kafka_bootstrap,
            access=config.kafka,
            client_id=GROUP,
            topic_prefix=config.topic_prefix,
        )
        dead_letters = await stack.enter_async_context(Producer.open(settings, deadline_s=DEAD_LETTER_S))
        flusher = Flusher(
            ledger,
            dead_letters,
            installation=config.installation,
            retry_base_s=config.retry_base_s,
            parked_max=config.parked_max,
            deadline_s=config.flush_deadline_s,
            clock=clock,
            rng=Random(rng.random()),
        )
        joiner = Joiner(ledger, every_s=config.join_every_s, keep_s=config.parked_keep_s, clock=clock)
        yield App(
            config,
            settings,
            health=health,
            health_port=port,
            ledger=ledger,
            flusher=flusher,
            joiner=joiner,
            clock=clock,
        )
