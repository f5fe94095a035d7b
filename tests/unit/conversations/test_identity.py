"""Identities: only what a message says of its sender, phones folded."""

import json

import msgspec
import pytest

from contracts.contact import ContactKey
from contracts.inbound import MessageReceived
from conversations.identity import Identity, identities


def a_message(*, message_type: str = "text", raw: object = None, **ids: str | None) -> MessageReceived:
    return MessageReceived(
        event_id="e", phone_number_id="1", waba_id="2", contact_key=ContactKey("1:x"), wamid="w", type=message_type,
        timestamp_s=1, received_at_s=1.0, raw=msgspec.Raw(json.dumps(raw).encode()), **ids,
    )  # fmt: skip


def test_phone_user_id_and_parent_are_one_persons_identities():
    message = a_message(wa_id="447700900123", user_id="GB.QA1abc", parent_user_id="GB.ENT.QA1abc")
    assert identities(message) == (
        Identity("bsuid", "GB.QA1abc"),
        Identity("parent_bsuid", "GB.ENT.QA1abc"),
        Identity("phone", "447700900123"),
    )


@pytest.mark.parametrize(
    ("one", "other"), [("5511987654321", "551187654321"), ("5215512345678", "525512345678")]
)
def test_national_variants_of_one_number_are_one_identity(one, other):
    assert identities(a_message(wa_id=one)) == identities(a_message(wa_id=other))


def test_a_user_id_in_the_place_of_the_phone_counts_as_what_it_looks_like():
    assert identities(a_message(wa_id="GB.QA1")) == (Identity("bsuid", "GB.QA1"),)


def test_a_message_without_a_sender_has_no_identity():
    assert identities(a_message()) == ()


def test_a_changed_number_ties_the_new_ids_to_the_previous_ones():
    system = {
        "type": "user_changed_number",
        "wa_id": "15550100043",
        "previous_user_id": "US.1",
        "user_id": "US.2",
    }
    message = a_message(message_type="system", raw={"system": system}, wa_id="15550100042", user_id="US.1")
    assert {identity.value for identity in identities(message)} == {
        "15550100042",
        "15550100043",
        "US.1",
        "US.2",
    }


@pytest.mark.parametrize(
    "raw",
    [
        {"system": {"type": "customer_identity_changed", "user_id": "US.9"}},
        {"system": {"user_id": "US.9"}},
        {"system": {"type": 7, "user_id": "US.9"}},
        {"system": "US.9"},
        [],
        None,
    ],
)
def test_system_messages_that_change_no_identity_or_make_no_sense_add_none(raw):
    assert identities(a_message(message_type="system", raw=raw, user_id="US.1")) == (
        Identity("bsuid", "US.1"),
    )


def test_a_text_cannot_claim_a_change_of_identity():
    raw = {"system": {"type": "user_changed_number", "user_id": "US.2"}}
    assert identities(a_message(raw=raw, user_id="US.1")) == (Identity("bsuid", "US.1"),)


@pytest.mark.parametrize("value", ["", "a\nb", "a\x00", "x" * 257])
def test_a_value_that_cannot_be_stored_is_no_identity(value):
    assert identities(a_message(user_id=value)) == ()
