"""What a line holds, and what it never holds."""

import asyncio
import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest

from runtime import logs, metrics
from runtime.config import Secret
from runtime.logs import bound, catch_strays, configure, get_logger
from runtime.testing import ManualClock

PHONE = "447700900001"
TOKEN = "EAAQAFAKETOKEN0001"

log = get_logger()


class Color(StrEnum):
    RED = "red"


class Rank(IntEnum):
    FIRST = 1


class Shape(Enum):
    ROUND = object()


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError(PHONE)

    __str__ = __repr__


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    monkeypatch.setattr(logs, "_pipeline", logs._pipeline)
    for owner, name in ((threading, "excepthook"), (sys, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    out = io.StringIO()
    configure("sender", level="info", hash_key=Secret("qa-hash-key"), stream=out)
    yield out
    root.handlers[:] = handlers
    root.setLevel(level)


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def dropped() -> float:
    return metrics.LOG_KEYS_DROPPED._value.get()


def test_a_line_is_json_with_time_level_service_event_and_fields(stream: io.StringIO) -> None:
    log.info("send.settled", count=3, seconds=0.25, ok=True, nothing=None, topic="send-requests", ids=[1, 2])
    (line,) = lines_of(stream)
    assert line.pop("ts").endswith("+00:00")
    assert line == {
        "level": "info",
        "service": "sender",
        "event": "send.settled",
        "count": 3,
        "seconds": 0.25,
        "ok": True,
        "nothing": None,
        "topic": "send-requests",
        "ids": [1, 2],
    }


def test_enums_pass_under_any_key(stream: io.StringIO) -> None:
    log.info("row.settled", color=Color.RED, rank=Rank.FIRST, shape=Shape.ROUND, seen=(Color.RED,))
    (line,) = lines_of(stream)
    assert (line["color"], line["rank"], line["shape"], line["seen"]) == ("red", 1, "ROUND", ["red"])


@pytest.mark.parametrize(
    "fields",
    [
        {"to": PHONE},
        {"body": "hello"},
        {"reason": "Zoë asked for it"},
        {"reason": f"no_route_{PHONE}"},
        {"name": "two words"},
        {"group": "x" * 121},
        {"payload": {"to": PHONE}},
        {"payload": PHONE.encode()},
        {"items": [1, PHONE]},
        {"secret": Secret(TOKEN)},
        {"thing": Broken()},
        {"ratio": float("nan")},
        {"huge": 10**30},
        {f"k{PHONE}": 1},
        {f"{PHONE}": 1},
        {"service": "other"},
        {"contact": Broken()},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_whatever_is_not_allowed_is_dropped_and_counted_and_the_line_goes_out(
    stream: io.StringIO, fields: dict[str, Any]
) -> None:
    before = dropped()
    log.info("row.settled", count=1, **fields)
    (line,) = lines_of(stream)
    assert (line["event"], line["count"], line["service"]) == ("row.settled", 1, "sender")
    assert line.keys() == {"ts", "level", "service", "event", "count"}
    assert dropped() == before + 1
    assert PHONE not in stream.getvalue()
    assert TOKEN not in stream.getvalue()


def test_a_phone_number_id_is_a_number_of_ours_and_passes(stream: io.StringIO) -> None:
    log.info("lease.taken", phone_number_id="100000000000001")
    assert lines_of(stream)[0]["phone_number_id"] == "100000000000001"


def test_an_event_that_is_a_sentence_is_replaced(stream: io.StringIO) -> None:
    sentence = f"sent to {PHONE}"
    log.info(sentence)
    log.info("plain")
    assert [line["event"] for line in lines_of(stream)] == ["log.misnamed", "log.misnamed"]


def test_a_contact_is_a_keyed_hash_of_12_digits(stream: io.StringIO) -> None:
    def hashed(contact: object) -> str:
        log.info("turn.settled", contact=contact)
        return lines_of(stream)[-1]["contact"]

    first = hashed(PHONE)
    assert len(first) == 12
    assert int(first, 16) >= 0
    assert hashed(PHONE) == hashed(int(PHONE)) == first != hashed("447700900002")
    configure("sender", hash_key=Secret("another"), stream=stream)
    other = hashed(PHONE)
    configure("sender", hash_key=None, stream=stream)
    unkeyed = hashed(PHONE)
    assert len({first, other, unkeyed}) == 3
    assert PHONE not in stream.getvalue()


def test_lines_below_the_level_stay_out(stream: io.StringIO) -> None:
    log.debug("row.seen")
    configure("sender", level="debug", stream=stream)
    log.debug("row.read")
    configure("sender", level="error", stream=stream)
    log.warning("row.lost")
    assert [line["event"] for line in lines_of(stream)] == ["row.read"]
    with pytest.raises(ValueError, match="loud"):
        configure("sender", level="loud")


def test_bound_fields_are_on_each_line_and_obey_the_same_rules(stream: io.StringIO) -> None:
    with bound(topic="send-requests", to=PHONE):
        log.bind(partition=3).info("batch.flushed")
    log.info("batch.flushed")
    first, second = lines_of(stream)
    assert (first["topic"], first["partition"]) == ("send-requests", 3)
    assert "topic" not in second
    assert PHONE not in stream.getvalue()


def fail_with_personal_data() -> None:
    recipient, access_token = PHONE, TOKEN
    try:
        raise KeyError(recipient)
    except KeyError as error:
        members = [error, TypeError(access_token), OSError(13, recipient, access_token)]
        raise ValueError(f"{recipient} {access_token}") from ExceptionGroup(f"for {recipient}", members)


def test_an_exception_shows_classes_and_places_and_nothing_of_its_text_or_locals(stream: io.StringIO) -> None:
    try:
        fail_with_personal_data()
    except ValueError as error:
        log.exception("send.failed", count=1)
        log.error("send.failed", exc_info=error)
        log.error("send.failed", error=error)
    by_hand, given, named = lines_of(stream)
    assert by_hand["error"] == given["error"] == named["error"] == "ValueError"
    chain = by_hand["traceback"]
    classes = ["ValueError", "ExceptionGroup", "KeyError", "TypeError", "PermissionError"]
    assert [part["error"] for part in chain] == classes
    file, line, function = chain[0]["frames"][-1].split(":")
    assert file == "runtime/test_logs.py"
    assert int(line) > 0
    assert function == "fail_with_personal_data"
    assert PHONE not in stream.getvalue()
    assert TOKEN not in stream.getvalue()


@pytest.mark.parametrize(
    "call",
    [
        lambda: log.info("row.settled", PHONE, count=1),
        lambda: log.info("row.%s", PHONE),
        lambda: log.info("row.settled", event=PHONE),
        lambda: log.info("row.settled", exc_info=(1,)),
        lambda: log.info(object()),
        lambda: log.info("row.settled", **{"": 1}),
        lambda: log.error("row.settled", exc_info=True),  # noqa: LOG014 - nothing is being handled: that is it
        lambda: log.info("row.settled", self=1, level=2, logger=Broken()),
    ],
)
def test_a_faulty_call_costs_its_fields_and_never_raises(
    stream: io.StringIO, call: Callable[[], None]
) -> None:
    call()
    (line,) = lines_of(stream)
    assert line["event"] in {"row.settled", "log.misnamed"}
    assert PHONE not in stream.getvalue()


def test_a_closed_stream_is_nobodys_problem() -> None:
    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    before = logs._pipeline
    try:
        logs._pipeline = before._replace(stream=Closed())
        log.info("row.settled")
    finally:
        logs._pipeline = before


def test_libraries_are_heard_from_warning_on_with_their_template_and_without_arguments(
    stream: io.StringIO,
) -> None:
    configure("sender", stream=stream)  # once more: pytest has put its own handlers beside ours
    library = logging.getLogger("aiokafka.consumer")
    library.info("quiet %s", PHONE)
    library.warning("Heartbeat failed for %s", PHONE)
    library.error("a constant of the code")
    library.error(f"an f-string with {PHONE}")
    library.error("a concatenation with " + TOKEN)
    library.error("long %s" + "x" * 300, TOKEN)
    library.error("wrong %d %d", TOKEN)
    library.error(Broken())
    lines = lines_of(stream)
    assert [line.get("message", "")[:24] for line in lines] == [
        "Heartbeat failed for %s",
        "a constant of the code",
        "",
        "",
        "long %sxxxxxxxxxxxxxxxxx",
        "wrong %d %d",
        "",
    ]
    assert len(lines[4]["message"]) == 200
    assert lines[0]["event"] == "library.warned"
    assert lines[1]["event"] == "library.failed"
    assert {line["logger"] for line in lines} == {"aiokafka.consumer"}
    assert lines[2]["place"].startswith("runtime/test_logs.py:")
    assert PHONE not in stream.getvalue()
    assert TOKEN not in stream.getvalue()


def test_of_what_a_library_repeats_the_first_passes_and_then_one_each_five_seconds_with_a_count(
    stream: io.StringIO,
) -> None:
    clock = ManualClock()
    configure("status-aggregator", stream=stream, clock=clock)
    library = logging.getLogger("aiokafka")
    suppressed_before = metrics.LOG_LINES_SUPPRESSED._value.get()
    for _ in range(30 * 70):  # half a minute without a broker
        library.error("Unable connect to node with id %s: %s", 1, "refused")
        library.error("Unable to update metadata from %s", [1])
        clock.advance(1 / 70)
    lines = lines_of(stream)
    assert len(lines) == 2 * 6, "two kinds"
    assert "suppressed" not in lines[0]
    assert lines[2]["suppressed"] == pytest.approx(5 * 70, abs=2)
    told = len(lines) + metrics.LOG_LINES_SUPPRESSED._value.get() - suppressed_before
    assert told == 2 * 30 * 70, "each line is written or counted"


def test_another_exception_of_the_same_place_is_another_kind(stream: io.StringIO) -> None:
    configure("admin", stream=stream)
    for failure in (KeyError(PHONE), KeyError(PHONE), OSError(PHONE)):
        logging.getLogger("uvicorn.error").error("Exception in application", exc_info=failure)
    assert [line["error"] for line in lines_of(stream)] == ["KeyError", "OSError"]


def test_a_librarys_exception_shows_its_class_and_not_its_text(stream: io.StringIO) -> None:
    try:
        fail_with_personal_data()
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in application for %s", PHONE)
    (line,) = lines_of(stream)
    assert (line["error"], line["message"]) == ("ValueError", "Exception in application for %s")
    assert PHONE not in stream.getvalue()
    assert TOKEN not in stream.getvalue()


def test_handlers_that_libraries_brought_along_are_gone(stream: io.StringIO) -> None:
    library = logging.getLogger("chatty")
    own = io.StringIO()
    library.addHandler(logging.StreamHandler(own))
    logging.getLogger().addHandler(logging.StreamHandler(own))
    library.propagate = False
    configure("sender", stream=stream)
    library.warning("now routed")
    assert own.getvalue() == ""
    assert lines_of(stream)[-1]["message"] == "now routed"


def test_what_nobody_caught_is_logged_without_its_text(
    stream: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        recipient = PHONE
        raise ValueError(f"{recipient} {TOKEN}")

    async def stray() -> None:
        loop = asyncio.get_running_loop()
        catch_strays(loop)
        loop.call_soon(fail)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(stray())
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    try:
        fail()
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    lines = lines_of(stream)
    assert [line["event"] for line in lines] == [
        "loop.exception_uncaught",
        "thread.exception_uncaught",
        "process.exception_uncaught",
    ]
    assert {line["error"] for line in lines} == {"ValueError"}
    printed = capfd.readouterr()
    for text in (stream.getvalue(), printed.out, printed.err):
        assert PHONE not in text
        assert TOKEN not in text


def test_the_loops_own_report_of_a_failed_task_keeps_its_text_to_itself(stream: io.StringIO) -> None:
    async def fail() -> None:
        raise ValueError(PHONE)

    async def lose_a_task() -> None:
        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.wait([task])
        del task

    asyncio.run(lose_a_task())
    (line,) = lines_of(stream)
    assert (line["logger"], line["error"]) == ("asyncio", "ValueError")
    assert PHONE not in stream.getvalue()


def test_a_line_before_configuration_obeys_the_same_rules(capsys: pytest.CaptureFixture[str]) -> None:
    log.warning("row.settled", to=PHONE)
    printed = capsys.readouterr().out
    assert json.loads(printed)["service"] == "unconfigured"
    assert PHONE not in printed
