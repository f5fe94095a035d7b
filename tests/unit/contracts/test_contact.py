"""Contact keys, and which phone numbers are one person's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.contact import contact_key, digits, folded_phone, is_bsuid

NUMBER = "300000000000001"
DIGITS = st.text("0123456789", min_size=1, max_size=15)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("+55 11 98765-4321", "551187654321"),  # Brazil, with and without the ninth digit
        ("5521999990000", "552199990000"),
        ("+52 1 55 1234 5678", "525512345678"),  # Mexico, old and new
        ("+54 9 11 2345-6789", "541123456789"),  # Argentina, as WhatsApp and as others write it
        ("+1 555 010 0042", "15550100042"),
        ("(+44) 7700 900123", "447700900123"),
        ("+٤٤ ٧٧٠٠ ٩٠٠١٢٣", "447700900123"),
    ],
)
def test_variants_of_one_number_are_equal(one: str, other: str) -> None:
    assert folded_phone(one) == folded_phone(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("551132654321", "5511932654321"),  # a landline has no ninth digit to lose
        ("5511987654321", "5511987654322"),
        ("5511987654321", "5521987654321"),
        ("525512345678", "5255123456789"),
        ("541123456789", "541123456780"),
        ("15550100042", "5215550100042"),
        ("447700900123", "44770090012"),
        ("549115550100", "54115550100"),
        ("5511987654321", "11987654321"),
    ],
)
def test_other_numbers_stay_apart(one: str, other: str) -> None:
    assert folded_phone(one) != folded_phone(other)


@given(DIGITS, DIGITS)
def test_outside_three_countries_two_numbers_never_fall_together(one: str, other: str) -> None:
    for number in (one, other):
        if not number.startswith(("52", "54", "55")):
            assert folded_phone(number) == number


@given(st.text(max_size=30))
def test_folding_twice_is_folding_once(phone: str) -> None:
    assert folded_phone(folded_phone(phone)) == folded_phone(phone)


@given(st.text(max_size=30))
def test_digits_are_ascii_and_stable(phone: str) -> None:
    found = digits(phone)
    assert all(char in "0123456789" for char in found)
    assert digits("+" + found) == found


@pytest.mark.parametrize(
    ("user_id", "wa_id", "key"),
    [
        (None, "15550100042", f"{NUMBER}:15550100042"),
        (None, "+15550100042", f"{NUMBER}:15550100042"),
        ("GB.QA1abc", "15550100042", f"{NUMBER}:GB.QA1abc"),
        ("GB.QA1abc", None, f"{NUMBER}:GB.QA1abc"),
        (None, "GB.QA1abc", f"{NUMBER}:GB.QA1abc"),
        (None, None, f"{NUMBER}:-"),
        ("", "", f"{NUMBER}:-"),
        (None, "unknown", f"{NUMBER}:-"),
    ],
)
def test_a_contact_key_is_the_user_id_else_the_number(
    user_id: str | None, wa_id: str | None, key: str
) -> None:
    assert contact_key(NUMBER, user_id=user_id, wa_id=wa_id) == key


@given(st.none() | st.text(max_size=20), st.none() | st.text(max_size=20))
def test_a_contact_key_is_never_empty(user_id: str | None, wa_id: str | None) -> None:
    key = contact_key(NUMBER, user_id=user_id, wa_id=wa_id)
    assert key.startswith(f"{NUMBER}:")
    assert len(key) > len(NUMBER) + 1


@pytest.mark.parametrize("value", ["US.90000000000000000001", "GB.QA1abc", "US.ENT.9", "US." + "9" * 128])
def test_a_user_id_is_known_by_its_shape(value: str) -> None:
    assert is_bsuid(value)


@pytest.mark.parametrize(
    "value", ["", "15550100042", "us.9", "US.", "US.9-9", "US." + "9" * 129, "US.9\n", "USA.9"]
)
def test_what_has_another_shape_is_no_user_id(value: str) -> None:
    assert not is_bsuid(value)
