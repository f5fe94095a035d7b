"""`make backpressure-lab` as a process: its table says what the chapter claims; its report needs nothing from outside."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backpressure.lab.facts import MIB, memory_max_bytes
from backpressure.lab.load import Load

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 2.0
LOAD = Load(seconds=SECONDS)
HEADINGS = (
    "offered", "kept", "rejected", "dropped", "handled", "rate", "waiting_max", "grown_mib", "p50", "p90", "p99", "max",
)  # fmt: skip


def run(*flags: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "deploy/local/lab/run.py"), *flags],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


@contextmanager
def shown(done: subprocess.CompletedProcess[str]) -> Iterator[None]:
    """Show what the command said when something about it is wrong."""
    try:
        yield
    except AssertionError:
        print(done.stdout, done.stderr)
        raise


def rows_of(output: str) -> dict[str, dict[str, float]]:
    names = "unbounded|stop-and-wait|credit window|reject|drop newest|drop oldest"
    found = re.findall(rf"^ ({names}) +([\d,.]+(?: +[\d,.]+){{{len(HEADINGS) - 1}}}) *$", output, re.M)
    return {
        name: dict(zip(HEADINGS, (float(cell.replace(",", "")) for cell in cells.split()), strict=True))
        for name, cells in found
    }


def test_the_table_shows_what_each_strategy_does_to_queue_memory_and_rate(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run("--seconds", str(SECONDS), "--without-kafka", "--report", str(report), limit_s=60)
    with shown(done):
        assert done.returncode == 0
        assert "✗" not in done.stdout
        rows = rows_of(done.stdout)
        assert len(rows) == 6
        for row in rows.values():
            assert row["offered"] == row["kept"] + row["rejected"] + row["dropped"]
        overload = (LOAD.producer_per_s - LOAD.consumer_per_s) * SECONDS
        assert rows["unbounded"]["waiting_max"] > 0.8 * overload
        assert rows["unbounded"]["grown_mib"] > 0.7 * overload * LOAD.payload_bytes / MIB
        for name in rows.keys() - {"unbounded"}:
            assert rows[name]["waiting_max"] <= max(LOAD.credit, LOAD.capacity) + 1
            assert rows[name]["grown_mib"] <= memory_max_bytes(LOAD) / MIB
        assert rows["credit window"]["rate"] >= 0.9 * LOAD.consumer_per_s
        share = rows["stop-and-wait"]["rate"] / LOAD.stop_and_wait_per_s
        assert 0.4 <= share <= 1.25, "a busy machine is late at each wake-up; test_lab.py is exact"
        assert_self_contained(report.read_text())


def assert_self_contained(page: str) -> None:
    assert "default-src 'none'" in page
    head = page[: page.index("<script>")]
    assert not re.search(r"<link|\bsrc=|@import|url\(", head)
    for chart in ("waiting", "memory", "throughput", "latency", "fate", "real"):
        assert f'id="{chart}"' in head
    assert not re.search(r"\$[a-z_]+", head), "a place in the page was left unfilled"


@pytest.mark.timeout(180)
def test_on_a_real_broker_there_is_lag_or_503_and_no_growth(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run("--seconds", "1", "--kafka-seconds", "10", "--report", str(report), limit_s=170)
    with shown(done):
        assert "without the real thing" not in done.stderr
        for what in ("Consumer paused", "Broker frozen", "Through all of it", "Nothing is lost"):
            assert re.search(rf"^✓ {what}", done.stdout, re.M)
        assert '"real": {' in report.read_text()


def test_everything_wrong_with_the_flags_is_named_at_once() -> None:
    done = run(
        "--producer-rate", "5", "--low-water", "200", "--kafka-seconds", "1", "--late-share", "9", limit_s=30
    )
    with shown(done):
        assert done.returncode == 2
        for flag in ("--producer-rate", "--low-water", "--kafka-seconds", "--late-share"):
            assert f"\n  {flag} must be" in done.stderr
        assert "Traceback" not in done.stderr
