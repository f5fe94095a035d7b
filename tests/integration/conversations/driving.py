"""Publishing messages as ingress does, running any number of `conversations`, and reading what they did."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from contracts.codec import decode, encode, event_id
from contracts.contact import contact_key
from contracts.conversation import MessageHandled
from contracts.inbound import MessageReceived
from contracts.topics import CONVERSATION_EVENTS, INBOUND_MESSAGES
from conversations.app import open_app
from conversations.config import Config
from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from ledger.pool import Ledger
from runtime.config import Secret
from tests.integration.kafkaio.reading import everything

NUMBER, FOREIGN_NUMBER = "100000000000001", "199999999999999"
U1 = "447700900001"

RECEIVED_S = time.time()
"""All messages of a test come in one webhook, unless they say otherwise."""


class House:
    """A database, a broker and a prefix of one test's own, and a ledger to look with."""

    def __init__(
        self, ledger: Ledger, settings: KafkaSettings, producer: Producer, database_url: str
    ) -> None:
        self.ledger = ledger
        self.settings = settings
        self.producer = producer
        self.database_url = database_url

    def config(self, **changes: Any) -> Config:
        values = {"hold_ms": 0, "session_s": 6.0, "publish_s": 5.0, **changes}
        return Config(
            kafka_bootstrap=self.settings.bootstrap,
            database_url=Secret(self.database_url),
            topic_prefix=self.settings.topic_prefix,
            **values,
        )

    @asynccontextmanager
    async def running(self, instances: int = 1, **changes: Any) -> AsyncIterator[None]:
        """Run so many instances for the block; they are ready when it begins."""
        async with asyncio.TaskGroup() as tasks:
            stop, apps = asyncio.Event(), []
            for _ in range(instances):
                opened: asyncio.Future = asyncio.get_running_loop().create_future()
                tasks.create_task(self._live(self.config(**changes), opened, stop))
                apps.append(await opened)
            try:
                await until(lambda: all(app.health.ready for app in apps))
                yield
            finally:
                stop.set()

    @staticmethod
    async def _live(config: Config, opened: asyncio.Future, stop: asyncio.Event) -> None:
        async with open_app(config) as app:
            opened.set_result(app)
            await app.run(stop)

    async def publish(self, *messages: MessageReceived) -> None:
        """Put messages on the topic, in this order per contact."""
        async with asyncio.TaskGroup() as tasks:
            for message in messages:
                tasks.create_task(self.publish_raw(encode(message), message.contact_key.encode()))

    async def publish_raw(self, value: bytes, key: bytes | None) -> None:
        await self.producer.send(INBOUND_MESSAGES.name, key=key, value=value)

    async def count(self, what: str) -> int:
        return await self.ledger.value("count", f"SELECT count(*) FROM {what}")

    async def all_told(self, count: int, limit_s: float = 60.0) -> list[MessageHandled]:
        """Wait until so many messages are handled and told; return all events, per partition as they stand."""

        async def done() -> bool:
            handled = await self.count("inbox WHERE handled_at IS NOT NULL")
            return handled >= count and not await self.count("outbox")

        await until(done, limit_s)
        assert await self.count("inbox") == count
        return await self.events()

    async def events(self) -> list[MessageHandled]:
        return [
            decode(MessageHandled, record.value)
            for record in await everything(self.settings, CONVERSATION_EVENTS.name)
        ]

    async def dead_letters(self) -> list[str]:
        """Reasons of the dead letters, sorted."""
        records = await everything(self.settings, f"{INBOUND_MESSAGES.name}.dlq")
        return sorted(dict(record.headers)["dead-letter-reason"].decode() for record in records)


async def until(condition: Callable[[], bool | Awaitable[bool]], limit_s: float = 40.0) -> None:
    async with asyncio.timeout(limit_s):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.05)


def a_message(
    n: int,
    *,
    phone: str | None = U1,
    number: str = NUMBER,
    at_s: float | None = None,
    position: int = 0,
    message_type: str = "text",
    raw: object = None,
    user_id: str | None = None,
) -> MessageReceived:
    now_s = time.time()
    body = {"id": f"wamid.{n}", "type": message_type, "text": {"body": f"text {n}"}} if raw is None else raw
    return MessageReceived(
        event_id=event_id("message", number, f"wamid.{n}"), phone_number_id=number, waba_id="200000000000001",
        contact_key=contact_key(number, user_id=user_id, wa_id=phone), wamid=f"wamid.{n}", type=message_type,
        timestamp_s=int(now_s if at_s is None else at_s), received_at_s=RECEIVED_S, position=position, wa_id=phone,
        user_id=user_id, raw=msgspec.Raw(json.dumps(body).encode()),
    )  # fmt: skip


def numbers_of(events: Sequence[MessageHandled]) -> list[int]:
    return [int(event.wamid.removeprefix("wamid.")) for event in events]


def by_contact(events: Sequence[MessageHandled]) -> dict[str, list[MessageHandled]]:
    found: dict[str, list[MessageHandled]] = {}
    for event in events:
        found.setdefault(event.contact_key, []).append(event)
    return found
