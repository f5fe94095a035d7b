"""A small clean run passes the judge, and each single corruption of it is named with the promise that it breaks."""

import ast
import copy
import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from admin import csv_export
from deploy.local import judge_pace
from deploy.local.audience import people, truth_csv
from deploy.local.judge import main
from deploy.local.judge_records import (
    Event,
    Post,
    Told,
    read_event,
    read_people,
    read_posts,
    read_rows,
    read_texts,
)
from deploy.local.judge_sends import Further, folded, further
from deploy.local.judge_verdict import PROMISES
from simulator.records import InboundRecord, MessageRecord, StatusRecord
from simulator.report import ndjson_chunks

FOLDER = Path(__file__).parents[3] / "deploy/local"
NUMBER = "300000000000001"
T0 = 1_790_000_000


def told(status: str, after_s: int, **more: Any) -> dict[str, Any]:
    base = {"status": status, "timestamp": T0 + after_s, "code": 0, "callback_data_sent": True}
    times = {"first_posted_at": T0 + after_s + 0.1, "first_acked_at": T0 + after_s + 0.5}
    return base | times | {"posted": 1, "acked": 1, "gave_up": False} | more


def post(seq: int, attempt: int, after_s: float, *statuses: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "n": seq * 10 + attempt,
        "phone_number_id": NUMBER,
        "arrived_at": T0 + after_s,
        "to": f"1555010{seq:04}",
        "callback_data": f"sl1:lab:c:7:{seq}:{attempt}",
        "template": "order_ready",
        "params": [f"Name {seq}", f"A-{seq}"],
        "behaviour": "normal",
        "accepted": True,
        "wamid": f"wamid.{seq}.{attempt}",
        "http_status": 200,
        "code": 0,
        "statuses": list(statuses),
        "a_field_of_tomorrow": {"x": 1},
    } | more


def refused(seq: int, attempt: int, after_s: float, code: int = 0, **more: Any) -> dict[str, Any]:
    return post(seq, attempt, after_s, accepted=False, wamid=None, code=code, **more)


def text(n: int, after_s: int, order: int, **more: Any) -> dict[str, Any]:
    return {
        "n": n,
        "wamid": f"wamid.in.{n}",
        "phone_number_id": NUMBER,
        "sender": "15550100001",
        "order": order,
        "text": "a secret answer",
        "timestamp": T0 + after_s,
        "answers": "wamid.1.1",
        "acked": 1,
        "first_posted_at": T0 + after_s + 0.1,
        "first_acked_at": T0 + after_s + 0.5,
    } | more


def event(turn: int, **more: Any) -> Event:
    where = {"partition": 1, "offset": turn * 2, "key": f"{NUMBER}:15550100001", "turn": turn}
    return Event(**(where | {"event_id": f"e{turn}", "wamid": f"wamid.in.{turn}"} | more))


def row(seq: int, state: str, *, attempt: int = 1, wamid: str | None = None, **more: Any) -> dict[str, Any]:
    times = {name: more.pop(name, None) for name in ("sent_at", "delivered_at", "read_at", "failed_at")}
    return {
        "seq": seq,
        "line": seq + 1,
        "address": f"+1555010{seq:04}",
        "phone_number_id": NUMBER,
        "state": state,
        "reason": "",
        "code": "",
        "attempt": attempt,
        "tries": attempt,
        "wamid": f"wamid.{seq}.{attempt}" if wamid is None else wamid,
        **{name: iso(after_s) for name, after_s in times.items()},
    } | more


