"""The report's charts, as plotly figures: one colour and one dash a strategy, a unit on every axis, no background.

Invariant: a figure holds no colour of text or grid: the page sets those, light or dark, and anew when that changes.
"""

from collections.abc import Callable, Sequence
from itertools import groupby

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from backpressure.lab.facts import MIB
from backpressure.lab.load import Load
from backpressure.lab.meter import Sample, Summary, percentile
from deploy.local.lab.real import CATCHING_UP, FROZEN, PAUSED, RealSample

# Told apart by everyone, colour-blind or not, on white and on black (after Okabe and Ito); the dash says it again.
LINES = {
    "unbounded": ("#d55e00", "solid"),
    "stop-and-wait": ("#8e7cc3", "dashdot"),
    "credit window": ("#009e73", "solid"),
    "reject": ("#3b82c4", "solid"),
    "drop newest": ("#e69f00", "dash"),
    "drop oldest": ("#cc79a7", "dot"),
}
FATES = {"handled": "#009e73", "waiting": "#8a8f98", "rejected": "#3b82c4", "dropped": "#d55e00"}
RATE_OVER = 8
"""Samples that a rate is taken over: one alone would show the sampling."""
MARGIN = {"l": 70, "r": 20, "t": 46, "b": 48}
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
Series = dict[str, list[Sample]]
Value = Callable[[Sample, Sample], float]
"""Of a sample, given the first one."""


def waiting(samples: Series) -> go.Figure:
    return _over_time(samples, "messages waiting", lambda s, _: s.waiting, "%{y:,}")


def memory(samples: Series) -> go.Figure:
    return _over_time(
        samples,
        "memory above the start, MiB",
        lambda s, first: (s.memory_bytes - first.memory_bytes) / MIB,
        "%{y:.1f} MiB",
    )


def throughput(samples: Series, load: Load) -> go.Figure:
    figure = go.Figure()
    for name, ones in samples.items():
        pairs = list(zip(ones, ones[RATE_OVER:], strict=False))
        rates = [(b.handled - a.handled) / (b.at_s - a.at_s) for a, b in pairs]
        figure.add_trace(_line(name, [b.at_s for _, b in pairs], rates, "%{y:.0f} a second"))
    for rate, text, side in (
        (load.consumer_per_s, f"all that the consumer can: {load.consumer_per_s:,.0f} a second", -1),
        (load.stop_and_wait_per_s, f"one at a time: {load.stop_and_wait_per_s:.0f} a second", 1),
    ):
        figure.add_hline(rate, line={"dash": "dot", "width": 1.5, "color": "#8a8f98"})
        figure.add_annotation(
            text=text, x=0.99, xref="x domain", xanchor="right", y=rate, yshift=14 * side, showarrow=False
        )
    _arrange(figure, "handled a second")
    figure.update_yaxes(range=[0, 1.18 * load.consumer_per_s])
    return figure


