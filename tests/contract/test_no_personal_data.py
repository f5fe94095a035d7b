"""Whatever fails, nothing of a person and no secret reaches the log: not by message, arguments, locals or a library."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from cloudapi.messages import text_message
from cloudapi.wire import Wire
from contracts.codec import decode
from contracts.inbound import MessageReceived
from contracts.send import SendMessage
from ledger.pool import Ledger
from runtime import logs
from runtime.config import Secret, load
from runtime.logs import catch_strays, get_logger
from sender.config import Config
from tests.personal_data import scan

PHONE = "447700900001"
NAME = "Zoë Example"
TEXT = "my parcel is late, ring me"
TOKEN = "EAAQAFAKETOKEN0001"
SECRET = "qa-app-secret-1"
PASSWORD = "qa-password-1"
WAMID = "wamid.SEVTU0FHRS0x"
FORBIDDEN = (PHONE, NAME, TEXT, TOKEN, SECRET, PASSWORD, WAMID)
BODY = json.dumps({"from": PHONE, "name": NAME, "text": TEXT, "id": WAMID}).encode()

log = get_logger()


# --- failures, each with personal data within reach --------------------------------------------------------------------


def in_its_message() -> None:
    raise ValueError(f"can't send {TEXT!r} to {NAME} at {PHONE} with {TOKEN}")


def in_its_arguments() -> None:
    raise KeyError(PHONE, {"name": NAME}, BODY)


def in_its_locals() -> None:
    recipient, text, token = PHONE, TEXT, TOKEN
    raise RuntimeError(len(recipient + text + token))


def in_its_notes_attributes_and_causes() -> None:
    error = ValueError("outer")
    error.add_note(f"while writing to {NAME}")
    error.body = BODY  # type: ignore[attr-defined]
    try:
        in_its_message()
    except ValueError as cause:
        raise error from ExceptionGroup(f"for {PHONE}", [cause, PermissionError(13, PHONE, TOKEN)])


def in_what_it_says_of_itself() -> None:
    refused = type("Refused", (Exception,), {"__str__": lambda _: TEXT, "__repr__": lambda _: PHONE})
    raise refused


def in_a_body_that_is_no_text() -> None:
    (BODY + b"\xff").decode()


def in_a_record_that_does_not_decode() -> None:
    decode(MessageReceived, BODY)


def in_a_field_that_does_not_fit() -> None:
    decode(SendMessage, json.dumps({"request_id": 7, "to": PHONE, TEXT: NAME}).encode())


def in_the_configuration() -> None:
    env = {
        "SLUICE_KAFKA_BOOTSTRAP": "localhost:9",
        "SLUICE_DATABASE_URL": f"postgresql://sluice:{PASSWORD}@localhost/x",
        "SLUICE_ACCESS_TOKEN": TOKEN,
        "SLUICE_INSTALLATION": "local",
        "SENDER_INFLIGHT_MAX": f"{PHONE} {SECRET}",
    }
    load(Config, prefix="SENDER", env=env)


def in_a_post_that_nobody_takes() -> None:
    async def post() -> None:
        body = text_message(to=PHONE, text=TEXT, callback_data="sl1:local:c:1:1:1")
        async with Wire.open(
            "http://127.0.0.1:1", "v26.0", lambda: TOKEN, connections_max=1, timeout_s=2.0, connect_s=1.0
        ) as wire:
            await wire.post_message("300000000000001", body)

    asyncio.run(post())


def in_a_database_that_is_away() -> None:
    async def connect() -> None:
        url = f"postgresql://{TOKEN}:{PASSWORD}@127.0.0.1:1/sluice"
        async with (
            Ledger.open(url, shard=0, acquire_s=0.5, application="test") as ledger,
            ledger.connection("look") as connection,
        ):
            await connection.fetchval("SELECT 1")

    asyncio.run(connect())


FAILURES = [
    in_its_message,
    in_its_arguments,
    in_its_locals,
    in_its_notes_attributes_and_causes,
    in_what_it_says_of_itself,
    in_a_body_that_is_no_text,
    in_a_record_that_does_not_decode,
    in_a_field_that_does_not_fit,
    in_the_configuration,
    in_a_post_that_nobody_takes,
    in_a_database_that_is_away,
]
LIBRARIES = [
    "aiokafka.consumer.fetcher",
    "asyncio",
    "asyncpg.pool",
    "faust.app",
    "httpx",
    "mode",
    "uvicorn.error",
]


@pytest.fixture
def written(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[[], str]]:
    """Everything that this process has written, the log first, then standard output and error."""
    monkeypatch.setattr(logs, "_pipeline", logs._pipeline)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("sender", level="debug", hash_key=Secret("qa-hash-key"), stream=stream)

    def everything() -> str:
        printed = capfd.readouterr()
        return "\n".join((stream.getvalue(), printed.out, printed.err))

    yield everything
    root.handlers[:] = handlers
    root.setLevel(level)


def failure_of(fail: Callable[[], None]) -> Exception:
    try:
        fail()
    except Exception as error:  # noqa: BLE001 - any failure is what is wanted
        return error
    raise AssertionError("it did not fail")


@pytest.mark.bco("L04")
@pytest.mark.parametrize("fail", FAILURES)
def test_bco_l04_a_logged_failure_shows_no_personal_data_and_no_secret(
    fail: Callable[[], None], written: Callable[[], str]
) -> None:
    error = failure_of(fail)
    log.error("send.failed", exc_info=error, to=PHONE, text=TEXT, reason=NAME, contact=PHONE)
    log.warning("send.failed", error=error, topic=PHONE, name=NAME, outcome=TEXT, wamid=WAMID)
    log.info("send.failed", str(error), body=BODY, token=TOKEN, secret=Secret(SECRET), people=[PHONE, NAME])
    log.error(PHONE, **{PHONE: 1})
    text = written()
    assert text.count(type(error).__name__) >= 2, "the failure must be seen"
    assert scan(text, forbidden=FORBIDDEN) == []


@pytest.mark.bco("L04")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fail", [in_its_message, in_its_notes_attributes_and_causes])
def test_bco_l04_what_a_library_logs_shows_no_personal_data_and_no_secret(
    library: str, fail: Callable[[], None], written: Callable[[], str]
) -> None:
    error = failure_of(fail)
    theirs = logging.getLogger(library)
    theirs.warning("Failed to send %s to %r: %s", TEXT, PHONE, error)
    theirs.error(f"Unexpected error for {NAME} {PHONE}: {error}", exc_info=error)
    theirs.error("Body was " + BODY.decode(), extra={"recipient": PHONE}, stack_info=True)
    theirs.critical("%(to)s got %(text)s", {"to": PHONE, "text": TEXT})
    theirs.error(error)
    theirs.info("POST /messages token=%s", TOKEN)
    text = written()
    assert text.count(f'"logger":"{library}"') == 5, "what libraries log must be seen"
    assert scan(text, forbidden=FORBIDDEN) == []


@pytest.mark.bco("L04")
@pytest.mark.parametrize("fail", [in_its_message, in_its_arguments, in_its_notes_attributes_and_causes])
def test_bco_l04_what_nobody_caught_shows_no_personal_data_and_no_secret(
    fail: Callable[[], None], written: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr("threading.excepthook", None)

    async def stray() -> None:
        loop = asyncio.get_running_loop()
        catch_strays(loop)
        loop.call_soon(fail)
        lost = loop.create_task(asyncio.to_thread(fail))
        await asyncio.wait([lost])
        del lost

    asyncio.run(stray())
    error = failure_of(fail)
    sys.excepthook(type(error), error, error.__traceback__)
    text = written()
    assert text.count(f'"error":"{type(error).__name__}"') >= 3
    assert scan(text, forbidden=FORBIDDEN) == []


A_SERVICE_THAT_FAILS = """
import asyncio, logging, threading
from contextlib import asynccontextmanager
from runtime.drain import run
from sender.config import Config

