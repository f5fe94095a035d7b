"""Conversations' two dealings with Kafka: messages in, events out.

Invariant: an offset is committed only past messages that are durable in the inbox or dead-lettered.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Raw, structs

from contracts.codec import Envelope, Undecodable, decode, encode, event_id
from contracts.conversation import MessageHandled
from contracts.inbound import MessageReceived
from contracts.topics import CONVERSATION_EVENTS, INBOUND_MESSAGES
from conversations import admission
from conversations.config import Config
from conversations.seeing import Intake, arrival_of
from kafkaio.consumer import Record
from kafkaio.disposition import (
    DeadLetter,
    DeadLetterReason,
    Disposition,
    Done,
    Drop,
    DropReason,
    Retry,
    RetryReason,
)
from kafkaio.producer import NotPublished, Producer, ProducerFull, RecordTooLarge
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings
from ledger.inbox import KEPT_S, SeenAs, Told
from ledger.pool import LedgerUnavailable
from runtime.clock import Clock

GROUP: Final = "conversations"
AWAY_RETRY_S: Final = 0.5


def settings(config: Config) -> KafkaSettings:
    return KafkaSettings(
        bootstrap=config.kafka_bootstrap,
        access=config.kafka,
        client_id=GROUP,
        topic_prefix=config.topic_prefix,
        session_s=config.session_s,
        heartbeat_s=config.session_s / 10,
        rebalance_s=1.5 * config.session_s,
    )


def inbound_runner(
    kafka: KafkaSettings, intake: Intake, producer: Producer, *, concurrency: int, clock: Clock
) -> Runner:
    """Return the consumer of inbound messages, one lane a contact key so that they are seen as they arrived."""

    async def handle(record: Record) -> Disposition:
        return await seen(record, intake, now_s=clock.wall())

    return Runner(
        kafka,
        group=GROUP,
        topics=[INBOUND_MESSAGES.name],
        handle=handle,
        key_of=lambda record: (record.key or b"").decode("utf-8", "replace"),
        producer=producer,
        concurrency=concurrency,
        clock=clock,
    )


async def seen(record: Record, intake: Intake, *, now_s: float) -> Disposition:
    """Take one record into the inbox; nothing that stands in it raises."""
    payload = record.value or b""
    try:
        message = decode(MessageReceived, payload)
    except Undecodable:
        return DeadLetter(DeadLetterReason.UNDECODABLE)
    if not admission.is_storable(message):
        return DeadLetter(DeadLetterReason.UNDECODABLE)
    timestamp_s = admission.moment_s(message, now_s=now_s, kept_s=KEPT_S)
    if timestamp_s is None:
        return DeadLetter(DeadLetterReason.STALE)
    try:
        outcome = await intake.see(arrival_of(message, payload, timestamp_s))
    except LedgerUnavailable:
        return Retry(AWAY_RETRY_S, RetryReason.LEDGER_AWAY)
    match outcome:
        case SeenAs.SEEN:
            return Done()
        case SeenAs.DUPLICATE:
            return Drop(DropReason.DUPLICATE)
        case SeenAs.FOREIGN_NUMBER:  # kept where it can be replayed from, should the number become ours
            return DeadLetter(DeadLetterReason.FOREIGN_NUMBER)
        case _:
            assert_never(outcome)


class EventTopic:
    """Tells handled messages on `conversation-events`."""

    def __init__(self, producer: Producer, *, publish_s: float, clock: Clock) -> None:
        self._producer = producer
        self._publish_s = publish_s
        self._clock = clock

    async def tell(self, events: Sequence[Told]) -> list[Told]:
        """Publish events; return those that were acknowledged within `publish_s` seconds.

        Those of one contact key go one after the other: what follows one that failed is not sent.
        """
        lanes: dict[str, list[Told]] = {}
        for event in events:
            lanes.setdefault(event.contact_key, []).append(event)
        told: list[Told] = []
        async with asyncio.TaskGroup() as tasks:
            for lane in lanes.values():
                tasks.create_task(self._tell_in_order(lane, told))
        return told

    async def _tell_in_order(self, lane: Sequence[Told], told: list[Told]) -> None:
        try:
            async with asyncio.timeout(self._publish_s):
                for event in lane:
                    await self._send(event)
                    told.append(event)
        except (NotPublished, ProducerFull, TimeoutError):
            return  # the rest stays in the outbox

    async def _send(self, event: Told) -> None:
        message = handled(event)
        envelope = Envelope(
            event_id=message.event_id, event_type="message.handled", produced_at_s=self._clock.wall()
        )
        key = event.contact_key.encode()
        try:
            await self._producer.send(
                CONVERSATION_EVENTS.name, key=key, value=encode(message), envelope=envelope
            )
        except RecordTooLarge:  # a message that just fitted its own topic: told without its raw part
            await self._producer.send(
                CONVERSATION_EVENTS.name, key=key, value=encode(without_raw(message)), envelope=envelope
            )


def handled(event: Told) -> MessageHandled:
    """Return the event as it is told: the same value and the same id each time."""
    message = decode(MessageReceived, event.record)
    return MessageHandled(
        event_id=event_id("message_handled", message.phone_number_id, message.wamid),
        phone_number_id=message.phone_number_id,
        contact_key=event.contact_key,
        contact_id=event.contact_id,
        turn=event.turn,
        wamid=message.wamid,
        type=message.type,
        timestamp_s=event.timestamp_s,
        window_closes_at_s=event.closes_at_s,
        consent=event.consent,
        raw=message.raw,
    )


def without_raw(message: MessageHandled) -> MessageHandled:
    return structs.replace(message, raw=Raw(b"null"))
