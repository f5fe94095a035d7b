"""The signature check against the vectors of the bug cases and every odd header that was met in practice."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.signature import is_genuine

SECRET = b"sim-app-secret"
BODY = (
    rb'{"object":"whatsapp_business_account","entry":[{"id":"200000000000001","changes":[{"field":"messages",'
    rb'"value":{"text":"caf\u00e9 \/ \ud83d\udc4d"}}]}]}'
)
GOOD = b"sha256=ddd964a70b5134e725b749bb268762fa4786c1e578eb370df4537d1439cfc9c4"


def signed(body: bytes, secret: bytes) -> bytes:
    return b"sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()


def test_the_documented_vector_is_genuine() -> None:
    assert len(BODY) == 151
    assert is_genuine(BODY, [GOOD], [SECRET])


@pytest.mark.parametrize(
    "signatures",
    [
        [],
        [b""],
        [b"sha256="],
        [GOOD.removeprefix(b"sha256=")],
        [b"sha1=" + GOOD.removeprefix(b"sha256=")],
        [b"sha256=\xe9" + b"0" * 63],
        [b"sha256=" + b"\xff" * 64],
        [b"a" * 10_000],
        [b"sha256=" + b"a" * 10_000],
        [GOOD[:-1]],
        [GOOD + b"0"],
        [GOOD + b"\n"],
        [b" " + GOOD],
        [GOOD[:-1] + b"5"],
        [b"sha256=" + "٣".encode() * 64],
        [GOOD, GOOD[:-1] + b"5"],
        [GOOD[:-1] + b"5", GOOD],
        [GOOD, b""],
    ],
)
def test_anything_but_the_one_signature_is_refused_without_an_error(signatures: list[bytes]) -> None:
    assert not is_genuine(BODY, signatures, [SECRET])


def test_equal_copies_of_the_header_are_one() -> None:
    assert is_genuine(BODY, [GOOD, GOOD], [SECRET])


@pytest.mark.parametrize("secrets", [[], [b""], [b"   "], [b"", b"\t"]])
def test_without_a_secret_nothing_is_genuine(secrets: list[bytes]) -> None:
    for key in (b"", *secrets):
        assert not is_genuine(BODY, [signed(BODY, key)], secrets)


def test_during_a_rotation_either_secret_is_good() -> None:
    for secrets in ([SECRET, b"new-secret"], [b"new-secret", SECRET]):
        assert is_genuine(BODY, [GOOD], secrets)
    assert not is_genuine(BODY, [GOOD], [b"new-secret"])


@given(body=st.binary(max_size=200), at=st.integers(min_value=0), bit=st.integers(0, 7))
def test_one_flipped_bit_of_the_body_is_noticed(body: bytes, at: int, bit: int) -> None:
    signature = signed(body, SECRET)
    assert is_genuine(body, [signature], [SECRET])
    if body:
        changed = bytearray(body)
        changed[at % len(body)] ^= 1 << bit
        assert not is_genuine(bytes(changed), [signature], [SECRET])


@given(header=st.binary(max_size=100))
def test_no_header_raises(header: bytes) -> None:
    assert not is_genuine(BODY, [header], [SECRET]) or header.lower() == GOOD
