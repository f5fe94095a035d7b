from prometheus_client import REGISTRY

from kafkaio import metrics


def test_every_series_of_a_consumer_exists_at_0_from_the_start():
    metrics.precreate("fresh", ("sample",))
    labels = {"group": "fresh", "disposition": "dead_letter", "reason": "bug"}
    assert REGISTRY.get_sample_value("sluice_consumer_records_total", labels) == 0
    assert (
        REGISTRY.get_sample_value(
            "sluice_consumer_records_total", {**labels, "disposition": "done", "reason": ""}
        )
        == 0
    )
    assert (
        REGISTRY.get_sample_value("sluice_consumer_lag_seconds", {"group": "fresh", "topic": "sample"}) == 0
    )
