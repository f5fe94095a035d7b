"""Where an exception came from, without what was in it: class names and places, no text, no locals."""

import logging
import traceback
from typing import Any

EXCEPTIONS_MAX = 8
FRAMES_MAX = 30


def chain_of(error: BaseException) -> list[dict[str, Any]]:
    """The exception, then its causes and the members of groups, each as class and `file:line:function` frames."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < EXCEPTIONS_MAX:
        one = waiting.pop(0)
        if any(one is seen for seen in found):
            continue
        found.append(one)
        waiting += _behind(one)
    return [{"error": type(one).__name__, "frames": _frames(one)} for one in found]


def place_of(path: str, line: int, function: str = "") -> str:
    """`package/file.py:line[:function]`: enough to find it, nothing about the machine."""
    parts = path.replace("\\", "/").split("/")
    for root in ("site-packages", "src"):
        if root in parts:
            parts = parts[len(parts) - parts[::-1].index(root) :]
            break
    else:
        parts = parts[-2:]
    return ":".join(filter(None, ("/".join(parts), str(line), function)))


def literal_of(record: logging.LogRecord) -> str | None:
    """The record's text if its author wrote it as such, else None: an f-string may hold anybody's data.

    A text with arguments apart is a template. One without must be a constant of the code that logs, which is still
    on the stack.
    """
    if not isinstance(record.msg, str):
        return None
    if record.args:
        return record.msg
    for frame, _line in traceback.walk_stack(None):
        if frame.f_code.co_filename == record.pathname and frame.f_code.co_name == record.funcName:
            return record.msg if record.msg in frame.f_code.co_consts else None
    return None


def _behind(error: BaseException) -> list[BaseException]:
    members = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [*members, *([cause] if cause is not None else [])]


def _frames(error: BaseException) -> list[str]:
    walked = list(traceback.walk_tb(error.__traceback__))[-FRAMES_MAX:]
    return [place_of(frame.f_code.co_filename, line, frame.f_code.co_qualname) for frame, line in walked]
