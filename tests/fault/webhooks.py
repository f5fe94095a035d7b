"""A client that plays Meta's side of the webhook under load: it signs, posts, and posts again until it hears 200.

Invariant: it shares no code with ours; what it counts as acknowledged was answered with exactly 200.
"""

import asyncio
import hashlib
import hmac
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from confluent_kafka import Consumer, TopicPartition

from deploy.local.campaign_run import WABA
from deploy.local.fleet import APP_SECRET, PARTITIONS

POST_S = 15.0  # longer than ingress may take
AGAIN_S = 0.1
READ_S = 60.0


@dataclass(frozen=True)
class Item:
    """One body, and the name under which what it carries will be found on its topic."""

    name: str
    body: bytes


def a_text(number: str, n: int, *, sender: str) -> Item:
    wamid = f"wamid.TEXT{n}"
    message = {"from": sender, "id": wamid, "timestamp": now(), "type": "text", "text": {"body": f"t{n}"}}
    return Item(wamid, a_body(number, messages=[message]))


def some_statuses(number: str, statuses: Sequence[dict[str, Any]]) -> Item:
    """One body, known by its first status."""
    name = f"{statuses[0]['id']}:{statuses[0]['status']}"
    return Item(name, a_body(number, statuses=list(statuses)))


def a_status(word: str, post: dict[str, Any]) -> dict[str, Any]:
    """A status of a message that the simulator accepted, from its own record of it."""
    return {
        "id": post["wamid"],
        "status": word,
        "timestamp": now(),
        "recipient_id": post["to"].removeprefix("+"),
        "biz_opaque_callback_data": post["callback_data"],
    }


def now() -> str:
    return str(int(time.time()))


def a_body(number: str, **parts: object) -> bytes:
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15550100000", "phone_number_id": number},
        **parts,
    }
    entry = [{"id": WABA, "changes": [{"field": "messages", "value": value}]}]
    return json.dumps({"object": "whatsapp_business_account", "entry": entry}).encode()


@dataclass
class Account:
    """What was posted and what was answered; answers are HTTP codes, 0 for none."""

    acknowledged: set[str] = field(default_factory=set)
    posted: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    slowest_s: float = 0.0
    """The longest that a request, answered or not, took."""
    in_flight: int = 0
    abandoned: bool = False
    """The test has failed: what wasn't acknowledged won't be."""


@contextmanager
def posting(url: str, items: Iterable[Item], *, connections: int, pause_s: float = 0.0) -> Iterator[Account]:
    """Post beside the block, in a thread; at its end no more items are taken, and those begun are brought to their 200."""
    account = Account()
    enough = threading.Event()
    wanted = itertools.takewhile(lambda _item: not enough.is_set(), items)
    work = post_all(url, wanted, account, connections=connections, pause_s=pause_s)
    with ThreadPoolExecutor(1) as pool:
        posted = pool.submit(asyncio.run, work)
        try:
            yield account
        except BaseException:
            account.abandoned = True
            raise
        finally:
            enough.set()
        posted.result()


async def post_all(
    url: str, items: Iterable[Item], account: Account, *, connections: int, pause_s: float = 0.0
) -> None:
    """Post each item until it is answered 200, over so many connections, each resting `pause_s` between two."""
    waiting = iter(items)
    limit = aiohttp.TCPConnector(limit=connections)
    patience = aiohttp.ClientTimeout(total=POST_S)
    async with (
        aiohttp.ClientSession(connector=limit, timeout=patience) as session,
        asyncio.TaskGroup() as tasks,
    ):
        for _ in range(connections):
            tasks.create_task(_post_on(session, url, waiting, account, pause_s))


async def _post_on(
    session: aiohttp.ClientSession, url: str, waiting: Iterator[Item], account: Account, pause_s: float
) -> None:
    for item in waiting:
        while not account.abandoned:
            account.posted[item.name] += 1
            account.in_flight += 1
            began = time.monotonic()
            answer = await _post(session, url, item.body)
            account.slowest_s = max(account.slowest_s, time.monotonic() - began)
            account.in_flight -= 1
            account.answers[answer] += 1
            if answer == 200:
                account.acknowledged.add(item.name)
                break
            await asyncio.sleep(AGAIN_S)
        await asyncio.sleep(pause_s)


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> int:
    digest = hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()
    try:
        async with session.post(
            url, data=body, headers={"X-Hub-Signature-256": f"sha256={digest}"}
        ) as answer:
            return answer.status
    except (aiohttp.ClientError, TimeoutError):
        return 0


def values_on(bootstrap: str, topic: str) -> Iterator[Any]:
    """Every value of a topic up to its ends as of now, decoded from JSON, read by librdkafka."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "witness", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        ends: dict[int, int] = {}
        for partition in range(PARTITIONS):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60.0)
            if high > low:
                ends[partition] = high
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while ends:
            record = consumer.poll(READ_S)
            assert record is not None, f"{topic} can't be read to its end"
            assert record.error() is None, record.error()
            partition, offset = record.partition(), record.offset()
            assert partition is not None
            assert offset is not None
            if offset + 1 >= ends.get(partition, 0):
                ends.pop(partition, None)
            yield json.loads(record.value() or b"null")


def texts_on(bootstrap: str, topic: str) -> Counter[str]:
    return Counter(value["wamid"] for value in values_on(bootstrap, topic))


def statuses_on(bootstrap: str, topic: str, wanted: Container[str]) -> Counter[str]:
    """How often each wanted status (wamid and word) is on the topic."""
    found = (
        f"{status['wamid']}:{status['status']}"
        for value in values_on(bootstrap, topic)
        for status in value["statuses"]
    )
    return Counter(name for name in found if name in wanted)
