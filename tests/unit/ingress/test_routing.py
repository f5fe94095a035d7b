"""Where each item goes: topic, key, value, event id."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.account import AccountChanged, OtherEvent
from contracts.codec import decode
from contracts.inbound import MessageReceived
from contracts.status import StatusReported
from ingress.routing import Record, Status, routed, timestamp_s
from ingress.webhook import Contact, Item, Kind, Malformed, Reason

PN = "100000000000001"
WABA = "200000000000001"
T0 = 1_796_040_000
NOW = T0 + 7.5
MESSAGE = {
    "from": "447700900001",
    "id": "wamid.QA1",
    "timestamp": str(T0),
    "type": "text",
    "text": {"body": "hi"},
}
STATUS = {"id": "wamid.OUT", "status": "delivered", "timestamp": str(T0), "recipient_id": "447700900001"}


def an_item(kind: Kind, element: Any, **parts: Any) -> Item:
    given_parts = {"field": "messages", "waba_id": WABA, "phone_number_id": PN, **parts}
    return Item(kind=kind, raw=msgspec.Raw(json.dumps(element).encode()), **given_parts)


def record_of(item: Item | Malformed) -> Record:
    record = routed(item, received_at_s=NOW)
    assert isinstance(record, Record)
    return record


def message_of(element: dict[str, Any], **parts: Any) -> MessageReceived:
    record = record_of(an_item(Kind.MESSAGE, element, **parts))
    assert record.topic == "inbound-messages", record.envelope.event_type
    message = decode(MessageReceived, record.value)
    assert record.key == message.contact_key.encode()
    assert record.envelope.event_id == message.event_id
    return message


def status_of(element: dict[str, Any], **parts: Any) -> StatusReported:
    status = routed(an_item(Kind.STATUS, element, **parts), received_at_s=NOW)
    assert isinstance(status, Status)
    value = decode(StatusReported, status.value)
    assert (status.wamid.decode(), status.event_id) == (value.wamid, value.event_id)
    return value


def test_a_message_carries_what_its_readers_need_and_its_raw_json() -> None:
    message = message_of(MESSAGE, position=3)
    assert (message.contact_key, message.wamid, message.type) == (f"{PN}:447700900001", "wamid.QA1", "text")
    assert (message.timestamp_s, message.received_at_s, message.position) == (T0, NOW, 3)
    assert json.loads(bytes(message.raw)) == MESSAGE


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({}, "447700900001"),
        ({"from": "+44 7700 900001"}, "447700900001"),
        ({"from_user_id": "GB.QA1abc"}, "GB.QA1abc"),
        ({"from": None, "from_user_id": "GB.QA1abc"}, "GB.QA1abc"),
        ({"from": "GB.QA1abc"}, "GB.QA1abc"),
        ({"from": None}, "-"),
        ({"from": ""}, "-"),
        ({"from": {"odd": 1}}, "-"),
        ({"from": 447700900001}, "447700900001"),
    ],
)
def test_the_key_is_the_user_id_else_the_phone_and_never_null(change: dict[str, Any], key: str) -> None:
    assert message_of({**MESSAGE, **change}).contact_key == f"{PN}:{key}"


def test_contacts_are_matched_by_id_and_not_by_position() -> None:
    contacts = (
        Contact("447700900002", "GB.Two", None, "Two"),
        Contact("447700900001", "GB.One", "GB.ENT.One", "One"),
    )
    message = message_of(MESSAGE, contacts=contacts)
    assert (message.profile_name, message.user_id, message.parent_user_id) == ("One", "GB.One", "GB.ENT.One")
    by_user = message_of({**MESSAGE, "from": None, "from_user_id": "GB.Two"}, contacts=contacts)
    assert (by_user.profile_name, by_user.wa_id) == ("Two", "447700900002")
    stranger = message_of({**MESSAGE, "from": "447700900003"}, contacts=contacts)
    assert (stranger.profile_name, stranger.user_id) == (None, None)


@pytest.mark.parametrize(
    ("system", "sender", "key"),
    [
        (
            {
                "type": "user_changed_number",
                "wa_id": "447700900009",
                "previous_user_id": "GB.Old",
                "user_id": "GB.New",
            },
            {"from": "447700900001"},
            "GB.Old",
        ),
        ({"type": "user_changed_user_id", "previous_user_id": "GB.Old", "user_id": "GB.New"}, {}, "GB.Old"),
        ({"type": "user_changed_number", "wa_id": "447700900009"}, {"from": "447700900001"}, "447700900001"),
        (
            {"type": "customer_changed_number", "new_wa_id": "447700900009", "customer": "447700900001"},
            {},
            "447700900001",
        ),
        ({"type": "customer_identity_changed"}, {"from": "447700900001"}, "447700900001"),
        ({"type": ["odd"]}, {"from": "447700900001"}, "447700900001"),
        ("odd", {"from": "447700900001"}, "447700900001"),
    ],
)
def test_a_changed_identity_is_keyed_by_the_previous_one(
    system: Any, sender: dict[str, str], key: str
) -> None:
    element = {"id": "wamid.S", "timestamp": str(T0), "type": "system", "system": system, **sender}
    assert message_of(element).contact_key == f"{PN}:{key}"


@pytest.mark.parametrize(
    "element", [{"id": "wamid.X"}, {"id": "wamid.X", "type": 7, "timestamp": [], "system": 3}]
)
def test_a_message_with_nothing_but_an_id_is_kept(element: dict[str, Any]) -> None:
    message = message_of(element)
    assert message.wamid == "wamid.X"
    assert message.timestamp_s == int(NOW)
    assert message_of({"id": "wamid.X"}).type == "unsupported"


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (an_item(Kind.MESSAGE, 7), "webhook.unreadable_item"),
        (an_item(Kind.MESSAGE, [MESSAGE]), "webhook.unreadable_item"),
        (an_item(Kind.MESSAGE, {**MESSAGE, "id": None}), "webhook.no_id"),
        (an_item(Kind.MESSAGE, {**MESSAGE, "id": ""}), "webhook.no_id"),
        (an_item(Kind.MESSAGE, MESSAGE, phone_number_id=None), "webhook.no_number"),
        (an_item(Kind.STATUS, "x"), "webhook.unreadable_item"),
        (an_item(Kind.STATUS, {"status": 7}), "webhook.no_id"),
        (an_item(Kind.STATUS, {**STATUS, "status": 7}), "webhook.no_status"),
        (an_item(Kind.STATUS, {**STATUS, "status": ""}), "webhook.no_status"),
        (an_item(Kind.STATUS, STATUS, phone_number_id=None), "webhook.no_number"),
    ],
)
def test_what_cannot_be_routed_is_set_aside_raw_with_its_reason(item: Item, reason: str) -> None:
    record = record_of(item)
    assert (record.topic, record.envelope.event_type, record.value) == (
        "webhooks.dlq",
        reason,
        bytes(item.raw),
    )
    assert record.key in (PN.encode(), WABA.encode())


def test_a_whole_body_is_set_aside_under_a_key_of_its_own() -> None:
    record = record_of(Malformed(reason=Reason.NOT_JSON, raw=b"x"))
    assert (record.topic, record.key, record.value) == ("webhooks.dlq", b"-", b"x")


def test_a_status_carries_what_the_aggregator_needs() -> None:
    status = status_of(
        {
            **STATUS,
            "status": "failed",
            "recipient_user_id": "GB.One",
            "biz_opaque_callback_data": "sl1:a:c:1:2:3",
            "errors": [7, {"code": "odd"}, {"code": 131026}],
        }
    )
    assert (status.status, status.code, status.callback_data) == ("failed", 131026, "sl1:a:c:1:2:3")
    assert (status.recipient_id, status.recipient_user_id, status.timestamp_s) == (
        "447700900001",
        "GB.One",
        T0,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"recipient_id": ""},
        {"recipient_id": None},
        {"recipient_id": {"odd": 1}},
        {"errors": {}},
        {"errors": None},
        {"errors": [{"code": 2**80}]},
        {"status": "warning"},
        {"timestamp": None},
        {"biz_opaque_callback_data": 7},
        {"pricing": {"type": "free_customer_service"}, "later": {"deep": [1]}},
    ],
)
def test_a_status_needs_only_its_id_and_its_word(change: dict[str, Any]) -> None:
    assert status_of({**STATUS, **change}).wamid == "wamid.OUT"


def test_one_event_has_one_id_and_another_has_another() -> None:
    again = status_of({**STATUS, "timestamp": str(T0 + 5)})
    ids = [
        status_of(STATUS).event_id,
        status_of({**STATUS, "status": "read"}).event_id,
        status_of({**STATUS, "id": "wamid.OTHER"}).event_id,
        status_of(STATUS, phone_number_id="1").event_id,
        status_of({**STATUS, "recipient_type": "group", "recipient_participant_id": "447700900002"}).event_id,
        status_of({**STATUS, "recipient_type": "group", "recipient_participant_id": "447700900003"}).event_id,
        message_of(MESSAGE).event_id,
        message_of({**MESSAGE, "id": "wamid.QA2"}).event_id,
    ]
    assert again.event_id == ids[0]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("field", "topic"),
    [
        ("account_update", "account-events"),
        ("account_alerts", "account-events"),
        ("account_review_update", "account-events"),
        ("message_template_status_update", "account-events"),
        ("message_template_quality_update", "account-events"),
        ("template_category_update", "account-events"),
        ("phone_number_quality_update", "account-events"),
        ("phone_number_name_update", "account-events"),
        ("business_capability_update", "account-events"),
        ("user_preferences", "account-events"),
        ("calls", "other-events"),
        ("standby", "other-events"),
        ("messaging_handovers", "other-events"),
        ("smb_message_echoes", "other-events"),
        ("history", "other-events"),
        ("group_participants_update", "other-events"),
        ("something_new", "other-events"),
    ],
)
def test_a_change_goes_where_its_field_says(field: str, topic: str) -> None:
    value = {"event": "PAUSED", "statuses": [{"id": "wacid.X", "status": "RINGING"}]}
    for number in (None, PN):
        record = record_of(an_item(Kind.CHANGE, value, field=field, phone_number_id=number))
        is_account = topic == "account-events"
        event = decode(AccountChanged if is_account else OtherEvent, record.value)
        assert record.topic == topic
        assert record.key == (WABA if is_account else number or WABA).encode()
        assert (event.field, event.phone_number_id, json.loads(bytes(event.raw))) == (field, number, value)


def test_a_change_is_another_one_at_another_time() -> None:
    def event_id_of(**parts: Any) -> str:
        item = an_item(Kind.CHANGE, {"event": "PAUSED"}, field="message_template_status_update", **parts)
        return record_of(item).envelope.event_id

    assert event_id_of(entry_time=b"1") == event_id_of(entry_time=b"1")
    assert event_id_of(entry_time=b"1") != event_id_of(entry_time=b"2")


@pytest.mark.parametrize(
    ("entry_time", "told"), [(b"%d" % T0, T0), (b'"%d"' % T0, T0), (b"", 0), (b"soon", 0)]
)
def test_an_account_event_says_when_meta_says_it_happened(entry_time: bytes, told: int) -> None:
    item = an_item(Kind.CHANGE, {}, field="message_template_status_update", entry_time=entry_time)
    assert decode(AccountChanged, record_of(item).value).timestamp_s == told


def test_a_change_without_any_account_has_a_key() -> None:
    assert record_of(an_item(Kind.CHANGE, {}, field="calls", waba_id="", phone_number_id=None)).key == b"-"


def test_an_error_of_a_number_is_an_account_event() -> None:
    record = record_of(an_item(Kind.ERROR, {"code": 130429}))
    event = decode(AccountChanged, record.value)
    assert (record.topic, event.phone_number_id, bytes(event.raw)) == (
        "account-events",
        PN,
        b'{"code": 130429}',
    )


def test_the_states_of_a_call_never_reach_the_statuses() -> None:
    element = {"id": "wacid.X", "type": "call", "status": "RINGING", "timestamp": str(T0)}
    assert record_of(an_item(Kind.STATUS, element)).topic == "other-events"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (str(T0), T0),
        (T0, T0),
        (T0 * 1000 + 999, T0),
        (str(T0 * 1000), T0),
        (float(T0), T0),
        ("0", 5),
        (-1, 5),
        ("soon", 5),
        ("nan", 5),
        ("inf", 5),
        ("9" * 40, 5),
        (10**400, 5),
        (1e300, 5),
        (True, 5),
        (None, 5),
        ([], 5),
    ],
)
def test_a_timestamp_is_seconds_or_milliseconds_in_text_or_number(value: object, expected: int) -> None:
    assert timestamp_s(value, default_s=5.9) == expected


def test_no_nul_reaches_an_id_or_a_name() -> None:
    message = message_of(
        {**MESSAGE, "id": "a\0b"}, contacts=(Contact("447700900001", None, None, "x\ufffd"),)
    )
    assert message.wamid == "a\ufffdb"


anything = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.lists(st.integers(), max_size=2)
)
fields = st.sampled_from([*MESSAGE, *STATUS, "system", "errors", "from_user_id", "recipient_participant_id"])


@given(
    kind=st.sampled_from(Kind),
    element=anything
    | st.dictionaries(fields, anything | st.dictionaries(fields, anything, max_size=3), max_size=8),
)
def test_every_item_is_routed_somewhere_with_its_bytes(kind: Kind, element: Any) -> None:
    item = an_item(kind, element)
    one = routed(item, received_at_s=NOW)
    assert isinstance(one, Status) or one.key
    assert bytes(item.raw) in one.value
