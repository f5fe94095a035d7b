"""Bytes to structs and back; the envelope; errors that keep secrets."""

import contextlib
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.account import NumberLoad
from contracts.campaign import CampaignChanged, CampaignDefinition, CampaignState
from contracts.codec import Envelope, Undecodable, decode, encode, event_id, from_headers, to_headers
from contracts.send import SendMessage
from contracts.status import StatusBatch

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TYPES = [NumberLoad, CampaignChanged, CampaignDefinition, CampaignState, SendMessage, StatusBatch]


@given(TEXT, TEXT, TEXT, st.integers(min_value=0, max_value=4 * 10**12), st.none() | TEXT)
def test_an_envelope_comes_back_from_its_headers(
    event: str, kind: str, version: str, produced_at_ms: int, replay_for: str | None
) -> None:
    envelope = Envelope(
        event_id=event,
        event_type=kind,
        schema_version=version,
        produced_at_s=produced_at_ms / 1000,
        replay_for=replay_for,
    )
    assert from_headers(to_headers(envelope)) == envelope


@given(st.lists(st.tuples(TEXT | st.sampled_from(["event-id", "produced-at"]), st.none() | st.binary())))
def test_any_headers_have_an_envelope(headers: list[tuple[str, bytes]]) -> None:
    assert math.isfinite(from_headers(headers).produced_at_s)


@pytest.mark.parametrize("value", [b"nan", b"inf", b"-inf", b"1e999", b"soon", b"", b"\xff"])
def test_a_broken_time_is_the_default(value: bytes) -> None:
    assert from_headers([("produced-at", value)]).produced_at_s == 0.0


def test_unknown_fields_are_ignored_on_reading() -> None:
    payload = b'{"campaign_id":7,"state":"paused","at_s":1.5,"x_future":{"a":[1]}}'
    assert decode(CampaignChanged, payload) == CampaignChanged(
        campaign_id=7, state=CampaignState.PAUSED, at_s=1.5
    )


def test_a_value_encodes_to_the_same_bytes_every_time() -> None:
    event = CampaignChanged(campaign_id=7, state=CampaignState.PAUSED, at_s=1.5)
    assert encode(event) == encode(decode(CampaignChanged, encode(event)))


@pytest.mark.parametrize("value_type", TYPES)
@pytest.mark.parametrize(
    "payload", [None, b"", b"{", b"\xff", b"null", b'"\xff"', b"[" * 100_000, b"7", b"[]"]
)
def test_what_is_no_value_is_undecodable(value_type: type, payload: bytes | None) -> None:
    with pytest.raises(Undecodable):
        decode(value_type, payload)


@given(st.sampled_from(TYPES), st.binary(max_size=80))
def test_any_bytes_decode_or_are_undecodable(value_type: type, payload: bytes) -> None:
    with contextlib.suppress(Undecodable):
        decode(value_type, payload)


@pytest.mark.parametrize(
    ("value_type", "payload", "path"),
    [
        (CampaignChanged, b'{"campaign_id":"secret","state":"paused","at_s":1}', "`$.campaign_id`"),
        (CampaignChanged, b'{"campaign_id":7,"state":"secret","at_s":1}', "`$.state`"),
        (CampaignChanged, b'{"campaign_id":7,"state":"x - at `$.secret`","at_s":1}', "`$.state`"),
        (StatusBatch, b'{"statuses":[{"event_id":"secret"}]}', "`$.statuses[0]`"),
        (CampaignState, b'"secret"', "`$`"),
        (CampaignState, b'"x - at `$.secret`"', "`$`"),
        (CampaignDefinition, b'{"secret":1}', "`$`"),
        (CampaignDefinition, b'{"x - at `$.secret":1}', "`$`"),
    ],
)
def test_the_error_names_the_place_and_never_the_content(value_type: type, payload: bytes, path: str) -> None:
    with pytest.raises(Undecodable) as caught:
        decode(value_type, payload)
    assert str(caught.value) == f"not a {value_type.__name__}: at {path}"
    assert "secret" not in str(caught.value)


@given(st.sampled_from(TYPES), st.dictionaries(TEXT, st.just("canary-4711") | TEXT, max_size=4))
def test_the_error_never_quotes_a_value(value_type: type, payload: dict[str, str]) -> None:
    with pytest.raises(Undecodable) as caught:
        decode(value_type, msgspec.json.encode({"canary-4711": 1, **payload}))
    assert "canary-4711" not in str(caught.value)


def test_an_event_id_is_made_of_its_parts_and_their_borders() -> None:
    assert event_id("a", "bc") == event_id("a", b"bc")
    assert event_id("a", "bc") != event_id("ab", "c")
    assert len(event_id("a")) == 32
