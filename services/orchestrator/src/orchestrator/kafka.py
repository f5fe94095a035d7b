"""The orchestrator's dealings with Kafka: what Meta says of accounts, how far the aggregator is, what it tells of campaigns.

Invariant: an offset is committed only past events whose facts are in Postgres, that are counted, or dead-lettered.
"""

import asyncio

from contracts.account import AccountChanged
from contracts.campaign import CampaignChanged
from contracts.codec import Envelope, Undecodable, decode, encode, event_id
from contracts.topics import ACCOUNT_EVENTS, CAMPAIGN_EVENTS, MESSAGE_STATUSES
from kafkaio.admin import committed_offsets, end_offsets
from kafkaio.consumer import Record
from kafkaio.disposition import DeadLetter, DeadLetterReason, Disposition, Done, Retry, RetryReason
from kafkaio.producer import NotPublished, Producer, ProducerFull
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings
from ledger import templates
from ledger.pool import Ledger, LedgerUnavailable
from orchestrator import metrics
from orchestrator.account import Kind, meaning
from runtime.clock import Clock
from runtime.logs import get_logger

GROUP = "orchestrator"
NOTED_AT_ONCE = 4
AWAY_RETRY_S = 0.5
AGGREGATOR_GROUP = "status-aggregator"
PATIENCE_S = 10.0
log = get_logger()


class StatusTopic:
    """Where message-statuses ends, and up to where the aggregator has committed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    async def end(self) -> dict[int, int]:
        async with asyncio.timeout(PATIENCE_S):
            return await end_offsets(self._settings, MESSAGE_STATUSES.name)

    async def committed(self) -> dict[int, int]:
        async with asyncio.timeout(PATIENCE_S):
            return await committed_offsets(self._settings, AGGREGATOR_GROUP, MESSAGE_STATUSES.name)


class CampaignTopic:
    """Tells campaigns' changes, at most once: Postgres is the truth."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def tell(self, change: CampaignChanged) -> None:
        identity = event_id(str(change.campaign_id), change.state.value, f"{change.at_s:.3f}")
        envelope = Envelope(event_id=identity, event_type="campaign.changed", produced_at_s=change.at_s)
        try:
            await self._producer.send(
                CAMPAIGN_EVENTS.name,
                key=str(change.campaign_id).encode(),
                value=encode(change),
                envelope=envelope,
            )
        except (NotPublished, ProducerFull):
            log.warning("campaign.untold", state=change.state)


def account_runner(settings: KafkaSettings, ledger: Ledger, producer: Producer, *, clock: Clock) -> Runner:
    """Return the consumer of account events, one lane an account so that they are noted as they arrived."""

    async def handle(record: Record) -> Disposition:
        return await noted(record, ledger, now_s=clock.wall())

    return Runner(
        settings,
        group=GROUP,
        topics=[ACCOUNT_EVENTS.name],
        handle=handle,
        key_of=lambda record: (record.key or b"").decode("utf-8", "replace"),
        producer=producer,
        concurrency=NOTED_AT_ONCE,
        clock=clock,
    )


async def noted(record: Record, ledger: Ledger, *, now_s: float) -> Disposition:
    """Note one event's facts; nothing that stands in it raises."""
    try:
        event = decode(AccountChanged, record.value or b"")
    except Undecodable:
        return _counted(Kind.UNREADABLE)
    found = meaning(event, now_s=now_s)
    if isinstance(found, Kind):
        return _counted(found)
    try:
        outcome = await templates.note(ledger, found)
    except LedgerUnavailable:
        return Retry(AWAY_RETRY_S, RetryReason.LEDGER_AWAY)
    metrics.PAUSED.labels("template").inc(len(outcome.paused))
    log.info("template.noted", state=found.state, paused_count=len(outcome.paused), changed=outcome.is_news)
    return _counted(Kind.TEMPLATE)


def _counted(kind: Kind) -> Disposition:
    metrics.ACCOUNT_EVENTS.labels(kind.value).inc()
    return DeadLetter(DeadLetterReason.UNDECODABLE) if kind is Kind.UNREADABLE else Done()
