"""Odd webhooks, and a locked database, met by the whole of Sluice: what is asserted is what an operator could see.

One fleet for the file. A campaign is sent to a world that stays silent, so that its statuses are ours to invent.
"""

import asyncio
import csv
import hashlib
import hmac
import json
import secrets
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import asyncpg
import httpx
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from deploy.local.campaign_run import NUMBERS, WABA, Plan, Run, a_run
from deploy.local.fleet import APP_SECRET, PARTITIONS
from deploy.local.stack import Endpoints

PN = NUMBERS[0].phone_number_id
FOREIGN = "199999999999999"
SILENT = {"silent": 1.0, "failed": 0.0, "stays_sent": 0.0, "answers": 0.0}
ROWS = 24
ADMIN_ANSWERS_WITHIN_S = 8.0
LOCKED_TABLES = "campaigns, recipient_states, inbox"


class House:
    """The fleet, the door it has for Meta, and what it shows."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._unused = [row for row in self.rows() if row["phone_number_id"] == PN]

    def rows(self) -> list[dict[str, str]]:
        url = f"{self.run.fleet.admin_url}/v1/campaigns/{self.run.campaign_id}/recipients.csv"
        with urllib.request.urlopen(url, timeout=10.0) as answer:
            return list(csv.DictReader(answer.read().decode().splitlines()))

    def a_row(self) -> dict[str, str]:
        """An accepted row that no test has touched."""
        return self._unused.pop()

    def state_of(self, row: dict[str, str]) -> str:
        return next(one["state"] for one in self.rows() if one["seq"] == row["seq"])

    def post(self, body: bytes) -> int:
        return httpx.post(self.run.fleet.webhook_url, content=body, headers=signed(body)).status_code

    def records(self, topic: str) -> list[Message]:
        """Everything on a topic, per partition in order, by librdkafka."""
        name = self.run.fleet.setup.topic_prefix + topic
        consumer = Consumer(
            {
                "bootstrap.servers": self.run.fleet.setup.endpoints.kafka_bootstrap,
                "group.id": "look",
                "enable.auto.commit": False,
            }
        )
        try:
            partitions = [TopicPartition(name, p, 0) for p in range(PARTITIONS)]
            wanted = sum(consumer.get_watermark_offsets(p, timeout=10.0)[1] for p in partitions)
            consumer.assign(partitions)
            found: list[Message] = []
            deadline = time.monotonic() + 20
            while len(found) < wanted and time.monotonic() < deadline:
                found += [one for one in consumer.consume(1_000, timeout=0.5) if not one.error()]
            assert len(found) >= wanted
            return found
        finally:
            consumer.close()

    def values(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value()) for record in self.records(topic)]

    def handled(self, wamids: Sequence[str], limit_s: float = 30.0) -> list[dict[str, Any]]:
        """Wait until these messages are told as handled; return their events, per contact in order."""
        wanted = set(wamids)

        def told() -> list[dict[str, Any]]:
            return [event for event in self.values("conversation-events") if event["wamid"] in wanted]

        self.until(lambda: {event["wamid"] for event in told()} == wanted, "the messages' events", limit_s)
        return told()

    def until(self, condition: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
        self.run.fleet.until(condition, what, limit_s)

    def until_worked_off(self) -> None:
        for group, topic in (
            ("conversations", "inbound-messages"),
            ("status-aggregator", "message-statuses"),
        ):
            self.until(lambda g=group, t=topic: self.run.lag(g, t) == 0, f"{group} to have no lag", 60.0)

    def faults_logged(self) -> list[str]:
        """What our own code raised and didn't expect; a library's complaint about its broker is none."""
        logs = [log for log in self.run.fleet.logs.glob("*.log") if not log.name.startswith("simulator")]
        lines = [line for log in logs for line in log.read_text().splitlines()]
        return [line for line in lines if '"traceback"' in line or line.startswith("Traceback")]


@pytest.fixture(scope="module")
def house(stack: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("cases")
    with a_run(stack, Plan(count=2 * ROWS, journeys=SILENT, timing_scale=0.25), folder) as run:
        run.set_up()
        run.create_and_import()
        run.launch()
        run.watch(lambda standing: standing.counts.get("accepted") == 2 * ROWS, lambda _standing: None, 60)
        yield House(run)


def signed(body: bytes) -> dict[str, str]:
    return {
        "X-Hub-Signature-256": "sha256=" + hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()
    }


def a_value(number: str = PN, **parts: Any) -> dict[str, Any]:
    metadata = {"display_phone_number": "15550100000", "phone_number_id": number}
    return {"messaging_product": "whatsapp", "metadata": metadata, **parts}


def a_body(*values: Any, field: str = "messages", waba: str = WABA, **more: Any) -> bytes:
    changes = [{"field": field, "value": value} for value in values]
    entry = [{"id": waba, "changes": changes, **more}]
    return json.dumps({"object": "whatsapp_business_account", "entry": entry, **more}).encode()


def a_wamid() -> str:
    return f"wamid.{secrets.token_hex(8)}"


def a_message(sender: str = "447700900001", **changes: Any) -> dict[str, Any]:
    now = str(int(time.time()))
    told = {"from": sender, "id": a_wamid(), "timestamp": now, "type": "text", "text": {"body": "hi"}}
    return {**told, **changes}


def a_status(row: dict[str, str], word: str = "delivered", **parts: Any) -> dict[str, Any]:
    return {"id": row["wamid"], "status": word, "timestamp": str(int(time.time())), **parts}


@pytest.mark.bco("B02")
@pytest.mark.timeout(300)
def test_bco_b02_messages_of_unknown_types_are_kept_in_order_and_hold_nobody_up(house: House) -> None:
    sender = "447700900102"
    errors = [{"code": 131051, "title": "Message type unknown"}]
    sent = [
        a_message(sender, text={"body": "one"}),
        a_message(sender, type="unsupported", errors=errors),
        a_message(sender, type="unknown", errors=errors),
        a_message(sender, type="hologram"),
        a_message(sender),
        a_message(sender, text={"body": "two"}),
    ]
    del sent[4]["type"]
    assert house.post(a_body(a_value(messages=sent))) == 200
    events = house.handled([one["id"] for one in sent])
    assert [event["raw"] for event in events] == sent, "in order, each with its JSON as it came"
    assert [event["turn"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert [event["type"] for event in events] == [
        *("text", "unsupported", "unknown", "hologram", "unsupported", "text")
    ]
    house.until_worked_off()


@pytest.mark.bco("B04")
def test_bco_b04_account_and_template_events_without_metadata_are_kept_by_their_account(house: House) -> None:
    paused = {
        "event": "PAUSED",
        "message_template_id": 300_000_000_000_001,
        "message_template_name": "qa_promo",
        "message_template_language": "en",
        "reason": "NONE",
    }
    sent = {
        "message_template_status_update": paused,
        "phone_number_quality_update": {"display_phone_number": "15550100000", "event": "FLAGGED"},
        "account_update": {"event": "ACCOUNT_RESTRICTION"},
        "something_new": {"a": 1},
    }
    waba = "200000000000104"
    assert {house.post(a_body(value, field=field, waba=waba)) for field, value in sent.items()} == {200}
    told: dict[str, Any] = {}
    for topic in ("account-events", "other-events"):
        for record in house.records(topic):
            value = json.loads(record.value())
            if value["waba_id"] == waba:
                assert record.key() == waba.encode()
                told[value["field"]] = (topic, value["raw"])
    assert told == {
        field: ("other-events" if field == "something_new" else "account-events", value)
        for field, value in sent.items()
    }


@pytest.mark.bco("B09")
@pytest.mark.timeout(300)
def test_bco_b09_what_holds_no_message_and_no_status_is_answered_200_and_stops_nothing(house: House) -> None:
    message, row = a_message("447700900109"), house.a_row()
    empty = [{"contacts": [{"wa_id": "447700900109"}]}, {}, None, {"messages": []}, {"messages": None}]
    values = [a_value(statuses=[a_status(row)]), a_value(messages=[message]), *empty]
    whole = [[], None, "x", {"object": "page", "entry": [{"id": "1"}]}]
    bodies = [a_body(value) for value in values] + [json.dumps(one).encode() for one in whole]
    account = {"object": "whatsapp_business_account"}
    bodies += [
        json.dumps({**account, "entry": entry}).encode() for entry in ([], [{"id": WABA, "changes": []}])
    ]
    before = len(house.records("webhooks.dlq"))
    assert [house.post(body) for body in bodies] == [200] * len(bodies)
    (event,) = house.handled([message["id"]])
    assert event["contact_key"] == f"{PN}:447700900109"
    house.until(lambda: house.state_of(row) == "delivered", "the status among them to be applied")
    assert len(house.records("webhooks.dlq")) - before == len(whole), "what is no webhook is kept apart"
    assert house.faults_logged() == []


@pytest.mark.bco("B10")
@pytest.mark.timeout(300)
def test_bco_b10_a_status_is_applied_by_its_wamid_whoever_it_says_its_recipient_is(house: House) -> None:
    recipients: list[dict[str, str]] = [
        {},
        {"recipient_user_id": "GB.QA1"},
        {"recipient_id": ""},
        {"recipient_id": "+44 7700 900001"},
    ]
    rows = [house.a_row() for _ in recipients]
    told = [a_status(row, **recipient) for row, recipient in zip(rows, recipients, strict=True)]
    assert house.post(a_body(a_value(statuses=told))) == 200
    house.until(lambda: {house.state_of(row) for row in rows} == {"delivered"}, "four rows to be delivered")


@pytest.mark.bco("B12")
@pytest.mark.timeout(300)
def test_bco_b12_new_fields_and_words_are_kept_and_what_is_known_of_them_is_applied(house: House) -> None:
    priced, warned, untouched = house.a_row(), house.a_row(), house.a_row()
    pricing = {
        "billable": False,
        "pricing_model": "PMP",
        "category": "service",
        "type": "free_customer_service",
    }
    told = [
        a_status(priced, pricing=pricing, new={"deep": [1]}),
        a_status(warned, "delivered"),
        a_status(warned, "warning"),
        a_status(untouched, "warning"),
    ]
    message = a_message("447700900112", type="request_welcome", new=1)
    body = a_body(a_value(statuses=told, messages=[message], new=[1]), new={"a": 1})
    assert house.post(body) == 200
    (event,) = house.handled([message["id"]])
    assert (event["type"], event["raw"]) == ("request_welcome", message)
    house.until(
        lambda: house.state_of(priced) == house.state_of(warned) == "delivered", "two to be delivered"
    )
    house.until_worked_off()
    assert (house.state_of(warned), house.state_of(untouched)) == ("delivered", "accepted")
    kept = [one["raw"] for batch in house.values("message-statuses") for one in batch["statuses"]]
    assert all(status in kept for status in told)


@pytest.mark.bco("B13")
@pytest.mark.timeout(300)
def test_bco_b13_what_comes_for_a_number_that_is_not_ours_touches_nothing_of_ours(house: House) -> None:
    row, known = house.a_row(), a_message("447700900113")
    foreign, button = a_message("447700900213"), a_message("447700900313")
    mixed = a_body(
        a_value(FOREIGN, messages=[foreign], statuses=[a_status(row, "read")]), a_value(messages=[known])
    )
    assert house.post(mixed) == 200
    assert house.post(a_body(a_value("123456123", messages=[button]), waba="0")) == 200
    house.handled([known["id"]])
    house.until_worked_off()
    assert {event["phone_number_id"] for event in house.values("conversation-events")} == {PN}
    letters = {
        json.loads(record.value())["wamid"]: dict(record.headers() or [])["dead-letter-reason"]
        for record in house.records("inbound-messages.dlq")
    }
    assert (letters[foreign["id"]], letters[button["id"]]) == (b"foreign_number", b"foreign_number")
    assert house.state_of(row) == "accepted"
    assert "sluice_status_aggregator" in house.run.fleet.metrics("status_aggregator")


@pytest.mark.bco("A03")
@pytest.mark.timeout(400)
def test_bco_a03_the_messages_of_one_large_webhook_are_all_handled_and_so_is_one_large_message(
    house: House,
) -> None:
    sent = [a_message(f"4477009003{n % 50:02}", text={"body": "x" * 2_400}) for n in range(1_000)]
    body = a_body(a_value(messages=sent))
    assert len(body) > 2_500_000
    assert house.post(body) == 200
    reply = {"type": "nfm_reply", "nfm_reply": {"response_json": "y" * 1_300_000}}
    large = a_message("447700900103", type="interactive", interactive=reply)
    assert house.post(a_body(a_value(messages=[large]))) == 200
    events = house.handled([one["id"] for one in [*sent, large]], 60.0)
    assert len(events) == 1_001
    assert [one["raw"] for one in events if one["wamid"] == large["id"]] == [large]


async def posted_twice(url: str, bodies: list[bytes], *, per_s: float, again_after_s: float) -> list[float]:
    """POST each at this pace and once more later; every answer must be 200. Returns how long each answer took."""
    took: list[float] = []

    async def post(body: bytes) -> None:
        began = time.monotonic()
        answer = await client.post(url, content=body, headers=signed(body))
        assert answer.status_code == 200
        took.append(time.monotonic() - began)

    async def twice(body: bytes) -> None:
        await post(body)
        await asyncio.sleep(again_after_s)
        await post(body)

    async with httpx.AsyncClient(timeout=20) as client, asyncio.TaskGroup() as tasks:
        for body in bodies:
            tasks.create_task(twice(body))
            await asyncio.sleep(1 / per_s)
    return took


async def answer_of_admin(url: str) -> tuple[int, float]:
    began = time.monotonic()
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(url)
    return answer.status_code, time.monotonic() - began


@pytest.mark.bco("A04")
@pytest.mark.bco("K02")
@pytest.mark.timeout(400)
async def test_bco_a04_bco_k02_while_the_database_is_locked_webhooks_are_answered_at_once_and_nothing_is_lost(
    house: House,
) -> None:
    fleet = house.run.fleet
    admin = f"{fleet.admin_url}/v1/campaigns/{house.run.campaign_id}"
    messages = [a_message(f"4477009004{n % 50:02}") for n in range(500)]
    row = house.a_row()
    await asyncio.to_thread(house.until_worked_off)
    locker = await asyncpg.connect(fleet.setup.database_url)
    try:
        async with locker.transaction():
            await locker.execute(f"LOCK TABLE {LOCKED_TABLES} IN ACCESS EXCLUSIVE MODE")
            assert await asyncio.to_thread(house.post, a_body(a_value(statuses=[a_status(row)]))) == 200
            async with asyncio.TaskGroup() as tasks:
                asked = [tasks.create_task(answer_of_admin(admin)) for _ in range(30)]
                bodies = [a_body(a_value(messages=[message])) for message in messages]
                took = await posted_twice(fleet.webhook_url, bodies, per_s=100, again_after_s=5.0)
            answers = [task.result() for task in asked]
            assert await asyncio.to_thread(house.run.lag, "conversations", "inbound-messages") == 1_000
            assert await asyncio.to_thread(house.run.lag, "status-aggregator", "message-statuses") == 1
        free_at = time.monotonic()
        assert (await answer_of_admin(admin))[0] == 200
        sessions = await locker.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sluice-admin'"
        )
    finally:
        await locker.close()
    assert {status for status, _ in answers} == {503}
    median_s, p99_s = (sorted(took)[int(share * len(took))] for share in (0.5, 0.99))
    slowest_s = max(seconds for _, seconds in answers)
    assert slowest_s < ADMIN_ANSWERS_WITHIN_S
    assert median_s < 0.5, "ingress waits for no database"
    assert p99_s < 5.0, "Meta would repeat it"
    assert sessions <= 8, "thirty callers that waited in vain have left no connection behind"
    wamids = [message["id"] for message in messages]
    events = await asyncio.to_thread(house.handled, wamids, 60.0)
    await asyncio.to_thread(house.until_worked_off)
    assert set(Counter(event["wamid"] for event in events).values()) == {1}, "a repeat is no second message"
    assert await asyncio.to_thread(house.state_of, row) == "delivered"
    print(
        f"answers to webhooks: median {median_s:.3f} s, p99 {p99_s:.3f} s; admin's slowest 503 {slowest_s:.1f} s, caught"
        f" up after {time.monotonic() - free_at:.1f} s"
    )
