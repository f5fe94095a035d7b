"""Lists of opt-outs through the API and the command: out, in, and out again unchanged."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from ledger import contacts, suppressions
from ledger.pool import Ledger
from tests.integration.admin.serving import NUMBER, a_served_admin, an_admin
from tests.integration.admin.shell import NUMBER_ADD, Shell

PORTFOLIO = NUMBER["portfolio_id"]
PATH = f"/v1/portfolios/{PORTFOLIO}/opt-outs.csv"


async def opted_out(
    client: httpx.AsyncClient, content: bytes | AsyncIterator[bytes], path: str = PATH, **params: str
) -> httpx.Response:
    return await client.post(path, content=content, params=params, headers={"content-type": "text/csv"})


async def listed(client: httpx.AsyncClient, path: str = PATH) -> list[dict[str, str]]:
    reply = await client.get(path)
    assert reply.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(reply.text, newline="")))


async def connect(client: httpx.AsyncClient, **changes: str) -> None:
    (await client.post("/v1/numbers", json={**NUMBER, **changes})).raise_for_status()


async def test_a_list_goes_in_with_its_bad_rows_told_and_comes_out(database_url: str) -> None:
    async with an_admin(database_url) as (_app, client):
        await connect(client)
        file = b"name;mobile\nAna;07700 900001\nBen;+447700900002\nBen;+44 7700 900002\nCyd;x\n;\nDan;\n"
        report = (await opted_out(client, file, region="GB")).json()
        assert (report["opted_out"], report["already"], report["rejected"], report["rows"], report["blank"]) == (
            2, 1, 2, 5, 1,
        )  # fmt: skip
        assert report["problems"] == [
            {"line": 5, "reason": "bad_phone", "column": "mobile"},
            {"line": 7, "reason": "no_phone", "column": "mobile"},
        ]
        first = await listed(client)
        assert [(row["phone"], row["reason"], row["source"]) for row in first] == [
            ("+447700900001", "opted_out", "import"),
            ("+447700900002", "opted_out", "import"),
        ]
        again = (await opted_out(client, file, region="GB")).json()
        assert (again["opted_out"], again["already"]) == (0, 3)
        assert await listed(client) == first, "the same list twice changed something"


async def test_what_comes_out_goes_into_another_portfolio(database_url: str) -> None:
    other = "/v1/portfolios/p2/opt-outs.csv"
    async with an_admin(database_url) as (_app, client), Ledger.open(database_url, shard=1) as ledger:
        await connect(client)
        await connect(client, phone_number_id="100000000000002", portfolio_id="p2")
        # A Brazilian and an Argentinian number in one of their two forms each, and a person known by his user id alone.
        rows = b"phone\n+5511987654321\n+5491123456789\n+447700900001\n"
        assert (await opted_out(client, rows)).json()["opted_out"] == 3
        contact = await contacts.resolve(ledger, portfolio_id=PORTFOLIO, identities=[("bsuid", "US.1")])
        await ledger.run("block", "INSERT INTO suppressions VALUES ($1, 'blocked', 'test')", contact)
        assert await listed(client, other) == []

        moved = (await opted_out(client, (await client.get(PATH)).content, other)).json()
        assert (moved["opted_out"], moved["reasons"]) == (3, {"no_phone": 1})
        assert {row["phone"] for row in await listed(client, other)} == {
            row["phone"] for row in await listed(client) if row["phone"]
        }
        (blocked,) = [row for row in await listed(client) if not row["phone"]]
        assert (blocked["user_id"], blocked["reason"]) == ("US.1", "blocked")
        assert (await opted_out(client, rows, other)).json()["opted_out"] == 0, (
            "a variant counted as a person"
        )


async def test_long_lists_are_taken_and_given_by_pages(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with an_admin(database_url) as (_app, client):
        await connect(client)
        phones = [f"+44770{n:07}" for n in range(2_500)]

        async def pieces() -> AsyncIterator[bytes]:
            yield b"phone\n"
            for start in range(0, len(phones), 700):
                yield "\n".join([*phones[start : start + 700], ""]).encode()

        report = (await opted_out(client, pieces())).json()
        assert (report["opted_out"], report["already"], report["rejected"]) == (2_500, 0, 0)
        monkeypatch.setattr(suppressions.page, "__kwdefaults__", {"limit": 400})
        assert sorted(row["phone"] for row in await listed(client)) == phones


async def test_what_was_read_of_a_list_that_breaks_off_is_kept(database_url: str) -> None:
    file = b"phone\n" + b"".join(b"+44770%07d\n" % n for n in range(10_000))
    async with a_served_admin(database_url) as url, httpx.AsyncClient(base_url=url) as client:
        await connect(client)
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(
            f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/csv\r\n"
            f"content-length: 100000000\r\n\r\n".encode()
        )
        writer.write(file)
        await writer.drain()
        async with asyncio.timeout(60):
            while not await listed(client):
                await asyncio.sleep(0.05)
        writer.transport.abort()
        kept = len(await listed(client))
        assert kept >= 1_000
        again = (await opted_out(client, file)).json()
        assert again["opted_out"] <= 10_000 - kept
        assert again["opted_out"] + again["already"] == 10_000
        assert len(await listed(client)) == 10_000


@pytest.mark.parametrize(
    ("path", "content", "media_type", "status", "code"),
    [
        ("/v1/portfolios/nobody/opt-outs.csv", b"phone\n", "text/csv", 404, "no_portfolio"),
        (PATH, b"phone\n+447700900001\n", "application/json", 415, "media_type"),
        (PATH, b"+447700900001\n", "text/csv", 422, "no_header"),
        (PATH, b"city\nLima\n", "text/csv", 422, "no_phone_column"),
        (PATH, b"", "text/csv", 422, "no_rows"),
    ],
)
async def test_a_list_that_can_not_be_read_opts_nobody_out(
    database_url: str, path: str, content: bytes, media_type: str, status: int, code: str
) -> None:
    async with an_admin(database_url) as (_app, client):
        await connect(client)
        reply = await client.post(path, content=content, headers={"content-type": media_type})
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert "7700900" not in reply.text
        assert await listed(client) == []
        assert (await client.get("/v1/portfolios/nobody/opt-outs.csv")).status_code == 404


async def test_the_command_moves_lists(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, found = tmp_path / "stop.csv", tmp_path / "out.csv"
    given.write_bytes(b"phone\n+447700900001\nx\n")
    async with a_served_admin(database_url) as url:
        sluice = Shell(capsys, "--url", url)
        assert await sluice(*NUMBER_ADD) == 0
        asked = ("--portfolio", PORTFOLIO)
        assert await sluice("opt-outs", "import", *asked, str(given)) == 0
        assert sluice.out.splitlines() == [
            "opted out 1, already 0, rejected 1 of 2 rows (utf-8, delimiter ',')",
            "line 3, column phone: this is not one phone number",
        ]
        assert await sluice("opt-outs", "import", *asked, str(given), "--strict", "--json") == 1
        assert await sluice("opt-outs", "export", *asked, str(found)) == 0
        assert found.read_text().splitlines()[1].startswith("+447700900001,,opted_out,import,")
        assert await sluice("opt-outs", "import", *asked, str(found)) == 0
        assert await sluice("opt-outs", "export", "--portfolio", "nobody", str(tmp_path / "none.csv")) == 1
        assert not (tmp_path / "none.csv").exists()
        assert await sluice("opt-outs", "export", "--portfolio", "../x", "-") == 1
        assert await sluice("opt-outs", "import", *asked, str(tmp_path / "none.csv")) == 1
