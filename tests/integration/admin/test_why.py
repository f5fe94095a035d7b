"""Why has this person not got it: asked by number, by row, and of people who aren't there."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
import pytest

from contracts.campaign import Reason
from contracts.outcome import Scope
from ledger import contacts, halts, leases, numbers, recipients
from ledger.halts import EVERYTHING, HaltScope
from ledger.pool import Ledger
from ledger.recipients import Settlement
from runtime import logs
from tests.integration.admin.serving import NUMBER, a_draft, a_served_admin, an_admin, sent_in
from tests.integration.admin.shell import Shell

NUMBER_ID = NUMBER["phone_number_id"]
PORTFOLIO = NUMBER["portfolio_id"]
PEOPLE = 8
FILE = b"phone,name\n" + b"".join(b"+44770090000%d,Ana\n" % n for n in range(1, PEOPLE + 1))

Claim = Callable[[int], Awaitable[None]]


@asynccontextmanager
async def a_launched(database_url: str) -> AsyncIterator[tuple[httpx.AsyncClient, str, Ledger, Claim]]:
    """Yield (client, path of a launched campaign, ledger, a function that claims so many rows)."""
    async with an_admin(database_url) as (_app, client), Ledger.open(database_url, shard=1) as ledger:
        path = await a_draft(client)
        await sent_in(client, path, FILE)
        (await client.post(f"{path}/launch")).raise_for_status()
        taken = await leases.take(ledger, phone_number_id=NUMBER_ID, owner=uuid4(), lease_s=60, grace_s=2)
        assert taken is not None
        campaign_id = int(path.rpartition("/")[2])

        async def claim(limit: int) -> None:
            answer = await recipients.claim(
                ledger, phone_number_id=NUMBER_ID, epoch=taken.epoch, campaign_id=campaign_id, limit=limit,
                name=uuid4(), ends_in_s=60,
            )  # fmt: skip
            assert len(answer.rows) == limit

        yield client, path, ledger, claim


async def settle(ledger: Ledger, path: str, seq: int, kind: str, attempt: int = 1, **how: object) -> None:
    done = Settlement(campaign_id=int(path.rpartition("/")[2]), seq=seq, attempt=attempt, kind=kind, **how)
    assert await recipients.settle(ledger, [done], finished_claims=[]) == 1


def kinds(why: dict) -> list[str]:
    return [wait["what"] for wait in why["waits"]]


async def test_each_row_tells_its_state_its_reason_and_what_comes_next(database_url: str) -> None:
    async with a_launched(database_url) as (client, path, ledger, claim):

        async def why(seq: int) -> dict:
            reply = await client.get(f"{path}/why", params={"phone": f"+44770090000{seq}"})
            assert reply.status_code == 200, reply.text
            assert reply.json() == (await client.get(f"{path}/why", params={"seq": seq})).json()
            assert "770090000" not in reply.text
            return reply.json()

        await claim(5)
        await settle(ledger, path, 1, "accepted", wamid="wamid.1")
        await settle(ledger, path, 2, "refused", code=131026)
        await settle(ledger, path, 3, "unknown", reason=Reason.NO_ANSWER)
        await settle(
            ledger, path, 4, "returned", reason=Reason.RETRYING, code=131000, due_in_s=60.0, gives_back=False
        )

        accepted = await why(1)
        assert (accepted["state"], accepted["line"], accepted["tries"], kinds(accepted)) == (
            "accepted", 2, 1, ["status"],
        )  # fmt: skip
        refused = await why(2)
        assert (refused["state"], refused["code"], refused["code_words"]) == (
            "failed",
            131026,
            "undeliverable",
        )
        assert (refused["reason_words"], refused["waits"]) == ("Meta refused this message", [])
        unknown = await why(3)
        assert (unknown["state"], unknown["reason"], kinds(unknown)) == ("unknown", "no_answer", ["status"])
        assert unknown["waits"][0]["until"] > unknown["started_at"]
        retrying = await why(4)
        assert (retrying["state"], retrying["tries"], kinds(retrying)) == ("pending", 1, ["due"])
        assert kinds(await why(5)) == ["answer"]
        fresh = await why(8)
        assert (fresh["attempt"], kinds(fresh)) == (0, ["turn"])
        assert "2 rows" in fresh["waits"][0]["words"]

        await ledger.run("due", "UPDATE due SET due_at = clock_timestamp()")
        await claim(1)
        again = await why(4)
        assert (again["attempt"], again["tries"], kinds(again)) == (2, 2, ["answer"])


async def test_attempts_that_failed_and_were_followed_by_another_are_told(database_url: str) -> None:
    async with a_launched(database_url) as (client, path, ledger, claim):
        await claim(1)
        await settle(ledger, path, 1, "unknown", reason=Reason.NO_ANSWER)
        await ledger.run(
            "resend",
            "INSERT INTO due SELECT $1, 1, $2, clock_timestamp()",
            int(path.rpartition("/")[2]),
            NUMBER_ID,
        )
        await claim(1)
        why = (await client.get(f"{path}/why", params={"seq": 1})).json()
        assert why["attempt"] == 2
        (earlier,) = why["earlier_attempts"]
        assert (earlier["attempt"], earlier["state"], earlier["reason"]) == (1, "unknown", "no_answer")
        assert earlier["started_at"] < why["started_at"]


async def test_all_that_holds_a_row_back_is_told_at_once(database_url: str) -> None:
    async with a_launched(database_url) as (client, path, ledger, _claim):
        await client.post(f"{path}/pause", json={"reason": "wrong picture"})
        await halts.place(ledger, scope=HaltScope.ALL, key=EVERYTHING, actor="ann", reason="prices are wrong")
        await numbers.throttle(
            ledger,
            phone_number_id=NUMBER_ID,
            scope=Scope.WABA,
            template="",
            language="",
            for_s=60.0,
            code=80007,
        )
        await ledger.run("dead", "UPDATE number_leases SET expires_at = clock_timestamp()")
        posted = await client.post(
            f"/v1/portfolios/{PORTFOLIO}/opt-outs.csv",
            content=b"phone\n+447700900001\n", headers={"content-type": "text/csv"},
        )  # fmt: skip
        assert posted.json()["opted_out"] == 1
        why = (await client.get(f"{path}/why", params={"phone": "+447700900001"})).json()
        assert kinds(why) == ["campaign", "halt", "throttle", "sender", "suppression"]
        words = [wait["words"] for wait in why["waits"]]
        assert words[0] == "the campaign is paused by operator: wrong picture"
        assert words[1] == "everything is halted by ann, until that is lifted: prices are wrong"
        assert words[2] == "the waba is held back: 80007, account call limit"
        assert why["waits"][2]["until"] is not None


async def test_a_person_who_was_merged_with_another_is_found_by_both_numbers(database_url: str) -> None:
    async with a_launched(database_url) as (client, path, ledger, _claim):
        person = [("phone", "447700900002"), ("phone", "447700900005"), ("phone", "15550100000")]
        await contacts.resolve(ledger, portfolio_id=PORTFOLIO, identities=person)
        for phone, seq in (("+447700900005", 5), ("+447700900002", 2), ("+15550100000", 2)):
            assert (await client.get(f"{path}/why", params={"phone": phone})).json()["seq"] == seq


@pytest.mark.parametrize(
    ("asked", "status", "code", "told"),
    [
        ({"phone": "+447700900999"}, 404, "no_recipient", "not in its audience"),
        ({"seq": "9"}, 404, "no_recipient", "no row 9: its rows are 1 to 8"),
        ({"seq": "0"}, 404, "no_recipient", "no row 0"),
        ({"seq": "x"}, 400, "bad_seq", "number"),
        ({}, 400, "who", "one of the two"),
        ({"phone": "+447700900001", "seq": "1"}, 400, "who", "one of the two"),
        ({"phone": "Ana"}, 422, "bad_phone", "not one phone number"),
        ({"phone": "07700900001"}, 422, "national_phone", "region"),
        ({"phone": "07700900001", "region": "XX"}, 422, "unknown_region", "GB"),
    ],
)
async def test_who_is_not_found_is_told_precisely(
    database_url: str, asked: dict[str, str], status: int, code: str, told: str
) -> None:
    async with a_launched(database_url) as (client, path, _ledger, _claim):
        reply = await client.get(f"{path}/why", params=asked)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert told in reply.json()["error"]["message"]
        assert "770090" not in reply.text
        assert (await client.get("/v1/campaigns/99/why", params={"seq": "1"})).status_code == 404
        national = {"phone": "07700 900003", "region": "GB"}
        assert (await client.get(f"{path}/why", params=national)).json()["seq"] == 3


async def test_a_draft_has_no_rows_yet(database_url: str) -> None:
    async with an_admin(database_url) as (_app, client):
        path = await a_draft(client)
        await sent_in(client, path, FILE)
        for asked in ({"phone": "+447700900001"}, {"seq": "1"}):
            error = (await client.get(f"{path}/why", params=asked)).json()["error"]
            assert error["code"] == "not_launched"
            assert "isn't launched" in error["message"]


async def test_the_person_asked_for_is_in_no_log(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_launched(database_url) as (client, path, _ledger, _claim):
        logs.configure(service="admin")
        capsys.readouterr()
        for phone in ("+447700900001", "+447700900999", "07700900001"):
            await client.get(f"{path}/why", params={"phone": phone})
        written = "".join(capsys.readouterr())
        assert written.count("request.answered") == 3
        assert "7700900" not in written


async def test_the_command_tells_the_story_in_lines(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        a_launched(database_url) as (_client, path, ledger, claim),
        a_served_admin(database_url) as url,
    ):
        campaign = path.rpartition("/")[2]
        await claim(2)
        await settle(ledger, path, 1, "refused", code=131026)
        await settle(ledger, path, 2, "unknown", reason=Reason.NO_ANSWER)
        sluice = Shell(capsys, "--url", url)
        assert await sluice("why", campaign, "+447700900001") == 0
        lines = sluice.out.splitlines()
        assert lines[:4] == [
            "failed: failed, and not sent again",
            "reason: Meta refused this message (refused)",
            "Meta's code 131026: undeliverable",
            f"row 1 of campaign {campaign} (running), line 2 of its file, number {NUMBER_ID}, tries 1 of 5",
        ]
        assert lines[4].startswith("attempt 1, started ")
        assert lines[5] == "nothing more is sent to this person by this campaign"
        assert await sluice("why", campaign, "07700 900002", "--region", "gb") == 0
        assert "waits for status: a status that tells what became of the attempt" in sluice.out
        assert "(until 20" in sluice.out
        assert await sluice("why", campaign, "--seq", "3", "--json") == 0
        assert json.loads(sluice.out)["waits"][0]["what"] == "turn"
        assert await sluice("why", campaign, "+447700900999") == 1
        assert sluice.err.startswith("sluice: this person is not in its audience")
        assert await sluice("why", campaign) == 2
        assert await sluice("why", campaign, "+447700900001", "--seq", "1") == 2
