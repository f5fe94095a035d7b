"""A dead letter is told without naming a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.letters import REFUSALS, masked, moment_of, printable, refusal_words, text_of
from kafkaio.deadletter import ReplayRefusal


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (None, None),
        (b"", "…"),
        (b"100000000000001:447700900001", "100000000000001:…01"),
        (b"100000000000001:GB.QA1", "100000000000001:…A1"),
        (b"100000000000001:GB.1", "100000000000001:…"),
        (b"200000000000001", "…01"),
        (b"447700900001:100000000000001:x", "…:x"),
        (b"447700900001\xff:x", "…:x"),
    ],
)
def test_a_masked_key_keeps_the_number_of_the_business_alone(key: bytes | None, shown: str | None) -> None:
    assert masked(key) == shown


@given(st.binary(max_size=60))
def test_no_key_shows_more_than_two_characters_of_a_person(key: bytes) -> None:
    head, _, person = (masked(key) or "").rpartition("…")
    assert len(person) <= 2
    assert head == "" or head.removesuffix(":").isdecimal()


def test_each_refusal_has_words() -> None:
    assert REFUSALS.keys() == {why.value for why in ReplayRefusal}


def test_a_cut_letter_says_how_much_is_left_and_where_the_whole_one_stood() -> None:
    words = refusal_words("cut", origin="sample/1/7", full_bytes=6_000_000, value_bytes=5_000_000)
    assert words == (
        "its value was cut from 6,000,000 to 5,000,000 bytes: the whole one stood at sample/1/7, for as long as that"
        " topic keeps it"
    )
    assert "not known" in refusal_words("cut", origin=None, full_bytes=None, value_bytes=0)


@given(st.text(max_size=40))
def test_a_terminal_obeys_nothing_in_what_is_shown(text: str) -> None:
    assert printable(text).isprintable()


def test_what_is_no_moment_or_no_text_is_told_all_the_same() -> None:
    assert moment_of(1e18).year == moment_of(float("nan")).year == 1970
    assert text_of(b"\xff") is None
    assert printable("\x1b[2J\ud800é") == "\\x1b[2J\\ud800é"
