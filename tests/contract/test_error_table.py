"""The error table: every code that a send can meet is in it, with a verdict, a scope that fits and a source."""

import pytest

from contracts.codes import CODES, Code, Verdict, code_row
from contracts.outcome import Scope

# Written down by hand from Meta's error page (2026-09-11) and the sources named in the table. Left
# out: groups (131020, 131041, 131059, 1312xx), inbound placeholders (131052, 131060), calling, flows, usernames,
# template creation and history synchronisation, none of which answers a send to one person.
STOPS_THE_ACCOUNT = [0, 3, 10, 102, 104, 190, 200, 368, 131005, 131031, 131042, 131044, 131064, 134011]
STOPS_THE_NUMBER = [
    *(33, 131037, 131045, 131048),
    *(133000, 133005, 133006, 133008, 133009, 133010, 133015, 133016),
]
STOPS_THE_TEMPLATE = [131063, 132001, 132007, 132015, 132016, 132068, 134102]
THROTTLES = {
    429: Scope.NUMBER,  # HTTP's own
    4: Scope.APP,
    613: Scope.APP,
    80007: Scope.WABA,
    130429: Scope.NUMBER,
    131057: Scope.NUMBER,
    2494100: Scope.NUMBER,
    132069: Scope.TEMPLATE,
    134101: Scope.TEMPLATE,
}
RESCHEDULES = [131049, 131056]
RETRIES = [1, 2, 131000, 131016, 133004]
REFUSES = [
    *(
        100,
        130403,
        130472,
        130497,
        131008,
        131009,
        131014,
        131021,
        131026,
        131030,
        131047,
        131050,
        131051,
        131053,
    ),
    *(131055, 131062, 132000, 132005, 132008, 132012, 132018, 132021, 134100, 135000, 137000),
]
EXPECTED: dict[int, tuple[Verdict, Scope | None]] = {
    **dict.fromkeys(STOPS_THE_ACCOUNT, (Verdict.STOP, Scope.WABA)),
    **dict.fromkeys(STOPS_THE_NUMBER, (Verdict.STOP, Scope.NUMBER)),
    **dict.fromkeys(STOPS_THE_TEMPLATE, (Verdict.STOP, Scope.TEMPLATE)),
    **{code: (Verdict.THROTTLE, scope) for code, scope in THROTTLES.items()},
    **dict.fromkeys(RESCHEDULES, (Verdict.RESCHEDULE, Scope.PAIR)),
    **dict.fromkeys(RETRIES, (Verdict.RETRY, None)),
    **dict.fromkeys(REFUSES, (Verdict.REFUSE, None)),
}
WAITING = {Verdict.THROTTLE, Verdict.RESCHEDULE, Verdict.STOP}
ROWS = list(CODES.values())


@pytest.mark.parametrize("code", sorted(EXPECTED))
def test_a_code_that_a_send_can_meet_is_in_the_table(code: int) -> None:
    assert (CODES[code].verdict, CODES[code].scope) == EXPECTED[code]


def test_no_code_is_in_the_table_that_no_source_names() -> None:
    assert set(CODES) == set(EXPECTED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.code))
def test_a_row_is_whole(row: Code) -> None:
    assert isinstance(row.verdict, Verdict)
    assert row.meaning
    assert row.source
    assert CODES[row.code] is row
    assert code_row(row.code) is row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.code))
def test_scope_and_wait_belong_to_those_that_wait(row: Code) -> None:
    if row.verdict in WAITING:
        assert row.scope is not None
        assert 0 < row.wait_s <= 7 * 86_400
    else:
        assert row.scope is None
        assert row.wait_s == 0


def test_a_pair_alone_is_rescheduled_and_never_anything_wider() -> None:
    assert {row.scope for row in ROWS if row.verdict is Verdict.RESCHEDULE} == {Scope.PAIR}
    assert not [row for row in ROWS if row.scope is Scope.PAIR and row.verdict is not Verdict.RESCHEDULE]


@pytest.mark.bco("H07")
def test_bco_h07_the_marketing_cap_waits_a_day() -> None:
    assert CODES[131049].wait_s >= 86_400


def test_maintenance_pauses_a_number_for_a_minute() -> None:
    assert 60 <= CODES[131057].wait_s <= 120


@pytest.mark.parametrize("code", range(201, 300))
def test_a_missing_permission_stops_the_account(code: int) -> None:
    row = code_row(code)
    assert (row.verdict, row.scope) == (Verdict.STOP, Scope.WABA)
    assert row.wait_s > 0


@pytest.mark.parametrize("code", [-1, 5, 300, 130430, 131065, 199_999, 2**31 - 1])
def test_a_code_that_nobody_listed_refuses_the_message(code: int) -> None:
    row = code_row(code)
    assert (row.code, row.verdict, row.scope) == (code, Verdict.REFUSE, None)
    assert row.source == "written default"


def test_a_subcode_counts_for_code_100_alone() -> None:
    assert code_row(100, 33).scope is Scope.NUMBER
    assert code_row(100, 34) is CODES[100]
    assert code_row(131026, 33) is CODES[131026]
