"""Where admin is put together.

Invariant: it is ready only while the database answers and has the schema that this release needs.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from admin import web_halts, web_numbers, web_why
from admin.config import Config
from admin.dead_letters import DeadLetters
from admin.web import Web
from admin.web_audience import AudienceRoutes
from admin.web_campaigns import CampaignRoutes
from admin.web_dead_letters import DeadLetterRoutes
from admin.web_opt_outs import OptOutRoutes
from kafkaio.settings import KafkaSettings
from ledger import migrate
from ledger.pool import Ledger
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.health import Health, serve_health, serve_http

SHARD = 63  # of the counters; the others are the senders' and the orchestrator's
READINESS_INTERVAL_S = 1.0
STATEMENT_S = 10.0  # reports may scan; no sender waits for them


class App:
    """A running admin; `asgi` answers without a port, `run` serves it."""

    def __init__(self, config: Config, asgi: Web, health: Health) -> None:
        self._config = config
        self.asgi = asgi
        self.health = health
        self.port: int | None = None
        """Of the API, once `run` serves it."""
        self.health_port: int | None = None
        self.serving = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then answer what was begun; an import that takes longer is undone."""
        config = self._config
        async with (
            serve_health(self.health, config.health_host, config.health_port) as self.health_port,
            serve_http(self.asgi, config.host, config.port, stop_s=config.drain_s / 2) as self.port,
        ):
            self.serving.set()
            await stop.wait()
            self.health.start_drain()


@asynccontextmanager
async def open_app(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[App]:
    """Open admin for the block; the database may come later, until then it answers 503."""
    health = Health("database")
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(
            Ledger.open(
                config.database_url,
                access=config.database,
                shard=SHARD,
                statement_s=STATEMENT_S,
                application="sluice-admin",
            )
        )
        audience_routes = AudienceRoutes(ledger, clock, import_bytes_max=config.import_bytes_max)
        campaign_routes = CampaignRoutes(ledger, is_importing=audience_routes.is_importing)
        routes = [
            *web_numbers.routes(ledger, slots_count=config.slots_count),
            *campaign_routes.routes(),
            *audience_routes.routes(),
            *web_halts.routes(ledger),
            *web_why.routes(ledger),
            *OptOutRoutes(ledger, clock, import_bytes_max=config.import_bytes_max).routes(),
            *DeadLetterRoutes(DeadLetters(_kafka(config), ledger, clock), clock).routes(),
        ]
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        watch = tasks.create_task(_watch_database(ledger, health, clock))
        try:
            yield App(config, Web(routes, tokens=config.tokens, clock=clock), health)
        finally:
            watch.cancel()


def _kafka(config: Config) -> KafkaSettings:
    """Nothing is connected before somebody asks for dead letters."""
    return KafkaSettings(
        bootstrap=config.kafka_bootstrap,
        access=config.kafka,
        client_id="sluice-admin",
        topic_prefix=config.topic_prefix,
    )


async def _watch_database(ledger: Ledger, health: Health, clock: Clock) -> None:
    while True:
        fault = await migrate.schema_fault(ledger)
        health.set_ready("database", not fault, fault)
        await clock.sleep(READINESS_INTERVAL_S)
