"""A campaign's way through the API on the real Postgres, and what the API refuses."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import httpx
import pytest

from admin.metrics import IMPORTS_FAILED
from ledger import leases, recipients
from ledger.pool import Ledger
from ledger.recipients import Settlement
from runtime import logs
from runtime.config import Secret
from tests.integration.admin.serving import (
    DEFINITION,
    NUMBER,
    TOKEN,
    a_draft,
    a_served_admin,
    an_admin,
    sent_in,
)

FILE = b"phone,name\n+447700900001,Ana\n+447700900002,Ben\n+447700900003,Cyd\n"


def error_of(reply: httpx.Response, status: int) -> tuple[str, str]:
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    return body["error"]["code"], body["error"]["message"]


# An import holds its campaign's row for as long as it runs.
IMPORT_IS_UNDER_WAY = """
SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
               WHERE c.relname = 'campaigns' AND l.mode = 'RowShareLock' AND l.pid <> pg_backend_pid())
"""


async def test_a_campaign_from_its_creation_to_its_export(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        report = (await sent_in(client, path, FILE + b"447700900001,Again\nx,Dan\n\n")).json()
        assert (report["added"], report["rejected"], report["duplicates"], report["rows"]) == (3, 1, 1, 5)
        assert report["problems"] == [
            {"line": 5, "reason": "duplicate"},
            {"line": 6, "reason": "bad_phone", "column": "phone"},
        ]
        draft = (await client.get(path)).json()
        assert (draft["state"], draft["audience_size"], draft["eta_s"]) == ("draft", 3, None)
        assert draft["numbers"][0]["setting_per_s"] == 76

        for _ in range(2):
            launched = await client.post(f"{path}/launch")
            assert launched.json()["audience_size"] == 3
        running = (await client.get(path)).json()
        assert (running["state"], running["counts"]["pending"], running["remaining_count"]) == (
            "running",
            3,
            3,
        )
        assert running["eta_s"] == 0.0
        assert running["numbers"] == [
            {"phone_number_id": "100000000000001", "rows_count": 3, "claimed_count": 0, "setting_per_s": 76}
        ]

        paused = (await client.post(f"{path}/pause", json={"reason": "wrong picture"})).json()
        assert (paused["state"], paused["changed"]) == ("paused", True)
        assert not (await client.post(f"{path}/pause")).json()["changed"]
        status = (await client.get(path)).json()
        assert status["pause"] == {
            "actor": "operator", "reason": "wrong picture", "evidence": None, "lifted_by": "resume",
        }  # fmt: skip
        assert status["eta_s"] is None
        assert (await client.post(f"{path}/resume")).json()["state"] == "running"

        await one_is_accepted(database_url, int(path.rpartition("/")[2]))
        exported = await client.get(f"{path}/recipients.csv")
        rows = list(csv.DictReader(io.StringIO(exported.text, newline="")))
        assert [(r["seq"], r["line"], r["address"], r["state"], r["wamid"]) for r in rows] == [
            ("1", "2", "+447700900001", "accepted", "wamid.1"),
            ("2", "3", "+447700900002", "pending", ""),
            ("3", "4", "+447700900003", "pending", ""),
        ]
        lines = (await client.get(f"{path}/recipients.csv", params={"format": "ndjson"})).text.splitlines()
        assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3]
        reasons = (await client.get(f"{path}/reasons")).json()["reasons"]
        assert {"state": "pending", "reason": None, "code": None, "count": 2} in reasons

        assert (await client.post(f"{path}/cancel")).json()["state"] == "cancelled"
        assert error_of(await client.post(f"{path}/launch"), 409)[0] == "refused"
        listed = (await client.get("/v1/campaigns", params={"state": "cancelled"})).json()["campaigns"]
        assert [c["name"] for c in listed] == ["Spring sale"]
        assert (await client.get("/v1/campaigns", params={"state": "running"})).json()["campaigns"] == []


async def one_is_accepted(database_url: str, campaign_id: int) -> None:
    number = NUMBER["phone_number_id"]
    async with Ledger.open(database_url, shard=1) as ledger:
        taken = await leases.take(ledger, phone_number_id=number, owner=uuid4(), lease_s=60, grace_s=2)
        assert taken is not None
        await recipients.claim(
            ledger,
            phone_number_id=number,
            epoch=taken.epoch,
            campaign_id=campaign_id,
            limit=1,
            name=uuid4(),
            ends_in_s=60,
        )
        done = Settlement(campaign_id=campaign_id, seq=1, attempt=1, kind="accepted", wamid="wamid.1")
        await recipients.settle(ledger, [done], finished_claims=[])


async def test_a_draft_can_not_be_resumed_into_running_without_a_launch(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        assert error_of(await client.post(f"{path}/resume"), 409)[0] == "refused"
        assert (await client.get(path)).json()["state"] == "draft"
        assert error_of(await client.post(f"{path}/pause"), 409)[0] == "refused"
        assert "empty" in error_of(await client.post(f"{path}/launch"), 409)[1]


async def test_an_upload_that_breaks_off_imports_nothing(database_url: str) -> None:
    async with (
        a_served_admin(database_url) as url,
        httpx.AsyncClient(base_url=url) as client,
        Ledger.open(database_url, shard=2) as ledger,
    ):
        path = await a_draft(client)
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(
            f"POST {path}/audience HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/csv\r\n"
            f"content-length: 100000000\r\n\r\n".encode()
        )
        writer.write(FILE + b"".join(b"+4477009%05d,Eve\n" % n for n in range(30_000)))
        await writer.drain()
        async with asyncio.timeout(60):
            while not await ledger.value("begun", IMPORT_IS_UNDER_WAY):
                await asyncio.sleep(0.01)
            assert (await sent_in(client, path, FILE)).status_code == 409
            before = IMPORTS_FAILED._value.get()
            writer.transport.abort()
            while IMPORTS_FAILED._value.get() == before:
                await asyncio.sleep(0.01)
        assert (await client.get(path)).json()["audience_size"] in (0, 3)
        again = (await sent_in(client, path, FILE)).json()
        assert again["added"] + again["duplicates"] == 3
        assert (await client.get(path)).json()["audience_size"] == 3


async def test_the_same_file_twice_adds_nothing(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        assert (await sent_in(client, path, FILE)).json()["added"] == 3
        again = (await sent_in(client, path, FILE)).json()
        assert (again["added"], again["duplicates"]) == (0, 3)


async def test_a_file_without_the_templates_column_imports_nothing(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        code, message = error_of(await sent_in(client, path, b"phone,city\n+447700900001,Lima\n"), 422)
        assert code == "missing_column"
        assert "'name'" in message
        assert "'city'" in message
        assert (await client.get(path)).json()["audience_size"] == 0


async def test_a_refused_file_does_not_cost_the_connection_or_its_answer(database_url: str) -> None:
    async with a_served_admin(database_url) as url, httpx.AsyncClient(base_url=url) as client:
        path = await a_draft(client)
        refused = await sent_in(client, path, b"phone,city\n" + b"+447700900001,Lima\n" * 200_000)
        assert refused.status_code == 422
        after = await client.get(path)
        ports = [r.extensions["network_stream"].get_extra_info("client_addr")[1] for r in (refused, after)]
        assert ports[0] == ports[1], "the connection had to be closed"


async def test_nothing_is_imported_into_or_launched_during_another_import(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        answers: list[httpx.Response] = []

        async def slow() -> AsyncIterator[bytes]:
            yield FILE
            answers.append(await sent_in(client, path, FILE))
            answers.append(await client.post(f"{path}/launch"))
            yield b"+447700900004,Dan\n"

        assert (await sent_in(client, path, slow())).json()["added"] == 4
        assert [error_of(answer, 409)[0] for answer in answers] == ["import_under_way"] * 2
        assert (await client.post(f"{path}/launch")).json()["audience_size"] == 4


async def test_a_launched_campaign_takes_no_more_rows(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        await sent_in(client, path, FILE)
        await client.post(f"{path}/launch")
        assert "frozen" in error_of(await sent_in(client, path, FILE), 409)[1]


async def test_a_file_beyond_the_limit_is_refused(database_url: str) -> None:
    async with an_admin(database_url, import_bytes_max=1000) as (_, client):
        path = await a_draft(client)
        assert (
            error_of(await sent_in(client, path, FILE + b"+447700900004,Dan\n" * 100), 413)[0] == "too_large"
        )
        assert (await client.get(path)).json()["audience_size"] == 0


async def test_a_definition_that_is_wrong_is_refused_with_the_field(database_url: str) -> None:
    cases: list[tuple[dict[str, object], int, str]] = [
        ({"name": ""}, 400, "$.name"),
        ({"name": " "}, 422, "name"),
        ({"name": 5}, 400, "$.name"),
        ({"nmae": "x"}, 400, "nmae"),
        ({"numbers": []}, 400, "$.numbers"),
        ({"template": {"name": "Spring Sale", "language": "en"}}, 400, "$.template.name"),
        ({"unknown_wait_s": 0}, 400, "$.unknown_wait_s"),
        ({"on_unknown": "maybe"}, 400, "$.on_unknown"),
        ({"numbers": ["999"]}, 409, "999"),
    ]
    async with an_admin(database_url) as (_, client):
        await client.post("/v1/numbers", json=NUMBER)
        for change, status, told in cases:
            assert (
                told in error_of(await client.post("/v1/campaigns", json={**DEFINITION, **change}), status)[1]
            )
        assert (await client.get("/v1/campaigns")).json() == {"campaigns": []}


async def test_every_failure_has_the_same_form(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        json_type = {"content-type": "application/json"}
        for given, code in (
            (b"{", 400),
            (b'{"name": "\xff"}', 400),
            (b"[" * 100_000, 400),
            (b" " * 2_000_000, 413),
        ):
            error_of(await client.post("/v1/campaigns", content=given, headers=json_type), code)
        error_of(await client.post("/v1/campaigns", content=b"{}"), 415)
        error_of(await client.post(f"{path}/audience", content=FILE), 415)
        error_of(await client.post(f"{path}/audience", json={}), 415)
        for name in ("0", "x", "-1", "99999999999999999999", "9223372036854775807"):
            assert error_of(await client.get(f"/v1/campaigns/{name}"), 404)[0] == "no_campaign"
        assert error_of(await client.get("/v1/nothing"), 404)[0] == "no_route"
        assert error_of(await client.delete(path), 405)[0] == "method"
        assert error_of(await client.get(f"{path}/recipients.csv", params={"format": "xlsx"}), 400)
        above = {**NUMBER, "setting_per_s": 81}
        assert error_of(await client.post("/v1/numbers", json=above), 422)[0] == "setting_above_limit"


async def test_a_database_that_is_away_is_said_to_be_away_until_it_is_back(database_url: str) -> None:
    async with a_cuttable_way(database_url) as (url, cut, mend), an_admin(url) as (_app, client):
        path = await a_draft(client)
        await cut()
        for _ in range(2):
            reply = await client.get(path)
            assert error_of(reply, 503)[0] == "database_away"
            assert int(reply.headers["retry-after"]) > 0
        await mend()
        assert (await client.get(path)).status_code == 200


@asynccontextmanager
async def a_cuttable_way(
    database_url: str,
) -> AsyncIterator[tuple[str, Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]]:
    """Yield (a database URL through a relay of ours, cut, mend)."""
    target = urlsplit(database_url)
    writers: list[asyncio.StreamWriter] = []
    servers: list[asyncio.Server] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)
        writers.extend((writer, far_writer))

        async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while piece := await source.read(65_536):
                    sink.write(piece)
                    await sink.drain()
            sink.close()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(carry(reader, far_writer))
            tasks.create_task(carry(far_reader, writer))

    async def cut() -> None:
        servers.pop().close()
        for writer in writers:
            writer.transport.abort()
        writers.clear()

    async def mend(port: int = 0) -> None:
        servers.append(await asyncio.start_server(relay, "127.0.0.1", port))

    await mend()
    port = servers[0].sockets[0].getsockname()[1]
    url = urlunsplit(target._replace(netloc=target.netloc.replace(f":{target.port}", f":{port}")))
    yield url, cut, lambda: mend(port)
    await cut()


async def test_no_answer_without_the_token(database_url: str) -> None:
    async with an_admin(database_url, tokens=(Secret("qa-other"), Secret(TOKEN)), host="0.0.0.0") as (
        _,
        client,
    ):
        for header in (
            None,
            "Bearer",
            "Bearer ",
            "Bearer qa-admin-token-2",
            f"Basic {TOKEN}",
            "Bearer t\u00f6ken",
        ):
            headers = {} if header is None else {"authorization": header.encode("latin-1")}
            for path in ("/v1/numbers", "/v1/campaigns/1", "/v1/nothing", "/"):
                reply = await client.get(path, headers=headers)
                assert error_of(reply, 401) == ("unauthorised", "A valid token is needed.")
                assert reply.headers["www-authenticate"] == "Bearer"
        for token in (TOKEN, "qa-other"):
            reply = await client.get("/v1/numbers", headers={"authorization": f"Bearer {token}"})
            assert reply.status_code == 200


async def test_without_tokens_a_foreign_page_can_not_use_the_operators_browser(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        for headers in ({"origin": "https://shop.example"}, {"host": "rebound.example"}, {"origin": "null"}):
            assert error_of(await client.post(f"{path}/cancel", headers=headers), 403)[0] == "not_local"
        assert (await client.get(path)).json()["state"] == "draft"
        assert (await client.get(path, headers={"origin": "http://localhost:8090"})).status_code == 200


@pytest.mark.bco("L04")
async def test_bco_l04_neither_answers_nor_logs_nor_metrics_show_a_token(
    database_url: str,
) -> None:
    written = io.StringIO()
    logs.configure("admin", level="debug", stream=written)
    answers: list[str] = []
    async with an_admin(database_url, tokens=(Secret(TOKEN),)) as (app, client):
        client.headers["authorization"] = f"Bearer {TOKEN}"
        path = await a_draft(client)
        for reply in (
            await sent_in(client, path, FILE),
            await sent_in(client, path, b"phone\n+447700900001\n"),
            await client.get("/v1/numbers"),
            await client.get(path),
            await client.post("/v1/campaigns", json={"token": TOKEN}),
            await client.get("/v1/numbers", headers={"authorization": f"Basic {TOKEN}"}),
        ):
            answers += [reply.text, str(reply.headers)]
        health = httpx.ASGITransport(app=app.health.routes()[2])
        async with httpx.AsyncClient(transport=health, base_url="http://127.0.0.1") as watcher:
            answers.append((await watcher.get("/metrics")).text)
    answers.append(written.getvalue())
    assert "request.answered" in answers[-1]
    assert "sluice_admin_import_rows_total" in answers[-2]
    for text in answers:
        assert TOKEN not in text
        assert "447700900001" not in text
    assert database_url not in "".join(answers)


async def test_readiness_names_what_the_database_lacks(database_url: str) -> None:
    async with Ledger.open(database_url, shard=2) as ledger:
        await ledger.run("forget", "DELETE FROM migrations WHERE name LIKE 'functions-%'")
        async with an_admin(database_url) as (app, _):
            while app.health.reasons().get("database") == "starting":
                await asyncio.sleep(0.01)
            assert "sluice migrate" in app.health.reasons()["database"]
            assert "functions-" in app.health.reasons()["database"]
