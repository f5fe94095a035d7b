"""The `sluice` command against an admin that listens, the real Postgres and the real Kafka."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from admin.cli import run
from runtime.config import Secret
from tests.integration.admin.serving import TOKEN, a_served_admin
from tests.integration.admin.shell import CREATE, NUMBER_ADD, NUMBER_ID, Shell


async def test_an_operators_day(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "customers.csv"
    file.write_bytes(b"mobile;name\n07700 900001;Ana\n+447700900002;Ben\n07700900002;Ben\nx;Cyd\n")
    async with a_served_admin(database_url) as url:
        sluice = Shell(capsys, "--url", url)
        assert await sluice(*NUMBER_ADD) == 0
        assert "76/s of 80/s" in sluice.out
        assert await sluice("number", "list", "--json") == 0
        assert json.loads(sluice.out)[0]["phone_number_id"] == NUMBER_ID

        assert await sluice(*CREATE, "--json") == 0
        campaign = str(json.loads(sluice.out)["campaign_id"])
        assert await sluice("campaign", "import", campaign, str(file), "--region", "gb") == 0
        assert sluice.out.splitlines() == [
            "added 2, rejected 1, duplicates 1 of 4 rows (utf-8, delimiter ';')",
            "line 4: this person is in the audience already; the first row counts",
            "line 5, column mobile: this is not one phone number",
        ]
        assert await sluice("campaign", "import", campaign, str(file), "--region", "GB", "--strict") == 1
        assert await sluice("campaign", "launch", campaign) == 0
        assert "2 recipients" in sluice.out
        assert await sluice("campaign", "pause", campaign, "--reason", "wrong picture") == 0
        assert await sluice("campaign", "status", campaign) == 0
        assert "paused by operator: wrong picture" in sluice.out
        assert "pending  2" in sluice.out
        assert await sluice("campaign", "pause", campaign) == 0
        assert "already" in sluice.out
        assert await sluice("campaign", "resume", campaign) == 0
        assert await sluice("campaign", "status", campaign, "--json") == 0
        status = json.loads(sluice.out)
        assert (status["state"], status["on_unknown"], status["unknown_wait_s"]) == ("running", "resend", 900)

        export = tmp_path / "out.csv"
        assert await sluice("recipients", "export", campaign, "-o", str(export)) == 0
        assert [line.split(",")[2] for line in export.read_text().splitlines()[1:]] == [
            "+447700900001",
            "+447700900002",
        ]
        assert list(tmp_path.glob("*.part")) == []
        assert await sluice("recipients", "export", "999", "-o", str(tmp_path / "none.csv")) == 1
        assert not (tmp_path / "none.csv").exists()

        assert await sluice("campaign", "cancel", campaign) == 0
        assert await sluice("campaign", "status", campaign, "--watch", "--interval", "0.2") == 0
        assert "cancelled" in sluice.out
        assert await sluice("campaign", "list") == 0
        assert sluice.out.splitlines()[1].split()[:2] == [campaign, "cancelled"]
        assert await sluice("campaign", "reasons", campaign) == 0


async def test_what_is_refused_is_one_sentence_and_exit_code_one(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "customers.csv"
    file.write_bytes(b"phone,city\n+447700900001,Lima\n")
    async with a_served_admin(database_url) as url:
        sluice = Shell(capsys, "--url", url)
        assert await sluice(*CREATE) == 1
        assert sluice.err == f"sluice: number {NUMBER_ID} is not connected: add it first\n"
        await sluice(*NUMBER_ADD)
        assert await sluice(*CREATE) == 0
        assert await sluice("campaign", "import", "1", str(file)) == 1
        assert "'name'" in sluice.err
        assert await sluice("campaign", "import", "1", str(tmp_path / "none.csv")) == 1
        assert "can't be read" in sluice.err
        assert await sluice("campaign", "launch", "1") == 1
        assert await sluice("campaign", "status", "7") == 1
        assert sluice.err == "sluice: there is no campaign 7\n"
        for wrong in (
            ["campaign", "launch", "x"],
            ["campaign", "fly"],
            [*CREATE, "--valid-for", "soon"],
            ["--nope"],
        ):
            assert await sluice(*wrong) == 2
            assert sluice.out == ""


async def test_the_token_comes_from_its_file_or_variable(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text(TOKEN + "\n")
    bad.write_text("qa-wrong")
    async with a_served_admin(database_url, tokens=(Secret(TOKEN),)) as url:
        sluice = Shell(capsys, "--url", url)
        for given in ([], ["--token-file", str(bad)], ["--token-file", str(tmp_path / "none")]):
            assert await sluice(*given, "campaign", "list") == 77
            assert sluice.err.startswith("sluice: the token")
            assert "qa-wrong" not in sluice.err
        assert await sluice("--token-file", str(good), "campaign", "list") == 0
        monkeypatch.setenv("SLUICE_ADMIN_TOKEN", TOKEN)
        monkeypatch.setenv("SLUICE_ADMIN_URL", url)
        assert await Shell(capsys)("number", "list") == 0


def test_a_server_that_is_not_there_is_exit_code_69(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", "http://127.0.0.1:9", "campaign", "list"]) == 69
    assert capsys.readouterr().err.startswith("sluice: there is no Sluice at http://127.0.0.1:9")
    assert run(["migrate", "--database-url", "postgresql://sluice:qa-password@127.0.0.1:9/x"]) == 69
    assert "qa-password" not in capsys.readouterr().err
    assert run(["topics", "apply", "--bootstrap", "127.0.0.1:9"]) == 69


async def test_a_large_file_that_is_refused_is_told_why(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "large.csv"
    file.write_bytes(b"phone,city\n" + b"+447700900001,Lima\n" * 500_000)
    async with a_served_admin(database_url) as url:
        sluice = Shell(capsys, "--url", url)
        await sluice(*NUMBER_ADD)
        await sluice(*CREATE)
        assert await sluice("campaign", "import", "1", str(file)) == 1
        assert "the template needs a column 'name'" in sluice.err


@pytest.mark.parametrize("name", ["SLUICE_DATABASE_URL", "SLUICE_DATABASE_URL_FILE"])
def test_migrate_finds_its_database_in_the_environment_or_in_a_file(
    name: str,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["migrate"]) == 2
    assert "SLUICE_DATABASE_URL_FILE" in capsys.readouterr().err
    file = tmp_path / "url"
    file.write_text(database_url + "\n")
    monkeypatch.setenv(name, str(file) if name.endswith("_FILE") else database_url)
    assert run(["migrate"]) == 0


def test_migrating_twice_is_migrating_once(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", "--database-url", database_url]) == 0
    capsys.readouterr()
    assert run(["migrate", "--database-url", database_url]) == 0
    assert "up to date" in capsys.readouterr().out


def test_topics_are_made_and_checked(
    kafka_bootstrap: str, topic_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--bootstrap", kafka_bootstrap, "--topic-prefix", topic_prefix, "--partitions", "2"]
    copies = ["--replication", "1", "--min-insync", "1"]
    assert run(["topics", "verify", *where, *copies]) == 1
    assert "inbound-messages: exists is no, expected yes" in capsys.readouterr().out
    for word in ("created", "exists"):
        assert run(["topics", "apply", *where, *copies]) == 0
        assert f"inbound-messages: {word}" in capsys.readouterr().out
    assert run(["topics", "verify", *where, *copies]) == 0
    where[-1] = "3"
    assert run(["topics", "verify", *where, *copies]) == 1
    assert "inbound-messages: partitions is 2, expected 3" in capsys.readouterr().out


def test_help_says_what_each_command_is_for() -> None:
    def shown(*arguments: str) -> str:
        command = [sys.executable, "-c", "from admin.cli import main; main()", *arguments, "--help"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    top = shown()
    for word in ("migrate", "topics", "number", "campaign", "recipients", "Start here", "SLUICE_ADMIN_TOKEN"):
        assert word in top
    assert "Example: sluice campaign import 12" in shown("campaign", "import")
