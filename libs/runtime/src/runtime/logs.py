"""One JSON line per event on stdout.

Invariant: no free text passes. Numbers, booleans and enums may stand under any key; strings only under a dozen known
keys and only in the shape of a name; the rest is dropped and counted. Logging never raises into its caller.
"""

import asyncio
import hashlib
import logging
import math
import re
import secrets
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple, TextIO, cast

import msgspec
import structlog
from structlog.contextvars import bound_contextvars as bound

from runtime import metrics
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.config import Secret
from runtime.traces import chain_of, literal_of, place_of

__all__ = ["LogLevel", "Logger", "bound", "catch_strays", "configure", "get_logger"]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


# Keys whose strings come from closed sets or from the deployment, never from a message or a person.
STRING_KEYS = frozenset(
    {
        "error",
        "event",
        "group",
        "logger",
        "name",
        "outcome",
        "phone_number_id",
        "reason",
        "scope",
        "state",
        "topic",
        "trigger",
        "url_host",
    }
)
ITEMS_MAX: Final = 100
MESSAGE_CHARS_MAX: Final = 200
LIBRARY_EVERY_S: Final = 5.0
KINDS_MAX: Final = 1_000

_RANKS = {level: rank for rank, level in enumerate(LogLevel)}
_EVENT = re.compile(r"[a-z][a-z_]*(\.[a-z][a-z_]*)+")
_KEY = re.compile(r"[a-z][a-z_0-9]{0,40}")
_NAME = re.compile(r"[A-Za-z0-9_.:\-\[\]]{1,120}")  # topics, groups, hosts, class names: no sentence fits
_DIGITS = re.compile(r"\d{7,}")  # what might be a phone number
_DROPPED: Final = object()

Fields = MutableMapping[str, Any]


class Logger(structlog.BoundLoggerBase):
    """Logs an event (dotted, past tense) with fields; `error=` takes an exception and logs its class."""

    def debug(self, event: str, /, *args: object, **fields: object) -> None:
        self._emit(LogLevel.DEBUG, event, args, fields)

    def info(self, event: str, /, *args: object, **fields: object) -> None:
        self._emit(LogLevel.INFO, event, args, fields)

    def warning(self, event: str, /, *args: object, **fields: object) -> None:
        self._emit(LogLevel.WARNING, event, args, fields)

    def error(self, event: str, /, *args: object, **fields: object) -> None:
        self._emit(LogLevel.ERROR, event, args, fields)

    def exception(self, event: str, /, *args: object, **fields: object) -> None:
        """An error with the class and the places of the exception at hand; its text stays out."""
        self._emit(LogLevel.ERROR, event, args, {"exc_info": True, **fields})

    def _emit(
        self, level: LogLevel, event: str, args: tuple[object, ...], fields: Mapping[str, object]
    ) -> None:
        if _RANKS[level] < _RANKS[_pipeline.level]:
            return
        try:
            if args:  # nothing is interpolated: an argument would carry free text into the event
                metrics.LOG_KEYS_DROPPED.inc(len(args))
            line = self._process_event(level.value, event, dict(fields))[0][0]
        except Exception:  # noqa: BLE001 - a faulty log call costs its own fields, never the process
            metrics.LOG_LINES_DEGRADED.inc()
            line = _pipeline.degraded(level, event)
        _pipeline.write(line)


class _Pipeline(NamedTuple):
    """Turns one call into one line."""

    service: str
    level: LogLevel
    hash_key: Callable[[], bytes]
    stream: TextIO | None

    def render(self, level: str, fields: Fields, trusted: Mapping[str, object]) -> str:
        line = self._head(level, fields.pop("event", None))
        failure = _failure(fields.pop("exc_info", None))
        for key, value in fields.items():
            passed = self._passed(key, value)
            if passed is _DROPPED:
                metrics.LOG_KEYS_DROPPED.inc()
            else:
                line.setdefault(key, passed)
        line.update(trusted)
        if failure is not None:
            chain = chain_of(failure)
            line["error"] = chain[0]["error"]
            line["traceback"] = chain
        return msgspec.json.encode(line).decode()

    def degraded(self, level: LogLevel, event: object) -> str:
        line = self._head(level.value, event if isinstance(event, str) else None)
        return msgspec.json.encode({**line, "degraded": True}).decode()

    def write(self, line: str) -> None:
        stream = sys.stdout if self.stream is None else self.stream
        with suppress(OSError, ValueError):  # a closed pipe: there is nobody left to tell
            stream.write(line + "\n")
            stream.flush()

    def _head(self, level: str, event: object) -> dict[str, Any]:
        if not isinstance(event, str) or not _EVENT.fullmatch(event):
            metrics.LOG_KEYS_DROPPED.inc()
            event = "log.misnamed"
        ts = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {"ts": ts, "level": level, "service": self.service, "event": event}

    def _passed(self, key: str, value: object) -> object:
        if not _KEY.fullmatch(key) or _DIGITS.search(key):
            return _DROPPED
        if key == "contact":
            return self._hashed(value)
        if isinstance(value, list | tuple):
            items = [_scalar(key, item) for item in value[:ITEMS_MAX]]
            return _DROPPED if _DROPPED in items else items
        return _scalar(key, value)

    def _hashed(self, value: object) -> object:
        if value is None:
            return None
        if not isinstance(value, str | int):
            return _DROPPED
        return hashlib.blake2b(str(value).encode(), key=self.hash_key(), digest_size=6).hexdigest()


