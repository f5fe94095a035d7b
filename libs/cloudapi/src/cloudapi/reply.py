"""From the answer of one POST to an outcome.

Invariant: any status and any bytes give an outcome, never an exception; where an error code is readable it alone decides,
since Meta documents no HTTP status (error page, 2026-09-11) and captures differ; without one only a 4xx says anything.

An edge may answer in Meta's place, in HTML or with nothing. By RFC 9110 a 4xx is a refusal of the request itself, so
nothing was sent: 429 slows the number, the others cost a try each. Not so 408 and 499, which tell of a time that ran out,
perhaps behind the edge; nor a 5xx, which may stand for an answer of Meta's that got lost; nor a 4xx that names a message.
Those are `Unknown`: a message given up is better than one sent twice.
"""

import re
from email.utils import parsedate_to_datetime
from typing import assert_never

import msgspec

from contracts.codes import Code, Verdict, code_row
from contracts.contact import Wamid
from contracts.outcome import (
    Accepted,
    Outcome,
    Rejected,
    Throttled,
    Unknown,
    UnknownReason,
    Unsent,
    UnsentReason,
)

RETRY_AFTER_S_MAX = 7 * 86_400.0

_CODE_MAX = 2**31 - 1
_CODE = re.compile(r"[0-9]{1,10}\Z")
_SECONDS = re.compile(r"[0-9]{1,18}\Z")
_IDENTIFIER = re.compile(r"[!-~]{1,512}\Z")  # a wamid is 58 to 62 characters today and may grow
_UNREADABLE = Unknown(UnknownReason.UNREADABLE_ANSWER)
_TOO_MANY_REQUESTS = 429
_TIMES_RAN_OUT = (408, 499)


def outcome_of(
    http_status: int, body: bytes, *, retry_after: str | None = None, date: str | None = None
) -> Outcome:
    """Return what an answer means; `retry_after` and `date` are the headers of these names.

    A `Retry-After` in seconds, or as a time of day that counts from `date`, lengthens a throttle, up to seven days.
    """
    answer = _decoded(body)
    if 200 <= http_status <= 299:
        accepted = _accepted(answer)
        if accepted is not None:
            return accepted
    error = answer.get("error")
    code = _number(error.get("code")) if isinstance(error, dict) else None
    if isinstance(error, dict) and code is not None:
        return _refused(code_row(code, _number(error.get("error_subcode"))), _wait_s(retry_after, date))
    if not 400 <= http_status <= 499 or http_status in _TIMES_RAN_OUT or "messages" in answer:
        return _UNREADABLE
    if http_status == _TOO_MANY_REQUESTS:
        return _refused(code_row(_TOO_MANY_REQUESTS), _wait_s(retry_after, date))
    return Unsent(UnsentReason.REFUSED_WITHOUT_CODE)


def _decoded(body: bytes) -> dict[object, object]:
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _accepted(answer: dict[object, object]) -> Accepted | None:
    wamid = _identifier(_first(answer.get("messages")).get("id"))
    if wamid is None:
        return None
    return Accepted(Wamid(wamid), _identifier(_first(answer.get("contacts")).get("wa_id")))


def _first(value: object) -> dict[object, object]:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return value[0]
    return {}


def _identifier(value: object) -> str | None:
    return value if isinstance(value, str) and _IDENTIFIER.match(value) else None


def _number(value: object) -> int | None:
    """Return a code that is an int or a string of digits; true is no code, and neither is what no column would hold."""
    if isinstance(value, str) and _CODE.match(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _CODE_MAX:
        return value
    return None


def _refused(row: Code, asked_s: float) -> Outcome:
    match row.verdict:
        case Verdict.THROTTLE | Verdict.RESCHEDULE | Verdict.STOP:
            assert row.scope is not None, "the error table's test holds this"
            return Throttled(row.scope, min(max(row.wait_s, asked_s), RETRY_AFTER_S_MAX), row.code)
        case Verdict.REFUSE:
            return Rejected(row.code)
        case Verdict.RETRY:
            return Unsent(UnsentReason.RETRY_CODE, row.code)
        case _:
            assert_never(row.verdict)


def _wait_s(retry_after: str | None, date: str | None) -> float:
    """Return the wait that the headers ask for, 0 where they don't: Meta documents none, a proxy may add one."""
    if retry_after is None:
        return 0.0
    asked = retry_after.strip()
    if _SECONDS.match(asked):
        return float(asked)
    until_s, answered_s = _http_date_s(asked), _http_date_s(date or "")
    return 0.0 if until_s is None or answered_s is None else max(0.0, until_s - answered_s)


def _http_date_s(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (
        ValueError,
        OverflowError,
        OSError,
        TypeError,
        IndexError,
    ):  # `email` is not strict about what it raises
        return None
