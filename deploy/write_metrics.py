"""What a process measures, as tables: each service's own in its README, what all share in docs/metrics.md."""

import importlib
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics -->", "<!-- /metrics -->"
SHARED = {
    "runtime": "Every process",
    "kafkaio": "Whoever consumes or produces",
    "ledger": "Whoever asks Postgres",
}
_HEAD = """\
# Metrics

Written by `make contracts` from the `metrics.py` of each package. Every help text says what to do when the value is bad.
Labels come from closed lists, topics, groups and phone number ids; never a contact, a campaign or free text. Those of one
service stand in its README; below are the ones that several share, under the same names everywhere.
"""


def metric_table(package: str) -> str:
    """A line a metric of the package, in the order of its declarations."""
    rows = map(_row, declared_metrics(package))
    return "\n".join(["| metric | what it says, and what to do |", "| --- | --- |", *rows])


def generated_metrics() -> dict[Path, str]:
    """Every file that holds such a table, with its text."""
    shared = [f"## {words}\n\n{metric_table(package)}\n" for package, words in SHARED.items()]
    texts = {PAGE: "\n".join([_HEAD, *shared])}
    for readme in sorted(ROOT.glob("services/*/README.md")):
        texts[readme] = _with_table(readme.read_text(), metric_table(readme.parent.name))
    return texts


def declared_metrics(package: str) -> Iterable[MetricWrapperBase]:
    """The metrics of one package, in the order of its declarations."""
    module = importlib.import_module(f"{package}.metrics")
    return [value for value in vars(module).values() if isinstance(value, MetricWrapperBase)]


def _row(metric: MetricWrapperBase) -> str:
    name = metric._name + ("_total" if metric._type == "counter" else "")
    labels = "{" + ",".join(metric._labelnames) + "}" if metric._labelnames else ""
    return f"| `{name}{labels}` | {metric._documentation} |"


def _with_table(text: str, table: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, "the README has no place for its metrics"
    assert end, "the README has no place for its metrics"
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
