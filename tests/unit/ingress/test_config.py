"""Ingress refuses to start without what makes it safe."""

import pytest

from ingress.config import Config
from runtime.config import ConfigError, load

ENV = {
    "SLUICE_KAFKA_BOOTSTRAP": "127.0.0.1:9092",
    "SLUICE_VERIFY_TOKEN": "qa-verify",
    "SLUICE_APP_SECRETS": "qa-first,qa-second",
}


def test_secrets_are_a_list_and_print_as_nothing() -> None:
    config = load(Config, prefix="INGRESS", env=ENV)
    assert [secret.reveal() for secret in config.app_secrets] == ["qa-first", "qa-second"]
    assert "qa-first" not in repr(config)
    assert "qa-verify" not in repr(config)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"SLUICE_APP_SECRETS": None}, "APP_SECRETS"),
        ({"SLUICE_APP_SECRETS": ""}, "APP_SECRETS"),
        ({"SLUICE_APP_SECRETS": "  , "}, "APP_SECRETS"),
        ({"SLUICE_VERIFY_TOKEN": " "}, "VERIFY_TOKEN"),
        ({"INGRESS_DEADLINE_S": "15"}, "drain_s"),
        ({"INGRESS_INFLIGHT_BYTES_MAX": "1000"}, "inflight_bytes_max"),
    ],
)
def test_it_does_not_start_and_says_why(change: dict[str, str | None], told: str) -> None:
    env = {name: value for name, value in {**ENV, **change}.items() if value is not None}
    with pytest.raises(ConfigError, match=told):
        load(Config, prefix="INGRESS", env=env)
