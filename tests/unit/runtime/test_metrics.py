"""What a process says of itself before anything has happened."""

import prometheus_client

from runtime import metrics


def test_build_start_drain_and_drops_are_exported() -> None:
    metrics.declare_start("runtime", 1_796_040_000.0)
    text = prometheus_client.generate_latest().decode()
    assert 'sluice_runtime_build_info{service="runtime",version="0.1.0"} 1.0' in text
    assert "sluice_runtime_start_time_seconds 1.79604e+09" in text
    assert "sluice_runtime_draining 0.0" in text
    assert "sluice_runtime_log_keys_dropped_total" in text


def test_a_service_that_is_not_installed_has_an_unknown_version() -> None:
    metrics.declare_start("nowhere-at-all", 1.0)
    assert 'service="nowhere-at-all",version="unknown"' in prometheus_client.generate_latest().decode()
