"""What one sees while the laboratory runs: a live table on a terminal, a plain line now and then elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from backpressure.lab.facts import MIB, Fact
from backpressure.lab.load import Load
from backpressure.lab.meter import Sample, Summary, percentile
from backpressure.lab.strategies import STRATEGIES
from deploy.local.lab.real import RealSample

PLAIN_EVERY_S = 2.0
PLAIN_WIDTH = 140
BARS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 10


class View:
    """Shows samples as they come. Open it with `opened`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._said_s = 0.0

    @classmethod
    def for_terminal(cls) -> Self:
        console = Console(highlight=False)
        return cls(console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH))

    @contextmanager
    def opened(self, title: str) -> Iterator[None]:
        """Show one part of the run; what was shown last stays."""
        self.console.print(f"\n[bold]{title}[/bold]")
        self._said_s = 0.0
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=8) as self._live:
            yield

    def say(self, line: str) -> None:
        self.console.print(f"  {line}", style="dim", markup=False)

    def strategies(self, load: Load, samples: dict[str, list[Sample]]) -> None:
        """Show how all strategies stand."""
        newest = max(ones[-1].at_s for ones in samples.values() if ones)
        if self._live is not None:
            bar = ProgressBar(total=load.seconds, completed=newest, width=60)
            self._live.update(Group(_standing(samples), bar))
        elif self._is_time(newest):
            queues = (f"{name} {ones[-1].waiting:,}" for name, ones in samples.items() if ones)
            self.console.print(f"  {newest:4.0f} s  waiting: {' · '.join(queues)}")

    def real(self, sample: RealSample) -> None:
        """Show how ingress and the consumer stand."""
        line = (
            f"{sample.at_s:5.1f} s  {sample.phase:16} 200: {sample.accepted:6,}  503: {sample.refused:6,}"
            f"  lag {sample.lag:6,}  in the consumer {sample.in_flight:4}"
            f"  memory {sample.ingress_bytes / MIB:4.0f} + {sample.consumer_bytes / MIB:.0f} MiB"
        )
        if self._live is not None:
            self._live.update(Text(line))
        elif self._is_time(sample.at_s):
            self.console.print(f"  {line}", markup=False)

    def _is_time(self, at_s: float) -> bool:
        is_time = at_s - self._said_s >= PLAIN_EVERY_S
        if is_time:
            self._said_s = at_s
        return is_time

    def table(self, summaries: dict[str, Summary]) -> None:
        """Print what the strategies came to."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        table.add_column("strategy", no_wrap=True)
        is_wide = self.console.width >= PLAIN_WIDTH
        shown = [n for n, heading in enumerate(HEADINGS) if is_wide or heading in NARROW]
        for n in shown:
            table.add_column(HEADINGS[n], justify="right", no_wrap=True)
        for name, summary in summaries.items():
            row = cells(summary)
            table.add_row(name, *(row[n] for n in shown))
        self.console.print(table)

    def facts(self, facts: list[Fact]) -> None:
        for fact in facts:
            mark, style = ("✓", "green") if fact.holds else ("✗", "bold red")
            self.console.print(Text(f"{mark} ", style=style) + Text(fact.text), soft_wrap=True)


HEADINGS = (
    "offered", "kept", "rejected", "dropped", "handled", "a second", "waiting ≤", "MiB more",
    "p50 ms", "p90 ms", "p99 ms", "max ms",
)  # fmt: skip
NARROW = frozenset({"rejected", "dropped", "a second", "waiting ≤", "MiB more", "p99 ms"})
"""What fits on a terminal of 80 columns."""


def cells(summary: Summary) -> list[str]:
    """One strategy's figures, as the table and the report show them."""
    last = summary.last
    counts = (last.offered, last.kept, last.rejected, last.dropped, last.handled)
    times_s = (summary.p50_s, summary.p90_s, summary.p99_s, summary.max_s)
    return [
        *(f"{count:,}" for count in counts),
        f"{summary.handled_per_s:.1f}",
        f"{summary.waiting_max:,}",
        f"{summary.memory_growth_bytes / MIB:.1f}",
        *(f"{time_s * 1000:,.0f}" for time_s in times_s),
    ]


def _standing(samples: dict[str, list[Sample]]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("strategy", min_width=13, no_wrap=True)
    table.add_column("waiting", width=SPARK_WIDTH)
    for heading in ("now", "MiB more", "a second", "p99 ms", "not kept"):
        table.add_column(heading, justify="right", min_width=9, no_wrap=True)
    tallest = max(sample.waiting for ones in samples.values() for sample in ones)
    for strategy in STRATEGIES:
        ones = samples[strategy.name]
        if ones:
            table.add_row(strategy.name, _spark(ones, tallest), *_figures(ones))
    return table


def _spark(samples: list[Sample], tallest: int) -> str:
    kept = samples[-SPARK_WIDTH:]
    return "".join(BARS[sample.waiting * (len(BARS) - 1) // max(1, tallest)] for sample in kept)


def _figures(samples: list[Sample]) -> list[str]:
    last, before = samples[-1], samples[max(0, len(samples) - 9)]
    seconds = max(1e-9, last.at_s - before.at_s)
    p99_s = percentile(last.latencies_s, 0.99)
    return [
        f"{last.waiting:,}",
        f"{(last.memory_bytes - samples[0].memory_bytes) / MIB:.1f}",
        f"{(last.handled - before.handled) / seconds:.0f}",
        f"{p99_s * 1000:,.0f}" if p99_s == p99_s else "–",
        f"{last.rejected + last.dropped:,}",
    ]
