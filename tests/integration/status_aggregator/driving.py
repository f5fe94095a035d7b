"""The outer door: campaigns whose rows were sent, status records on the real topic, and aggregators as processes."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from uuid import uuid4

from contracts.campaign import CampaignDefinition, TemplateRef
from contracts.codec import encode
from contracts.contact import folded_phone
from contracts.status import CampaignRow, StatusBatch, StatusReported, callback_data
from contracts.topics import MESSAGE_STATUSES, TOPICS
from kafkaio.admin import BrokerAway, apply_topics, committed_offsets, end_offsets
from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from ledger import audience, campaigns, leases, numbers, recipients
from ledger.audience import AudienceRow
from ledger.pool import Ledger
from ledger.recipients import Settlement

NUMBER = "100000000000001"
INSTALLATION = "test"
GROUP = "status-aggregator"
T0 = 1_796_040_000


def wamid(seq: int) -> str:
    return f"wamid.{seq}"


def a_status(
    word: str, seq: int, at_s: int, *, campaign_id: int | None = None, attempt: int = 1, **changed
) -> StatusReported:
    """A status of the row by callback data, or of its wamid alone when no campaign is named."""
    data = callback_data(INSTALLATION, CampaignRow(campaign_id, seq, attempt)) if campaign_id else None
    fields = {
        "event_id": f"{seq}:{word}", "phone_number_id": NUMBER, "waba_id": "200000000000001", "wamid": wamid(seq),
        "status": word, "timestamp_s": at_s, "recipient_id": f"447700{900000 + seq}", "callback_data": data,
    }  # fmt: skip
    return StatusReported(**(fields | changed))


@asynccontextmanager
async def a_campaign(database_url: str, size: int) -> AsyncIterator[tuple[Ledger, int]]:
    """Yield (ledger, campaign id) of a running campaign whose rows are all claimed once, none settled."""
    async with Ledger.open(database_url, shard=1, statement_s=20.0) as ledger:
        await numbers.add(
            ledger, phone_number_id=NUMBER, waba_id="200000000000001", portfolio_id="p1", display="",
            limit_per_s=1000, setting_per_s=950, slots_count=4,
        )  # fmt: skip
        campaign_id = await campaigns.create(
            ledger,
            CampaignDefinition(
                name="test", template=TemplateRef(name="hello", language="en", body=()), numbers=(NUMBER,)
            ),
        )

        async def rows() -> AsyncIterator[list[AudienceRow]]:
            for start in range(0, size, 5_000):
                addresses = [f"+447700{900000 + i}" for i in range(start + 1, min(start + 5_000, size) + 1)]
                yield [
                    AudienceRow(line=start + n, address=address, folded=folded_phone(address), params=())
                    for n, address in enumerate(addresses, 1)
                ]

        await audience.add(ledger, campaign_id, rows())
        assert await campaigns.launch(ledger, campaign_id) == size
        taken = await leases.take(ledger, phone_number_id=NUMBER, owner=uuid4(), lease_s=600, grace_s=2)
        assert taken is not None
        claimed = 0
        while claimed < size:
            claim = await recipients.claim(
                ledger, phone_number_id=NUMBER, epoch=taken.epoch, campaign_id=campaign_id, limit=500, name=uuid4(),
                ends_in_s=60,
            )  # fmt: skip
            assert claim.rows
            claimed += len(claim.rows)
        yield ledger, campaign_id


async def accept(ledger: Ledger, campaign_id: int, seqs: Iterable[int]) -> None:
    """The send results arrive: these rows are accepted, their wamids stored."""
    accepted = [
        Settlement(campaign_id=campaign_id, seq=seq, attempt=1, kind="accepted", wamid=wamid(seq))
        for seq in seqs
    ]
    for start in range(0, len(accepted), 500):
        await recipients.settle(ledger, accepted[start : start + 500], finished_claims=[])


async def states(
    ledger: Ledger, campaign_id: int
) -> dict[int, tuple[str, int | None, int | None, int | None]]:
    """Return seq → (state, sent, delivered and read times)."""
    rows = await ledger.rows(
        "states",
        "SELECT seq, state::text, extract(epoch FROM sent_at)::int8 AS sent, extract(epoch FROM delivered_at)::int8"
        " AS delivered, extract(epoch FROM read_at)::int8 AS read FROM recipient_states WHERE campaign_id = $1",
        campaign_id,
    )
    return {row["seq"]: (row["state"], row["sent"], row["delivered"], row["read"]) for row in rows}


async def counters_equal_rows(ledger: Ledger, campaign_id: int) -> bool:
    differing = await ledger.value(
        "compare",
        """
        SELECT count(*) FROM
          (SELECT state, sum(n) AS n FROM campaign_counters WHERE campaign_id = $1 GROUP BY 1 HAVING sum(n) <> 0) c
          FULL JOIN (SELECT state, count(*) AS n FROM recipient_states WHERE campaign_id = $1 GROUP BY 1) r
            ON r.state = c.state WHERE c.n IS DISTINCT FROM r.n
        """,
        campaign_id,
    )
    return differing == 0


async def eventually(condition: Callable[[], Awaitable[bool]], limit_s: float = 25.0) -> None:
    async with asyncio.timeout(limit_s):
        while not await condition():
            await asyncio.sleep(0.1)


async def make_topics(settings: KafkaSettings) -> None:
    topics = [topic for topic in TOPICS if topic.name.startswith(MESSAGE_STATUSES.name)]
    await apply_topics(settings, partitions_count=2, replication=1, min_insync=1, topics=topics)


async def publish(
    settings: KafkaSettings, records: Sequence[tuple[int, bytes | Sequence[StatusReported]]]
) -> None:
    """Produce (partition, value or statuses) to message-statuses, in order per partition."""
    async with Producer.open(settings, linger_s=0.005) as producer, asyncio.TaskGroup() as tasks:
        for partition, content in records:
            value = content if isinstance(content, bytes) else encode(StatusBatch(tuple(content)))
            tasks.create_task(producer.send(MESSAGE_STATUSES.name, partition=partition, value=value))


async def committed(settings: KafkaSettings) -> dict[int, int]:
    try:
        return await committed_offsets(settings, GROUP, MESSAGE_STATUSES.name)
    except BrokerAway:  # a broker that has never had a group yet answers so
        return {}


async def all_committed(settings: KafkaSettings) -> bool:
    """The group has committed as far as the topic goes."""
    ends = await end_offsets(settings, MESSAGE_STATUSES.name)
    found = await committed(settings)
    return all(found.get(partition, 0) >= end for partition, end in ends.items())


class Aggregator:
    """One aggregator process; `events` are the lines it logged so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict] = []

    async def read(self) -> None:
        async for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def named(self, event: str) -> list[dict]:
        return [line for line in self.lines if line["event"] == event]

    @property
    def is_ready(self) -> bool:
        return any(line["name"] == "assignment" and line["ok"] for line in self.named("readiness.changed"))

    async def kill(self) -> None:
        if self.process.returncode is None:
            os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def aggregating(settings: KafkaSettings, database_url: str, **env: str) -> AsyncIterator[Aggregator]:
    """An aggregator as its own process, killed at the end unless it ended before."""
    variables = {
        "SLUICE_KAFKA_BOOTSTRAP": settings.bootstrap,
        "SLUICE_DATABASE_URL": database_url,
        "SLUICE_TOPIC_PREFIX": settings.topic_prefix,
        "SLUICE_INSTALLATION": INSTALLATION,
        "STATUS_AGGREGATOR_JOIN_EVERY_S": "0.3",
        "STATUS_AGGREGATOR_RETRY_BASE_S": "0.5",
        "STATUS_AGGREGATOR_SESSION_S": "2",
        "STATUS_AGGREGATOR_REBALANCE_S": "12",
        "STATUS_AGGREGATOR_FLUSH_DEADLINE_S": "5",
        "STATUS_AGGREGATOR_COMMIT_EVERY_S": "0.1",
    }
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "STATUS_AGG"))
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "status_aggregator", env=kept | variables | env, stdout=asyncio.subprocess.PIPE
    )
    aggregator = Aggregator(process)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(aggregator.read())
        try:
            yield aggregator
        finally:
            await aggregator.kill()
            await reading
            print(*aggregator.lines, sep="\n")  # shown when the test fails
