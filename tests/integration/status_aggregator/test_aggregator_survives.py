"""What the aggregator does when records, Postgres or the process itself fail: no status is lost, no partition stands."""

import asyncio
import random
import secrets
import signal

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from contracts.codec import decode
from contracts.status import StatusBatch
from contracts.topics import MESSAGE_STATUSES, dead_letter_name
from kafkaio.admin import end_offsets
from kafkaio.settings import KafkaSettings
from tests.integration.status_aggregator.driving import (
    T0,
    a_campaign,
    a_status,
    accept,
    aggregating,
    all_committed,
    committed,
    counters_equal_rows,
    eventually,
    make_topics,
    publish,
    states,
)


async def dead_letters(settings) -> list:
    topic = dead_letter_name(MESSAGE_STATUSES.name)
    count = sum((await end_offsets(settings, topic)).values())
    kafka = AIOKafkaConsumer(
        settings.topic(topic),
        bootstrap_servers=settings.bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
    )
    async with kafka:
        return [await kafka.getone() for _ in range(count)]


async def produce_raw(settings, value: bytes | None) -> None:
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as kafka:
        await kafka.send_and_wait(settings.topic(MESSAGE_STATUSES.name), value=value, key=b"k", partition=0)


async def allow_connections(database_url: str, allowed: str) -> None:
    server, _, name = database_url.rpartition("/")
    connection = await asyncpg.connect(f"{server}/postgres")
    try:
        await connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allowed}')
    finally:
        await connection.close()


@pytest.mark.bco("F02")
async def test_bco_f02_poison_of_every_kind_is_set_aside_and_costs_no_sibling_and_no_follower(
    settings, database_url
):
    async with a_campaign(database_url, 98) as (ledger, campaign_id):
        await accept(ledger, campaign_id, range(1, 99))
        batch = [
            a_status("sent", seq, T0, campaign_id=campaign_id if seq % 2 else None) for seq in range(1, 99)
        ]
        batch[20:20] = [
            a_status("sent", 1, T0, wamid="wamid.FOREIGN"),
            a_status("read", 1, T0, wamid="wamid.OF-AN-INBOUND-MESSAGE"),
            a_status("sent", 2, T0, campaign_id=campaign_id, phone_number_id="1\0"),
            a_status("sent", 3, T0, wamid="wamid.\0"),
            a_status("warning", 3, T0, campaign_id=campaign_id),
            a_status("sent", 3, T0, callback_data="an order of another application"),
            a_status("sent", 3, T0, callback_data="sl1:another:c:1:3:1"),
            a_status("sent", 3, T0, callback_data="sl1:test:r:5:1"),
            a_status("sent", 99, T0, campaign_id=campaign_id),
            a_status("sent", 1, T0, campaign_id=campaign_id, phone_number_id="100000000000002"),
            a_status("failed", 4, T0 - 1, campaign_id=campaign_id, code=2**40),
            a_status("sent", 5, 10**17, campaign_id=campaign_id),
        ]
        await produce_raw(settings, None)
        await publish(settings, [(0, b""), (0, b"{"), (0, b'{"statuses":[{"status":1}]}'), (0, batch)])
        follower = [a_status("delivered", seq, T0 + 1, campaign_id=campaign_id) for seq in range(1, 99)]
        async with aggregating(settings, database_url) as aggregator:
            await publish(settings, [(0, follower)])
            await eventually(lambda: all_committed(settings))
            tally = {}
            for line in aggregator.named("batch.flushed"):
                for name, count in line.items():
                    tally[name] = tally.get(name, 0) + count if isinstance(count, int) else count
        assert {state for state, *_ in (await states(ledger, campaign_id)).values()} == {"delivered"}
        counted = (
            "undecodable",
            "dead_lettered",
            "parked",
            "foreign",
            "unsupported_target",
            "unknown_word",
            "unresolved",
        )
        assert {name: tally.get(name) for name in counted} == {
            "undecodable": 4, "dead_lettered": 2, "parked": 2, "foreign": 2, "unsupported_target": 1, "unknown_word": 1,
            "unresolved": 2,
        }  # fmt: skip
        letters = await dead_letters(settings)
        reasons = sorted(dict(letter.headers)["dead-letter-reason"].decode() for letter in letters)
        assert reasons == ["poison"] * 2 + ["undecodable"] * 4
        alone = [
            decode(StatusBatch, letter.value).statuses
            for letter in letters
            if b"wamid" in (letter.value or b"")
        ]
        assert sorted(status.phone_number_id for (status,) in alone) == ["1\0", "100000000000001"]
        assert await counters_equal_rows(ledger, campaign_id)


async def test_postgres_away_for_a_moment_only_delays_a_batch(settings, database_url):
    async with a_campaign(database_url, 50) as (ledger, campaign_id):
        async with aggregating(settings, database_url) as aggregator:

            async def ready():
                return aggregator.is_ready

            await eventually(ready)
            await allow_connections(database_url, "false")
            await ledger.value(
                "cut",
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'status-aggregator'",
            )
            await publish(
                settings, [(0, [a_status("sent", seq, T0, campaign_id=campaign_id) for seq in range(1, 51)])]
            )

            async def waiting():
                return len(aggregator.named("batch.delayed")) > 2

            await eventually(waiting)
            assert not await committed(settings)
            await allow_connections(database_url, "true")
            await eventually(lambda: all_committed(settings))
        assert {state for state, *_ in (await states(ledger, campaign_id)).values()} == {"sent"}


