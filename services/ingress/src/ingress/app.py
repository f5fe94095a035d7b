"""Where ingress is put together.

Invariant: what is under way when it stops is settled before the producer closes.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from backpressure.window import CreditWindow
from ingress import metrics
from ingress.config import Config
from ingress.kafka import WebhookTopics
from ingress.load import LoadCount
from ingress.web import Web
from kafkaio.settings import KafkaSettings
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.health import Health, serve_health, serve_http

LOAD_INTERVAL_S = 0.25
READINESS_INTERVAL_S = 1.0
LOAD_NUMBERS_MAX = 10_000


class App:
    """A running ingress; `asgi` answers without a port, `run` serves it."""

    def __init__(self, config: Config, asgi: Web, health: Health) -> None:
        self._config = config
        self.asgi = asgi
        self.health = health
        self.port: int | None = None
        """Of the webhook, once `run` serves it."""
        self.health_port: int | None = None
        self.serving = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then answer what was begun."""
        config = self._config
        async with (
            serve_health(self.health, config.health_host, config.health_port) as self.health_port,
            serve_http(self.asgi, config.host, config.port, stop_s=2 * config.deadline_s) as self.port,
        ):
            self.serving.set()
            await stop.wait()
            self.health.start_drain()


@asynccontextmanager
async def open_app(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[App]:
    """Open ingress for the block; the broker may come later, until then webhooks are answered 503."""
    health = Health("kafka")
    counted_by = f"ingress-{secrets.token_hex(4)}"
    settings = KafkaSettings(
        bootstrap=config.kafka_bootstrap,
        access=config.kafka,
        client_id="ingress",
        topic_prefix=config.topic_prefix,
    )
    window = CreditWindow(requests_max=config.inflight_requests_max, bytes_max=config.inflight_bytes_max)
    load = LoadCount(counted_by=counted_by, numbers_max=LOAD_NUMBERS_MAX)
    async with (
        WebhookTopics.open(
            settings,
            deadline_s=config.deadline_s,
            inflight_bytes_max=config.inflight_bytes_max,
            clock=clock,
        ) as topics,
        asyncio.TaskGroup() as tasks,
    ):
        asgi = Web(config, publish=topics.publish, window=window, load=load, clock=clock)
        loops = (
            tasks.create_task(_watch_topics(topics, health, clock)),
            tasks.create_task(_report_load(topics, load, clock)),
        )
        try:
            yield App(config, asgi, health)
        finally:
            for loop in loops:
                loop.cancel()


async def _watch_topics(topics: WebhookTopics, health: Health, clock: Clock) -> None:
    while True:
        fault = await topics.fault()
        health.set_ready("kafka", not fault, fault)
        await clock.sleep(READINESS_INTERVAL_S)


async def _report_load(topics: WebhookTopics, load: LoadCount, clock: Clock) -> None:
    last_s = clock.boottime()
    while True:
        await clock.sleep(LOAD_INTERVAL_S)
        now_s = clock.boottime()
        loads = load.take(until_s=clock.wall(), interval_s=now_s - last_s)
        last_s = now_s
        metrics.LOAD_UNCOUNTED.inc(load.take_uncounted())
        await topics.publish_load(loads)
