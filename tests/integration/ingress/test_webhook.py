"""Webhooks from the outer door to the topics, against a real broker."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from contracts.partition import partition_for
from tests.integration.ingress.reading import (
    PARTITIONS_COUNT,
    PN,
    a_body,
    a_client,
    a_config,
    a_reader,
    a_status,
    a_text,
    a_value,
    create_topics,
    post,
    reasons,
    signature_of,
    statuses,
    until_ready,
    values,
)

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
BODY_A = (
    rb'{"object":"whatsapp_business_account","entry":[{"id":"200000000000001","changes":[{"field":"messages","value":'
    rb'{"messaging_product":"whatsapp","metadata":{"display_phone_number":"15550100000","phone_number_id":'
    rb'"100000000000001"},"contacts":[{"profile":{"name":"Zo\u00eb"},"wa_id":"447700900001"}],"messages":[{"from":'
    rb'"447700900001","id":"wamid.QA0001","timestamp":"1796040000","type":"text","text":{"body":'
    rb'"5\u20ac a\/b q@example.test \ud83d\ude00"}}]}}]}]}'
)
BODY_B = (
    BODY_A.replace(rb"\u00eb", "ë".encode())
    .replace(rb"\u20ac", "€".encode())
    .replace(rb"\/", b"/")
    .replace(rb"\ud83d\ude00", "😀".encode())
)
SIGNATURE_A = "sha256=5a7ba5a1d04fba602cf4b66dff04dcaed8d55f81fbb872d9f95380c4a60a7eda"
SIGNATURE_B = "sha256=6d201a91f36afa293f7db3a81f0b17e64066a29e200292c4082fb68bd7466f08"


@pytest.fixture(scope="module")
def broker(kafka_bootstrap: str, topic_prefix: str) -> tuple[str, str]:
    create_topics(kafka_bootstrap, topic_prefix)
    return kafka_bootstrap, topic_prefix


@pytest.mark.bco("A01")
async def test_the_signature_covers_the_exact_bytes_bco_a01(broker: tuple[str, str]) -> None:
    assert (len(BODY_A), len(BODY_B)) == (456, 440)
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, _):
        for body, signature in ((BODY_A, SIGNATURE_A), (BODY_B, SIGNATURE_B)):
            answer = await client.post("/webhook", content=body, headers={"X-Hub-Signature-256": signature})
            assert answer.status_code == 200
            (record,) = values(await reader.read(), "inbound-messages")
            assert record["raw"]["text"]["body"] == "5€ a/b q@example.test 😀"
            assert record["profile_name"] == "Zoë"
        for body, signature in ((BODY_A, SIGNATURE_B), (BODY_A + b"\n", SIGNATURE_A)):
            answer = await client.post("/webhook", content=body, headers={"X-Hub-Signature-256": signature})
            assert answer.status_code == 401
            assert not await reader.read()


@pytest.mark.bco("A05")
async def test_the_handshake_echoes_the_challenge_byte_for_byte_bco_a05() -> None:
    async with a_client(a_config("127.0.0.1:1")) as (client, _):

        async def answer_to(query: str) -> tuple[int, bytes]:
            answer = await client.get(f"/webhook?{query}")
            assert answer.headers["content-type"].startswith("text/plain")
            assert answer.headers["x-content-type-options"] == "nosniff"
            return answer.status_code, answer.content

        good = "hub.mode=subscribe&hub.verify_token=qa-verify&hub.challenge="
        for challenge, echoed in (
            ("0012345678901234567890", b"0012345678901234567890"),
            ("PROBE_123", b"PROBE_123"),
            ("%3Cscript%3Ex%3C/script%3E", b"<script>x</script>"),
            ("%FF%00%C3%A9+1", b"\xff\x00\xc3\xa9 1"),
        ):
            assert await answer_to(good + challenge) == (200, echoed)
        for refused, status in (
            (good, 400),
            (good.removesuffix("&hub.challenge="), 400),
            (good.replace("qa-verify", "qa-verif%C3%A9") + "1", 403),
            (good.replace("qa-verify", "") + "1", 403),
            (good.replace("&hub.verify_token=qa-verify", "") + "1", 403),
            (good.replace("subscribe", "unsubscribe") + "1", 403),
            (good.replace("hub.mode=subscribe&", "") + "1", 403),
            ("", 403),
        ):
            assert await answer_to(refused) == (status, b"")


@pytest.mark.bco("A06")
async def test_an_odd_signature_header_is_refused_and_never_an_error_bco_a06(broker: tuple[str, str]) -> None:
    good = SIGNATURE_A.encode()
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, _):
        for copies in (
            [],
            [b"sha256=\xe9" + b"0" * 63],
            [b""],
            [b"sha256="],
            [b"a" * 10_000],
            [good, SIGNATURE_B.encode()],
            [SIGNATURE_B.encode(), good],
        ):
            headers = [(b"X-Hub-Signature-256", copy) for copy in copies]
            answer = await client.post("/webhook", content=BODY_A, headers=headers)
            assert (answer.status_code, answer.content) == (401, b"")
        assert not await reader.read()
        twice = [(b"X-Hub-Signature-256", good)] * 2
        assert (await client.post("/webhook", content=BODY_A, headers=twice)).status_code == 200


@pytest.mark.bco("B01")
async def test_all_items_of_a_batch_reach_their_numbers_bco_b01(broker: tuple[str, str]) -> None:
    numbers = ["100000000000001", "100000000000001", "100000000000002", "100000000000002"]

    def value(index: int) -> dict[str, Any]:
        senders = ("447700900001", "447700900002", "447700900001")
        return {
            "metadata": {"phone_number_id": numbers[index]},
            "contacts": [
                {"profile": {"name": "Two"}, "wa_id": "447700900002"},
                {"profile": {"name": "One"}, "wa_id": "447700900001"},
            ],
            "messages": [a_text(f"wamid.M{index}{at}", sender) for at, sender in enumerate(senders)],
            "statuses": [a_status(f"wamid.S{index}{at}") for at in range(3)],
        }

    entries = [
        {
            "id": f"20000000000000{at}",
            "changes": [{"field": "messages", "value": value(2 * at + i)} for i in (0, 1)],
        }
        for at in (0, 1)
    ]
    body = json.dumps({"object": "whatsapp_business_account", "entry": entries}).encode()
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, app):
        await until_ready(app)
        assert (await post(client, body)).status_code == 200
        found = await reader.read()
    messages = values(found, "inbound-messages")
    assert {(one["wamid"], one["phone_number_id"]) for one in messages} == {
        (f"wamid.M{index}{at}", numbers[index]) for index in range(4) for at in range(3)
    }
    assert {(one["wa_id"], one["profile_name"]) for one in messages} == {
        ("447700900001", "One"),
        ("447700900002", "Two"),
    }
    for key in {one["contact_key"] for one in messages}:
        wamids = [one["wamid"] for one in messages if one["contact_key"] == key]
        assert wamids == sorted(wamids)
    assert {(one["wamid"], one["phone_number_id"]) for one in statuses(found)} == {
        (f"wamid.S{index}{at}", numbers[index]) for index in range(4) for at in range(3)
    }
    assert len(messages) == len(statuses(found)) == 12


@pytest.mark.bco("B07")
async def test_a_malformed_status_costs_none_of_its_siblings_bco_b07(broker: tuple[str, str]) -> None:
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, app):
        await until_ready(app)
        bad = {"status": 7}
        body = a_body(
            a_value(statuses=[bad, 7, {"id": "wamid.X", "status": 7}], messages=[a_text("wamid.M1")])
        )
        assert (await post(client, body)).status_code == 200
        found = await reader.read()
        assert [one["wamid"] for one in values(found, "inbound-messages")] == ["wamid.M1"]
        assert sorted(reasons(found)) == ["webhook.no_id", "webhook.no_status", "webhook.unreadable_item"]
        assert bad in values(found, "webhooks.dlq")
        assert not statuses(found)

        body = a_body(
            a_value(statuses=[a_status("wamid.UNKNOWN"), a_status("wamid.G")], messages=[a_text("wamid.M2")])
        )
        assert (await post(client, body)).status_code == 200
        found = await reader.read()
        assert {one["wamid"] for one in statuses(found)} == {"wamid.UNKNOWN", "wamid.G"}
        assert [one["wamid"] for one in values(found, "inbound-messages")] == ["wamid.M2"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
async def test_the_case_reaches_its_topics(path: Path, broker: tuple[str, str]) -> None:
    case = json.loads(path.read_text())
    body = case["text"].encode() if "text" in case else json.dumps(case["body"]).encode()
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, app):
        await until_ready(app)
        assert (await post(client, body)).status_code == 200
        found = await reader.read()
    counts = {topic: len(records) for topic, records in found.items()}
    if "message-statuses" in counts:
        counts["message-statuses"] = len(statuses(found))
    assert counts == case["expected"]
    assert all(
        record.key for topic, records in found.items() if topic != "message-statuses" for record in records
    )
    if "keys" in case:
        assert [record.key.decode() for record in found["inbound-messages"]] == case["keys"]
    if "reasons" in case:
        assert reasons(found) == case["reasons"]


def test_there_are_cases() -> None:
    assert len(CASES) >= 10


async def test_a_redelivery_is_published_again_with_the_same_event_id(broker: tuple[str, str]) -> None:
    body = a_body(
        a_value(messages=[a_text("wamid.D"), a_text("wamid.D")], statuses=[a_status("wamid.E")] * 2)
    )
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, app):
        await until_ready(app)
        for _ in range(2):
            assert (await post(client, body)).status_code == 200
        found = await reader.read()
    assert len(values(found, "inbound-messages")) == len(statuses(found)) == 4
    assert len({one["event_id"] for one in values(found, "inbound-messages")}) == 1
    assert len({one["event_id"] for one in statuses(found)}) == 1
    ids = {dict(record.headers)["event-id"] for record in found["inbound-messages"]}
    assert ids == {values(found, "inbound-messages")[0]["event_id"].encode()}


@pytest.mark.bco("A03")
async def test_bco_a03_a_body_of_a_thousand_updates_is_split_and_keeps_each_contacts_order(
    broker: tuple[str, str],
) -> None:
    messages = [
        a_text(f"wamid.{index:04}", f"4477009000{index % 50:02}", "x" * 2_400) for index in range(1_000)
    ]
    body = a_body(a_value(messages=messages))
    assert len(body) > 2_500_000
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, app):
        await until_ready(app)
        assert (await post(client, body)).status_code == 200
        found = values(await reader.read(), "inbound-messages")
    assert sorted(one["wamid"] for one in found) == [one["id"] for one in messages]
    for key in {one["contact_key"] for one in found}:
        positions = [one.get("position", 0) for one in found if one["contact_key"] == key]
        assert positions == sorted(positions)


@pytest.mark.bco("A03")
async def test_bco_a03_one_message_of_more_than_a_megabyte_is_stored(broker: tuple[str, str]) -> None:
    body = a_body(a_value(messages=[a_text("wamid.BIG", words="y" * 1_300_000)]))
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, app):
        await until_ready(app)
        assert (await post(client, body)).status_code == 200
        (message,) = values(await reader.read(), "inbound-messages")
    assert len(message["raw"]["text"]["body"]) == 1_300_000


async def test_statuses_travel_together_on_their_messages_partition(broker: tuple[str, str]) -> None:
    async with a_reader(*broker) as reader, a_client(a_config(*broker)) as (client, app):
        await until_ready(app)

        async def post_many(at: int) -> int:
            ours = [
                a_status(f"wamid.{at}.{index}", biz_opaque_callback_data="sl1:a:r:1:1")
                for index in range(100)
            ]
            return (await post(client, a_body(a_value(statuses=ours)))).status_code

        async with asyncio.TaskGroup() as tasks:
            answers = [tasks.create_task(post_many(at)) for at in range(20)]
        assert {answer.result() for answer in answers} == {200}
        found = await reader.read()
    assert len({one["wamid"] for one in statuses(found)}) == len(statuses(found)) == 2_000
    assert len(found["message-statuses"]) < 400
    for record in found["message-statuses"]:
        batch = json.loads(record.value)["statuses"]
        assert len(record.value) <= 64 * 1024
        assert {partition_for(one["wamid"].encode(), PARTITIONS_COUNT) for one in batch} == {record.partition}


async def test_each_numbers_inbound_load_is_told(broker: tuple[str, str]) -> None:
    body = a_body(a_value(messages=[a_text("wamid.L1"), a_text("wamid.L2")]))
    async with a_reader(*broker, ["number-load"]) as reader, a_client(a_config(*broker)) as (client, app):
        await until_ready(app)
        assert (await post(client, body)).status_code == 200
        loads: list[dict[str, Any]] = []
        async with asyncio.timeout(30):
            while sum(load["received_count"] for load in loads) < 2:
                loads += values(await reader.read(), "number-load")
    assert {load["phone_number_id"] for load in loads} == {PN}
    assert all(0.2 < load["interval_s"] < 60 for load in loads)


async def test_nothing_personal_is_logged_or_answered(
    broker: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    body = a_body(
        a_value(messages=[a_text("wamid.PRIVATE", words="tulip")], statuses=[a_status("wamid.PRIVATE"), 7])
    )
    async with a_client(a_config(*broker)) as (client, app):
        await until_ready(app)
        answers = [
            await post(client, body),
            await post(client, b"tulip"),
            await client.post(
                "/webhook", content=body, headers={"X-Hub-Signature-256": signature_of(body, "other")}
            ),
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 401]
    logged = capsys.readouterr().out
    told = logged + "".join(answer.text + str(answer.headers) for answer in answers)
    for private in ("447700900001", "tulip", "PRIVATE", "qa-app-secret", "qa-verify"):
        assert private not in told
    lines = [json.loads(line) for line in logged.splitlines() if "webhook." in line]
    assert [(line["event"], line["outcome"]) for line in lines] == [("webhook.published", "published")] * 2
    assert (lines[0]["messages_count"], lines[0]["statuses_count"], lines[0]["dead_letters_count"]) == (
        1,
        1,
        1,
    )