def _scalar(key: str, value: object) -> object:
    if isinstance(value, Enum):
        return value.value if isinstance(value.value, str | int | float) else value.name
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if math.isfinite(value) and abs(value) < 2**63 else _DROPPED
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, str) and key in STRING_KEYS:
        return _named(key, value)
    return _DROPPED


def _named(key: str, text: str) -> object:
    if not _NAME.fullmatch(text) or text.startswith("wamid."):
        return _DROPPED
    return text if key == "phone_number_id" or not _DIGITS.search(text) else _DROPPED


def _failure(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, tuple):
        exc_info = exc_info[1]
    if isinstance(exc_info, BaseException):
        return exc_info
    return sys.exc_info()[1] if exc_info else None


def _last(_logger: object, level: str, fields: Fields) -> str:
    return _pipeline.render(level, fields, {})


class _Kind:
    """Lines of one place in a library's code."""

    __slots__ = ("passes_at", "suppressed")

    def __init__(self) -> None:
        self.passes_at = 0.0
        self.suppressed = 0


class _StdlibHandler(logging.Handler):
    """Takes what libraries log: logger, place and exception class; of the text only what their authors wrote.

    A kind is a place in the code that logs, and the class of the exception. While a server is away, libraries say the
    same thing hundreds of times a second: the first of a kind passes, then one each `LIBRARY_EVERY_S`, with how many
    were suppressed since.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._kinds: dict[tuple[str, int, object], _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        kind = self._kind_of(record)
        now = self._clock.boottime()
        if now < kind.passes_at:
            kind.suppressed += 1
            metrics.LOG_LINES_SUPPRESSED.inc()
            return
        suppressed, kind.suppressed = kind.suppressed, 0
        kind.passes_at = now + LIBRARY_EVERY_S
        self._write(record, {"suppressed": suppressed} if suppressed else {})

    def _kind_of(self, record: logging.LogRecord) -> "_Kind":
        name = record.pathname, record.lineno, record.exc_info and record.exc_info[0]
        if name not in self._kinds and len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
        return self._kinds.setdefault(name, _Kind())

    def _write(self, record: logging.LogRecord, counts: Mapping[str, object]) -> None:
        level = LogLevel.ERROR if record.levelno >= logging.ERROR else LogLevel.WARNING
        event = "library.failed" if level is LogLevel.ERROR else "library.warned"
        try:
            trusted: dict[str, object] = {
                "logger": record.name,
                "place": place_of(record.pathname, record.lineno),
            }
            if text := literal_of(record):
                trusted["message"] = _DIGITS.sub("#", text[:MESSAGE_CHARS_MAX])
            line = _pipeline.render(
                level.value, {"event": event, "exc_info": record.exc_info, **counts}, trusted
            )
        except Exception:  # noqa: BLE001 - as in Logger: logging never raises into its caller
            metrics.LOG_LINES_DEGRADED.inc()
            line = _pipeline.degraded(level, event)
        _pipeline.write(line)


# What is logged before `configure` obeys the same rules.


def _digest_of(hash_key: Secret | None) -> Callable[[], bytes]:
    """The key as of now, since its secret may be renewed; without one, a random one."""
    random_key = secrets.token_bytes(32)
    return lambda: random_key if hash_key is None else hashlib.sha256(hash_key.reveal().encode()).digest()


_pipeline = _Pipeline("unconfigured", LogLevel.INFO, _digest_of(None), None)
structlog.configure(
    processors=[structlog.contextvars.merge_contextvars, _last],
    wrapper_class=Logger,
    logger_factory=lambda *_: None,
    cache_logger_on_first_use=True,
)


def get_logger() -> Logger:
    return cast("Logger", structlog.get_logger())


def configure(
    service: str,
    *,
    level: str = "info",
    hash_key: Secret | None = None,
    stream: TextIO | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Name the service and take over the standard library's loggers, from WARNING up.

    Contacts are hashed with `hash_key`; without one the key is random, so hashes can't be compared between processes.
    `stream` is standard output unless given. Raises `ValueError` for an unknown level.
    """
    global _pipeline
    _pipeline = _Pipeline(service, LogLevel(level), _digest_of(hash_key), stream)
    root = logging.getLogger()
    root.handlers[:] = [_StdlibHandler(clock)]
    root.setLevel(logging.WARNING)
    for other in logging.Logger.manager.loggerDict.values():
        if isinstance(other, logging.Logger):
            other.handlers.clear()
            other.propagate = True


def catch_strays(loop: asyncio.AbstractEventLoop) -> None:
    """Log what nobody caught, in the loop, in threads and at the top; the default hooks print the exception's text."""
    log = get_logger()

    def in_loop(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        log.error("loop.exception_uncaught", exc_info=context.get("exception"))

    def in_thread(args: threading.ExceptHookArgs) -> None:
        log.error("thread.exception_uncaught", exc_info=args.exc_value)

    def at_top(_kind: type[BaseException], error: BaseException, _trace: object) -> None:
        log.error("process.exception_uncaught", exc_info=error)

    loop.set_exception_handler(in_loop)
    threading.excepthook = in_thread
    sys.excepthook = at_top
    sys.unraisablehook = lambda args: log.error("object.exception_uncaught", exc_info=args.exc_value)
