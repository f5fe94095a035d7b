"""What can't be handled is set aside beside its topic, holds nobody up, and is replayed when its cause is gone."""

import asyncio
import gzip
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import httpx
import pytest
from aiokafka import AIOKafkaProducer

from contracts.codec import Envelope, encode, to_headers
from contracts.topics import INBOUND_MESSAGES
from deploy.local.stack import Endpoints, execute, quoted
from kafkaio import metrics
from kafkaio.admin import committed_offsets, end_offsets
from kafkaio.disposition import Done
from kafkaio.runner import Runner
from tests.integration.admin.serving import NUMBER as NUMBER_ORDER
from tests.integration.admin.serving import an_admin
from tests.integration.conversations.driving import FOREIGN_NUMBER, House, a_message, numbers_of, until
from tests.integration.kafkaio.reading import everything, running

GROUP = "conversations"
TOPIC = INBOUND_MESSAGES.name


def counted(disposition: str, reason: str, group: str = GROUP) -> float:
    return metrics.RECORDS.labels(group, disposition, reason)._value.get()


async def is_caught_up(house: House, group: str = GROUP) -> bool:
    """The group has committed as far as the topic goes."""
    ends = await end_offsets(house.settings, TOPIC)
    found = await committed_offsets(house.settings, group, TOPIC)
    return all(found.get(partition, 0) == end for partition, end in ends.items())


async def put(
    house: House, records: Sequence[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes]]]]
) -> None:
    """Produce (key, value, headers) straight to the topic, on one partition: each holds up all that follow."""
    async with AIOKafkaProducer(bootstrap_servers=house.settings.bootstrap) as kafka:
        for key, value, headers in records:
            await kafka.send_and_wait(
                house.settings.topic(TOPIC), key=key, value=value, headers=list(headers), partition=0
            )


async def replay(client: httpx.AsyncClient, **order: object) -> dict:
    later = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    reply = await client.post("/v1/dead-letters/replay", json={"until": later, "rate_per_s": 500, **order})
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.bco("J01")
async def test_bco_j01_poison_holds_nobody_up_and_what_can_be_mended_takes_effect_once_when_it_is_replayed(
    house: House,
) -> None:
    good = [a_message(n, phone=f"4477009{n % 10:05}") for n in range(100)]
    foreign = [a_message(n, number=FOREIGN_NUMBER) for n in range(100, 103)]
    odd_version = to_headers(Envelope(event_id="e", event_type="message.received", schema_version="99"))
    key = b"100000000000001:447700900001"
    poison = [b"{", b"", None, gzip.compress(b"{}"), b"[]", b'{"wamid": 7}', b"\xff\xfe"]
    odd = [(b"", encode(good[0]), ()), (None, encode(good[1]), ()), (key, encode(good[2]), odd_version)]
    undecodable = counted("dead_letter", "undecodable")
    seen: Counter[str] = Counter()

    async def see(record):
        seen[record.envelope.replay_for or "first"] += 1
        return Done()

    other = Runner(
        house.settings, group="media", topics=[TOPIC], handle=see, key_of=lambda record: "", producer=None
    )
    async with house.running(), running(other):
        await put(house, [(key, value, ()) for value in poison])
        await put(house, odd)
        await put(house, [(m.contact_key.encode(), encode(m), ()) for m in (*foreign, *good[3:])])
        events = await house.all_told(100)
        assert sorted(numbers_of(events)) == list(range(100))
        await until(lambda: is_caught_up(house))
        assert await house.dead_letters() == ["foreign_number"] * 3 + ["undecodable"] * len(poison)
        assert counted("dead_letter", "undecodable") - undecodable == len(poison)
        letters = await everything(house.settings, f"{TOPIC}.dlq")
        origins = sorted(int(dict(letter.headers)["origin-offset"]) for letter in letters)
        assert origins == [*range(len(poison)), *range(10, 13)]

        async with an_admin(
            house.database_url,
            kafka_bootstrap=house.settings.bootstrap,
            topic_prefix=house.settings.topic_prefix,
        ) as (_app, client):
            connected = await client.post(
                "/v1/numbers", json={**NUMBER_ORDER, "phone_number_id": FOREIGN_NUMBER}
            )
            connected.raise_for_status()
            step = await replay(client)
            assert (step["replayed"], step["already"], step["refused"]) == (10, 0, {})
            events = await house.all_told(103)
            assert sorted(numbers_of(events)) == list(range(103))
            await until(lambda: is_caught_up(house))
            # What no release can read failed again, and stands beside the topic as new letters of its own.
            assert (await house.dead_letters()).count("undecodable") == 2 * len(poison)

            twice = await replay(client, reason="foreign_number", again=True)
            assert twice["replayed"] == 3
            await until(lambda: is_caught_up(house))
            await until(lambda: is_caught_up(house, "media"))
            assert sorted(numbers_of(await house.all_told(103))) == list(range(103)), (
                "a replay had a second effect"
            )
            assert (await house.dead_letters()).count("foreign_number") == 3
    assert seen == {"first": len(poison) + len(odd) + 100}, "another group handled what was replayed"


@pytest.mark.bco("J01")
async def test_bco_j01_a_database_that_is_down_sets_nothing_aside(house: House, stack: Endpoints) -> None:
    name = quoted(urlsplit(house.database_url).path.removeprefix("/"))
    async with house.running():
        await house.publish(a_message(0))
        await house.all_told(1)
        retried = counted("retry", "ledger_away")
        await execute(stack.database_url, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            await execute(
                stack.database_url,
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name[1:-1]}'",
            )
            await house.publish(*(a_message(n, position=n) for n in range(1, 5)))
            await until(lambda: counted("retry", "ledger_away") >= retried + 8)
        finally:
            await execute(stack.database_url, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert numbers_of(await house.all_told(5)) == list(range(5))
    assert await house.dead_letters() == []


async def test_a_replay_whose_mark_was_lost_is_done_once_more_without_a_second_effect(house: House) -> None:
    """The process died between the record and its mark, for every letter of a replay that was cut at every moment."""
    foreign = [a_message(n, number=FOREIGN_NUMBER, phone=f"4477009{n % 5:05}") for n in range(60)]
    broker = {"kafka_bootstrap": house.settings.bootstrap, "topic_prefix": house.settings.topic_prefix}
    async with house.running(), an_admin(house.database_url, **broker) as (_app, client):
        await house.publish(*foreign)
        await until(lambda: is_caught_up(house))
        (
            await client.post("/v1/numbers", json={**NUMBER_ORDER, "phone_number_id": FOREIGN_NUMBER})
        ).raise_for_status()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(3):
                cut = tasks.create_task(replay(client, rate_per_s=100))
                handled = await house.count("inbox")
                await until(lambda handled=handled: _is_past(house, handled))
                cut.cancel()
                await asyncio.wait([cut])
                await house.ledger.run("lose", "DELETE FROM dead_letter_replays")
        assert (await replay(client))["replayed"] == 60
        events = await house.all_told(60)
        await until(lambda: is_caught_up(house))
        assert len(await everything(house.settings, TOPIC)) > 120
        assert sorted(numbers_of(await house.events())) == sorted(numbers_of(events)) == list(range(60))


async def _is_past(house: House, count: int) -> bool:
    return await house.count("inbox") > count
