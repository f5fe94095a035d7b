"""The flags of the laboratory: what each does, and all that is wrong with them at once."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backpressure.lab.load import Load, faults
from deploy.local.stack import DATA_DIR, ROOT

WEBHOOK_RATE_MAX = 1_000
REPORT = DATA_DIR / "backpressure.html"
KAFKA_SECONDS_MIN, KAFKA_SECONDS_MAX = 10.0, 300.0


@dataclass(frozen=True)
class Options:
    """What to run and where the report goes."""

    load: Load
    with_kafka: bool
    webhook_rate_per_s: int
    kafka_seconds: float
    report: Path


def options_from(arguments: Sequence[str]) -> Options:
    """Read the command line; ends the process with code 2 and every fault by its flag."""
    parser = _parser()
    given = parser.parse_args(arguments)
    report: Path = getattr(given, "report", REPORT)
    load = Load(
        producer_per_s=given.producer_rate,
        consumer_per_s=given.consumer_rate,
        payload_bytes=given.payload_bytes,
        seconds=given.seconds,
        round_trip_s=given.round_trip_ms / 1000,
        capacity=given.capacity,
        credit=given.credit,
        low_water=given.low_water,
        timeout_s=given.timeout_ms / 1000,
        late_share=given.late_share,
        seed=given.seed,
    )
    wrong = faults(load)
    if not 1 <= given.webhook_rate <= WEBHOOK_RATE_MAX:
        wrong.append(f"--webhook-rate must be between 1 and {WEBHOOK_RATE_MAX:,}")
    if not KAFKA_SECONDS_MIN <= given.kafka_seconds <= KAFKA_SECONDS_MAX:
        wrong.append(f"--kafka-seconds must be between {KAFKA_SECONDS_MIN:.0f} and {KAFKA_SECONDS_MAX:.0f}")
    DATA_DIR.mkdir(exist_ok=True)
    if not report.resolve().parent.is_dir():
        wrong.append(f"--report: there is no folder {report.resolve().parent}")
    if wrong:
        parser.error("this can't be run:\n  " + "\n  ".join(wrong))
    return Options(load, not given.without_kafka, given.webhook_rate, given.kafka_seconds, report)


def _parser() -> argparse.ArgumentParser:
    standard = Load()
    parser = argparse.ArgumentParser(
        prog="make backpressure-lab",
        description="Six ways to join a fast producer and a slow consumer, side by side, then ingress and a consumer"
        " on a real Kafka. Prints a table and writes a report. With make: make backpressure-lab LAB='--seconds 5'",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    load = parser.add_argument_group("the load, the same for all")
    load.add_argument(
        "--producer-rate", type=float, default=standard.producer_per_s, help="messages a second"
    )
    load.add_argument(
        "--consumer-rate", type=float, default=standard.consumer_per_s, help="messages a second"
    )
    load.add_argument("--payload-bytes", type=int, default=standard.payload_bytes, help="size of a message")
    load.add_argument("--seconds", type=float, default=standard.seconds, help="how long each strategy runs")
    load.add_argument("--seed", type=int, default=standard.seed, help="same seed, same late answers")
    how = parser.add_argument_group("the strategies")
    how.add_argument(
        "--round-trip-ms", type=float, default=standard.round_trip_s * 1000, help="there and back"
    )
    how.add_argument("--timeout-ms", type=float, default=standard.timeout_s * 1000, help="of stop-and-wait")
    how.add_argument(
        "--late-share", type=float, default=standard.late_share, help="answers of stop-and-wait that are late"
    )
    how.add_argument(
        "--credit", type=int, default=standard.credit, help="most messages asked for and not handled"
    )
    how.add_argument(
        "--low-water", type=int, default=standard.low_water, help="when so many are left, more are asked for"
    )
    how.add_argument("--capacity", type=int, default=standard.capacity, help="of the channels that shed")
    real = parser.add_argument_group("the real thing")
    real.add_argument("--without-kafka", action="store_true", help="leave it out")
    real.add_argument("--webhook-rate", type=int, default=300, help="webhooks a second at ingress")
    real.add_argument("--kafka-seconds", type=float, default=20.0, help="how long webhooks are made")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", default=argparse.SUPPRESS,
        help=f"where it is written (default: {REPORT.relative_to(ROOT)})",
    )  # fmt: skip
    return parser
