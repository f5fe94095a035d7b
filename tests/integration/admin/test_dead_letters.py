"""Dead letters through the API and the command: counted, told without what they hold, and replayed within bounds."""

import asyncio
import io
import itertools
import json
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from admin import dead_letters
from contracts.codec import Envelope, to_headers
from contracts.topics import INBOUND_MESSAGES, MESSAGE_STATUSES, RECORD_BYTES_MAX, TOPICS, WEBHOOKS_DLQ
from kafkaio import deadletter
from kafkaio.admin import apply_topics
from kafkaio.consumer import Record
from kafkaio.disposition import DeadLetterReason
from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from ledger.pool import Ledger
from runtime import logs
from tests.integration.admin.serving import a_served_admin, an_admin
from tests.integration.admin.shell import Shell
from tests.integration.kafkaio.reading import everything

INBOUND, STATUSES = INBOUND_MESSAGES.name, MESSAGE_STATUSES.name
NAMES = (INBOUND, f"{INBOUND}.dlq", STATUSES, f"{STATUSES}.dlq", WEBHOOKS_DLQ.name)
KEY = b"100000000000001:447700900001"
SECRET = "qa-private-words"


class House:
    """Topics of a test's own, and letters on them."""

    def __init__(self, settings: KafkaSettings, producer: Producer) -> None:
        self.settings = settings
        self.producer = producer

    @property
    def broker(self) -> dict[str, str]:
        """What admin is told about it."""
        return {"kafka_bootstrap": self.settings.bootstrap, "topic_prefix": self.settings.topic_prefix}

    async def set_aside(
        self,
        offset: int,
        *,
        topic: str = INBOUND,
        group: str = "conversations",
        reason: DeadLetterReason = DeadLetterReason.FOREIGN_NUMBER,
        value: bytes = SECRET.encode(),
    ) -> None:
        """Write a letter, as a consumer of partition 1 does."""
        envelope = Envelope(event_id=f"e{offset}", event_type="message.received", produced_at_s=1.5)
        headers = (*to_headers(envelope), ("x-note", SECRET.encode()))
        record = Record(
            topic=topic, partition=1, offset=offset, key=KEY, value=value, headers=headers, envelope=envelope,
            timestamp_s=0.0,
        )  # fmt: skip
        await deadletter.write(self.producer, record, group=group, reason=reason, attempts=1)

    async def replayed(self, topic: str = INBOUND) -> list[str]:
        """Event ids on the topic of origin, in order."""
        return [
            dict(record.headers)["event-id"].decode() for record in await everything(self.settings, topic)
        ]


@pytest.fixture
async def house(kafka_bootstrap: str, topic_prefix: str) -> AsyncIterator[House]:
    settings = KafkaSettings(
        bootstrap=kafka_bootstrap, client_id="test", topic_prefix=f"{topic_prefix}{secrets.token_hex(2)}."
    )
    topics = [topic for topic in TOPICS if topic.name in NAMES]
    await apply_topics(settings, partitions_count=2, replication=1, min_insync=1, topics=topics)
    async with Producer.open(settings) as producer:
        yield House(settings, producer)