def latency(samples: Series) -> go.Figure:
    """A small chart a strategy, all on one logarithmic scale."""
    figure = make_subplots(
        rows=2, cols=3, shared_xaxes=True, shared_yaxes="all", subplot_titles=list(samples),
        horizontal_spacing=0.03, vertical_spacing=0.13,
    )  # fmt: skip
    for at, (name, ones) in enumerate(samples.items()):
        spoken = [sample for sample in ones if sample.latencies_s]
        for share, width, opacity in ((0.99, 2.5, 1.0), (0.9, 1.6, 0.8), (0.5, 1.6, 0.5)):
            values = [percentile(sample.latencies_s, share) * 1000 for sample in spoken]
            trace = _line(
                name, [sample.at_s for sample in spoken], values, f"p{share * 100:.0f} %{{y:,.0f}} ms"
            )
            trace.update(line={"width": width, "dash": "solid"}, opacity=opacity, showlegend=False)
            figure.add_trace(trace, row=at // 3 + 1, col=at % 3 + 1)
    figure.update_yaxes(type="log", dtick=1, tickformat="~s")
    figure.update_yaxes(title_text="latency, ms", col=1)
    figure.update_xaxes(title_text="seconds", row=2)
    figure.update_layout(height=520, margin=MARGIN, hovermode="x unified")
    return figure


def fate(summaries: dict[str, Summary]) -> go.Figure:
    figure = go.Figure()
    names = list(summaries)[::-1]
    lasts = [summaries[name].last for name in names]
    for what, colour in FATES.items():
        counts = [getattr(last, what) for last in lasts]
        figure.add_trace(
            go.Bar(
                y=names, x=counts, name=what, orientation="h", marker={"color": colour, "line": {"width": 0}},
                hovertemplate="%{x:,} " + what + "<extra></extra>",
            )
        )  # fmt: skip
    figure.update_layout(
        barmode="stack", height=330, margin={**MARGIN, "l": 110}, legend={**LEGEND, "traceorder": "normal"},
        bargap=0.35,
    )  # fmt: skip
    figure.update_xaxes(title_text="messages offered", tickformat=",")
    return figure


def real(samples: Sequence[RealSample]) -> go.Figure:
    """Answers, lag and memory over the same seconds, with the two troubles shaded."""
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    pairs = list(zip(samples, samples[5:], strict=False))
    times = [b.at_s for _, b in pairs]
    for name, field, colour in (
        ("answered 200", "accepted", "#009e73"),
        ("answered 503", "refused", "#d55e00"),
    ):
        rates = [(getattr(b, field) - getattr(a, field)) / (b.at_s - a.at_s) for a, b in pairs]
        figure.add_trace(_plain(name, times, rates, colour, "solid", "%{y:.0f} a second"), row=1, col=1)
    at_s = [sample.at_s for sample in samples]
    for row, name, values, colour, dash, shown in (
        (2, "lag on the broker", [s.lag for s in samples], "#8e7cc3", "solid", "%{y:,}"),
        (2, "held by the consumer", [s.in_flight for s in samples], "#e69f00", "dash", "%{y:,}"),
        (3, "ingress", [s.ingress_bytes / MIB for s in samples], "#3b82c4", "solid", "%{y:.1f} MiB"),
        (3, "consumer", [s.consumer_bytes / MIB for s in samples], "#e69f00", "dash", "%{y:.1f} MiB"),
    ):
        figure.add_trace(_plain(name, at_s, values, colour, dash, shown), row=row, col=1)
    for phase, ones in groupby(samples, key=lambda sample: sample.phase):
        span = list(ones)
        is_trouble = phase in (PAUSED, FROZEN)
        figure.add_vrect(
            x0=span[0].at_s, x1=span[-1].at_s, line_width=0, opacity=0.14 if is_trouble else 0.0,
            fillcolor="#d55e00", row="all", col=1,
        )  # fmt: skip
        if is_trouble or phase == CATCHING_UP:
            figure.add_annotation(
                text=phase, x=(span[0].at_s + span[-1].at_s) / 2, y=1, yref="y domain", yanchor="bottom",
                showarrow=False, row=1, col=1,
            )  # fmt: skip
    for row, title in enumerate(("webhooks a second", "records", "memory, MiB"), start=1):
        figure.update_yaxes(title_text=title, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text="seconds", row=3)
    figure.update_layout(
        height=640, margin={**MARGIN, "t": 70}, hovermode="x unified", legend={**LEGEND, "y": 1.05}
    )
    return figure


def _over_time(samples: Series, title: str, value: Value, shown: str) -> go.Figure:
    figure = go.Figure()
    for name, ones in samples.items():
        figure.add_trace(_line(name, [s.at_s for s in ones], [value(s, ones[0]) for s in ones], shown))
    _arrange(figure, title)
    return figure


def _arrange(figure: go.Figure, title: str) -> None:
    figure.update_layout(height=380, margin=MARGIN, hovermode="x unified", legend=LEGEND)
    figure.update_xaxes(title_text="seconds")
    figure.update_yaxes(title_text=title, rangemode="tozero")


def _line(name: str, x: list[float], y: list[float], shown: str) -> go.Scatter:
    colour, dash = LINES[name]
    return _plain(name, x, y, colour, dash, shown)


def _plain(name: str, x: list[float], y: list[float], colour: str, dash: str, shown: str) -> go.Scatter:
    return go.Scatter(
        x=[round(value, 3) for value in x], y=[round(value, 3) for value in y], name=name, mode="lines",
        line={"color": colour, "width": 2.5, "dash": dash}, hovertemplate=shown,
    )  # fmt: skip
