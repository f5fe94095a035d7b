"""Exports are safe to open in a spreadsheet, and come back in unchanged."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from admin.csv_export import (
    COLUMNS,
    csv_header,
    csv_lines,
    guarded,
    ndjson_lines,
    opt_out_header,
    opt_out_lines,
)
from ledger.audience import RecipientLine
from ledger.suppressions import SuppressedContact
from tests.unit.admin.test_csv_audience import taken


def a_line(**changes: object) -> RecipientLine:
    fields: dict[str, object] = dict.fromkeys(COLUMNS)
    fields |= {
        "seq": 1, "line": 2, "address": "+447700900001", "phone_number_id": "100000000000001", "state": "failed",
        "reason": "refused", "code": 131026, "attempt": 1, "tries": 1,
    }  # fmt: skip
    return RecipientLine(**{**fields, **changes})


@pytest.mark.parametrize("text", ['=HYPERLINK("http://x","y")', "+1+1", "-2", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_is_never_a_formula(text: str) -> None:
    cells = next(csv.reader(io.StringIO(csv_lines([a_line(reason=text)]).decode(), newline="")))
    assert cells[COLUMNS.index("reason")] == "'" + text == guarded(text)


def test_times_are_utc_and_absence_is_empty() -> None:
    when = datetime(2026, 11, 30, 14, 5, 6, 789_000, tzinfo=timezone(timedelta(hours=2)))
    line = csv_lines([a_line(failed_at=when)]).decode()
    assert line == (
        "1,2,+447700900001,100000000000001,failed,refused,131026,1,1,,,,,2026-11-30T12:05:06.789Z\r\n"
    )


def test_json_lines_hold_the_same() -> None:
    found = json.loads(ndjson_lines([a_line(sent_at=datetime(2026, 11, 30, tzinfo=UTC))]))
    assert list(found) == list(COLUMNS)
    assert found["sent_at"] == "2026-11-30T00:00:00.000Z"
    assert found["wamid"] is None


def test_our_own_export_is_imported_with_the_same_numbers() -> None:
    lines = [a_line(seq=n, address=f"+44770090000{n}") for n in range(1, 4)]
    _, found = taken(csv_header() + csv_lines(lines), ())
    assert [r.address for r in found] == [line.address for line in lines]


def an_opt_out(*phones: str, **changes: object) -> SuppressedContact:
    fields: dict[str, object] = {"contact_id": 1, "user_ids": (), "reason": "opted_out", "source": "message"}
    since = datetime(2026, 11, 30, tzinfo=UTC)
    return SuppressedContact(**{**fields, "phones": phones, "since": since, **changes})


def test_an_opt_out_is_a_line_for_each_of_a_persons_numbers() -> None:
    people = [an_opt_out("447700900001", "447700900002"), an_opt_out(user_ids=("US.1",), source="=1+1")]
    assert (opt_out_header() + opt_out_lines(people)).decode().splitlines() == [
        "phone,user_id,reason,source,since",
        "+447700900001,,opted_out,message,2026-11-30T00:00:00.000Z",
        "+447700900002,,opted_out,message,2026-11-30T00:00:00.000Z",
        ",US.1,opted_out,'=1+1,2026-11-30T00:00:00.000Z",
    ]


def test_a_list_of_opt_outs_is_imported_with_the_same_numbers() -> None:
    people = [an_opt_out(f"44770090000{n}") for n in range(1, 4)]
    _, found = taken(opt_out_header() + opt_out_lines(people), ())
    assert [recipient.address for recipient in found] == [f"+{person.phones[0]}" for person in people]
