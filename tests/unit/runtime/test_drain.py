"""Start, stop and the exit code, in this process where that is enough and in one of its own where it isn't."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from runtime import drain, logs, metrics
from runtime.config import Secret
from runtime.health import Health

PHONE = "447700900001"
ENV = {"SLUICE_ACCESS_TOKEN": "qa-token-1"}


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    access_token: Secret
    log_level: str = "info"
    drain_s: float = 5.0


class App:
    def __init__(self, body: Callable[[asyncio.Event], Any]) -> None:
        self.body = body
        self.health = Health()

    async def run(self, stop: asyncio.Event) -> None:
        await self.body(stop)


class Printed:
    """Everything on standard output so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    def getvalue(self) -> str:
        self._text += self._capsys.readouterr().out
        return self._text


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Printed]:
    monkeypatch.setattr(logs, "_pipeline", logs._pipeline)
    for owner, name in ((threading, "excepthook"), (sys, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Printed(capsys)
    root.handlers[:] = handlers
    root.setLevel(level)


def events(stream: Printed) -> list[str]:
    return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


def opening(
    body: Callable[[asyncio.Event], Any], closed: list[str] | None = None
) -> Callable[[Config], AbstractAsyncContextManager[App]]:
    @asynccontextmanager
    async def open_app(_config: Config) -> AsyncIterator[App]:
        try:
            yield App(body)
        finally:
            if closed is not None:
                closed.append("closed")

    return open_app


def run_main(open_app: Any, *argv: str, env: dict[str, str] = ENV, exits: list[int] | None = None) -> int:
    ended: list[int] = [] if exits is None else exits
    return drain.main("sender", Config, "SENDER", open_app, argv=argv, env=env, end_process=ended.append)


def test_a_signal_stops_the_app_which_drains_and_closes_and_exits_0(out: Printed) -> None:
    closed: list[str] = []
    seen: list[Any] = []

    async def body(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        seen.append(metrics.DRAINING._value.get())

    assert run_main(opening(body, closed)) == 0
    assert closed == ["closed"]
    assert seen == [1.0]
    assert events(out) == ["service.started", "stop.requested", "service.stopped"]
    assert json.loads(out.getvalue().splitlines()[0])["seconds"] >= 0


def test_the_health_of_the_app_is_told_of_the_drain(out: Printed) -> None:
    app = App(lambda stop: stop.wait())

    @asynccontextmanager
    async def open_app(_config: Config) -> AsyncIterator[App]:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
        yield app
        assert app.health.draining

    assert run_main(open_app) == 0
    assert app.health.draining


def test_a_failing_app_is_closed_and_logged_without_its_text_and_exits_70(out: Printed) -> None:
    closed: list[str] = []

    async def body(_stop: asyncio.Event) -> None:
        raise ValueError(PHONE)

    assert run_main(opening(body, closed)) == 70
    assert closed == ["closed"]
    assert events(out) == ["service.started", "service.failed"]
    assert json.loads(out.getvalue().splitlines()[-1])["error"] == "ValueError"
    assert PHONE not in out.getvalue()


def test_an_app_that_ends_although_nobody_asked_has_failed(out: Printed) -> None:
    async def body(_stop: asyncio.Event) -> None:
        return None

    assert run_main(opening(body)) == 70
    assert events(out) == ["service.started", "service.failed"]


def test_an_app_that_can_not_open_has_failed(out: Printed) -> None:
    @asynccontextmanager
    async def open_app(_config: Config) -> AsyncIterator[App]:
        raise OSError(PHONE)
        yield

    assert run_main(open_app) == 70
    assert events(out) == ["service.failed"]


def test_a_signal_while_opening_gives_the_opening_up(out: Printed) -> None:
    closed: list[str] = []

    @asynccontextmanager
    async def open_app(_config: Config) -> AsyncIterator[App]:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            async with asyncio.timeout(30.0):
                await asyncio.Event().wait()
        finally:
            closed.append("closed")
        yield App(lambda stop: stop.wait())

    assert run_main(open_app) == 0
    assert closed == ["closed"]
    assert events(out) == ["stop.requested", "service.stopped"]


def test_a_drain_that_hangs_is_ended_with_75(out: Printed) -> None:
    exits: list[int] = []

    async def body(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        async with asyncio.timeout(30.0):
            while not exits:
                await asyncio.sleep(0.01)

    run_main(opening(body), env={**ENV, "SENDER_DRAIN_S": "0.1"}, exits=exits)
    assert exits == [75]
    assert "drain.timed_out" in events(out)


def test_a_close_that_hangs_after_a_failure_is_ended_too(out: Printed) -> None:
    exits: list[int] = []

    @asynccontextmanager
    async def open_app(_config: Config) -> AsyncIterator[App]:
        async def body(_stop: asyncio.Event) -> None:
            raise ValueError

        try:
            yield App(body)
        finally:
            async with asyncio.timeout(30.0):
                while not exits:
                    await asyncio.sleep(0.01)

    run_main(open_app, env={**ENV, "SENDER_DRAIN_S": "0.1"}, exits=exits)
    assert exits == [75]


def test_a_drain_in_time_ends_nothing(out: Printed) -> None:
    exits: list[int] = []

    async def body(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()

    assert run_main(opening(body), env={**ENV, "SENDER_DRAIN_S": "0.2"}, exits=exits) == 0
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)
    assert exits == []


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({}, "SLUICE_ACCESS_TOKEN"),
        ({**ENV, "SENDER_DRAIN_SS": "1"}, "SENDER_DRAIN_S"),
        ({**ENV, "SLUICE_LOG_LEVEL": "loud"}, "SLUICE_LOG_LEVEL"),
    ],
)
def test_a_bad_configuration_is_one_line_and_78(
    capsys: pytest.CaptureFixture[str], env: dict[str, str], says: str
) -> None:
    assert run_main(opening(lambda stop: stop.wait()), env=env) == 78
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("sender: ")
    assert says in printed.err
    assert printed.out == ""


def test_explaining_the_configuration_needs_none(out: Printed) -> None:
    assert run_main(opening(lambda stop: stop.wait()), "--explain-config", env={}) == 0
    assert "SENDER_DRAIN_S" in out.getvalue()


def test_help_names_the_service(out: Printed) -> None:
    with pytest.raises(SystemExit) as ended:
        run_main(opening(lambda stop: stop.wait()), "--help")
    assert ended.value.code == 0
    assert "python -m sender" in out.getvalue()


SERVICE = """
import asyncio, threading, time
from contextlib import asynccontextmanager
from msgspec import Struct
from runtime.drain import run

class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hang: bool = False
    drain_s: float = 5.0

class App:
    def __init__(self, config): self.config = config
    async def run(self, stop):
        await stop.wait()
        if self.config.hang:
            time.sleep(60)  # the loop itself stands still
        asyncio.get_running_loop().run_in_executor(None, lambda: None)

@asynccontextmanager
async def open_app(config):
    yield App(config)

run("sender", Config, "SENDER", open_app)
"""


@pytest.mark.parametrize(("hang", "code"), [("false", 0), ("true", 75)])
def test_a_process_leaves_with_its_code_even_when_its_loop_hangs(
    tmp_path: Path, hang: str, code: int
) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    env = {"SENDER_HANG": hang, "SENDER_DRAIN_S": "0.3", "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "service.py")],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["event"], first["service"]) == ("service.started", "sender")
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert errors == ""
    last = "service.stopped" if code == 0 else "drain.timed_out"
    assert json.loads(rest.splitlines()[-1])["event"] == last