@asynccontextmanager
async def asked(database_url: str, house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with an_admin(database_url, **house.broker) as (_app, client):
        yield client


async def survey(client: httpx.AsyncClient, **params: str) -> dict:
    reply = await client.get("/v1/dead-letters", params=params)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def replay(client: httpx.AsyncClient, **order: object) -> dict:
    order = {"until": (datetime.now(UTC) + timedelta(minutes=1)).isoformat(), "rate_per_s": 1_000, **order}
    reply = await client.post("/v1/dead-letters/replay", json=order)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_letters_are_counted_and_told_without_what_they_hold(database_url: str, house: House) -> None:
    for offset in range(3):
        await house.set_aside(offset)
    await house.set_aside(3, reason=DeadLetterReason.BUG)
    await house.set_aside(4, topic=STATUSES, group="status-aggregator", reason=DeadLetterReason.POISON)
    raw = Envelope(event_id="w", event_type="webhook.not_json")
    await house.producer.send(WEBHOOKS_DLQ.name, value=SECRET.encode(), key=b"-", envelope=raw)
    async with asked(database_url, house) as client:
        report = await survey(client)
        assert report["complete"]
        assert [
            (one["topic"], one["group"], one["reason"], one["replayable"], one["refused"]) for one in report["counts"]
        ] == [
            ("inbound-messages.dlq", "conversations", "bug", 1, {}),
            ("inbound-messages.dlq", "conversations", "foreign_number", 3, {}),
            ("message-statuses.dlq", "status-aggregator", "poison", 1, {}),
            ("webhooks.dlq", "ingress", "not_json", 0, {"unreadable_webhook": 1}),
        ]  # fmt: skip
        newest = await survey(client, topic=INBOUND, reason="foreign_number", limit="2")
        assert [one["event_id"] for one in newest["letters"]] == ["e2", "e1"]
        line = newest["letters"][0]
        assert (line["group"], line["attempts"], line["origin"], line["key"]) == (
            "conversations", 1, "inbound-messages/1/2", "100000000000001:…01",
        )  # fmt: skip
        for text in (json.dumps(report), json.dumps(newest)):
            assert SECRET not in text
            assert "447700900001" not in text
        moment = newest["letters"][0]["at"]
        assert len((await survey(client, topic=INBOUND, since=moment))["letters"]) == 2
        assert len((await survey(client, topic=INBOUND, until=moment))["letters"]) == 2
        assert (await survey(client, group="nobody"))["counts"] == []


async def test_a_letter_is_shown_with_its_body_only_when_it_is_asked_for(
    database_url: str, house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    await house.set_aside(7)
    async with asked(database_url, house) as client:
        logs.configure("admin")
        (line,) = (await survey(client))["letters"]
        path = f"/v1/dead-letters/{line['place']}"
        plain = await client.get(path)
        assert plain.json()["letter"] == line
        headers = {one["name"]: one["content"] for one in plain.json()["headers"]}
        assert (headers["event-id"], headers["dead-letter-reason"]) == ("e7", "foreign_number")
        assert headers["x-note"] is None
        assert SECRET not in plain.text
        assert "447700900001" not in plain.text

        whole = (await client.get(path, params={"body": "true"})).json()
        assert (whole["body"], whole["key"]) == (SECRET, KEY.decode())
        await client.post(f"{path}/replay")
        assert SECRET not in (told := capsys.readouterr().out)
        assert "447700900001" not in told
        assert "dead_letters.replayed" in told
        assert (await client.get(f"/v1/dead-letters/{INBOUND}/1/999")).status_code == 404


async def test_a_replay_puts_the_record_back_as_it_was_for_its_group(database_url: str, house: House) -> None:
    await house.set_aside(7)
    async with asked(database_url, house) as client:
        assert await replay(client) == {"replayed": 1, "already": 0, "refused": {}, "next": None}
    (record,) = await everything(house.settings, INBOUND)
    assert (record.partition, record.key, record.value) == (1, KEY, SECRET.encode())
    assert list(record.headers) == [
        ("event-id", b"e7"), ("event-type", b"message.received"), ("schema-version", b"1"), ("produced-at", b"1.500"),
        ("x-note", SECRET.encode()), ("replay-for", b"conversations"),
    ]  # fmt: skip


async def test_what_was_replayed_is_told_and_left_out_unless_it_is_wanted_again(
    database_url: str, house: House
) -> None:
    for offset in range(3):
        await house.set_aside(offset)
    async with asked(database_url, house) as client:
        places = [one["place"] for one in (await survey(client))["letters"]]
        one = f"/v1/dead-letters/{places[0]}/replay"
        assert (await client.post(one)).json()["replayed"] == 1
        assert (await client.post(one)).json() == {"replayed": 0, "already": 1, "refused": {}, "next": None}
        (counts,) = (await survey(client))["counts"]
        assert (counts["replayable"], counts["replayed"]) == (2, 1)
        assert (await replay(client))["replayed"] == 2
        assert (await replay(client))["already"] == 3
        assert (await survey(client))["letters"][0]["replayed_at"] is not None
        assert (await replay(client, again=True))["replayed"] == 3
    assert sorted(await house.replayed()) == sorted(["e0", "e1", "e2"] * 2)


async def test_what_can_not_be_replayed_is_refused_with_its_reason(database_url: str, house: House) -> None:
    await house.set_aside(1, value=bytes(RECORD_BYTES_MAX))
    await house.producer.send(WEBHOOKS_DLQ.name, value=b"{", key=b"-")
    await house.producer.send(f"{INBOUND}.dlq", value=b"stray", key=b"k")
    await house.set_aside(2)
    async with asked(database_url, house) as client:
        step = await replay(client)
        assert (step["replayed"], step["refused"]) == (1, {"cut": 1, "no_group": 1, "unreadable_webhook": 1})
        by_why = {one["refused"]: one["place"] for one in (await survey(client))["letters"]}
        shown = (await client.get(f"/v1/dead-letters/{by_why['cut']}")).json()
        assert f"cut from {RECORD_BYTES_MAX:,} to" in shown["refused_words"]
        assert "inbound-messages/1/1" in shown["refused_words"]
        shown = (await client.get(f"/v1/dead-letters/{by_why['unreadable_webhook']}")).json()
        assert "post a whole webhook to ingress again" in shown["refused_words"]
        assert (await client.post(f"/v1/dead-letters/{by_why['no_group']}/replay")).json()["refused"] == {
            "no_group": 1
        }
    assert await house.replayed() == ["e2"]


async def test_a_replay_that_is_cut_anywhere_is_gone_on_with_and_repeats_at_most_one(
    database_url: str, house: House
) -> None:
    for offset in range(40):
        await house.set_aside(offset)
    async with asked(database_url, house) as client, asyncio.TaskGroup() as tasks:
        cut = tasks.create_task(replay(client, rate_per_s=50))
        async with asyncio.timeout(60):
            while len(await house.replayed()) < 10:
                await asyncio.sleep(0.05)
        cut.cancel()
        await asyncio.wait([cut])
        begun = len(await house.replayed())
        assert 10 <= begun < 40
        step = await replay(client)
        assert step["already"] in (begun, begun - 1)
        assert step["replayed"] + step["already"] == 40
        assert (await replay(client))["already"] == 40
    assert set(await house.replayed()) == {f"e{offset}" for offset in range(40)}


async def test_two_replays_at_once_share_the_rate_and_repeat_nothing(database_url: str, house: House) -> None:
    for offset in range(15):
        await house.set_aside(offset)
    async with asked(database_url, house) as client:
        steps = await asyncio.gather(*(replay(client, rate_per_s=20) for _ in range(2)))
        assert sorted(step["replayed"] for step in steps) == [0, 15]
    assert sorted(await house.replayed()) == sorted(f"e{offset}" for offset in range(15))
    moments_ms = [record.timestamp for record in await everything(house.settings, INBOUND)]
    assert min(later - earlier for earlier, later in itertools.pairwise(moments_ms)) >= 49


async def test_letters_of_a_topic_made_anew_are_not_taken_for_those_that_stood_there(
    database_url: str, house: House
) -> None:
    await house.set_aside(1)
    async with asked(database_url, house) as client, Ledger.open(database_url, shard=1) as ledger:
        await replay(client)
        await ledger.run("age", "UPDATE dead_letter_replays SET written_at_ms = written_at_ms - 1")
        assert (await survey(client))["counts"][0]["replayable"] == 1
        await ledger.run(
            "age", "UPDATE dead_letter_replays SET written_at_ms = written_at_ms - 41 * 86400000::int8"
        )
        assert (await replay(client))["replayed"] == 1
        assert await ledger.value("count", "SELECT count(*) FROM dead_letter_replays") == 1, "old marks stay"


async def test_the_command_previews_asks_replays_in_steps_and_tells(
    database_url: str, house: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for offset in range(20):
        await house.set_aside(offset)
    await house.set_aside(20, reason=DeadLetterReason.BUG)
    await house.producer.send(WEBHOOKS_DLQ.name, value=b"{", key=b"-")
    monkeypatch.setattr(dead_letters, "STEP_S", 0.25)
    async with a_served_admin(database_url, **house.broker) as url:
        sluice = Shell(capsys, "--url", url)
        assert await sluice("dead-letters", "list", "--limit", "1") == 0
        counts, refused, letters = sluice.out.partition("1 can't be replayed (unreadable_webhook): ")
        assert [line.split() for line in counts.splitlines()] == [
            ["topic", "group", "reason", "replayable", "replayed", "can't", "be"],
            ["inbound-messages.dlq", "conversations", "bug", "1", "0", "0"],
            ["inbound-messages.dlq", "conversations", "foreign_number", "20", "0", "0"],
            ["webhooks.dlq", "ingress", "-", "0", "0", "1"],
        ]
        assert refused
        _words, _empty, headers, newest = letters.splitlines()
        assert headers.split() == ["when", "place", "group", "reason", "attempts", "key", "replayed"]
        assert newest.split()[2].startswith("webhooks.dlq/")
        assert newest.split()[-1] == "unreadable_webhook"

        chosen = ("--topic", INBOUND, "--reason", "foreign_number")
        assert await sluice("dead-letters", "replay", *chosen, "--dry-run") == 0
        assert sluice.out.splitlines()[-1] == "would replay 20"
        monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
        assert await sluice("dead-letters", "replay", *chosen) == 1
        assert "replay 20 now, at most 50 a second?" in sluice.err
        assert await house.replayed() == []

        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        assert await sluice("dead-letters", "replay", *chosen) == 0
        assert sluice.out.splitlines()[-1] == "replayed 20, left out 0 that were replayed before"
        assert "of 20" in sluice.err
        assert len(await house.replayed()) == 20
        assert await sluice("dead-letters", "replay", *chosen, "--yes", "--json") == 0
        assert json.loads(sluice.out) == {"replayed": 0, "already": 0, "refused": {}}
        assert (
            await sluice("dead-letters", "replay", *chosen, "--yes", "--again", "--json", "--rate", "500")
            == 0
        )
        assert json.loads(sluice.out)["replayed"] == 20

        assert await sluice("dead-letters", "list", "--json", "--since", "1h", "--reason", "bug") == 0
        (letter,) = json.loads(sluice.out)["letters"]
        assert await sluice("dead-letters", "list", "--until", "2026-01-01") == 0
        assert "there are no dead letters" in sluice.err
        assert await sluice("dead-letters", "show", letter["place"]) == 0
        assert "dead-letter-reason: bug" in sluice.out
        assert SECRET not in sluice.out
        assert await sluice("dead-letters", "show", letter["place"], "--body") == 0
        assert sluice.out.splitlines()[-1] == SECRET
        assert await sluice("dead-letters", "replay", letter["place"]) == 0
        assert sluice.out == "replayed 1, left out 0 that were replayed before\n"
        assert await sluice("dead-letters", "replay", letter["place"], "--topic", INBOUND) == 2
        assert await sluice("dead-letters", "show", "nothing") == 1
        assert await sluice("dead-letters", "list", "--since", "soon") == 2


async def test_what_can_not_be_counted_in_time_is_said_to_be_more_and_not_replayed_unseen(
    database_url: str, house: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.set_aside(1)
    monkeypatch.setattr(dead_letters, "SURVEY_S", -1.0)
    async with a_served_admin(database_url, **house.broker) as url:
        sluice = Shell(capsys, "--url", url)
        assert await sluice("dead-letters", "list") == 0
        assert "more than could be counted in time" in sluice.err
        assert await sluice("dead-letters", "replay", "--yes") == 1
        assert "narrow it" in sluice.err
    assert await house.replayed() == []


async def test_a_step_ends_in_time_even_where_it_finds_nothing_that_is_meant(
    database_url: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.set_aside(1)
    await house.set_aside(2, topic=STATUSES, group="status-aggregator")
    monkeypatch.setattr(dead_letters, "STEP_S", -1.0)
    async with asked(database_url, house) as client:
        first = await replay(client, group="status-aggregator")
        assert first["replayed"] == 0
        assert first["next"].startswith("inbound-messages.dlq/")
        second = await replay(client, group="status-aggregator", after=first["next"])
        assert second["replayed"] == 1
        assert (await replay(client, group="status-aggregator", after=second["next"]))["next"] is None


async def test_strangers_who_write_letters_can_not_make_the_counts_grow_without_end(
    database_url: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for offset in range(5):
        await house.set_aside(offset, group=f"stranger-{offset}")
    monkeypatch.setattr(dead_letters, "COUNTS_MAX", 2)
    async with asked(database_url, house) as client:
        counts = (await survey(client))["counts"]
    assert sorted(one["replayable"] for one in counts) == [1, 1, 3]
    assert "others" in {one["group"] for one in counts}


async def test_a_letter_that_came_after_the_survey_is_not_replayed(database_url: str, house: House) -> None:
    await house.set_aside(1)
    async with asked(database_url, house) as client:
        until = (await survey(client))["until"]
        await asyncio.sleep(0.01)  # Kafka counts in milliseconds
        await house.set_aside(2)
        assert (await replay(client, until=until))["replayed"] == 1
    assert await house.replayed() == ["e1"]


async def test_a_broker_that_is_away_is_said_to_be_and_nothing_else_suffers(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_served_admin(database_url) as url:
        sluice = Shell(capsys, "--url", url)
        assert await sluice("dead-letters", "list") == 69
        assert "Kafka doesn't answer" in sluice.err or "kafka doesn't answer" in sluice.err
        assert await sluice("number", "list") == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "?limit=-1", None, 400, "malformed"),
        ("GET", "?since=yesterday", None, 400, "malformed"),
        ("GET", "?since=2026-12-01T00:00:00", None, 400, "malformed"),
        ("GET", "?colour=red", None, 400, "malformed"),
        ("GET", "?topic=send-outcomes", None, 422, "no_topic"),
        ("GET", "/inbound-messages/x/1", None, 422, "bad_place"),
        ("GET", "/inbound-messages/0/" + "9" * 30, None, 422, "bad_place"),
        ("GET", "/__consumer_offsets/0/1", None, 422, "no_topic"),
        ("POST", "/replay", {}, 400, "malformed"),
        ("POST", "/replay", {"until": "2026-12-01T00:00:00Z", "rate_per_s": 0}, 400, "malformed"),
        ("POST", "/replay", {"until": "2026-12-01T00:00:00Z", "rate_per_s": 1e9}, 400, "malformed"),
        ("POST", "/replay", {"until": "2026-12-01T00:00:00Z", "after": "1/2"}, 422, "bad_place"),
    ],
)
async def test_an_order_that_can_not_be_meant_is_refused_before_anything_is_asked(
    database_url: str, method: str, path: str, body: object, status: int, code: str
) -> None:
    async with an_admin(database_url) as (_app, client):
        reply = await client.request(method, f"/v1/dead-letters{path}", json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
