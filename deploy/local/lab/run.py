"""`make backpressure-lab`: runs the strategies side by side, then ingress on a real Kafka; a table and a report.

Exit codes: 0 done and every fact holds, 1 one doesn't or something broke, 2 bad flags or something is missing.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

if __package__ in (None, ""):  # run as a script: imports start at the repository, not at this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from backpressure.lab.facts import Fact, facts
from backpressure.lab.load import Load
from backpressure.lab.meter import Sample, summarise
from backpressure.lab.race import RaceFailed, race
from backpressure.lab.strategies import STRATEGIES
from deploy.local.lab import report
from deploy.local.lab.flags import Options, options_from
from deploy.local.lab.real import RealSample, run_real
from deploy.local.lab.real_facts import real_facts
from deploy.local.lab.view import View
from deploy.local.process import StackError
from deploy.local.stack import DATA_DIR


def play(options: Options, view: View, command: str) -> int:
    """Run everything, write the report, and return the exit code."""
    load = options.load
    samples = _run_strategies(load, view)
    summaries = {name: summarise(ones) for name, ones in samples.items()}
    view.table(summaries)
    found = facts(load, summaries)
    view.facts(found)
    real, found_for_real, missing = _run_real(options, view) if options.with_kafka else ([], [], None)
    view.facts(found_for_real)
    page = report.page(load, samples, summaries, found, real, found_for_real, command=command)
    options.report.write_text(page, encoding="utf-8")
    view.console.print(f"\nreport: {options.report.resolve().as_uri()}", soft_wrap=True)
    if missing is not None:
        print(f"without the real thing: {missing}", file=sys.stderr, flush=True)
        return missing.exit_code
    return 0 if all(fact.holds for fact in (*found, *found_for_real)) else 1


def _run_strategies(load: Load, view: View) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {strategy.name: [] for strategy in STRATEGIES}
    title = (
        f"{load.producer_per_s:,.0f} messages of {load.payload_bytes:,} bytes a second meet a consumer of"
        f" {load.consumer_per_s:,.0f} a second, for {load.seconds:.0f} s"
    )
    with view.opened(title):
        for name, sample in race(load):
            samples[name].append(sample)
            view.strategies(load, samples)
    return samples


def _run_real(options: Options, view: View) -> tuple[list[RealSample], list[Fact], StackError | None]:
    """Return the samples and what they show, or why there are none."""
    samples: list[RealSample] = []

    def take(sample: RealSample) -> None:
        samples.append(sample)
        view.real(sample)

    try:
        with view.opened(f"The real thing: {options.webhook_rate_per_s} webhooks a second at ingress"):
            run_real(
                DATA_DIR / "lab",
                seconds=options.kafka_seconds,
                rate_per_s=options.webhook_rate_per_s,
                echo=view.say,
                report=take,
            )
    except StackError as error:
        return [], [], error
    return samples, real_facts(samples), None


def main() -> int:
    options = options_from(sys.argv[1:])
    signal.signal(signal.SIGTERM, _interrupt)
    view = View.for_terminal()
    command = " ".join(
        ["make backpressure-lab", *([f"LAB='{' '.join(sys.argv[1:])}'"] if sys.argv[1:] else [])]
    )
    try:
        return play(options, view, command)
    except RaceFailed as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        view.console.print("stopped")
        return 130


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
