"""The main function of every service: arguments, configuration, start, signals, bounded drain, exit code.

Invariant: once told to stop, or failing, a process is gone within its drain time, whatever hangs.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Protocol

import uvloop
from msgspec import Struct

from runtime import logs, metrics
from runtime.clock import SYSTEM_CLOCK
from runtime.config import ConfigError, ConfigT, explain, load
from runtime.renewal import renewing

EXIT_OK = 0
EXIT_FAILED = 70  # EX_SOFTWARE
EXIT_STUCK = 75  # EX_TEMPFAIL
EXIT_CONFIG = 78  # EX_CONFIG

DRAIN_S = 20.0  # for services whose record has no drain_s
LAST_WORDS_S = 2.0  # for the interpreter's own exit, which waits for threads

log = logs.get_logger()


class App(Protocol):
    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, finish what was begun, return. If it has a `health: Health`, that is told."""


OpenApp = Callable[[ConfigT], AbstractAsyncContextManager[App]]


def run(service: str, config_type: type[ConfigT], prefix: str, open_app: OpenApp[ConfigT]) -> NoReturn:
    """Run a service from its command line to its exit code; `service` is its name in kebab-case.

    Codes: 0 stopped as asked, 70 failed, 75 did not drain in time, 78 bad configuration.
    """
    code = main(service, config_type, prefix, open_app, argv=sys.argv[1:])
    _end_later(LAST_WORDS_S, os._exit, code)
    sys.exit(code)


def main(
    service: str,
    config_type: type[ConfigT],
    prefix: str,
    open_app: OpenApp[ConfigT],
    *,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    end_process: Callable[[int], object] = os._exit,
) -> int:
    """As `run`, but returns the exit code (`SystemExit` only for `--help` and wrong arguments)."""
    parser = argparse.ArgumentParser(prog=f"python -m {service.replace('-', '_')}")
    parser.add_argument("--explain-config", action="store_true", help="print every setting and exit")
    if parser.parse_args(argv).explain_config:
        sys.stdout.write(explain(config_type, prefix))
        return EXIT_OK
    try:
        config = load(config_type, prefix=prefix, env=env)
        _configure_logs(service, config)
    except ConfigError as error:
        sys.stderr.write(f"{service}: {error}\n")
        return EXIT_CONFIG
    metrics.declare_start(service, SYSTEM_CLOCK.wall())
    deadline = _Deadline(getattr(config, "drain_s", DRAIN_S), end_process)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_live(config, open_app, deadline))
    finally:
        deadline.lift()


def stop_on_signals(then: Callable[[], None] | None = None) -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets, in the running loop; `then` is called after it, once."""
    stop = asyncio.Event()

    def stop_now(number: int) -> None:
        if stop.is_set():
            return
        log.info("stop.requested", signal=number)
        stop.set()
        if then is not None:
            then()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_now, int(number))
    return stop


class _Deadline:
    """Ends the process `drain_s` after `start`, from a thread, so that a loop that hangs can't put it off."""

    def __init__(self, drain_s: float, end_process: Callable[[int], object]) -> None:
        self._drain_s = drain_s
        self._end_process = end_process
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        if self._timer is None:
            metrics.DRAINING.set(1)
            self._timer = _end_later(self._drain_s, self._expire)

    def lift(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        told = threading.Thread(
            target=lambda: log.error("drain.timed_out", drain_s=self._drain_s), daemon=True
        )
        told.start()
        told.join(timeout=0.5)  # a log whose reader hangs doesn't hold up the end
        self._end_process(EXIT_STUCK)


class _Life:
    """One run of an application, from its opening to its end."""

    def __init__(self, deadline: _Deadline) -> None:
        self._deadline = deadline
        self._app: App | None = None
        self._task = asyncio.current_task()
        self.given_up = False
        self.stop = stop_on_signals(self._leave)

    async def live(self, opening: AbstractAsyncContextManager[App], started_at: float) -> None:
        async with opening as app:
            self._app = app
            log.info("service.started", seconds=_since(started_at))
            try:
                await app.run(self.stop)
                if not self.stop.is_set():
                    raise RuntimeError("the service ended although nobody asked it to")
            finally:
                self._drain()

    def _leave(self) -> None:
        self._drain()
        if self._app is None:
            assert self._task is not None
            self.given_up = self._task.cancel()  # still opening, perhaps waiting for a broker that is away

    def _drain(self) -> None:
        self._deadline.start()
        health = getattr(self._app, "health", None)
        if health is not None:
            health.start_drain()


async def _live(config: ConfigT, open_app: OpenApp[ConfigT], deadline: _Deadline) -> int:
    logs.catch_strays(asyncio.get_running_loop())
    started_at = SYSTEM_CLOCK.boottime()
    life = _Life(deadline)
    try:
        async with renewing(config):
            await life.live(open_app(config), started_at)
    except asyncio.CancelledError:
        if not life.given_up:
            raise
    except Exception:  # the top of the process: whatever ended it is logged, without its text
        log.exception("service.failed", seconds=_since(started_at))
        return EXIT_FAILED
    finally:
        deadline.start()  # what is left of the loop closes in time, too
    log.info("service.stopped", seconds=_since(started_at))
    return EXIT_OK


def _since(moment: float) -> float:
    return round(SYSTEM_CLOCK.boottime() - moment, 3)


def _configure_logs(service: str, config: Struct) -> None:
    level = getattr(config, "log_level", logs.LogLevel.INFO)
    if level not in list(logs.LogLevel):
        raise ConfigError(f"SLUICE_LOG_LEVEL must be one of {', '.join(logs.LogLevel)}")
    logs.configure(service, level=level, hash_key=getattr(config, "log_hash_key", None))


def _end_later(seconds: float, end: Callable[..., Any], *args: Any) -> threading.Timer:
    timer = threading.Timer(seconds, end, args)
    timer.daemon = True
    timer.start()
    return timer