@pytest.mark.parametrize(("ending", "code"), [("deadline", 75), ("terminated", 0)])
async def test_a_flush_that_cannot_end_ends_the_process_unacknowledged(settings, database_url, ending, code):
    """Rows locked by somebody else: at the deadline, or when told to stop meanwhile, nothing may be committed."""
    async with a_campaign(database_url, 20) as (ledger, campaign_id):
        await publish(settings, [(0, [a_status("read", 1, T0, campaign_id=campaign_id)])])
        async with ledger.connection("lock") as holder:
            await holder.execute("SET idle_in_transaction_session_timeout = 0")
            async with holder.transaction():
                await holder.execute("LOCK TABLE recipient_states IN ACCESS EXCLUSIVE MODE")
                async with aggregating(
                    settings,
                    database_url,
                    STATUS_AGGREGATOR_FLUSH_DEADLINE_S="2",
                    STATUS_AGGREGATOR_LAST_BATCH_S="1",
                ) as aggregator:
                    if ending == "terminated":

                        async def blocked():
                            return bool(
                                await holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
                            )

                        await eventually(blocked)
                        aggregator.process.send_signal(signal.SIGTERM)
                    async with asyncio.timeout(40):
                        assert await aggregator.process.wait() == code
                assert not await committed(settings)
        async with aggregating(settings, database_url):
            await eventually(lambda: all_committed(settings))
        assert (await states(ledger, campaign_id))[1][0] == "read"


@pytest.mark.bco("J02")
async def test_bco_j02_processes_killed_and_joined_in_mid_flow_lose_no_status(settings, database_url):
    """Three are killed, Postgres slowed so that a flush is always under way; then a rebalance comes in mid-flow."""
    size, rng = 4_800, random.Random(2)
    async with a_campaign(database_url, size) as (ledger, campaign_id):
        await ledger.run(
            "slow",
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END$$",
        )
        await ledger.run(
            "slow",
            "CREATE TRIGGER slow BEFORE UPDATE ON recipient_states FOR EACH STATEMENT EXECUTE FUNCTION slow()",
        )
        seqs = list(range(1, size + 1))
        rng.shuffle(seqs)
        statuses = [a_status("sent", seq, T0, campaign_id=campaign_id) for seq in seqs]
        records = [(n // 4 % 2, statuses[n : n + 4]) for n in range(0, size, 4)]
        await publish(settings, records)

        async def applied() -> int:
            return await ledger.value(
                "applied",
                "SELECT count(*) FROM recipient_states WHERE campaign_id = $1 AND state = 'sent'",
                campaign_id,
            )

        reached = goal = 0

        async def reaches_goal() -> bool:
            return await applied() >= goal

        for _ in range(3):
            async with aggregating(settings, database_url) as killed:
                goal = reached + rng.randint(300, 600)
                await eventually(reaches_goal)
                await killed.kill()
            reached = await applied()
        assert reached < size, "all kills came in mid-flow"
        async with aggregating(settings, database_url), aggregating(settings, database_url):
            await eventually(lambda: all_committed(settings))
        assert await applied() == size
        assert await counters_equal_rows(ledger, campaign_id)


async def test_a_missing_topic_keeps_the_service_unready_until_it_is_there(kafka_bootstrap, database_url):
    settings = KafkaSettings(
        bootstrap=kafka_bootstrap, client_id="test", topic_prefix=f"t{secrets.token_hex(3)}."
    )
    async with aggregating(settings, database_url) as aggregator:

        async def ready():
            return aggregator.is_ready

        async def opened():
            return bool(aggregator.named("service.started"))

        await eventually(opened)
        assert {line["name"] for line in aggregator.named("readiness.changed")} <= {"database"}
        await make_topics(settings)
        await eventually(ready)


async def test_a_process_frozen_past_its_session_is_taken_over_and_works_again_when_it_thaws(
    settings, database_url
):
    async with a_campaign(database_url, 300) as (ledger, campaign_id):

        async def send(seqs: range) -> None:
            batch = [(seq % 2, [a_status("sent", seq, T0, campaign_id=campaign_id)]) for seq in seqs]
            await publish(settings, batch)

        async with (
            aggregating(settings, database_url) as frozen,
            aggregating(settings, database_url) as other,
        ):

            async def both_ready():
                return frozen.is_ready and other.is_ready

            await eventually(both_ready)
            await send(range(1, 101))
            frozen.process.send_signal(signal.SIGSTOP)
            await send(range(101, 201))
            await eventually(lambda: all_committed(settings))
            assert {(await states(ledger, campaign_id))[seq][0] for seq in range(1, 201)} == {"sent"}
            frozen.process.send_signal(signal.SIGCONT)

            async def both_work():
                """Each has one of the two partitions again: readiness may have come back before anybody looked."""
                before = [len(one.named("batch.flushed")) for one in (frozen, other)]
                await send(range(201, 301))
                await eventually(lambda: all_committed(settings))
                after = [len(one.named("batch.flushed")) for one in (frozen, other)]
                return all(now > then for now, then in zip(after, before, strict=True))

            await eventually(both_work)
        assert {state for state, *_ in (await states(ledger, campaign_id)).values()} == {"sent"}
        assert await counters_equal_rows(ledger, campaign_id)
