"""What is measured while a strategy runs, and what is made of it afterwards.

Invariant: `offered = kept + rejected + dropped` in every sample, each counted where it happens. A meter remembers one
interval and no more, so that the measuring doesn't grow in the place of what is measured.
"""

import math
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts since the start, and the latencies of what was handled since the sample before."""

    at_s: float
    memory_bytes: int
    offered: int
    kept: int
    rejected: int
    dropped: int
    handled: int
    repeated: int
    """Messages that were sent again, because no answer had come in time."""
    late_answers: int
    """Answers to a reference that nobody waited for any more."""
    latencies_s: tuple[float, ...]
    """From the moment a message was made to the end of its handling, sorted."""

    @property
    def waiting(self) -> int:
        """Messages kept and not handled yet: in a queue, in hand, or on their way."""
        return self.kept - self.handled


class Meter:
    """Counts what happens to the messages of one strategy; `memory_bytes` says what the process holds."""

    def __init__(self, memory_bytes: Callable[[], int]) -> None:
        self._memory_bytes = memory_bytes
        self._offered = 0
        self._handled = 0
        self._latencies_s: list[float] = []
        self.kept = 0
        self.rejected = 0
        self.dropped = 0
        self.repeated = 0
        self.late_answers = 0

    def made(self) -> int:
        """Count a message that the producer made, and return its number."""
        self._offered += 1
        return self._offered

    def handled(self, latency_s: float) -> None:
        """Count a message that the consumer is done with."""
        self._handled += 1
        self._latencies_s.append(latency_s)

    def sample(self, at_s: float) -> Sample:
        latencies_s, self._latencies_s = tuple(sorted(self._latencies_s)), []
        return Sample(
            at_s,
            self._memory_bytes(),
            self._offered,
            self.kept,
            self.rejected,
            self.dropped,
            self._handled,
            self.repeated,
            self.late_answers,
            latencies_s,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """One strategy's row in the table."""

    seconds: float
    waiting_max: int
    memory_growth_bytes: int
    """The most that the process ever held above what it held at the start."""
    handled_per_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float
    last: Sample


def summarise(samples: Sequence[Sample]) -> Summary:
    """Return what a run comes to; the first sample is the one before the first message."""
    first, last = samples[0], samples[-1]
    latencies_s = sorted(latency for sample in samples for latency in sample.latencies_s)
    seconds = last.at_s - first.at_s
    return Summary(
        seconds=seconds,
        waiting_max=max(sample.waiting for sample in samples),
        memory_growth_bytes=max(sample.memory_bytes for sample in samples) - first.memory_bytes,
        handled_per_s=last.handled / seconds,
        p50_s=percentile(latencies_s, 0.50),
        p90_s=percentile(latencies_s, 0.90),
        p99_s=percentile(latencies_s, 0.99),
        max_s=percentile(latencies_s, 1.0),
        last=last,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of the ordered values don't exceed; NaN when there is none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else float("nan")


def resident_bytes() -> int:
    """The resident memory of this process: what the machine has really given it, and an out-of-memory killer looks at."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    ps = ["/bin/ps", "-o", "rss=", "-p", str(os.getpid())]  # macOS and other BSDs have no /proc
    return int(subprocess.run(ps, capture_output=True, text=True, check=True, timeout=5).stdout) * 1024  # noqa: S603  # fixed words and our pid
