"""A cell of a spreadsheet becomes an address (E.164 with `+`), or the reason why it doesn't.

Invariant: a number is never guessed: what was rounded, cut or is ambiguous is refused, with its reason.
"""

import re
from functools import cache

import phonenumbers
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata, ValidationResult

from admin.row_fault import RowFault
from contracts.contact import digits

REGIONS = frozenset(phonenumbers.SUPPORTED_REGIONS)

# Meta's ids of Mexican mobiles keep the 1 that the country gave up; phonenumbers no longer finds it possible.
_MEXICAN_MOBILE = re.compile(r"521[0-9]{10}\Z")
_PLAIN = re.compile(r"\+[1-9][0-9]{6,14}\Z")
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)  # pasted along from web pages
_FORMULA = re.compile(r'=\s*"([^"]*)"\Z')
_ROUNDED = re.compile(r"[+\d.,]+[eE][+-]?\d+\Z")
_WHOLE_DECIMAL = re.compile(r"(\+?\d{7,})[.,]0{1,2}\Z")
_DECIMAL = re.compile(r"\+?\d{7,}\.\d+\Z")
_NUMBER = re.compile(r"[++]?[\d\s().\-/\u2010-\u2015\u2212]*\d[\d\s().\-/\u2010-\u2015\u2212]*\Z")


def address_of(cell: str, region: str | None) -> str | RowFault:
    """Return `+` and digits, or a fault. `region` (like `GB`) is where numbers without a country code belong.

    Without it, digits alone are read as an international number. "Possible" is asked, not "valid": whether a number
    is in use is Meta's to say, and number plans change faster than libraries.
    """
    if _PLAIN.match(cell):
        return _international(cell[1:])
    written = _unguarded(cell)
    if not written:
        return RowFault.NO_PHONE
    if _ROUNDED.match(written):
        return RowFault.ROUNDED_PHONE
    if whole := _WHOLE_DECIMAL.match(written):
        written = whole[1]
    if _DECIMAL.match(written) or not _NUMBER.match(written):
        return RowFault.BAD_PHONE
    return _read(written, region)


def _unguarded(cell: str) -> str:
    """Take off what spreadsheets put around a number to keep it a text: `'…`, `="…"`, quotes, odd spaces."""
    written = _INVISIBLE.sub("", cell).strip()
    if formula := _FORMULA.match(written):
        written = formula[1].strip()
    if len(written) > 1 and written[0] == written[-1] == '"':
        written = written[1:-1].strip()
    return written.removeprefix("'").strip()


def _read(written: str, region: str | None) -> str | RowFault:
    number = digits(written)
    if written[0] in "++":
        return _international(number)
    if number.startswith("00"):
        return _international(number[2:])
    if region is not None:
        address = _parsed(number, region)
        if address is not None:
            return address
    elif number.startswith("0"):
        return RowFault.NATIONAL_PHONE
    return _international(number)


def _international(number: str) -> str | RowFault:
    if _is_plainly_possible(number) or _MEXICAN_MOBILE.match(number):
        return "+" + number
    return _parsed("+" + number, None) or RowFault.IMPOSSIBLE_PHONE


def _parsed(number: str, region: str | None) -> str | None:
    """The library's full reading, national prefixes and all: 45 µs."""
    try:
        parsed = phonenumbers.parse(number, region)
    except phonenumbers.NumberParseException:
        return None
    if phonenumbers.is_possible_number_with_reason(parsed) != ValidationResult.IS_POSSIBLE:
        return None
    return str(phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164))


def _is_plainly_possible(number: str) -> bool:
    """Whether the full reading would leave these digits as they are and find them possible; False: ask it. 1 µs.

    So it is when the length is one of the country's, and nothing at the front can be a national prefix.
    """
    for length in (1, 2, 3):
        plan = _plan(number[:length])
        if plan is not None:
            lengths, prefix = plan
            rest = number[length:]
            return len(rest) in lengths and (prefix is None or prefix.match(rest) is None)
    return False


@cache
def _plan(country_code: str) -> tuple[frozenset[int], re.Pattern[str] | None] | None:
    """Return the possible lengths and the national prefix of a country code; at most 1,110 are ever asked for."""
    if not country_code.isdecimal() or country_code.startswith("0"):
        return None
    regions = COUNTRY_CODE_TO_REGION_CODE.get(int(country_code))
    if regions is None:
        return None
    plan = PhoneMetadata.metadata_for_region_or_calling_code(int(country_code), regions[0])
    assert plan is not None, "the library has a plan for each code it lists"
    assert plan.general_desc is not None
    prefix = plan.national_prefix_for_parsing
    return frozenset(plan.general_desc.possible_length), re.compile(prefix) if prefix else None
