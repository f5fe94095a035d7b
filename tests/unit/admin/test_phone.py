"""Cells become addresses, or a reason; nothing is guessed."""

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.phone import _is_plainly_possible, _parsed, address_of
from admin.row_fault import RowFault

WRITTEN_ONE_NUMBER = [
    "+447700900001",
    "447700900001",
    "0044 7700 900001",
    " 447700900001\u00a0",
    " 44 7700 900-001 ",
    "(44)7700900001",
    "+44 (0) 7700 900001",
    "'+447700900001",
    '="447700900001"',
    '"+447700900001"',
    "447700900001.0",
    "447700900001,00",
    "\u202a+447700900001\u202c",
    "+447700900001",
]


@pytest.mark.parametrize("cell", WRITTEN_ONE_NUMBER)
def test_one_number_written_in_many_ways_is_one_address(cell: str) -> None:
    assert address_of(cell, None) == "+447700900001"
    assert address_of(cell, "GB") == "+447700900001"


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("", RowFault.NO_PHONE),
        (" \u00a0", RowFault.NO_PHONE),
        ("'", RowFault.NO_PHONE),
        ("4.477E+11", RowFault.ROUNDED_PHONE),
        ("4,477E+11", RowFault.ROUNDED_PHONE),
        ("4.47700900001E+11", RowFault.ROUNDED_PHONE),
        ("07700900001", RowFault.NATIONAL_PHONE),
        ("447700900001;447700900002", RowFault.BAD_PHONE),
        ("+447700900001 +447700900002", RowFault.BAD_PHONE),
        ("447700900001/447700900002", RowFault.IMPOSSIBLE_PHONE),
        ("447700900001.5", RowFault.BAD_PHONE),
        ("#NAME?", RowFault.BAD_PHONE),
        ("Ana", RowFault.BAD_PHONE),
        ("+44770090", RowFault.IMPOSSIBLE_PHONE),
        ("+999123456789", RowFault.IMPOSSIBLE_PHONE),
        ("+4477009000010000", RowFault.IMPOSSIBLE_PHONE),
    ],
)
def test_what_is_not_one_whole_number_is_refused_with_its_reason(cell: str, fault: RowFault) -> None:
    assert address_of(cell, None) is fault


def test_a_national_number_needs_its_region() -> None:
    assert address_of("07700 900001", "GB") == "+447700900001"
    assert address_of("(555) 010-0123", "US") == "+15550100123"
    assert address_of("447700900001", "US") == "+447700900001"


@pytest.mark.parametrize("region", [None, "MX"])
@pytest.mark.parametrize("cell", ["+5215550100042", "5215550100042", "0052 1 555 010 0042"])
def test_a_mexican_mobile_as_meta_writes_it_stays_as_it_is(cell: str, region: str | None) -> None:
    assert address_of(cell, region) == "+5215550100042"
    assert address_of(cell + "0", region) is RowFault.IMPOSSIBLE_PHONE


@given(st.text(max_size=30), st.sampled_from([None, "GB", "US", "BR"]))
def test_any_cell_is_an_address_or_a_fault(cell: str, region: str | None) -> None:
    found = address_of(cell, region)
    assert isinstance(found, RowFault) or (found[0] == "+" and found[1:].isdecimal() and found.isascii())


CODES = sorted(phonenumbers.COUNTRY_CODE_TO_REGION_CODE)


@given(st.sampled_from(CODES), st.text("0123456789", min_size=3, max_size=13))
def test_the_short_way_says_what_the_library_says(code: int, rest: str) -> None:
    number = f"{code}{rest}"
    if _is_plainly_possible(number):
        assert _parsed("+" + number, None) == "+" + number
