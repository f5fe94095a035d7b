"""Halts through the API and the command: placed, told in the campaign's status, listed, lifted by name."""

import json
from pathlib import Path

import pytest

from tests.integration.admin.serving import NUMBER, a_draft, a_served_admin, an_admin, sent_in
from tests.integration.admin.shell import CREATE, NUMBER_ADD, Shell

NUMBER_ID = NUMBER["phone_number_id"]
WABA_ID = NUMBER["waba_id"]
FILE = b"phone,name\n+447700900001,Ana\n"


async def test_a_campaigns_status_says_that_it_is_halted_and_why(database_url: str) -> None:
    async with an_admin(database_url) as (_, client):
        path = await a_draft(client)
        campaign_id = path.rpartition("/")[2]
        await sent_in(client, path, FILE)
        await client.post(f"{path}/launch")
        for scope, key in (("campaign", campaign_id), ("number", NUMBER_ID), ("waba", WABA_ID), ("all", "*")):
            order = {"scope": scope, "reason": "wrong picture"} | ({} if scope == "all" else {"key": key})
            placed = await client.post("/v1/halts", json=order)
            assert (placed.status_code, placed.json()["changed"]) == (201, True)
            halt = placed.json()["halt"]
            assert (halt["scope"], halt["key"], halt["actor"]) == (scope, key, "operator")
            status = (await client.get(path)).json()
            assert [(h["scope"], h["key"], h["reason"], h["numbers"]) for h in status["halts"]] == [
                (scope, key, "wrong picture", [NUMBER_ID])
            ]
            assert (status["state"], status["eta_s"]) == ("running", None)
            again = await client.post("/v1/halts", json={**order, "reason": "another"})
            assert (again.status_code, again.json()) == (200, {"halt": halt, "changed": False})
            assert (await client.get("/v1/halts")).json()["halts"] == [halt]
            for changed in (True, False):
                lifted = (await client.delete(f"/v1/halts/{scope}/{key}")).json()
                assert lifted == {"scope": scope, "key": key, "changed": changed}
        status = (await client.get(path)).json()
        assert (status["halts"], status["eta_s"]) == ([], 0.0)


@pytest.mark.parametrize(
    ("order", "status", "code"),
    [
        ({"scope": "campaign", "key": "7"}, 409, "refused"),
        ({"scope": "number", "key": "7"}, 409, "refused"),
        ({"scope": "waba", "key": "7"}, 409, "refused"),
        ({"scope": "number"}, 422, "bad_key"),
        ({"scope": "campaign", "key": "-1"}, 422, "bad_key"),
        ({"scope": "campaign", "key": "9" * 30}, 422, "bad_key"),
        ({"scope": "all", "key": "7"}, 422, "bad_key"),
        ({"scope": "all", "reason": "\0"}, 422, "bad_text"),
        ({"scope": "world"}, 400, "malformed"),
        ({}, 400, "malformed"),
    ],
)
async def test_what_can_not_be_halted_is_refused(
    database_url: str, order: dict[str, str], status: int, code: str
) -> None:
    async with an_admin(database_url) as (_, client):
        reply = await client.post("/v1/halts", json=order)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert (await client.get("/v1/halts")).json()["halts"] == []
        assert (await client.delete("/v1/halts/world/1")).status_code == 404


async def test_an_operator_halts_looks_and_lifts(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "customers.csv"
    file.write_bytes(FILE)
    async with a_served_admin(database_url) as url:
        sluice = Shell(capsys, "--url", url)
        for arguments in (
            NUMBER_ADD,
            CREATE,
            ["campaign", "import", "1", str(file)],
            ["campaign", "launch", "1"],
        ):
            assert await sluice(*arguments) == 0
        assert await sluice("halt", "list") == 0
        assert "nothing is halted" in sluice.err

        assert await sluice("halt", "campaign", "1", "--reason", "wrong picture") == 0
        assert sluice.out == "campaign 1 is halted: to go on, sluice halt lift campaign 1\n"
        assert await sluice("halt", "campaign", "1") == 0
        assert "already, by operator since" in sluice.out
        assert "wrong picture" in sluice.out
        assert await sluice("campaign", "status", "1") == 0
        assert sluice.out.startswith("campaign 1 'Spring sale': running, halted, 1 recipients")
        assert "campaign 1 is halted by operator: wrong picture" in sluice.out
        assert await sluice("campaign", "resume", "1") == 0
        for arguments in (["number", NUMBER_ID], ["waba", WABA_ID], ["all"]):
            assert await sluice("halt", *arguments) == 0
        assert await sluice("halt", "list", "--json") == 0
        assert [halt["scope"] for halt in json.loads(sluice.out)] == ["campaign", "number", "waba", "all"]

        assert await sluice("halt", "lift", "all") == 0
        assert sluice.out == "the halt of everything is lifted\n"
        assert await sluice("halt", "lift", "all") == 0
        assert sluice.out == "there is no halt of everything\n"
        for arguments in (["campaign", "1"], ["number", NUMBER_ID], ["waba", WABA_ID]):
            assert await sluice("halt", "lift", *arguments) == 0
        assert await sluice("campaign", "status", "1") == 0
        assert "halted" not in sluice.out

        assert await sluice("halt", "number", "7") == 1
        assert sluice.err == "sluice: number 7 is not connected\n"
        for wrong in (
            ["lift", "world", "1"],
            ["lift", "campaign"],
            ["lift", "all", "1"],
            ["lift", "number", "../1"],
        ):
            assert await sluice("halt", *wrong) == 2
