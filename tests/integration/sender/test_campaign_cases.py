"""Campaigns as operators run them, over admin's API: bad recipients, pauses and resumes, an outage, a paused template."""

import asyncio
import csv
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import msgspec
import pytest

from cloudapi.testing import Answer, Play, Received, accepts, refused, scripted_transport
from deploy.local.stack import in_thread
from kafkaio.admin import apply_topics
from kafkaio.settings import KafkaSettings
from orchestrator.app import open_app as open_orchestrator
from orchestrator.config import Config as OrchestratorConfig
from runtime.background import Background
from runtime.config import Secret
from sender import graph
from tests.integration.admin.serving import DEFINITION, NUMBER, an_admin, sent_in
from tests.integration.ingress import reading as ingress
from tests.integration.sender.conftest import SettingsFor
from tests.integration.sender.driving import Row, a_sender, posts_of, row_of, until

HTML = {"Content-Type": "text/html"}
NOBODY_KNOWS = (
    (502, b"<html>bad gateway</html>"),
    (503, b""),
    (500, b"\xff\xfe"),
    (200, b"<html>log in to this network</html>"),
)
REFUSED = (
    (400, b""),
    (400, b'{"error":"x"}'),
    (400, b"{}"),
    (403, b"x" * 10_000_000),
)
SLOW_DOWN = Answer(429, b"<html>slow down</html>", HTML)
TRIES_MAX = 2


@asynccontextmanager
async def orchestrating(database_url: str, bootstrap: str, prefix: str) -> AsyncIterator[None]:
    """An orchestrator that waits for nobody."""
    settings = KafkaSettings(bootstrap=bootstrap, client_id="test", topic_prefix=prefix)
    in_thread(apply_topics(settings, partitions_count=4, replication=1, min_insync=1))
    config = OrchestratorConfig(
        kafka_bootstrap=bootstrap,
        database_url=Secret(database_url),
        topic_prefix=prefix,
        look_every_s=0.2,
        settle_s=0.0,
    )
    stop = asyncio.Event()
    async with open_orchestrator(config) as app, Background() as tasks:
        running = tasks.create_task(app.run(stop))
        try:
            yield
        finally:
            stop.set()
            await running


async def launched(client: httpx.AsyncClient, rows: list[str], *, setting: int, tries_max: int = 5) -> str:
    """Import these lines and launch; return the campaign's path."""
    number = {**NUMBER, "limit_per_s": 1000, "setting_per_s": setting}
    (await client.post("/v1/numbers", json=number)).raise_for_status()
    created = await client.post(
        "/v1/campaigns", json={**DEFINITION, "unknown_wait_s": 1, "tries_max": tries_max}
    )
    created.raise_for_status()
    path = f"/v1/campaigns/{created.json()['campaign_id']}"
    taken = await sent_in(client, path, "\n".join(["phone,name", *rows]).encode())
    taken.raise_for_status()
    (await client.post(f"{path}/launch")).raise_for_status()
    return path


async def shown(client: httpx.AsyncClient, path: str) -> dict[str, object]:
    answer = await client.get(path)
    answer.raise_for_status()
    return dict(answer.json())


def by_line(text: str) -> dict[int, dict[str, str]]:
    return {int(row["line"]): row for row in csv.DictReader(text.splitlines())}


