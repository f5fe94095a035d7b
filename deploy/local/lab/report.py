"""The report: one HTML file with everything in it, charts and the words to read them by; it fetches nothing."""

import json
import platform
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from backpressure.lab.facts import MIB, Fact, memory_max_bytes
from backpressure.lab.load import Load
from backpressure.lab.meter import Sample, Summary
from backpressure.lab.strategies import STRATEGIES
from deploy.local.lab import charts
from deploy.local.lab.real import WINDOW_REQUESTS_MAX, RealSample
from deploy.local.lab.view import HEADINGS, cells

PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def page(
    load: Load,
    samples: dict[str, list[Sample]],
    summaries: dict[str, Summary],
    facts: Sequence[Fact],
    real: Sequence[RealSample],
    real_facts: Sequence[Fact],
    *,
    command: str,
) -> str:
    """Return the whole page; without samples of the real thing it has no such part."""
    figures = {
        "waiting": charts.waiting(samples),
        "memory": charts.memory(samples),
        "throughput": charts.throughput(samples, load),
        "latency": charts.latency(samples),
        "fate": charts.fate(summaries),
    }
    if real:
        figures["real"] = charts.real(real)
    return PAGE.substitute(
        _figures_of(load, summaries),
        cards=_cards(),
        table=_table(summaries),
        facts=_facts(facts),
        real_facts=_facts(real_facts),
        real_hidden="" if real else "hidden",
        command=escape(command),
        machine=escape(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"),
        figures=_as_json(figures),
        plotly=get_plotlyjs(),
    )


def _figures_of(load: Load, summaries: dict[str, Summary]) -> dict[str, str]:
    """The numbers that stand in the text."""
    unbounded, one, window = (summaries[name] for name in ("unbounded", "stop-and-wait", "credit window"))
    newest, oldest = summaries["drop newest"], summaries["drop oldest"]
    return {
        "producer_rate": f"{load.producer_per_s:,.0f}",
        "consumer_rate": f"{load.consumer_per_s:,.0f}",
        "overload": f"{load.producer_per_s - load.consumer_per_s:,.0f}",
        "payload": f"{load.payload_bytes:,}",
        "seconds": f"{load.seconds:.0f}",
        "round_trip": f"{load.round_trip_s * 1000:.0f}",
        "service": f"{load.service_s * 1000:.1f}",
        "capacity": f"{load.capacity:,}",
        "credit": f"{load.credit:,}",
        "low_water": f"{load.low_water:,}",
        "allowed_memory": f"{memory_max_bytes(load) / MIB:.1f}",
        "allowed_rate": f"{load.stop_and_wait_per_s:.0f}",
        "unbounded_waiting": f"{unbounded.last.waiting:,}",
        "unbounded_memory": f"{unbounded.memory_growth_bytes / MIB:.0f}",
        "unbounded_p99": f"{unbounded.p99_s:.1f}",
        "one_rate": f"{one.handled_per_s:.0f}",
        "one_p50": f"{one.p50_s * 1000:.0f}",
        "late_answers": f"{one.last.late_answers}",
        "window_rate": f"{window.handled_per_s:.0f}",
        "window_p99": f"{window.p99_s * 1000:.0f}",
        "newest_p50": f"{newest.p50_s * 1000:.0f}",
        "oldest_p50": f"{oldest.p50_s * 1000:.0f}",
        "window_requests": f"{WINDOW_REQUESTS_MAX}",
    }


def _cards() -> str:
    return "".join(
        f'<li style="--c:{charts.LINES[one.name][0]}"><b>{one.name}</b> {escape(one.meaning)}</li>'
        for one in STRATEGIES
    )


def _table(summaries: dict[str, Summary]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
    rows = "".join(
        f'<tr><th style="--c:{charts.LINES[name][0]}">{name}</th>'
        + "".join(f"<td>{cell}</td>" for cell in cells(summary))
        + "</tr>"
        for name, summary in summaries.items()
    )
    return f"<thead><tr><th>strategy</th>{head}</tr></thead><tbody>{rows}</tbody>"


def _facts(facts: Sequence[Fact]) -> str:
    return "".join(
        f'<li class="{"holds" if fact.holds else "broken"}">{escape(fact.text)}</li>' for fact in facts
    )


def _as_json(figures: dict[str, go.Figure]) -> str:
    """Figures for the page's script; a `</` inside would end the script."""
    for figure in figures.values():
        figure.update_layout(template="none")
    return json.dumps(
        {name: figure.to_plotly_json() for name, figure in figures.items()}, default=list
    ).replace("</", "<\\/")
