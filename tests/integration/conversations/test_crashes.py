"""Processes die, partitions move and the database goes away: nothing is lost, nothing is handled twice."""

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from contracts.codec import event_id
from deploy.local.stack import Endpoints, execute, quoted
from kafkaio.admin import committed_offsets, end_offsets
from ledger import inbox
from tests.integration.conversations.driving import NUMBER, House, a_message, by_contact, numbers_of, until


async def test_an_event_whose_teller_died_after_the_commit_is_told_with_the_id_it_always_has(house: House):
    first, second = a_message(1), a_message(2, position=1)
    async with house.running():
        await house.publish(first)
        (template,) = await house.all_told(1)
    # What a process leaves that dies between its commit and its publication: seen and handled, and nobody told.
    await house.ledger.run("forget", "UPDATE inbox SET wamid = 'wamid.0'")
    async with house.running(handlers=1, publish_s=0.001):  # no broker answers so fast
        await house.publish(first)
        await until(lambda: _is(house, "outbox", 1))
    told_before = len(await house.events())
    async with house.running(publish_s=0.5):
        await house.publish(second)
        await house.all_told(3)
    events = (await house.events())[told_before:]
    assert numbers_of(events) == [1, 2]
    assert events[0].event_id == template.event_id == event_id("message_handled", NUMBER, "wamid.1")
    assert [event.turn for event in events] == [2, 3]


async def _is(house: House, what: str, count: int) -> bool:
    return await house.count(what) == count


@asynccontextmanager
async def a_process(house: House):
    environment = {
        **os.environ,
        "SLUICE_KAFKA_BOOTSTRAP": house.settings.bootstrap,
        "SLUICE_DATABASE_URL": house.database_url,
        "SLUICE_TOPIC_PREFIX": house.settings.topic_prefix,
        "CONVERSATIONS_SESSION_S": "2",
        "CONVERSATIONS_HOLD_MS": "50",
        "CONVERSATIONS_PUBLISH_S": "1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "conversations", env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


@pytest.mark.bco("J02")
async def test_bco_j02_a_process_killed_at_random_leaves_every_effect_exactly_once(house: House):
    count, people, rng = 1_500, 40, random.Random(2)
    at_s = int(time.time()) - count
    messages = [a_message(n, phone=f"4477009{n % people:05}", at_s=at_s + n) for n in range(count)]
    kills = 0

    async def handled_more(than: int) -> bool:
        return await house.count("inbox WHERE handled_at IS NOT NULL") >= than

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_trickle(house, messages))
        for _ in range(4):
            async with a_process(house) as process:
                reached = await house.count("inbox WHERE handled_at IS NOT NULL")
                goal = min(count, reached + rng.randint(1, 300))
                await until(lambda goal=goal: handled_more(goal))
                await asyncio.sleep(rng.random() * 0.05)
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
    async with a_process(house):
        events = await house.all_told(count)
        ends = await end_offsets(house.settings, "inbound-messages")
        await until(lambda: _committed(house, ends))
    assert kills == 4
    assert await house.count("inbox WHERE fault IS NOT NULL") == 0
    assert await house.count("contacts") == people
    assert await house.ledger.value("turns", "SELECT sum(turn)::int FROM conversations") == count
    assert set(numbers_of(events)) == set(range(count))
    for mine in by_contact(events).values():
        first_times = list(dict.fromkeys(event.turn for event in mine))
        assert first_times == list(range(1, len(first_times) + 1))
        assert len({(event.turn, event.event_id, event.wamid) for event in mine}) == len(first_times)


async def _trickle(house: House, messages: list) -> None:
    for start in range(0, len(messages), 50):
        await house.publish(*messages[start : start + 50])
        await asyncio.sleep(0.1)


async def _committed(house: House, ends: dict[int, int]) -> bool:
    return await committed_offsets(house.settings, "conversations", "inbound-messages") == ends


async def test_instances_that_come_and_go_share_the_partitions_and_handle_each_message_once_in_order(
    house: House,
):
    def part(first: int) -> list:
        return [a_message(n, phone=f"4477009{n % 20:05}", position=n) for n in range(first, first + 200)]

    async with house.running(hold_ms=100):
        await house.publish(*part(0))
        async with house.running(hold_ms=100):
            await house.publish(*part(200))
            await until(lambda: _at_least(house, 250))
        await house.publish(*part(400))
        events = await house.all_told(600)
    assert len(events) == 600
    for mine in by_contact(events).values():
        assert numbers_of(mine) == sorted(numbers_of(mine))
        assert [event.turn for event in mine] == list(range(1, 31))


async def _at_least(house: House, count: int) -> bool:
    return await house.count("inbox") >= count


async def test_messages_wait_while_the_database_is_away_and_none_is_lost(house: House, stack: Endpoints):
    name = quoted(urlsplit(house.database_url).path.removeprefix("/"))
    async with house.running():
        await house.publish(a_message(0))
        await house.all_told(1)
        await execute(stack.database_url, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            await execute(
                stack.database_url,
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name[1:-1]}'",
            )
            await house.publish(*(a_message(n, position=n) for n in range(1, 40)))
            await asyncio.sleep(2.0)  # the trouble itself lasts; nothing is waited for
        finally:
            await execute(stack.database_url, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        events = await house.all_told(40)
    assert numbers_of(events) == list(range(40))
    assert await house.dead_letters() == []


async def test_what_was_seen_by_a_process_that_is_gone_is_handled_by_the_next(house: House):
    message = a_message(1)
    async with house.running(hold_ms=10_000):
        await house.publish(message)
        await until(lambda: _is(house, "inbox", 1))
    assert await house.count("inbox WHERE handled_at IS NULL") == 1
    await house.ledger.run("hasten", "UPDATE inbox_lanes SET due_at = now()")
    await house.ledger.run("hasten", "UPDATE inbox_waiting SET due_at = now()")
    async with house.running():
        assert numbers_of(await house.all_told(1)) == [1]
    assert (await inbox.backlog(house.ledger)).lanes_count == 0
