"""Judge a run by what others saw: the simulator's records, an export, and `conversation-events` through librdkafka.

Invariant: the judged code is nowhere imported, so that an error of it can't cancel out here.
Exit codes: 0 all judged promises hold, 1 some are broken (each is named), 2 usage, or evidence that can't be read.
"""

import argparse
import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TextIO

if __package__ in (None, ""):  # run as a script: imports start at the repository, not at this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from deploy.local import judge_records as records
from deploy.local.judge_pace import check_pace
from deploy.local.judge_records import Event, Evidence, Unreadable
from deploy.local.judge_rows import check_audience, check_counts, check_rows
from deploy.local.judge_sends import check_sends
from deploy.local.judge_texts import check_texts
from deploy.local.judge_verdict import PROMISES, Verdict, breach_lines, table_lines

READ_DEADLINE_S = 120.0
CALL_TIMEOUT_S = 10.0

ReadEvents = Callable[[str, str], tuple[Event, ...]]


def judge(evidence: Evidence) -> Verdict:
    """Return what the evidence says of promises 1 to 6 and 11."""
    verdict = Verdict()
    for check in (check_texts, check_pace, check_sends, check_rows, check_counts, check_audience):
        check(evidence, verdict)
    return verdict


def read_events(bootstrap: str, topic: str) -> tuple[Event, ...]:
    """Return the topic's events up to its ends as of now; raise `Unreadable` when they can't be had in time."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"judge-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,  # what stands in the way is told by the call that it stops
        }
    )
    try:
        with closing(consumer):
            ends = _assign_all(consumer, topic)
            return tuple(_events_before(consumer, ends))
    except KafkaException as error:
        raise Unreadable(f"{topic}: {error.args[0]}") from error


def _assign_all(consumer: Consumer, topic: str) -> dict[int, int]:
    """Start every partition at its beginning; the ends of those that hold anything."""
    known = consumer.list_topics(topic, timeout=CALL_TIMEOUT_S).topics[topic]
    if known.error is not None:
        raise KafkaException(known.error)
    starts: list[TopicPartition] = []
    ends: dict[int, int] = {}
    for partition in known.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=CALL_TIMEOUT_S)
        if high > low:
            starts.append(TopicPartition(topic, partition, low))
            ends[partition] = high
    consumer.assign(starts)
    return ends


def _events_before(consumer: Consumer, ends: dict[int, int]) -> Iterator[Event]:
    deadline = time.monotonic() + READ_DEADLINE_S
    unread = set(ends)
    while unread:
        if time.monotonic() > deadline:
            raise Unreadable(f"{len(unread)} partitions weren't read within {READ_DEADLINE_S:g} s")
        record = consumer.poll(0.5)
        if record is None:
            continue
        is_end = _is_end(record)
        partition, offset = record.partition(), record.offset()
        assert partition is not None
        assert offset is not None
        if is_end or offset >= ends[partition] - 1:
            unread.discard(partition)
        if not is_end and offset < ends[partition]:
            event = records.read_event(partition, offset, record.key(), record.value())
            if event is not None:
                yield event


def _is_end(record: Message) -> bool:
    error = record.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is not None


def evidence_of(options: argparse.Namespace, events: ReadEvents) -> Evidence:
    """Return all inputs as values; raise `Unreadable` naming the first that can't be read."""
    with _opened(options.messages) as lines:
        posts = records.read_posts(lines)
    with _opened(options.inbound) as lines:
        texts = records.read_texts(lines)
    records.require_complete(_json(options.report), len(posts), len(texts))
    with _opened(options.recipients) as lines:
        rows = records.read_rows(lines)
    with _opened(options.audience) as lines:
        people = records.read_people(lines)
    return Evidence(
        posts=posts,
        texts=texts,
        rows=rows,
        people=people,
        counts=records.read_counts(_json(options.counts)),
        starts=records.read_starts(_json(options.starts)),
        numbers=records.read_numbers(_json(options.numbers)),
        events=events(options.bootstrap, options.topic),
        on_unknown=options.on_unknown,
        campaign=records.campaign_of(posts, options.campaign),
        allowed_open=frozenset(filter(None, options.allow_open.split(","))),
    )


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            yield lines
    except Unreadable as error:
        raise Unreadable(f"{path.name}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path.name}: {type(error).__name__}") from None


def _json(path: Path) -> Any:
    with _opened(path) as text:
        try:
            return json.load(text)
        except json.JSONDecodeError:
            raise Unreadable("no JSON") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Judge a run by the simulator's records and an export.")
    for name, what in (
        ("messages", "NDJSON of /sim/report/messages"),
        ("inbound", "NDJSON of /sim/report/inbound"),
        ("report", "JSON of /sim/report"),
        ("recipients", "CSV of `recipients export`"),
        ("audience", "CSV of the imported file's truth: line, phone, expected, p1, p2, ..."),
        ("counts", "JSON: recipients by state, from the API"),
        ("starts", "JSON: number -> largest sliding second of starts (null: not measured)"),
        ("numbers", "JSON: [{phone_number_id, limit, setting}]"),
    ):
        parser.add_argument(f"--{name}", type=Path, required=True, help=what)
    parser.add_argument("--bootstrap", required=True, help="the broker, HOST:PORT")
    parser.add_argument("--topic", required=True, help="conversation-events, with its prefix")
    parser.add_argument("--on-unknown", choices=["give_up", "resend"], required=True)
    parser.add_argument("--campaign", type=int, help="which, if the simulator saw several")
    parser.add_argument("--allow-open", default="", help="states that may stay at the end, with commas")
    parser.add_argument("--json", type=Path, help="also write the verdict here")
    return parser


def main(arguments: Sequence[str] | None = None, events: ReadEvents = read_events) -> int:
    options = _parser().parse_args(arguments)
    try:
        verdict = judge(evidence_of(options, events))
    except Unreadable as error:
        print(f"can't judge: {error}", file=sys.stderr)
        return 2
    if options.json:
        options.json.write_text(json.dumps(verdict.to_json(), indent=2) + "\n", encoding="utf-8")
    print("\n".join(table_lines(verdict)))
    print("\n".join(breach_lines(verdict) or [f"promises {', '.join(map(str, PROMISES))} hold"]))
    return 1 if verdict.broken else 0


if __name__ == "__main__":
    sys.exit(main())
