"""Meta's error codes and what each means to us: one table, code → scope, verdict, source.

Source of every row, where none is named: Meta's error page as of 2026-09-11.
Invariant: a code that isn't here has a written default; new codes appear every few months and never crash anything.
"""

from enum import StrEnum

from msgspec import Struct

from contracts.outcome import Scope


class Verdict(StrEnum):
    """What a code asks of us."""

    THROTTLE = "throttle"
    """Slow down everything within the scope; burns no try."""
    RESCHEDULE = "reschedule"
    """This recipient alone, later."""
    REFUSE = "refuse"
    """This message to this recipient never."""
    STOP = "stop"
    """Stop everything within the scope until a human or a webhook lifts it; rows stay unsent."""
    RETRY = "retry"
    """A passing fault: back off and try again; costs one try."""


class Code(Struct, frozen=True):
    """One row of the table. `wait_s` is how long a throttle, stop or reschedule lasts unless the answer says otherwise."""

    code: int
    verdict: Verdict
    scope: Scope | None
    meaning: str
    wait_s: float = 0.0
    source: str = "official error page, 2026-09-11"


_WABA_STOP_S = 900.0
_NUMBER_STOP_S = 900.0
_TEMPLATE_STOP_S = 900.0


def _stops(scope: Scope, wait_s: float, rows: dict[int, str]) -> list[Code]:
    return [Code(code, Verdict.STOP, scope, meaning, wait_s) for code, meaning in rows.items()]


def _refusals(rows: dict[int, str]) -> list[Code]:
    return [Code(code, Verdict.REFUSE, None, meaning) for code, meaning in rows.items()]


_ROWS: list[Code] = [
    *_stops(
        Scope.WABA,
        _WABA_STOP_S,
        {
            0: "cannot authenticate: token expired or revoked",
            3: "capability or permission problem, though it comes with HTTP 500",
            10: "permission missing or removed",
            102: "bad session",
            104: "no token sent",
            190: "access token expired or invalid",
            200: "no token or no permission",
            368: "account restricted for policy violations",
            131005: "access denied",
            131031: "account locked, or PIN mismatch",
            131042: "payment method problem",
            131044: "payment method problem (calling)",
            131064: "limit after template classification violations",
            134011: "payments terms not accepted",
        },
    ),
    *_stops(
        Scope.NUMBER,
        _NUMBER_STOP_S,
        {
            33: "phone number deleted",
            131037: "display name not approved",
            131045: "number registration error",
            133000: "registration incomplete",
            133005: "PIN mismatch",
            133006: "number not verified",
            133008: "too many PIN guesses",
            133009: "PIN entered too fast",
            133010: "number not registered",
            133015: "number was just deleted",
            133016: "too many registrations",
        },
    ),
    Code(131048, Verdict.STOP, Scope.NUMBER, "spam rate limit on the number", 4 * 3600.0),
    *_stops(
        Scope.TEMPLATE,
        _TEMPLATE_STOP_S,
        {
            131063: "marketing templates switched off on this API for this account",
            132001: "template missing or not approved in that language",
            132007: "content policy",
            132015: "template paused for quality",
            132016: "template disabled",
            132068: "flow blocked",
            134102: "template unavailable",
        },
    ),
    Code(4, Verdict.THROTTLE, Scope.APP, "application call limit", 60.0),
    Code(613, Verdict.THROTTLE, Scope.APP, "call-rate limit", 60.0, "courier's tests, August 2026"),
    Code(80007, Verdict.THROTTLE, Scope.WABA, "account call limit", 60.0),
    Code(130429, Verdict.THROTTLE, Scope.NUMBER, "the number's throughput is reached", 1.0),
    Code(131057, Verdict.THROTTLE, Scope.NUMBER, "account in maintenance, e.g. a throughput upgrade", 60.0),
    Code(2494100, Verdict.THROTTLE, Scope.NUMBER, "number in maintenance", 60.0),
    Code(
        429,
        Verdict.THROTTLE,
        Scope.NUMBER,
        "no code of Meta's: HTTP 429, e.g. an edge's limit",
        1.0,
        "RFC 6585",
    ),
    Code(132069, Verdict.THROTTLE, Scope.TEMPLATE, "flow throttled (10 an hour)", 360.0),
    Code(134101, Verdict.THROTTLE, Scope.TEMPLATE, "template not yet synchronised", 600.0),
    Code(131056, Verdict.RESCHEDULE, Scope.PAIR, "too many messages from this number to this person", 6.0),
    Code(131049, Verdict.RESCHEDULE, Scope.PAIR, "per-user marketing cap", 24 * 3600.0),
    Code(1, Verdict.RETRY, None, "unknown request error or server fault"),
    Code(2, Verdict.RETRY, None, "temporary downtime or overload"),
    Code(131000, Verdict.RETRY, None, "unknown failure"),
    Code(131016, Verdict.RETRY, None, "service unavailable"),
    Code(133004, Verdict.RETRY, None, "server temporarily unavailable"),
    *_refusals(
        {
            100: "bad or unknown parameter",
            130403: "this business blocked the person",
            130472: "the person is in an experiment of Meta's",
            130497: "this business may not message this country",
            131008: "required parameter missing",
            131009: "parameter value invalid",
            131014: "media link could not be fetched (old code)",
            131021: "sender and recipient are the same",
            131026: "undeliverable",
            131030: "recipient not in the test number's allowed list",  # the person's: those who are in it get theirs
            131047: "the 24-hour window is closed",
            131050: "the person opted out of marketing",
            131051: "unsupported message type",
            131053: "media could not be fetched",
            131055: "marketing templates only",
            131062: "this message can't be sent to a business-scoped user id",
            132000: "parameter count mismatch",
            132005: "text too long once filled in",
            132008: "parameter value invalid for the template",
            132012: "parameter format mismatch",
            132018: "template validation error",
            132021: "direct-send template name clash",
            134100: "not a marketing template",
            135000: "unknown parameter fault",
            137000: "identity key mismatch",
        }
    ),
]

CODES: dict[int, Code] = {row.code: row for row in _ROWS}
UNKNOWN_NUMBER_SUBCODE = 33
"""Code 100 with this subcode means the phone number id is unknown (captured payloads, 2023)."""


def code_row(code: int, subcode: int | None = None) -> Code:
    """Return the row of a code; of an unlisted one the default: 201-299 stop the account, others refuse the message."""
    if code == 100 and subcode == UNKNOWN_NUMBER_SUBCODE:
        return Code(100, Verdict.STOP, Scope.NUMBER, "unknown phone number id", _NUMBER_STOP_S)
    known = CODES.get(code)
    if known is not None:
        return known
    if 201 <= code <= 299:
        return Code(code, Verdict.STOP, Scope.WABA, "permission not granted or removed", _WABA_STOP_S)
    return Code(code, Verdict.REFUSE, None, "a code nobody has listed yet", 0.0, "written default")
