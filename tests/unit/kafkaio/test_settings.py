import pytest

from kafkaio.settings import KafkaSettings


def test_prefixes_go_before_topics_and_groups_and_come_off_again():
    settings = KafkaSettings(bootstrap="", client_id="", topic_prefix="t1.")
    assert (settings.topic("a"), settings.group("g")) == ("t1.a", "t1.g")
    assert settings.name_of("t1.a") == "a"


@pytest.mark.parametrize("rebalance_s", [10.0, 45.0, 300.0])
def test_what_a_rebalance_waits_for_fits_into_it_and_a_request_outlasts_it(rebalance_s):
    settings = KafkaSettings(bootstrap="", client_id="", rebalance_s=rebalance_s)
    assert settings.drain_s + 2 * settings.commit_s < rebalance_s
    assert settings.request_s >= rebalance_s + 5


def test_a_session_that_one_lost_heartbeat_could_end_is_refused():
    with pytest.raises(AssertionError):
        KafkaSettings(bootstrap="", client_id="", session_s=6.0, heartbeat_s=3.0)