@pytest.mark.bco("G01")
@pytest.mark.bco("H05")
@pytest.mark.timeout(240)
async def test_bco_g01_bco_h05_who_can_not_be_sent_to_ends_with_a_reason_and_all_others_are_sent_to(
    database_url: str,
    settings_for: SettingsFor,
    kafka_bootstrap: str,
    applied_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = {1: 100, 500: 131026, 1000: 131030}
    unreadable = dict(enumerate(NOBODY_KNOWS, 300))
    refused_unread = dict(enumerate(REFUSED, 400))
    numbers = {n: f"+447700{900_000 + n}" for n in range(1, 1_001)}
    rows = [f"{numbers[n]},Person {n}" for n in numbers]
    rows[701 - 1] = "GB.QA701,Person 701"
    rows[702 - 1] = ",Person 702"
    real = graph.template_message

    def raising(**parts: object) -> object:
        if parts["to"] == numbers[700]:
            raise ValueError("a bug in the renderer")
        return real(**parts)  # type: ignore[arg-type]

    plays: dict[str, Play] = {
        **{numbers[n]: refused(code) for n, code in codes.items()},
        **{
            numbers[n]: Answer(status, body, HTML)
            for n, (status, body) in (unreadable | refused_unread).items()
        },
    }
    slowed = {numbers[600]: SLOW_DOWN}  # the first time

    def script(request: Received) -> Play:
        to = msgspec.json.decode(request.body)["to"]
        return slowed.pop(to, None) or plays.get(to) or accepts(request)

    monkeypatch.setattr(graph, "template_message", raising)
    async with (
        scripted_transport(script) as far_side,
        an_admin(database_url) as (_, client),
        orchestrating(database_url, kafka_bootstrap, applied_prefix),
    ):
        path = await launched(client, rows, setting=900, tries_max=TRIES_MAX)
        async with a_sender(settings_for(far_side.url)):

            async def completed() -> bool:
                return (await shown(client, path))["state"] == "completed"

            await until(completed, "the campaign to complete")
        told = by_line((await client.get(f"{path}/recipients.csv")).text)
    ended = {line - 1: (row["state"], row["code"]) for line, row in told.items()}
    odd = {n: end for n, end in ended.items() if end != ("accepted", "")}
    assert odd == {
        **{n: ("failed", str(code)) for n, code in codes.items()},
        **dict.fromkeys(refused_unread, ("failed", "")),
        # What raised, and what got no word of Meta's, may for all one knows have been sent.
        **dict.fromkeys((700, *unreadable), ("given_up", "")),
    }
    assert all(row["reason"] for line, row in told.items() if line - 1 in odd)
    assert set(numbers) - set(ended) == {701, 702}, "refused by the import, with line and reason"
    calls = Counter(msgspec.json.decode(request.body)["to"] for request in far_side.requests)
    assert {to: count for to, count in calls.items() if count > 1} == {
        numbers[600]: 2,
        **{numbers[n]: TRIES_MAX for n in refused_unread},
    }, "only who was surely not sent to is called again"
    assert len(calls) == len(ended) - 1, "one was never called"


@pytest.mark.bco("G03")
@pytest.mark.timeout(240)
async def test_bco_g03_pauses_resumes_and_an_outage_leave_exactly_one_accepted_call_for_each(
    database_url: str, settings_for: SettingsFor
) -> None:
    size, in_flight_s = 900, 0.2  # at 150 a second: a pause whose call takes long still meets rows
    is_ending = False
    accepted_rows: Counter[Row] = Counter()

    def script(request: Received) -> Play:
        accepted_rows[row_of(request)] += 1
        answer: Answer = replace(accepts(request), after_s=in_flight_s)
        if is_ending:  # as an orderly far side leaves: what was read is answered
            return replace(answer, headers={"Connection": "close"}, close=True)
        return answer

    rows = [f"+447700{900_000 + n},Person {n}" for n in range(size)]
    async with scripted_transport(script) as far_side, an_admin(database_url) as (_, client):
        path = await launched(client, rows, setting=150)

        async def pending() -> int:
            return int((await shown(client, path))["counts"]["pending"])  # type: ignore[index]

        async def at_rest() -> bool:
            counts = (await shown(client, path))["counts"]
            return not counts["sending"] and counts["accepted"] == len(accepted_rows)  # type: ignore[index]

        async def twice(move: str) -> None:
            async with asyncio.TaskGroup() as tasks:
                both = [tasks.create_task(client.post(f"{path}/{move}")) for _ in range(2)]
            assert [task.result().status_code for task in both] == [200, 200]
            assert sorted(task.result().json()["changed"] for task in both) == [False, True]

        async with a_sender(settings_for(far_side.url)):
            await far_side.received(150, within_s=60)
            await twice("pause")
            await until(at_rest, "the calls under way at the pause to be recorded")
            assert 0 < await pending() < size
            await twice("resume")
            await far_side.received(300, within_s=60)

            is_ending = True
            await far_side.stop_listening()

            async def nobody_comes() -> bool:
                before = len(far_side.requests)
                await asyncio.sleep(0.5)
                return len(far_side.requests) == before

            await until(nobody_comes, "the last connection to end")
            assert await pending() > 0
            (await client.post(f"{path}/pause")).raise_for_status()
            is_ending = False
            await far_side.listen_again()
            faster = {**NUMBER, "limit_per_s": 1000, "setting_per_s": 900}
            (await client.post("/v1/numbers", json=faster)).raise_for_status()
            (await client.post(f"{path}/resume")).raise_for_status()

            async def all_accepted() -> bool:
                return (await shown(client, path))["counts"]["accepted"] == size  # type: ignore[index]

            await until(all_accepted, "everybody to be sent to")
    assert len(accepted_rows) == size
    assert set(accepted_rows.values()) == {1}, "a call was made twice"


def an_account_event(field: str, value: object, *, at_s: int) -> bytes:
    """As Meta sends it: without `metadata`, so that no number is named."""
    entry = {"id": ingress.WABA, "time": at_s, "changes": [{"field": field, "value": value}]}
    return msgspec.json.encode({"object": "whatsapp_business_account", "entry": [entry]})


def a_template_event(event: str, *, at_s: int) -> bytes:
    value = {
        "event": event,
        "message_template_id": 300000000000001,
        "message_template_name": DEFINITION["template"]["name"],
        "message_template_language": DEFINITION["template"]["language"],
        "reason": "NONE",
    }
    return an_account_event("message_template_status_update", value, at_s=at_s)


@pytest.mark.bco("B04")
@pytest.mark.timeout(240)
async def test_bco_b04_a_template_that_meta_pauses_stops_its_campaign_until_it_is_approved_and_resumed(
    database_url: str, settings_for: SettingsFor, kafka_bootstrap: str, applied_prefix: str
) -> None:
    size = 600
    rows = [f"+447700{900_000 + n},Person {n}" for n in range(size)]
    async with (
        scripted_transport() as far_side,
        an_admin(database_url) as (_, client),
        orchestrating(database_url, kafka_bootstrap, applied_prefix),
        ingress.a_client(ingress.a_config(kafka_bootstrap, applied_prefix)) as (meta, receiving),
        ingress.a_reader(kafka_bootstrap, applied_prefix, ["account-events.dlq"]) as letters,
    ):
        await ingress.until_ready(receiving)
        path = await launched(client, rows, setting=100)

        async def state() -> str:
            return str((await shown(client, path))["state"])

        async def paused() -> bool:
            return await state() == "paused"

        async def told(body: bytes) -> None:
            assert (await ingress.post(meta, body)).status_code == 200

        async with a_sender(settings_for(far_side.url)):
            await far_side.received(40)
            for field, value in (
                ("phone_number_quality_update", {"display_phone_number": "15550100000", "event": "FLAGGED"}),
                ("account_update", {"event": "ACCOUNT_RESTRICTION"}),
                ("something_new", {"a": 1}),
                ("message_template_status_update", {"event": 7}),
            ):
                await told(an_account_event(field, value, at_s=ingress.T0))
            await told(a_template_event("PAUSED", at_s=ingress.T0 + 10))
            await until(paused, "the campaign to be paused")
            counts = (await shown(client, path))["counts"]
            (letter,) = (await letters.read())["account-events.dlq"]
            assert dict(letter.headers)["dead-letter-reason"] == b"undecodable", (
                "set aside, and held up nothing"
            )

            async def at_rest() -> bool:
                counts = (await shown(client, path))["counts"]
                return not counts["sending"] and counts["accepted"] == len(far_side.requests)  # type: ignore[index]

            await until(at_rest, "the calls under way at the pause to be recorded")
            await asyncio.sleep(0.6)  # longer than a poll: what would start now is wrong
            assert await at_rest()
            assert counts["pending"] > 0, "it was over before the pause: the test shows nothing"  # type: ignore[index]

            pause = (await shown(client, path))["pause"]
            assert isinstance(pause, dict)
            assert (pause["actor"], "PAUSED" in pause["reason"]) == ("template", True)
            refused_resume = await client.post(f"{path}/resume")
            assert refused_resume.status_code == 409
            assert refused_resume.json()["error"]["code"] == "template_unsendable"
            why = await client.get(f"{path}/why", params={"phone": rows[-1].partition(",")[0]})
            assert "is PAUSED on WABA" in why.text

            # An older approval is no news, and a new one resumes nothing by itself.
            await told(a_template_event("APPROVED", at_s=ingress.T0 + 5))
            await told(a_template_event("APPROVED", at_s=ingress.T0 + 20))

            async def resumed() -> bool:
                assert await paused()
                return (await client.post(f"{path}/resume")).status_code == 200

            await until(resumed, "the template to be approved again")

            async def all_accepted() -> bool:
                return (await shown(client, path))["counts"]["accepted"] == size  # type: ignore[index]

            await until(all_accepted, "everybody to be sent to", within_s=60)
    assert set(posts_of(far_side.requests).values()) == {1}, "a call was made twice"
