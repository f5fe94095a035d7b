"""What a template parameter may not be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudapi.template import ParameterFault, parameter_fault


@pytest.mark.bco("I01")
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("a\nb", ParameterFault.LINE_BREAK),
        ("a\r\nb", ParameterFault.LINE_BREAK),
        ("a\u2028b", ParameterFault.LINE_BREAK),
        ("a\tb", ParameterFault.TAB),
        ("a     b", ParameterFault.SPACES),
        ("a    b", ParameterFault.SPACES),
        ("a\u00a0\u00a0\u00a0\u00a0\u00a0b", ParameterFault.SPACES),
        ("x" * 1_025, ParameterFault.TOO_LONG),
        ("a\x00b", ParameterFault.CONTROL),
        ("a\ud800b", ParameterFault.CONTROL),
    ],
)
def test_bco_i01_what_meta_refuses_is_named(value: str, fault: ParameterFault) -> None:
    assert parameter_fault(value) is fault


@pytest.mark.bco("I02")
@pytest.mark.parametrize("value", ["", " ", "     ", "\n", "\t", "\u00a0", "\u2003 "])
def test_bco_i02_white_space_alone_is_empty(value: str) -> None:
    assert parameter_fault(value) is ParameterFault.EMPTY


@pytest.mark.parametrize(
    "value",
    ["Ada", "0", "NULL", "None", " a ", "a   b", "{{1}}", "שלום 😀", "👩‍👩‍👧", "x" * 1_024, "\u200fשלום"],
)
def test_what_meta_takes_passes(value: str) -> None:
    assert parameter_fault(value) is None


@given(st.text())
def test_what_passes_has_no_break_no_tab_and_no_run_of_spaces(value: str) -> None:
    if parameter_fault(value) is None:
        assert value.strip()
        assert len(value.splitlines()) == 1
        assert "\t" not in value
        assert "    " not in value
        value.encode()
