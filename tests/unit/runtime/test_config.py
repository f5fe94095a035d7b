"""What the environment may say, and how its mistakes are named."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import pytest
from msgspec import Meta, Struct

from runtime.config import ConfigError, Secret, dec_hook, explain, load

PASSWORD = "qa-password-1"


class Policy(StrEnum):
    RESEND = "resend"
    GIVE_UP = "give_up"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka_bootstrap: str
    access_token: Secret
    app_secrets: tuple[Secret, ...] = ()
    health_port: Annotated[int, Meta(ge=0, le=65_535)] = 9100
    log_hash_key: Secret | None = None
    inflight_max: Annotated[
        int, Meta(ge=1, le=10_000, description="Sends awaiting a reply, per process.")
    ] = 512
    drain_s: Annotated[float, Meta(gt=0, description="Time to finish.")] = 20.0
    stop_grace_s: float = 30.0
    policy: Policy = Policy.GIVE_UP
    languages: tuple[str, ...] = ("en",)
    strict: bool = False
    bot_url: str | None = None

    def __post_init__(self) -> None:
        if not self.drain_s < self.stop_grace_s:
            raise AssertionError("drain_s must be below stop_grace_s")


LEAST = {"SLUICE_KAFKA_BOOTSTRAP": "localhost:9092", "SLUICE_ACCESS_TOKEN": PASSWORD}


def loaded(**env: str) -> Config:
    return load(Config, prefix="SENDER", env={**LEAST, **env})


def refusal(env: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(Config, prefix="SENDER", env=env)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def test_fields_come_from_shared_and_own_names_and_the_rest_from_defaults() -> None:
    config = loaded(SENDER_INFLIGHT_MAX="7", HOME="/root", SENDERS="2", INGRESS_WHATEVER="x")
    assert (config.kafka_bootstrap, config.inflight_max, config.drain_s) == ("localhost:9092", 7, 20.0)
    assert config.access_token.reveal() == PASSWORD


def test_a_services_own_name_wins_over_the_shared_one() -> None:
    assert loaded(SLUICE_HEALTH_PORT="9101").health_port == 9101
    assert loaded(SLUICE_HEALTH_PORT="9101", SENDER_HEALTH_PORT="9102").health_port == 9102


def test_shared_names_of_other_services_and_of_the_command_line_are_left_alone() -> None:
    loaded(SLUICE_VERIFY_TOKEN="x", SLUICE_DATABASE_URL_FILE="/nowhere", SLUICE_ADMIN_URL="http://localhost")


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_booleans_are_true_false_1_and_0(text: str, value: bool) -> None:
    assert loaded(SENDER_STRICT=text).strict is value


@pytest.mark.parametrize(
    ("text", "value"), [("en,de", ("en", "de")), (" en , ,de,", ("en", "de")), ("", ()), (",", ())]
)
def test_lists_are_split_at_commas_without_blanks(text: str, value: tuple[str, ...]) -> None:
    assert loaded(SENDER_LANGUAGES=text).languages == value


def test_a_list_of_secrets_is_a_list_of_secrets() -> None:
    config = loaded(SLUICE_APP_SECRETS="qa-app-secret-1, qa-app-secret-2")
    assert config.app_secrets == (Secret("qa-app-secret-1"), Secret("qa-app-secret-2"))


def test_a_value_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(" from-file\n")
    env = {
        "SLUICE_KAFKA_BOOTSTRAP": "b:1",
        "SENDER_ACCESS_TOKEN_FILE": str(path),
        "SENDER_INFLIGHT_MAX_FILE": "x",
    }
    (tmp_path / "number").write_text("9\n")
    config = load(Config, prefix="SENDER", env={**env, "SENDER_INFLIGHT_MAX_FILE": str(tmp_path / "number")})
    assert (config.access_token.reveal(), config.inflight_max) == ("from-file", 9)


class Case(NamedTuple):
    name: str
    env: dict[str, str]
    says: tuple[str, ...]


CASES = [
    Case("misspelt", {**LEAST, "SENDER_INFLIHGT_MAX": "5"}, ("SENDER_INFLIHGT_MAX", "SENDER_INFLIGHT_MAX")),
    Case(
        "misspelt file",
        {**LEAST, "SENDER_ACESS_TOKEN_FILE": "x"},
        ("SENDER_ACESS_TOKEN_FILE", "closest is SENDER_ACCESS_TOKEN_FILE"),
    ),
    Case("misspelt shared", {**LEAST, "SLUICE_KAFKA_BOOTSTRP": "x"}, ("SLUICE_KAFKA_BOOTSTRAP",)),
    Case("own name as shared", {**LEAST, "SLUICE_INFLIGHT_MAX": "5"}, ("SLUICE_INFLIGHT_MAX is not",)),
    Case("field of another service", {**LEAST, "SENDER_VERIFY_TOKEN": "x"}, ("SENDER_VERIFY_TOKEN is not",)),
    Case(
        "missing",
        {"SLUICE_ACCESS_TOKEN": "x"},
        ("SLUICE_KAFKA_BOOTSTRAP or SENDER_KAFKA_BOOTSTRAP is missing",),
    ),
    Case(
        "blank secret", {**LEAST, "SLUICE_ACCESS_TOKEN": "  "}, ("SLUICE_ACCESS_TOKEN", "missing", "a secret")
    ),
    Case("too small", {**LEAST, "SENDER_INFLIGHT_MAX": "-773"}, ("SENDER_INFLIGHT_MAX", "from 1 to 10000")),
    Case("too large", {**LEAST, "SENDER_HEALTH_PORT": "77377"}, ("SENDER_HEALTH_PORT", "to 65535")),
    Case(
        "no number",
        {**LEAST, "SENDER_INFLIGHT_MAX": PASSWORD},
        ("SENDER_INFLIGHT_MAX must be a whole number",),
    ),
    Case("not finite", {**LEAST, "SENDER_DRAIN_S": "nan"}, ("SENDER_DRAIN_S must be a number above 0",)),
    Case(
        "not finite, unbounded",
        {**LEAST, "SENDER_STOP_GRACE_S": "inf"},
        ("SENDER_STOP_GRACE_S must be a number",),
    ),
    Case("no boolean", {**LEAST, "SENDER_STRICT": PASSWORD}, ("SENDER_STRICT must be true or false",)),
    Case(
        "no member", {**LEAST, "SENDER_POLICY": PASSWORD}, ("SENDER_POLICY must be one of resend, give_up",)
    ),
    Case("twice", {**LEAST, "SLUICE_ACCESS_TOKEN_FILE": "/x"}, ("SLUICE_ACCESS_TOKEN_FILE", "both set")),
    Case(
        "no such file",
        {"SLUICE_KAFKA_BOOTSTRAP": "x", "SLUICE_ACCESS_TOKEN_FILE": f"/nowhere/{PASSWORD}"},
        ("SLUICE_ACCESS_TOKEN_FILE", "FileNotFoundError"),
    ),
    Case("at odds", {**LEAST, "SENDER_DRAIN_S": "31"}, ("SENDER_*", "drain_s must be below stop_grace_s")),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_refusal_names_the_variable_and_never_the_value(case: Case) -> None:
    text = refusal(case.env)
    for part in case.says:
        assert part in text
    for value in (PASSWORD, "773"):
        assert value not in text
    assert "\n" not in text


def test_a_blank_secret_is_as_good_as_none() -> None:
    config = loaded(SLUICE_APP_SECRETS=" , ", SLUICE_LOG_HASH_KEY="", SENDER_ACCESS_TOKEN=" ")
    assert (config.app_secrets, config.log_hash_key) == ((), None)
    assert config.access_token.reveal() == PASSWORD


def test_an_empty_secret_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    env = {"SLUICE_KAFKA_BOOTSTRAP": "x", "SLUICE_ACCESS_TOKEN_FILE": str(tmp_path / "empty")}
    assert "SLUICE_ACCESS_TOKEN_FILE" in refusal(env)


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LEAST.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SENDER_INFLIGHT_MAX", "3")
    assert load(Config, prefix="SENDER").inflight_max == 3


def test_a_secret_prints_as_stars_wherever_it_is_printed() -> None:
    config = loaded(SLUICE_APP_SECRETS=PASSWORD)
    secret = config.access_token
    printed = f"{config} {config!r} {secret} {secret!r} {secret:>40} {[secret]} {secret!s}"
    assert PASSWORD not in printed
    assert "****" in printed
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


def test_secrets_are_equal_by_value() -> None:
    assert Secret("é") == Secret("é")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    with pytest.raises(TypeError):  # it may change
        hash(Secret("a"))


def test_msgspec_decodes_secrets_with_the_hook() -> None:
    assert msgspec.json.decode(b'["a"]', type=list[Secret], dec_hook=dec_hook) == [Secret("a")]
    with pytest.raises(NotImplementedError):
        dec_hook(Path, "x")


def test_the_explanation_has_a_line_for_each_field_and_shows_no_secret() -> None:
    class Sample(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        verify_token: Secret = Secret(PASSWORD)
        inflight_max: Annotated[int, Meta(ge=1, description="Sends awaiting a reply.")] = 512
        ratio: Annotated[float, Meta(description="A share.")] | None = None
        needed: str

    lines = explain(Sample, "SENDER").splitlines()
    assert lines[0].split() == ["VARIABLE", "TYPE", "DEFAULT", "DESCRIPTION"]
    by_name = {line.split()[0]: line for line in lines[1:5]}
    assert by_name.keys() == {"SLUICE_VERIFY_TOKEN", "SENDER_INFLIGHT_MAX", "SENDER_RATIO", "SENDER_NEEDED"}
    assert "whole number from 1  512" in by_name["SENDER_INFLIGHT_MAX"]
    assert by_name["SENDER_INFLIGHT_MAX"].endswith("Sends awaiting a reply.")
    assert by_name["SENDER_RATIO"].endswith("A share.")
    assert "(required)" in by_name["SENDER_NEEDED"]
    assert PASSWORD not in "".join(lines)
