"""Why a row of an audience file is not a recipient.

Invariant: a closed list, and each reason has words that an operator can act on.
"""

from enum import StrEnum

from cloudapi.template import PARAMETER_CHARS_MAX, ParameterFault


class RowFault(StrEnum):
    """One reason a row; the first that applies."""

    NO_PHONE = "no_phone"
    BAD_PHONE = "bad_phone"
    ROUNDED_PHONE = "rounded_phone"
    NATIONAL_PHONE = "national_phone"
    IMPOSSIBLE_PHONE = "impossible_phone"
    DUPLICATE = "duplicate"
    UNDECODABLE = "undecodable"
    UNCLOSED_QUOTE = "unclosed_quote"
    WRONG_FIELD_COUNT = "wrong_field_count"
    TOO_LONG = "too_long"
    EMPTY_PARAMETER = "empty_parameter"
    PARAMETER_NEWLINE = "parameter_newline"
    PARAMETER_TAB = "parameter_tab"
    PARAMETER_SPACES = "parameter_spaces"
    PARAMETER_CONTROL = "parameter_control"


WORDS = {
    RowFault.NO_PHONE: "the phone number is missing",
    RowFault.BAD_PHONE: "this is not one phone number",
    RowFault.ROUNDED_PHONE: "a spreadsheet rounded this number (like 4.477E+11): format the column as text, export again",
    RowFault.NATIONAL_PHONE: "a national number: give the region it belongs to",
    RowFault.IMPOSSIBLE_PHONE: "no phone number has this country code and length",
    RowFault.DUPLICATE: "this person is in the audience already; the first row counts",
    RowFault.UNDECODABLE: "a character can't be read in the file's encoding",
    RowFault.UNCLOSED_QUOTE: "a quotation mark is never closed",
    RowFault.WRONG_FIELD_COUNT: "more or fewer fields than the header",
    RowFault.TOO_LONG: f"too long (a line: 65,536 characters, a parameter: {PARAMETER_CHARS_MAX:,})",
    RowFault.EMPTY_PARAMETER: "a template parameter is empty",
    RowFault.PARAMETER_NEWLINE: "a template parameter can't hold a line break",
    RowFault.PARAMETER_TAB: "a template parameter can't hold a tab",
    RowFault.PARAMETER_SPACES: "a template parameter can't hold four spaces in a row",
    RowFault.PARAMETER_CONTROL: "a template parameter holds a character that is no text",
}

OF_PARAMETER = {
    ParameterFault.EMPTY: RowFault.EMPTY_PARAMETER,
    ParameterFault.LINE_BREAK: RowFault.PARAMETER_NEWLINE,
    ParameterFault.TAB: RowFault.PARAMETER_TAB,
    ParameterFault.SPACES: RowFault.PARAMETER_SPACES,
    ParameterFault.CONTROL: RowFault.PARAMETER_CONTROL,
    ParameterFault.TOO_LONG: RowFault.TOO_LONG,
}