def iso(after_s: float | None) -> str:
    if after_s is None:
        return ""
    return datetime.fromtimestamp(T0 + after_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Run:
    """What a run left behind, to be corrupted."""

    posts: list[dict[str, Any]]
    texts: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    people: list[dict[str, Any]]
    events: list[Event]
    counts: dict[str, int]
    starts: dict[str, float | None] = field(default_factory=lambda: {NUMBER: 2})
    setting: int = 76
    limit: int = 80
    unrecorded: int = 0

    def row(self, seq: int) -> dict[str, Any]:
        return next(each for each in self.rows if each["seq"] == seq)

    def post(self, seq: int, attempt: int = 1) -> dict[str, Any]:
        return next(
            each
            for each in self.posts
            if each["callback_data"].endswith(f":{seq}:{attempt}") and each["wamid"]
        )

    def arrives(self, *posts: dict[str, Any]) -> None:
        self.posts += posts

    def recount(self) -> None:
        self.counts = dict(Counter(each["state"] for each in self.rows))


def clean_run() -> Run:
    posts = [
        post(1, 1, 0, told("delivered", 3), told("sent", 1), told("read", 9)),
        post(2, 1, 1, told("sent", 1), told("failed", 2, code=131016)),
        post(2, 2, 9, told("sent", 10), told("delivered", 12)),
        post(3, 1, 1.5, told("sent", 3), told("failed", 4, code=131026)),
        refused(4, 1, 2, code=131021),
        post(5, 1, 2.5, behaviour="timeout_after_accept"),
        refused(6, 1, 3, behaviour="hang_without_accept"),
        post(7, 1, 3.5, told("sent", 5)),
        post(8, 1, 4),
        refused(9, 1, 4.5, code=130429),
    ]
    rows = [
        row(1, "read", sent_at=1, delivered_at=3, read_at=9),
        row(2, "delivered", attempt=2, sent_at=10, delivered_at=12),
        row(3, "failed", reason="refused", code=131026, sent_at=3, failed_at=4),
        row(4, "failed", reason="refused", code=131021, wamid="", failed_at=2.2),
        row(5, "given_up", reason="silent", wamid=""),
        row(6, "given_up", reason="silent", wamid=""),
        row(7, "sent", sent_at=5),
        row(8, "accepted"),
        row(9, "cancelled", reason="campaign_cancelled", attempt=0, code=130429, wamid=""),
    ]
    people = [person(seq + 1, f"+1 (555) 010-{seq:04}", "ok", seq) for seq in range(1, 10)]
    people += [person(11, "not a number", "bad_phone", 0), person(12, "15550100001", "duplicate", 1)]
    texts = [text(1, 20, 1), text(2, 21, 2), text(3, 22, 3)]
    run = Run(posts, texts, rows, people, [event(1), event(2), event(3)], {"pending": 0})
    run.recount()
    return run


def person(line: int, phone: str, expected: str, seq: int) -> dict[str, Any]:
    return {"line": line, "phone": phone, "expected": expected, "p1": f"Name {seq}", "p2": f"A-{seq} "}


@dataclass
class Judged:
    code: int
    printed: str
    verdict: dict[str, Any]

    @property
    def broken(self) -> list[int]:
        return [each["promise"] for each in self.verdict["broken"]]


Judge = Callable[..., Judged]


@pytest.fixture
def judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Judge:
    def run_judge(run: Run, *more: str, on_unknown: str = "give_up") -> Judged:
        arguments = write_run(run, tmp_path, on_unknown)
        verdict = tmp_path / "verdict.json"
        code = main([*arguments, "--json", str(verdict), *more], lambda bootstrap, topic: tuple(run.events))
        printed = capsys.readouterr()
        found = json.loads(verdict.read_text()) if verdict.exists() else {}
        return Judged(code, printed.out + printed.err, found)

    return run_judge


def write_run(run: Run, folder: Path, on_unknown: str) -> list[str]:
    summary = {"messages": len(run.posts), "inbound": len(run.texts), "unrecorded": run.unrecorded}
    numbers = [{"phone_number_id": NUMBER, "limit": run.limit, "setting": run.setting}]
    written = {
        "messages": ndjson(run.posts),
        "inbound": ndjson(run.texts),
        "report": json.dumps(summary),
        "recipients": as_csv(run.rows),
        "audience": as_csv(run.people),
        "counts": json.dumps({"counts": run.counts}),
        "starts": json.dumps(run.starts),
        "numbers": json.dumps(numbers),
    }
    arguments = ["--bootstrap", "127.0.0.1:1", "--topic", "t.conversation-events", "--on-unknown", on_unknown]
    for name, content in written.items():
        (folder / name).write_text(content)
        arguments += [f"--{name}", str(folder / name)]
    return arguments


def ndjson(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in rows)


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    class Lines(list[str]):
        write = list.append

    lines = Lines()
    writer = csv.DictWriter(lines, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return "".join(lines)


def test_a_clean_run_passes_with_its_figures(judged: Judge) -> None:
    found = judged(clean_run())
    assert found.code == 0, found.printed
    assert found.verdict["holds"]
    figures = found.verdict["figures"]
    assert (figures["rows"], figures["statuses"], figures["texts"], figures["pairs"]) == (9, 10, 3, 2)
    assert (figures["unknown_accepted"], figures["unknown_not_accepted"]) == (1, 1)
    assert figures["after_failure"] == 1
    assert {"state": "given_up", "reason": "silent", "count": 2} in found.verdict["audience"]


def test_a_table_fits_a_screen_and_shows_no_person(judged: Judge) -> None:
    run = clean_run()
    run.rows[0]["state"] = "sent"
    run.events.pop()
    run.post(3)["to"] = "15550109999"
    printed = judged(run).printed
    assert len(printed.splitlines()) <= 40
    assert "15550100001" not in printed
    assert "5550109999" not in printed
    assert "secret" not in printed
    assert "wamid" not in printed


# --- each single corruption is named ---

Corrupt = Callable[[Run], object]


def _doubled(run: Run) -> None:
    run.arrives(post(8, 2, 30))
    run.row(8).update(attempt=2, wamid="wamid.8.2")


def _two_rows_of_one_person(run: Run) -> None:
    run.post(7)["to"] = "15550100008"
    run.row(7)["address"] = "+15550100008"
    run.people[6]["phone"] = "+15550100008"


def _arrivals_above_setting(run: Run) -> None:
    run.setting = 1
    run.starts = {NUMBER: 1}
    for n in range(6):
        refused = {
            "n": 900 + n,
            "accepted": False,
            "wamid": None,
            "code": 130429,
            "http_status": 429,
            "statuses": [],
        }
        refused["callback_data"] = None
        run.arrives({**run.post(1), **refused})


def _dropped_row(run: Run) -> None:
    run.rows.pop(8)
    run.recount()


def _final_failure_tried_again(run: Run) -> None:
    run.arrives(post(3, 2, 30, told("sent", 31)))
    run.row(3).update(state="sent", reason="", code="", failed_at="", attempt=2, wamid="", sent_at=iso(31))
    run.recount()


def _swapped(run: Run) -> None:
    run.events[:2] = [event(1, wamid="wamid.in.2"), event(2, wamid="wamid.in.1")]


def _swapped_in_one_delivery(run: Run) -> None:
    for each in run.texts:
        each.update(timestamp=T0 + 20, first_acked_at=T0 + 21.0)
    _swapped(run)


def _state(seq: int, state: str, **more: Any) -> Corrupt:
    def corrupt(run: Run) -> None:
        run.row(seq).update(state=state, **more)
        run.recount()

    return corrupt


CORRUPTIONS: dict[str, tuple[int, str, Corrupt]] = {
    "an event is missing": (1, "text 3", lambda run: run.events.pop()),
    "texts are swapped": (2, "texts 1 and 2", _swapped),
    "texts of one delivery are swapped": (2, "texts 1 and 2", _swapped_in_one_delivery),
    "a turn is left out": (
        2,
        "turn 4, not 3",
        lambda run: run.events.__setitem__(2, event(4, wamid="wamid.in.3")),
    ),
    "a text is handled twice": (2, "offset 8", lambda run: run.events.append(event(4, wamid="wamid.in.3"))),
    "a contact is in two partitions": (
        2,
        "partition 2",
        lambda run: run.events.append(event(4, partition=2)),
    ),
    "an event has no key": (2, "partition 0", lambda run: run.events.append(event(4, partition=0, key=None))),
    "an event id is used again": (2, "offset 8", lambda run: run.events.append(event(4, event_id="e1"))),
    "a second of starts is above the setting": (3, "77 > 76", lambda run: run.starts.update({NUMBER: 77})),
    "nobody measured": (3, f"number {NUMBER}", lambda run: run.starts.clear()),
    "more arrive than the setting explains": (3, "in 1 s", _arrivals_above_setting),
    "a send is doubled": (4, "seq 8 (attempt 2)", _doubled),
    "one person has two rows": (4, "seq 7 and seq 8", _two_rows_of_one_person),
    "a content is another's": (4, "seq 1", lambda run: run.post(1).update(params=["Name 2", "A-2"])),
    "a message goes astray": (4, "seq 3", lambda run: run.post(3).update(to="15550109999")),
    "a POST is for nobody": (4, "seq 10", lambda run: run.arrives(refused(10, 1, 30, code=131021))),
    "an attempt posts twice": (4, "seq 6", lambda run: run.arrives(refused(6, 1, 31, code=131021))),
    "a row stands on no line": (4, "line 99", lambda run: run.rows.append(row(99, "sent") | {"line": 99})),
    "a row is lowered": (5, "seq 1", _state(1, "delivered")),
    "a row is raised": (5, "seq 7", _state(7, "read")),
    "an arrival is given up": (5, "seq 7", _state(7, "given_up", reason="silent")),
    "a row that never left is sent": (5, "seq 6", _state(6, "sent", reason="")),
    "a code is wrong": (5, "seq 3", lambda run: run.row(3).update(code=131047)),
    "a refusal's code is wrong": (5, "seq 4", lambda run: run.row(4).update(code=1)),
    "a time is wrong": (5, "seq 1", lambda run: run.row(1).update(read_at=iso(10))),
    "the time of an earlier attempt is shown": (5, "seq 2", lambda run: run.row(2).update(sent_at=iso(1))),
    "a failure's time stays on an arrival": (5, "seq 2", lambda run: run.row(2).update(failed_at=iso(2))),
    "an accepted attempt is taken back": (5, "seq 2", lambda run: run.row(2).update(attempt=1)),
    "a wamid is another's": (5, "seq 7", lambda run: run.row(7).update(wamid="wamid.8.1")),
    "a final failure is tried again": (5, "seq 3", _final_failure_tried_again),
    "a count is wrong": (6, "sent (2 told, 1 rows)", lambda run: run.counts.update(sent=2)),
    "a count is missing": (6, "sent (0 told, 1 rows)", lambda run: run.counts.pop("sent")),
    "a recipient is lost": (11, "line 10", _dropped_row),
    "a reason is missing": (11, "seq 5", lambda run: run.row(5).update(reason="")),
    "a row stays open": (11, "seq 9", _state(9, "pending")),
    "an unknown row stays": (11, "seq 5", _state(5, "unknown", reason="no_answer")),
    "a rejected line is a row": (11, "line 10", lambda run: run.people[8].update(expected="duplicate")),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_named_with_the_promise_it_breaks(name: str, judged: Judge) -> None:
    promise, place, corrupt = CORRUPTIONS[name]
    run = clean_run()
    corrupt(run)
    found = judged(run)
    assert found.code == 1
    assert promise in found.broken, found.printed
    assert f"BROKEN promise {promise}: {PROMISES[promise]}" in found.printed
    examples = [
        at for each in found.verdict["breaches"] if each["promise"] == promise for at in each["examples"]
    ]
    assert any(place in at for at in examples), examples
    # "one row more" also changes what its counters and its POSTs must be; all else breaks one promise alone
    assert found.broken == [promise] or name in ("a row stands on no line", "a recipient is lost")


# --- what must not be called a breach ---


def test_a_repeated_record_is_counted_and_forgiven(judged: Judge) -> None:
    run = clean_run()
    run.events.append(event(3, offset=99))
    found = judged(run)
    assert found.code == 0, found.printed
    assert found.verdict["figures"]["repeats"] == 1


def test_a_text_that_came_later_may_be_handled_later(judged: Judge) -> None:
    run = clean_run()
    run.texts[0].update(first_acked_at=T0 + 40.0)
    _swapped(run)
    found = judged(run)
    assert found.code == 0, found.printed
    assert found.verdict["figures"]["pairs_by_arrival"] == 2  # by writing and by timestamp


def test_of_two_texts_on_their_way_at_once_either_may_have_come_first(judged: Judge) -> None:
    run = clean_run()
    run.texts[1].update(first_posted_at=run.texts[0]["first_acked_at"] - 0.01)
    _swapped(run)
    assert judged(run).code == 0


def test_a_status_whose_200_was_lost_may_count_or_not(judged: Judge) -> None:
    for state in ("sent", "delivered"):
        run = clean_run()
        run.post(7)["statuses"].append(told("delivered", 8, acked=0, first_acked_at=None))
        run.row(7).update(state=state, delivered_at=iso(8) if state == "delivered" else "")
        run.recount()
        assert judged(run).code == 0


def test_a_status_without_callback_data_counts_once_the_wamid_is_known(judged: Judge) -> None:
    run = clean_run()
    run.post(7)["statuses"].append(told("delivered", 8, callback_data_sent=False))
    assert judged(run).broken == [5]
    run = clean_run()
    run.post(5)["statuses"].append(
        told("sent", 8, callback_data_sent=False)
    )  # an answer that never came back
    assert judged(run).code == 0


def test_a_resend_after_silence_is_counted_under_resend_and_a_breach_under_give_up(judged: Judge) -> None:
    run = clean_run()
    _doubled(run)
    found = judged(copy.deepcopy(run), on_unknown="resend")
    assert found.code == 0, found.printed
    assert found.verdict["figures"]["resent"] == 1
    found = judged(run)
    assert found.broken == [4]
    assert found.verdict["figures"]["doubled"] == 1


def test_states_may_stay_open_where_that_is_allowed(judged: Judge) -> None:
    run = clean_run()
    _state(9, "pending")(run)
    assert judged(run, "--allow-open", "pending,unknown").code == 0


def accepted(attempt: int, at: float, *statuses: Told) -> Post:
    return Post(n=attempt, number=NUMBER, arrived_at=at, accepted=True, statuses=statuses)


def test_every_earlier_message_must_have_failed_before_another_may_go() -> None:
    failed = Told("failed", 5, 131016, posted=1, acked=1, posted_at=5.5, acked_at=9.5)
    sent = Told("sent", 5, posted=1, acked=1, acked_at=6.0)
    assert further([accepted(1, 0, failed)], accepted(2, 9), "give_up") is Further.AFTER_FAILURE
    assert further([accepted(1, 0, failed)], accepted(2, 5), "give_up") is Further.DOUBLED
    both = [accepted(1, 0, failed), accepted(2, 9)]
    assert further(both, accepted(3, 20), "give_up") is Further.DOUBLED
    assert further(both, accepted(3, 20), "resend") is Further.AFTER_SILENCE
    assert further([accepted(1, 0, sent)], accepted(2, 9), "resend") is Further.DOUBLED


def test_the_largest_window_slides_and_is_half_open() -> None:
    assert judge_pace.largest_window([0.5, 1.0, 1.25, 1.5, 5.0], 1.0) == 3
    assert judge_pace.largest_window([0.0, 1.0, 2.0], 1.0) == 1
    assert judge_pace.largest_window([], 1.0) == 0


def test_the_mean_leaves_interruptions_out(judged: Judge) -> None:
    found = judged(clean_run()).verdict["numbers"][0]
    assert (found["accepted"], found["interruptions"], found["interrupted_s"]) == (7, 1, 4.5)
    assert found["mean_per_s"] == pytest.approx(7 / 4.5, abs=0.001)
    assert found["throttled"] == 1


def test_national_variants_of_one_number_are_one_address() -> None:
    assert folded("+55 11 98765-4321") == folded("551187654321")
    assert folded("5491123456789") == folded("541123456789")
    assert folded("5215512345678") == folded("525512345678")
    assert folded("15550100001") != folded("15550100002")


def test_an_event_of_another_kind_is_passed_over_and_a_broken_one_refused() -> None:
    assert read_event(0, 0, b"k", b'{"event": "media_stored"}') is None
    value = b'{"event": "message_handled", "event_id": "e", "wamid": "w", "turn": 2, "new": {}}'
    assert read_event(3, 4, b"k", value) == Event(3, 4, "k", "e", "w", 2)


# --- the formats as they are really written ---


def test_the_simulators_records_are_read_as_they_are_written() -> None:
    times = {"first_posted_at": T0 + 0.25, "first_acked_at": T0 + 0.5}
    status = StatusRecord("sent", T0, posted=2, acked=1, callback_data_sent=False, **times)
    message = MessageRecord(
        1, NUMBER, T0 + 0.25, to="15550100001", callback_data="sl1:lab:c:7:3:2", params=("Ada",)
    )
    message.statuses.append(status)
    inbound = InboundRecord(1, "wamid.in", NUMBER, "15550100001", 2, "hello", False, T0)
    lines = [
        line.decode().splitlines()
        for line in (*ndjson_chunks([message], 0, None), *ndjson_chunks([inbound], 0, None))
    ]
    [read] = read_posts(lines[0])
    assert (read.campaign, read.seq, read.attempt, read.params) == (7, 3, 2, ("Ada",))
    assert read.statuses == (Told("sent", T0, 0, 2, 1, T0 + 0.25, T0 + 0.5, False),)
    [heard] = read_texts(lines[1])
    assert (heard.wamid, heard.order, heard.timestamp, heard.acked_at) == ("wamid.in", 2, T0, None)


def test_the_export_is_read_as_it_is_written() -> None:
    at = datetime.fromtimestamp(T0 + 0.25, UTC)
    empty = dict.fromkeys(csv_export.COLUMNS)
    line = SimpleNamespace(
        **empty | row(3, "failed", reason="refused", code=131026) | {"sent_at": at, "read_at": None}
    )
    written = (csv_export.csv_header() + csv_export.csv_lines([line])).decode()
    [read] = read_rows(written.splitlines(keepends=True))
    assert (read.seq, read.state, read.reason, read.code) == (3, "failed", "refused", 131026)
    assert (read.sent_at, read.read_at) == (T0 + 0.25, None)


def test_the_audiences_truth_is_read_as_it_is_written() -> None:
    found = people(30, seed=1, bad_every=4)
    read = read_people(truth_csv(found).splitlines(keepends=True))
    assert [(each.line, each.expected) for each in read] == [(each.line, each.expected) for each in found]
    assert read[0].params == (found[0].name, found[0].order)


# --- what can't be judged ---


def test_incomplete_evidence_is_not_judged(judged: Judge) -> None:
    run = clean_run()
    run.unrecorded = 3
    found = judged(run)
    assert (found.code, found.verdict) == (2, {})
    assert "3 POSTs" in found.printed


def test_several_campaigns_need_a_name(judged: Judge) -> None:
    run = clean_run()
    other = post(1, 1, 50, callback_data="sl1:lab:c:8:1:1", to="15550107777")
    run.arrives(other)
    assert judged(run).code == 2
    assert judged(run, "--campaign", "7").code == 0


def test_a_broken_line_is_named_without_its_content(judged: Judge) -> None:
    run = clean_run()
    del run.posts[4]["arrived_at"]
    found = judged(run)
    assert found.code == 2
    assert "messages: row 5" in found.printed
    assert "1555" not in found.printed


def test_usage_errors_and_an_absent_broker_exit_with_2(tmp_path: Path) -> None:
    script = [sys.executable, str(FOLDER / "judge.py")]
    assert subprocess.run(script, capture_output=True, check=False).returncode == 2
    arguments = write_run(clean_run(), tmp_path, "give_up")
    (tmp_path / "counts").unlink()
    found = subprocess.run([*script, *arguments], capture_output=True, check=False, text=True)
    assert found.returncode == 2
    assert "counts: FileNotFoundError" in found.stderr


@pytest.mark.parametrize("path", sorted(FOLDER.glob("judge*.py")), ids=lambda path: path.name)
def test_the_judge_imports_nothing_of_what_it_judges(path: Path) -> None:
    allowed = sys.stdlib_module_names | {"confluent_kafka"}
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            assert name.split(".")[0] in allowed or name.startswith("deploy.local.judge_"), name
