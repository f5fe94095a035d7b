"""A secret's file changes: the good values are used from then on, the bad ones never."""

import asyncio
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct
from prometheus_client import REGISTRY

from runtime.config import Secret, Secrets, load
from runtime.logs import configure
from runtime.renewal import Renewal


class Access(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    certificate: Secret | None = None
    key: Secret | None = None

    def __post_init__(self) -> None:
        pair = [secret and secret.reveal()[-1] for secret in (self.certificate, self.key)]
        assert pair[0] == pair[1], "certificate and key belong together"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    access_token: Annotated[Secret, Meta(description="A token.")]
    app_secrets: Secrets = Secrets()
    kafka: Access = Access()

    def __post_init__(self) -> None:
        assert not self.access_token.reveal().startswith("http"), "a token is no URL"


NAMES = {
    "token": "SLUICE_ACCESS_TOKEN_FILE",
    "secrets": "SLUICE_APP_SECRETS_FILE",
    "certificate": "SLUICE_KAFKA_CERTIFICATE_FILE",
    "key": "SLUICE_KAFKA_KEY_FILE",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"token": "t1", "secrets": "s1", "certificate": "c1", "key": "k1"}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def opened(folder: Path) -> tuple[Config, Renewal]:
    env = {variable: str(folder / name) for name, variable in NAMES.items()}
    config = load(Config, prefix="SENDER", env=env)
    return config, Renewal(config)


def is_refused(name: str) -> float | None:
    return REGISTRY.get_sample_value("sluice_runtime_secret_refused", {"name": NAMES[name]})


def test_a_changed_file_is_used_from_then_on(folder):
    config, renewal = opened(folder)
    token = config.access_token
    assert [is_refused(name) for name in NAMES] == [0, 0, 0, 0]
    (folder / "token").write_text("t2\n")
    renewal.take(renewal.read())
    assert token.reveal() == "t2"


def test_a_list_grows_and_shrinks_as_its_file_does(folder):
    config, renewal = opened(folder)
    for text, each in [("s2, s1", ["s2", "s1"]), ("s2", ["s2"])]:
        (folder / "secrets").write_text(text)
        renewal.take(renewal.read())
        assert [secret.reveal() for secret in config.app_secrets] == each


def test_a_link_that_is_swapped_two_folders_above_is_followed(tmp_path):
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        for name in NAMES:
            (tmp_path / version / name).write_text(f"{name}-{version}")
    data = tmp_path / "..data"
    data.symlink_to("v1")
    for name in NAMES:
        (tmp_path / name).symlink_to(Path("..data") / name)
    config, renewal = opened(tmp_path)
    (tmp_path / "next").symlink_to("v2")
    (tmp_path / "next").replace(data)
    renewal.take(renewal.read())
    assert config.access_token.reveal() == "token-v2"
    assert config.kafka.key is not None
    assert config.kafka.key.reveal() == "key-v2"


def bad(path: Path, how: str) -> None:
    match how:
        case "gone":
            path.unlink()
        case "a folder":
            path.unlink()
            path.mkdir()
        case "no text":
            path.write_bytes(b"\xff\xfe")
        case _:
            path.write_text(how)


@pytest.mark.parametrize("how", ["", " \n", "gone", "a folder", "no text", "two\nlines", "http://token"])
def test_a_value_that_cannot_be_used_changes_nothing_raises_the_gauge_and_is_told_once(folder, how, capsys):
    configure("sender")
    config, renewal = opened(folder)
    bad(folder / "token", how)
    (folder / "secrets").write_text("s2")
    for _ in range(3):
        renewal.take(renewal.read())
    assert config.access_token.reveal() == "t1"
    assert [secret.reveal() for secret in config.app_secrets] == ["s2"], (
        "one bad file keeps no other from being used"
    )
    assert is_refused("token") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [("secret.refused" in line, "secret.renewed" in line) for line in lines].count((True, False)) == 1
    assert not any(text in line for line in lines for text in ("t1", "s2", "http://"))


def test_the_gauge_falls_when_the_file_is_mended_or_put_back(folder):
    config, renewal = opened(folder)
    for mended in ("t2", "t2"):
        (folder / "token").write_text("")
        renewal.take(renewal.read())
        assert is_refused("token") == 1
        (folder / "token").write_text(mended)
        renewal.take(renewal.read())
        assert (config.access_token.reveal(), is_refused("token")) == ("t2", 0)


def test_two_that_belong_together_are_taken_together_however_they_arrive(folder):
    config, renewal = opened(folder)
    assert config.kafka.certificate is not None
    (folder / "certificate").write_text("c2")
    renewal.take(renewal.read())
    assert config.kafka.certificate.reveal() == "c1"
    (folder / "key").write_text("k2")
    (folder / "token").write_text("")
    renewal.take(renewal.read())
    assert config.kafka.certificate.reveal() == "c2"
    assert is_refused("key") == 0


async def test_the_loop_looks_by_itself(folder):
    config = load(Config, prefix="SENDER", env={NAMES["token"]: str(folder / "token")})
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(Renewal(config, every_s=0.01).run())
        (folder / "token").write_text("t2")
        while config.access_token.reveal() != "t2":
            await asyncio.sleep(0.01)
        looking.cancel()


def test_no_gauge_and_no_look_for_what_came_from_the_environment_itself(folder):
    config = load(Config, prefix="SENDER", env={"SLUICE_ACCESS_TOKEN": "t1"})
    renewal = Renewal(config)
    asyncio.run(renewal.run())
    assert renewal.read() == {}
