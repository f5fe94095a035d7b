"""The whole simulator through its doors: real HTTP in, signed webhooks out, and a report that agrees with both."""

import asyncio
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from runtime.config import Secret
from runtime.health import serve_http
from simulator.app import App, open_app
from simulator.config import Config

NUMBER = {
    "phone_number_id": "300000000000001",
    "display_phone_number": "15550109000",
    "waba_id": "200000000000001",
    "limit_per_s": 1_000,
}
SCENE = {
    "numbers": [
        NUMBER,
        NUMBER | {"phone_number_id": "300000000000002", "display_phone_number": "15550109001"},
    ],
    "templates": [{"name": "order_ready", "language": "en_US", "body_params": 1}],
    "latency": {"base_ms": 1},
    "journeys": {"time_scale": 0.01, "late": 0.0},
    "webhooks": {"retry_base_s": 0.02, "retry_cap_s": 0.1, "batch_linger_ms": 5},
}
TO = "15550100042"
DEADLINE_S = 60.0


class Receiver:
    """A webhook that answers what it is told to, and keeps each body it got with the answer it gave."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[tuple[bytes, int]] = []
        self.bad_signatures = 0

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/webhook", self.post, methods=["POST"]), Route("/webhook", self.get)])

    async def post(self, request: Request) -> Response:
        body = await request.body()
        expected = "sha256=" + hmac.new(b"sim-app-secret", body, hashlib.sha256).hexdigest()
        self.bad_signatures += request.headers.get("x-hub-signature-256") != expected
        status = self.answers.pop(0) if self.answers else 200
        self.got.append((body, status))
        return Response(status_code=status)

    async def get(self, request: Request) -> Response:
        if request.query_params.get("hub.verify_token") != "verify-me":
            return Response(status_code=403)
        return PlainTextResponse(request.query_params["hub.challenge"])

    def items(self, *, status: int = 200) -> list[dict]:
        """Every status and message in the bodies that were answered so, repeats included, in order of arrival."""
        return [
            item
            for body, answer in self.got
            if answer == status
            for entry in json.loads(body)["entry"]
            for change in entry["changes"]
            for item in change["value"].get("statuses", []) + change["value"].get("messages", [])
        ]


class Bench:
    """A simulator, its receiver, and a client of both."""

    def __init__(self, app: App, receiver: Receiver, client: httpx.AsyncClient) -> None:
        self.app = app
        self.receiver = receiver
        self.client = client

    async def setup(self, **change) -> None:
        (await self.client.post("/sim/setup", json=change)).raise_for_status()

    async def rule(self, behaviour: str, **more) -> None:
        rule = {"recipient": TO, "behaviour": behaviour, "statuses": ["sent"]} | more
        (await self.client.post("/sim/rules", json=rule)).raise_for_status()

    async def send(self, to: str = TO, number: int = 1, **more) -> httpx.Response:
        body = {
            "messaging_product": "whatsapp",
            "to": f"+{to}",
            "type": "text",
            "text": {"body": "hello"},
        } | more
        return await self.client.post(
            f"/v25.0/30000000000000{number}/messages",
            json=body,
            headers={"Authorization": "Bearer sesame"},
        )

    async def until_idle(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not (await self.client.get("/sim/idle")).json()["idle"]:
                await asyncio.sleep(0.02)

    async def report(self) -> dict:
        return (await self.client.get("/sim/report")).json()

    async def rows(self, kind: str) -> list[dict]:
        return [json.loads(line) for line in (await self.client.get(f"/sim/report/{kind}")).text.splitlines()]


@asynccontextmanager
async def running(app: App) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(app.run(stop))
        try:
            yield
        finally:
            stop.set()


@pytest.fixture
async def bench(tmp_path) -> AsyncIterator[Bench]:
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps(SCENE))
    receiver = Receiver()
    async with serve_http(receiver.app(), "127.0.0.1", 0, stop_s=1.0) as webhook_port:
        config = Config(
            webhook_url=f"http://127.0.0.1:{webhook_port}/webhook",
            app_secret=Secret("sim-app-secret"),
            access_token=Secret("sesame"),
            verify_token=Secret("verify-me"),
            scenario_file=str(scenario),
            port=0,
        )
        async with open_app(config) as app, running(app):
            base = f"http://127.0.0.1:{app.port}"
            async with httpx.AsyncClient(base_url=base, timeout=30.0, trust_env=False) as client:
                yield Bench(app, receiver, client)


async def test_a_message_is_accepted_and_its_statuses_arrive_signed(bench):
    await bench.rule("normal", statuses=["sent", "delivered", "read"])
    answer = await bench.send(biz_opaque_callback_data="job7:row91")
    wamid = answer.json()["messages"][0]["id"]
    await bench.until_idle()
    assert [(item["id"], item["status"]) for item in bench.receiver.items()] == [
        (wamid, "sent"),
        (wamid, "delivered"),
        (wamid, "read"),
    ]
    assert {item["biz_opaque_callback_data"] for item in bench.receiver.items()} == {"job7:row91"}
    assert bench.receiver.bad_signatures == 0
    [row] = await bench.rows("messages")
    assert (row["wamid"], row["accepted"], row["http_status"]) == (wamid, True, 200)
    assert [(s["status"], s["acked"], s["posted"]) for s in row["statuses"]] == [
        ("sent", 1, 1),
        ("delivered", 1, 1),
        ("read", 1, 1),
    ]


async def test_a_webhook_is_redelivered_byte_for_byte_until_it_is_answered_200(bench):
    bench.receiver.answers = [500, 503, 202, 404]
    await bench.rule("normal")
    await bench.send()
    await bench.until_idle()
    bodies = [body for body, _ in bench.receiver.got]
    assert [status for _, status in bench.receiver.got] == [500, 503, 202, 404, 200]
    assert len(set(bodies)) == 1
    [row] = await bench.rows("messages")
    assert (row["statuses"][0]["posted"], row["statuses"][0]["acked"]) == (5, 1)
    webhooks = (await bench.report())["webhooks"]
    assert (webhooks["posts"], webhooks["acked"], webhooks["non_200"], webhooks["redeliveries"]) == (
        5,
        1,
        4,
        4,
    )


async def test_the_report_agrees_with_what_arrived_doubled_and_shuffled(bench):
    bench.receiver.answers = [500, 500, 503] * 3
    await bench.setup(
        journeys={"time_scale": 0.02, "answers": 0.4, "failed": 0.1, "silent": 0.05},
        webhooks={"doubled": 0.5, "shuffled": 0.5, "batch_max": 7},
    )
    people = [f"1555010{n:04d}" for n in range(120)]
    for place, who in enumerate(people):
        answer = await bench.send(who, number=1 + place % 2, biz_opaque_callback_data=f"row{place}")
        assert answer.status_code == 200
    await bench.until_idle()
    arrived = Counter((item["id"], item.get("status", "text")) for item in bench.receiver.items())
    rows, inbound = await bench.rows("messages"), await bench.rows("inbound")
    told = {(row["wamid"], s["status"]): s["acked"] for row in rows for s in row["statuses"]}
    told |= {(record["wamid"], "text"): record["acked"] for record in inbound}
    assert arrived == told
    assert inbound
    assert set(told.values()) > {1}
    summary = await bench.report()
    webhooks = summary["webhooks"]
    assert webhooks["doubled"] > 0
    assert webhooks["shuffled"] > 0
    assert webhooks["posts"] == len(bench.receiver.got)
    assert webhooks["updates"] == len(told)
    assert (summary["accepted"], summary["updates_pending"], webhooks["gave_up"]) == (120, 0, 0)
    assert [number["arrivals"] for number in summary["numbers"]] == [60, 60]
    assert bench.receiver.bad_signatures == 0


async def test_it_gives_up_after_the_last_attempt_and_says_so(bench):
    await bench.setup(webhooks={"attempts_max": 3})
    bench.receiver.answers = [500] * 3
    await bench.rule("normal")
    await bench.send()
    await bench.until_idle()
    [row] = await bench.rows("messages")
    assert (row["statuses"][0]["gave_up"], row["statuses"][0]["acked"]) == (True, 0)
    assert (await bench.report())["webhooks"]["gave_up"] == 1


async def test_a_webhook_that_is_down_gets_everything_once_it_is_up(bench):
    async with serve_http(Starlette(), "127.0.0.1", 0) as closed_port:
        pass
    await bench.setup(webhook_url=f"http://127.0.0.1:{closed_port}/webhook", webhooks={"pending_max": 2})
    await bench.rule("normal", times=5)
    for _ in range(5):
        await bench.send()
    async with asyncio.timeout(DEADLINE_S):
        while (await bench.report())["webhooks"]["unreachable"] < 3:
            await asyncio.sleep(0.02)
    summary = await bench.report()
    assert summary["updates_pending"] == 2
    assert summary["journeys_pending"] == 3
    receiver = Receiver()
    async with serve_http(receiver.app(), "127.0.0.1", closed_port, stop_s=1.0):
        await bench.until_idle()
    assert len(receiver.items()) == 5


async def test_a_reset_after_accept_leaves_no_answer_and_all_its_statuses(bench):
    await bench.rule("reset_after_accept")
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)) as reset:
        await bench.send()
    assert isinstance(reset.value, httpx.ReadError), "a reset, not an orderly close"
    await bench.until_idle()
    [row] = await bench.rows("messages")
    assert (row["accepted"], row["http_status"], row["statuses"][0]["acked"]) == (True, 0, 1)


async def test_a_reset_before_accept_accepts_nothing(bench):
    await bench.rule("reset_before_accept")
    with pytest.raises(httpx.TransportError):
        await bench.send()
    [row] = await bench.rows("messages")
    assert (row["accepted"], row["wamid"], row["behaviour"]) == (False, None, "reset_before_accept")


@pytest.mark.parametrize(
    ("behaviour", "accepted"), [("timeout_after_accept", True), ("hang_without_accept", False)]
)
async def test_an_answer_later_than_the_client_waits_is_a_timeout(bench, behaviour, accepted):
    await bench.rule(behaviour)
    bench.client.timeout = httpx.Timeout(0.2)
    with pytest.raises(httpx.ReadTimeout):
        await bench.send()
    bench.client.timeout = httpx.Timeout(30.0)
    await bench.until_idle()
    [row] = await bench.rows("messages")
    assert row["accepted"] is accepted
    assert len(bench.receiver.items()) == accepted


async def test_a_late_answer_does_come_in_the_end(bench):
    await bench.setup(faults={"late_s": 1.1})
    await bench.rule("timeout_after_accept")
    answer = await bench.send()
    assert answer.status_code == 200
    assert answer.elapsed.total_seconds() >= 1.1


async def test_the_webhook_can_arrive_before_the_answer(bench):
    await bench.rule("webhook_before_answer")
    answer = await bench.send()
    [status] = bench.receiver.items()
    assert status["id"] == answer.json()["messages"][0]["id"]


async def test_a_gateway_page_is_not_json(bench):
    await bench.rule("http_500_html_after_accept")
    answer = await bench.send()
    assert (answer.status_code, answer.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert b"<html>" in answer.content
    await bench.until_idle()
    assert len(bench.receiver.items()) == 1


async def test_people_write_in_order_and_at_any_time(bench):
    texts = [f"text {n}" for n in range(30)]
    written = {
        "phone_number_id": NUMBER["phone_number_id"],
        "sender": TO,
        "texts": texts,
        "timestamp": 1790000000,
    }
    answer = await bench.client.post("/sim/inbound", json=written)
    await bench.until_idle()
    items = bench.receiver.items()
    assert [item["text"]["body"] for item in items] == texts
    assert [item["id"] for item in items] == answer.json()["wamids"]
    assert {item["timestamp"] for item in items} == {"1790000000"}
    assert (await bench.report())["numbers"][0]["inbound"] == 30


async def test_any_other_hook_can_be_sent_signed(bench):
    value = {
        "object": "whatsapp_business_account",
        "entry": [{"id": "0", "changes": [{"field": "ü/", "value": {}}]}],
    }
    await bench.client.post("/sim/webhooks", json=value)
    await bench.until_idle()
    [(body, _)] = bench.receiver.got
    assert rb"\u00fc\/" in body
    assert json.loads(body) == value
    assert bench.receiver.bad_signatures == 0


async def test_the_handshake_is_verified_by_the_bare_challenge(bench):
    assert (await bench.client.post("/sim/handshake")).json() == {"verified": True}


async def test_setup_adds_numbers_and_templates_and_refuses_nonsense(bench):
    template = {"name": "sale", "language": {"code": "de"}}
    assert (await bench.send(type="template", template=template)).json()["error"]["code"] == 132001
    await bench.setup(templates=[{"name": "sale", "language": "de"}])
    assert (await bench.send(type="template", template=template)).status_code == 200
    assert (await bench.client.post("/sim/setup", json={"fautls": {}})).status_code == 400
    assert (await bench.client.post("/sim/rules", json={"recipient": "x"})).status_code == 400


async def test_a_reset_leaves_nothing_to_report(bench):
    await bench.send()
    assert (await bench.client.delete("/sim")).status_code == 200
    summary = await bench.report()
    assert (summary["messages"], summary["journeys_pending"], summary["updates_pending"]) == (0, 0, 0)


async def test_the_limit_is_enforced_on_arrivals(bench):
    await bench.setup(numbers=[NUMBER | {"limit_per_s": 20}])
    answers = await asyncio.gather(
        *(bench.send() for _ in range(200))
    )  # more than a stall of seconds makes room for
    statuses = Counter(answer.status_code for answer in answers)
    [number, _] = (await bench.report())["numbers"]
    assert statuses[429] == number["throttled"] > 0
    assert number["accepted_largest_second"] <= 20
    assert number["arrivals"] == 200


async def test_it_says_that_it_is_ready_and_what_it_counts(bench):
    assert (await bench.client.get("/ready")).status_code == 200
    await bench.send()
    assert 'sluice_simulator_posts_total{http_status="200"}' in (await bench.client.get("/metrics")).text
