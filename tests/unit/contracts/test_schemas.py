"""Schemas from structs of every kind, and the table's place in a document."""

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

from contracts.codec import Envelope, to_headers
from contracts.schemas import NoMarkers, asyncapi, duration, json_schema, topic_table, with_topic_table
from contracts.topics import MESSAGE_STATUSES, Topic


class Inner(Struct, frozen=True):
    """Within another."""

    raw: msgspec.Raw = msgspec.Raw(b"7")


class Outer(Struct, frozen=True, kw_only=True, tag_field="event", tag="outer"):
    """A value.

    More of it.
    """

    several: tuple[Inner, ...] = ()
    one: Inner | None = None
    short: Annotated[str, Meta(max_length=3)]
    anything: msgspec.Raw
    renamed: int = msgspec.field(default=1, name="other")
    fresh: list[Inner] = msgspec.field(default_factory=list)


ORDERS = Topic(
    name="shop-orders",
    key="shop: <shop>:<order>",
    value=Outer,
    retention_s=3_600,
    writers=("shop",),
    readers=("you",),
    ordering="None.",
)


def test_raw_json_is_any_json_however_deep_it_stands() -> None:
    definitions = json_schema(ORDERS)["$defs"]
    any_json = {"description": "Any JSON, as it came."}
    assert definitions["Inner"]["properties"] == {"raw": any_json | {"default": 7}}
    assert definitions["Outer"]["properties"]["anything"] == any_json
    assert definitions["Outer"]["required"] == ["event", "short", "anything"]


def test_what_a_struct_says_of_its_fields_is_in_the_schema() -> None:
    fields = json_schema(ORDERS)["$defs"]["Outer"]["properties"]
    assert fields["event"] == {"enum": ["outer"]}
    assert fields["short"] == {"type": "string", "maxLength": 3}
    assert fields["other"] == {"type": "integer", "default": 1}
    assert fields["several"] == {"type": "array", "items": {"$ref": "#/$defs/Inner"}, "default": []}
    assert fields["one"] == {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}], "default": None}
    assert fields["fresh"]["default"] == []


def test_the_document_says_who_sends_and_who_receives() -> None:
    document = asyncapi({}, [ORDERS])
    assert {name: one["action"] for name, one in document["operations"].items()} == {
        "shop.send.shop-orders": "send",
        "you.receive.shop-orders": "receive",
    }
    message = document["components"]["messages"]["Outer"]
    assert message["summary"] == "A value."
    assert message["bindings"]["kafka"]["key"]["description"] == "shop: <shop>:<order>"


def test_a_topic_without_a_key_has_none_in_the_document() -> None:
    message = asyncapi({}, [MESSAGE_STATUSES])["components"]["messages"]["StatusBatch"]
    assert "key" not in message["bindings"]["kafka"]


def test_the_headers_in_the_document_are_those_of_a_record() -> None:
    headers = asyncapi({})["components"]["messageTraits"]["Envelope"]["headers"]
    assert headers["required"] == [name for name, _ in to_headers(Envelope(event_id="1", event_type="x"))]
    assert set(headers["properties"]) - set(headers["required"]) == {"replay-for"}


def test_a_table_shows_what_markdown_would_swallow() -> None:
    (row,) = topic_table([ORDERS]).splitlines()[2:]
    assert row == "| `shop-orders` | shop: `<shop>:<order>` | `Outer` | 1 h | shop | you |"


def test_a_table_says_what_comes_later() -> None:
    later = replace(ORDERS, name="inbound-messages", readers=("media", "you"))
    (row,) = topic_table([later]).splitlines()[2:]
    assert row.endswith("| shop | media (later), you |")


def test_the_table_takes_the_place_between_the_markers_and_nothing_else() -> None:
    document = "before\n<!-- topics -->\nold\n<!-- /topics -->\nafter\n"
    new = with_topic_table(document, [ORDERS])
    assert new == f"before\n<!-- topics -->\n{topic_table([ORDERS])}<!-- /topics -->\nafter\n"
    assert with_topic_table(new, [ORDERS]) == new


@pytest.mark.parametrize("document", ["", "<!-- topics -->", "<!-- /topics -->\n<!-- topics -->"])
def test_a_document_without_a_place_for_the_table_is_an_error(document: str) -> None:
    with pytest.raises(NoMarkers):
        with_topic_table(document)


@pytest.mark.parametrize(
    ("duration_s", "text"), [(3_600, "1 h"), (86_400, "1 d"), (90_000, "25 h"), (604_800, "7 d")]
)
def test_a_duration_is_told_in_days_or_hours(duration_s: int, text: str) -> None:
    assert duration(duration_s) == text
