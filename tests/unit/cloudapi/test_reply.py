"""From any answer to an outcome."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudapi.reply import RETRY_AFTER_S_MAX, outcome_of
from contracts.codes import CODES, Verdict
from contracts.contact import Wamid
from contracts.outcome import (
    Accepted,
    Outcome,
    Rejected,
    Scope,
    Throttled,
    Unknown,
    UnknownReason,
    Unsent,
    UnsentReason,
)

UNREADABLE = Unknown(UnknownReason.UNREADABLE_ANSWER)
REFUSED = Unsent(UnsentReason.REFUSED_WITHOUT_CODE)
STATUSES = st.integers(min_value=0, max_value=999)


def refusal(code: object, **more: object) -> bytes:
    return json.dumps({"error": {"message": "m", "type": "OAuthException", "code": code, **more}}).encode()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
# Answers of nearly the right shape are where a careless reader falls.
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "error": JSON_VALUES
        | st.fixed_dictionaries({}, optional={"code": JSON_VALUES, "error_subcode": JSON_VALUES}),
        "messages": JSON_VALUES
        | st.lists(st.fixed_dictionaries({}, optional={"id": JSON_VALUES}), max_size=2),
        "contacts": JSON_VALUES
        | st.lists(st.fixed_dictionaries({}, optional={"wa_id": JSON_VALUES}), max_size=2),
    },
)


@given(STATUSES, st.binary(), st.none() | st.text(), st.none() | st.text())
def test_any_bytes_and_any_headers_have_an_outcome(
    status: int, body: bytes, retry_after: str | None, date: str | None
) -> None:
    assert isinstance(outcome_of(status, body, retry_after=retry_after, date=date), Outcome)


@given(STATUSES, JSON_VALUES | NEARLY)
def test_any_json_has_an_outcome(status: int, answer: object) -> None:
    outcome = outcome_of(status, json.dumps(answer).encode())
    assert isinstance(outcome, Outcome)
    if isinstance(outcome, Accepted):
        assert 200 <= status <= 299


def test_an_answer_nested_too_deep_is_unknown() -> None:
    assert outcome_of(200, b"[" * 100_000) == UNREADABLE


def test_a_wamid_in_a_2xx_is_accepted_with_the_canonical_number() -> None:
    body = b'{"contacts":[{"input":"+5511987654321","wa_id":"551187654321"}],"messages":[{"id":"wamid.A"}],"new":1}'
    assert outcome_of(200, body) == Accepted(Wamid("wamid.A"), "551187654321")


def test_an_answer_to_a_user_id_is_accepted_without_a_number() -> None:
    assert outcome_of(200, b'{"contacts":[{"user_id":"GB.1"}],"messages":[{"id":"wamid.A"}]}') == Accepted(
        Wamid("wamid.A")
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b"<html>Sign in to this network</html>",
        b'{"messages":[]}',
        b'{"messages":[{}]}',
        b'{"messages":[{"id":""}]}',
        b'{"messages":[{"id":7}]}',
        b'{"messages":[{"id":"a\\u0000b"}]}',
        b'{"messages":{"id":"wamid.A"}}',
        b'{"messages":[{"id":"wamid.A"}',
        b'{"success":true}',
    ],
)
def test_a_2xx_without_a_readable_wamid_is_unknown(body: bytes) -> None:
    assert outcome_of(200, body) == UNREADABLE


@pytest.mark.bco("H05")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (502, b"<html>bad gateway</html>"),
        (504, b""),
        (503, b""),
        (408, b""),
        (499, b""),
        (500, b"\xff\xfe"),
        (302, b""),
        (101, b""),
        (600, b""),
        (500, b'{"error":{"message":"no code"}}'),
        (400, b'{"messages":[{"id":"wamid.A"}]}'),
    ],
)
def test_bco_h05_an_answer_without_a_readable_code_that_refuses_nothing_is_unknown(
    status: int, body: bytes
) -> None:
    assert outcome_of(status, body) == UNREADABLE


@pytest.mark.bco("H05")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b""),
        (400, b'{"error":"x"}'),
        (400, b"{}"),
        (403, b"x" * 1_000_000),
        (404, b"<html>no such page</html>"),
        (413, b"\xff\xfe"),
    ],
)
def test_bco_h05_a_4xx_without_a_readable_code_is_surely_not_sent(status: int, body: bytes) -> None:
    assert outcome_of(status, body) == REFUSED


@pytest.mark.bco("H05")
@pytest.mark.parametrize(
    ("body", "retry_after", "wait_s"), [(b"<html>slow down</html>", None, 1.0), (b"", "30", 30.0)]
)
def test_bco_h05_a_429_without_a_readable_code_slows_the_number(
    body: bytes, retry_after: str | None, wait_s: float
) -> None:
    assert outcome_of(429, body, retry_after=retry_after) == Throttled(Scope.NUMBER, wait_s, 429)


@pytest.mark.parametrize("code", [True, False, None, "", "4x", "-4", 4.5, -4, 2**31, 10**30, [4], "٤", "4\n"])
def test_what_is_no_code_is_not_taken_for_one(code: object) -> None:
    assert outcome_of(500, refusal(code)) == UNREADABLE
    assert outcome_of(400, refusal(code)) == REFUSED


def test_a_code_in_digits_counts_as_a_number() -> None:
    assert outcome_of(400, refusal("131026")) == Rejected(131026)


@pytest.mark.bco("H01")
@pytest.mark.parametrize("code", sorted(CODES))
def test_bco_h01_the_code_decides_whatever_the_http_status(code: int) -> None:
    outcomes = {outcome_of(status, refusal(code)) for status in (200, 400, 401, 403, 404, 429, 500, 503)}
    assert len(outcomes) == 1


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_code_has_the_outcome_of_its_verdict(code: int) -> None:
    row = CODES[code]
    outcome = outcome_of(400, refusal(code))
    match row.verdict:
        case Verdict.THROTTLE | Verdict.RESCHEDULE | Verdict.STOP:
            assert outcome == Throttled(row.scope, row.wait_s, code)
        case Verdict.REFUSE:
            assert outcome == Rejected(code)
        case Verdict.RETRY:
            assert isinstance(outcome, Unsent)
            assert outcome.code == code


def test_an_unlisted_code_is_refused() -> None:
    assert outcome_of(400, refusal(199_999)) == Rejected(199_999)


def test_an_unknown_number_id_stops_the_number_by_its_subcode() -> None:
    outcome = outcome_of(400, refusal(100, error_subcode=33))
    assert isinstance(outcome, Throttled)
    assert outcome.scope is Scope.NUMBER
    assert outcome_of(400, refusal(100)) == Rejected(100)


@pytest.mark.parametrize(
    ("retry_after", "date", "wait_s"),
    [
        ("30", None, 30.0),
        (" 30 ", None, 30.0),
        ("0", None, 1.0),
        ("Wed, 01 Jul 2026 10:02:00 GMT", "Wed, 01 Jul 2026 10:00:00 GMT", 120.0),
        ("Wed, 01 Jul 2026 09:00:00 GMT", "Wed, 01 Jul 2026 10:00:00 GMT", 1.0),
        ("Wed, 01 Jul 2026 10:02:00 GMT", None, 1.0),
        ("soon", None, 1.0),
        ("-5", None, 1.0),
        ("1e9", None, 1.0),
        ("9" * 18, None, RETRY_AFTER_S_MAX),
        ("9" * 400, None, 1.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "Wed, 01 Jul 2026 10:00:00 GMT", RETRY_AFTER_S_MAX),
    ],
)
def test_retry_after_lengthens_a_throttle_within_bounds(
    retry_after: str, date: str | None, wait_s: float
) -> None:
    outcome = outcome_of(429, refusal(130429), retry_after=retry_after, date=date)
    assert outcome == Throttled(Scope.NUMBER, wait_s, 130429)


def test_retry_after_never_shortens_a_throttle() -> None:
    outcome = outcome_of(429, refusal(131049), retry_after="5")
    assert outcome == Throttled(Scope.PAIR, 86_400.0, 131049)