def fail(where):
    recipient = {phone!r}
    raise ValueError(f"{{recipient}} {{where}} {token}")

class App:
    async def run(self, stop):
        logging.getLogger("aiokafka").error("lost %s", {phone!r})
        asyncio.get_running_loop().call_soon(fail, "in a callback")
        thread = threading.Thread(target=fail, args=({text!r},))
        thread.start()
        await asyncio.to_thread(thread.join)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(fail, "in a task"))

@asynccontextmanager
async def open_app(config):
    yield App()

run("sender", Config, "SENDER", open_app)
"""


@pytest.mark.bco("L04")
@pytest.mark.parametrize(
    ("inflight_max", "code", "seen"),
    [("8", 70, "service.failed"), (f"{PHONE} {SECRET}", 78, "SENDER_INFLIGHT_MAX must be")],
)
def test_bco_l04_a_service_that_dies_shows_no_personal_data_and_no_secret(
    inflight_max: str, code: int, seen: str
) -> None:
    env = {
        "SLUICE_KAFKA_BOOTSTRAP": "localhost:9",
        "SLUICE_DATABASE_URL": f"postgresql://sluice:{PASSWORD}@localhost/x",
        "SLUICE_ACCESS_TOKEN": TOKEN,
        "SLUICE_INSTALLATION": "local",
        "SENDER_INFLIGHT_MAX": inflight_max,
    }
    script = A_SERVICE_THAT_FAILS.format(phone=PHONE, token=TOKEN, text=TEXT)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False, timeout=30
    )
    printed = done.stdout + done.stderr
    assert done.returncode == code, printed
    assert seen in printed
    assert scan(printed, forbidden=FORBIDDEN) == []


# --- the scanner -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail", FAILURES[:5])
def test_the_scanner_finds_what_a_careless_log_would_show(fail: Callable[[], None]) -> None:
    error = failure_of(fail)
    careless = f"{error!r} {error} {error.__dict__} {error.__cause__!r} {fail.__code__.co_consts} {PHONE}"
    assert scan(f"\n{careless}", forbidden=FORBIDDEN)[0].startswith("line 2: ")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("to 15550100042", ["line 1: 15550100042"]),
        ("ok\nto +1 (555) 010-0042.", ["line 2: 1 (555) 010-0042"]),
        ('{"to":"447700900001"}', ["line 1: 447700900001"]),
        ("+44 7700 900001", ["line 1: 44 7700 900001"]),
        ("447709000010", ["line 1: 447709000010"]),
        ("id wamid.HBgLMQ==", ["line 1: wamid.HBgLMQ=="]),
        ("Zo\\u00eb EXAMPLE", ["line 1: Zoë Example"]),
        ("name=Zo%C3%AB%20Example", ["line 1: Zoë Example"]),
        ("b'Zo\\xc3\\xab Example'", ["line 1: Zoë Example"]),
        ("eaaqafaketoken0001", ["line 1: EAAQAFAKETOKEN0001"]),
        ('{"seconds":0.15550100042,"ratio":1.555010004}', []),
        ('{"phone_number_id":"300000000000001","offset":1555}', []),
        ('{"ts":"2026-11-30T17:44:07.701+00:00"}', []),
        ("", []),
    ],
)
def test_the_scanner_finds_numbers_ids_and_words_in_every_spelling(text: str, found: list[str]) -> None:
    assert scan(text, forbidden=FORBIDDEN[1:]) == found


def test_the_scanner_refuses_to_look_for_nothing() -> None:
    with pytest.raises(AssertionError):
        scan("text", forbidden=["", PHONE])
