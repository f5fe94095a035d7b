"""Odd webhooks met by the whole of Sluice: what is asserted is what an operator could see.

One fleet for the file. A campaign is sent to a world that stays silent, so that its statuses are ours to invent.
"""

import csv
import hashlib
import hmac
import json
import secrets
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from deploy.local.campaign_run import NUMBERS, WABA, Plan, Run, a_run
from deploy.local.fleet import APP_SECRET, PARTITIONS
from deploy.local.stack import Endpoints

PN = NUMBERS[0].phone_number_id
SILENT = {"silent": 1.0, "failed": 0.0, "stays_sent": 0.0, "answers": 0.0}
ROWS = 24


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
@pytest.mark.timeout(120)
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


@pytest.mark.bco("B10")
@pytest.mark.timeout(120)
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
