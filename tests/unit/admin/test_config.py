"""Admin does not start in a way that lets strangers command it."""

import pytest

from admin.config import Config, is_loopback
from runtime.config import ConfigError, load

ENV = {
    "SLUICE_DATABASE_URL": "postgresql://sluice:qa-password@127.0.0.1/sluice",
    "SLUICE_KAFKA_BOOTSTRAP": "127.0.0.1:9092",
}


def test_secrets_print_as_nothing() -> None:
    config = load(
        Config, prefix="ADMIN", env={**ENV, "ADMIN_TOKENS": "qa-token-1,qa-token-2", "ADMIN_HOST": "0.0.0.0"}
    )
    assert [token.reveal() for token in config.tokens] == ["qa-token-1", "qa-token-2"]
    assert "qa-" not in repr(config)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "admin.example"])
def test_without_a_token_it_refuses_to_listen_to_others_and_says_why(host: str) -> None:
    with pytest.raises(ConfigError, match="ADMIN_TOKENS"):
        load(Config, prefix="ADMIN", env={**ENV, "ADMIN_HOST": host})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_without_a_token_it_may_listen_to_this_machine(host: str) -> None:
    assert load(Config, prefix="ADMIN", env={**ENV, "ADMIN_HOST": host}).host == host


@pytest.mark.parametrize("host", ["localhost.example", "127.0.0.1.example", "", "2130706433"])
def test_names_that_only_look_local_are_not(host: str) -> None:
    assert not is_loopback(host)
