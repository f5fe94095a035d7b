"""Taking bodies apart: all items, each alone, whatever stands beside it."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingress.webhook import Item, Kind, Malformed, Reason, items_of

PN = "100000000000001"
WABA = "200000000000001"


def a_value(**parts: Any) -> dict[str, Any]:
    return {"messaging_product": "whatsapp", "metadata": {"phone_number_id": PN}, **parts}


def a_body(*changes: Any, **entry: Any) -> bytes:
    entries = [{"id": WABA, "changes": list(changes), **entry}]
    return json.dumps({"object": "whatsapp_business_account", "entry": entries}).encode()


def messages_change(**parts: Any) -> dict[str, Any]:
    return {"field": "messages", "value": a_value(**parts)}


def kinds(body: bytes) -> list[str]:
    return [one.kind if isinstance(one, Item) else one.reason for one in items_of(body)]


def test_every_item_of_every_change_of_every_entry_is_taken_in_order() -> None:
    def entry(number: str) -> dict[str, Any]:
        return {
            "id": f"w{number}",
            "changes": [
                {
                    "field": "messages",
                    "value": {
                        "metadata": {"phone_number_id": f"{number}{change}"},
                        "messages": [{"id": f"m{i}"} for i in range(3)],
                        "statuses": [{"id": f"s{i}"} for i in range(2)],
                        "errors": [{"code": 130429}],
                    },
                }
                for change in "ab"
            ],
        }

    body = json.dumps({"entry": [entry("1"), entry("2")], "object": "whatsapp_business_account"}).encode()
    found = items_of(body)
    assert len(found) == 24
    assert [one.phone_number_id for one in found if isinstance(one, Item)] == [
        number for number in ("1a", "1b", "2a", "2b") for _ in range(6)
    ]
    assert [one.waba_id for one in found] == ["w1"] * 12 + ["w2"] * 12
    assert [one.position for one in found if isinstance(one, Item)] == list(range(24))
    assert kinds(body) == ["message", "message", "message", "status", "status", "error"] * 4


def test_the_bytes_of_an_item_are_those_that_came() -> None:
    element = rb'{ "id" : "wamid.A","text":{"body":"5\u20ac a\/b \ud83d\ude00"} }'
    body = a_body(messages_change(messages=["HERE"])).replace(b'"HERE"', element)
    (item,) = items_of(body)
    assert isinstance(item, Item)
    assert bytes(item.raw) == element


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", ["not_json"]),
        (b"not json", ["not_json"]),
        (b'{"object":"whatsapp_business_account","entry":[', ["not_json"]),
        (b"[" * 100_000, ["not_json"]),
        (b"\xef\xbb\xbf{}", ["not_json"]),
        (b"\xff\xfe", ["not_json"]),
        (b"[]", ["not_a_webhook"]),
        (b"null", ["not_a_webhook"]),
        (b'"x"', ["not_a_webhook"]),
        (b"{}", ["not_a_webhook"]),
        (b'{"object":"page","entry":[]}', ["not_a_webhook"]),
        (b'{"object":["whatsapp_business_account"],"entry":[]}', ["not_a_webhook"]),
        (b'{"object":"whatsapp_business_account","entry":7}', ["not_a_webhook"]),
        (b'{"object":"whatsapp_business_account","entry":[]}', []),
        (b'{"object":"whatsapp_business_account"}', []),
        (
            b'{"object":"whatsapp_business_account","entry":[7,null]}',
            ["unreadable_entry", "unreadable_entry"],
        ),
        (b'{"object":"whatsapp_business_account","entry":[{"id":"1","changes":7}]}', ["unreadable_entry"]),
        (a_body(), []),
        (a_body(7, messages_change(messages=[{}])), ["unreadable_change", "message"]),
        (a_body({"value": {}}, messages_change(messages=[{}])), ["no_field", "message"]),
        (a_body({"field": 7, "value": {}}), ["no_field"]),
        (a_body({"field": "messages", "value": None}), []),
        (a_body({"field": "messages", "value": 7}), ["unreadable_change"]),
        (a_body(messages_change(messages=7, statuses=[{}])), ["unreadable_change", "status"]),
        (a_body(messages_change(messages=None)), ["change"]),
        (a_body(messages_change(messages=[], contacts=[{}])), ["change"]),
        (a_body({"field": "messages", "value": {}}), ["change"]),
        (a_body({"field": "account_update", "value": None}), ["change"]),
        (a_body({"field": "something_new"}), ["change"]),
    ],
)
def test_odd_bodies_are_kept_and_never_raise(body: bytes, expected: list[str]) -> None:
    assert kinds(body) == expected


def test_a_body_that_is_no_webhook_is_kept_whole() -> None:
    (found,) = items_of(b'{"object":"page"}')
    assert found == Malformed(reason=Reason.NOT_A_WEBHOOK, raw=b'{"object":"page"}')


def test_unreadable_contacts_cost_no_message() -> None:
    contacts = [
        7,
        None,
        {"profile": 7, "wa_id": "447700900001"},
        {"profile": {"name": None}, "wa_id": 447700900002},
    ]
    (item,) = items_of(a_body(messages_change(contacts=contacts, messages=[{}])))
    assert isinstance(item, Item)
    assert [(one.wa_id, one.name) for one in item.contacts] == [
        ("447700900001", None),
        ("447700900002", None),
    ]


def test_half_a_surrogate_pair_costs_one_character_and_no_sibling() -> None:
    body = a_body(messages_change(messages=["A", "B"]))
    body = body.replace(b'"A"', rb'{"id":"a","text":"\ud83d \\ud83d \ud83d\ude00"}').replace(
        b'"B"', b'{"id":"b"}'
    )
    first, second = items_of(body)
    assert isinstance(first, Item)
    assert isinstance(second, Item)
    assert bytes(first.raw) == rb'{"id":"a","text":"\ufffd \\ud83d \ud83d\ude00"}'


def test_an_item_that_is_not_utf8_is_set_aside_alone() -> None:
    body = a_body(messages_change(messages=["A", {"id": "b"}])).replace(b'"A"', b'{"id":"a","text":"\xff"}')
    first, second = items_of(body)
    assert first == Malformed(reason=Reason.NOT_UTF8, raw=b'{"id":"a","text":"\xff"}', waba_id=WABA)
    assert isinstance(second, Item)


def test_a_management_hook_is_one_item_with_its_time() -> None:
    change = {"field": "account_update", "value": {"event": "DISABLED_UPDATE"}}
    (item,) = items_of(a_body(change, time=1790000000))
    assert isinstance(item, Item)
    assert (item.kind, item.field, item.phone_number_id, item.entry_time) == (
        Kind.CHANGE,
        "account_update",
        None,
        b"1790000000",
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "changes", "field", "value", "metadata", "contacts", "messages", "statuses", "errors"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(entry=json_values)
def test_no_entry_raises_or_costs_its_sibling(entry: Any) -> None:
    good = {"id": WABA, "changes": [messages_change(messages=[{"id": "wamid.GOOD"}])]}
    text = json.dumps({"object": "whatsapp_business_account", "entry": [entry, good]})
    last = items_of(text.encode())[-1]
    assert isinstance(last, Item)
    assert json.loads(bytes(last.raw)) == {"id": "wamid.GOOD"}


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_know_makes_the_body_unreadable(number: float) -> None:
    text = json.dumps({"object": "whatsapp_business_account", "entry": [number]})
    assert kinds(text.encode()) == ["not_json"]


@given(body=st.binary(max_size=64))
@example(body=rb"\ud800")
def test_no_bytes_raise_and_what_cannot_be_read_is_kept_as_it_came(body: bytes) -> None:
    assert all(one.raw == body for one in items_of(body) if isinstance(one, Malformed))
