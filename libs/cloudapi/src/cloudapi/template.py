"""What Meta refuses in a template parameter, found at upload, long before the POST.

Invariant: a value that passes here is never refused for its characters or its length; nothing is changed, only judged.
"""

import re
import unicodedata
from enum import StrEnum

PARAMETER_CHARS_MAX = 1_024

_LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# No-break and other wide spaces count: `\s` knows them all, and the breaks and tabs among them are found before.
_FOUR_SPACES = re.compile(r"\s{4}")


class ParameterFault(StrEnum):
    """Why a value can't be a template parameter."""

    EMPTY = "empty"
    """Nothing but white space."""
    LINE_BREAK = "line_break"
    TAB = "tab"
    SPACES = "spaces"
    """More than three spaces in a row."""
    CONTROL = "control"
    """A character that is no text: a NUL, half a surrogate pair."""
    TOO_LONG = "too_long"


def parameter_fault(value: str) -> ParameterFault | None:
    """Return why Meta would refuse `value` as a text parameter (codes 100, 132018, 132012), or None."""
    if not value.strip():
        return ParameterFault.EMPTY
    if len(value) > PARAMETER_CHARS_MAX:
        return ParameterFault.TOO_LONG
    if _LINE_BREAK.search(value):
        return ParameterFault.LINE_BREAK
    if "\t" in value:
        return ParameterFault.TAB
    if _FOUR_SPACES.search(value):
        return ParameterFault.SPACES
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in value):
        return ParameterFault.CONTROL
    return None
