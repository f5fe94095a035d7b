"""What the topics are, told to others: JSON Schemas, an AsyncAPI document, the brokers' settings, a table for people.

Invariant: everything here follows from `TOPICS` and the structs; the same declaration gives the same values, to the byte.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Raw, Struct

from contracts.codec import SCHEMA_VERSION, Envelope, to_headers
from contracts.topics import DAY_S, TOPICS, Topic

Json = dict[str, Any]
TABLE_START: Final = "<!-- topics -->"
TABLE_END: Final = "<!-- /topics -->"
YOU: Final = "you"
"""The reader or writer that isn't ours."""
NOT_YET: Final[Mapping[tuple[str, str], str]] = {
    ("inbound-messages", "media"): "later",
    ("send-requests", "admin"): "later",
    ("send-requests", "conversations"): "later",
    ("send-requests", "sender"): "so far for the assignment alone",
    ("send-requests.dlq", "sender"): "later",
    ("media-events", "media"): "later",
}
"""(topic, service) → how far a declared writer or reader is from doing it."""

_ANY_JSON = Annotated[Any, Meta(description="Any JSON, as it came.")]
_CODE = re.compile(r"<.*>|\w+\(.*\)")  # Markdown would take <…> for HTML
_KAFKA_BINDING = "0.5.0"
_DEAD_LETTER = "DeadLetter"
_HEADER_MEANINGS = {
    "event-id": "The same for each delivery of one event, 32 hex digits: what a consumer tells repetitions by.",
    "event-type": "What happened.",
    "schema-version": "Version of the value's schema.",
    "produced-at": "Unix seconds, with three decimals.",
    "replay-for": "Name of the only consumer group that shall handle this record again; others skip it.",
}


class NoMarkers(Exception):
    """The document has no place for the table; the text names the markers."""


# --- JSON Schema ------------------------------------------------------------------------------------------------------


def json_schema(topic: Topic) -> Json:
    """Return the JSON Schema (2020-12) of a topic's values; the topic must have a struct for them.

    A field of tomorrow is valid: readers ignore what they don't know.
    """
    root, components = _components(topic, "#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:sluice:{topic.name}:{SCHEMA_VERSION}",
        "title": f"A value of {topic.name}",
        **root,
        "$defs": components,
    }


def _components(topic: Topic, ref_template: str) -> tuple[Json, dict[str, Json]]:
    assert topic.value is not None
    assert issubclass(topic.value, Struct)
    (root,), components = msgspec.json.schema_components([_opened(topic.value)], ref_template=ref_template)
    return root, msgspec.json.decode(msgspec.json.encode(components))  # a default may be a tuple


def _opened(hint: Any) -> Any:
    """Return a type annotation with all raw JSON in it as `Any`: msgspec has no schema for raw JSON, nor its default."""
    if hint is Raw:
        return _ANY_JSON
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _twin(hint)
    origin, arguments = get_origin(hint), tuple(_opened(argument) for argument in get_args(hint))
    if not arguments:
        return hint
    return (Union if origin is UnionType else origin)[arguments]


@cache
def _twin(struct: type[Struct]) -> type[Struct]:
    fields = [
        (field.name, _opened(field.type), _twin_field(field)) for field in msgspec.structs.fields(struct)
    ]
    config = struct.__struct_config__
    return msgspec.defstruct(
        struct.__name__,
        fields,
        kw_only=True,
        tag=config.tag,
        tag_field=config.tag_field,
        forbid_unknown_fields=config.forbid_unknown_fields,
        namespace={"__doc__": struct.__doc__},
    )


def _twin_field(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory, name=field.encode_name)
    default = msgspec.json.decode(field.default) if isinstance(field.default, Raw) else field.default
    return msgspec.field(default=default, name=field.encode_name)


# --- the brokers' settings --------------------------------------------------------------------------------------------


def topic_config(topic: Topic) -> dict[str, str | int]:
    """Return Kafka's settings of a topic, those that don't depend on the installation."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": topic.retention_s * 1000,
        "max.message.bytes": topic.bytes_max,
    }


def topic_settings(topics: Sequence[Topic] = TOPICS) -> Json:
    """Return every topic as a broker must have it, for whoever creates topics by other means than `sluice`."""
    return {
        "topics": [
            {
                "name": topic.name,
                "key": topic.key,
                "config": topic_config(topic),
                "writers": list(topic.writers),
                "readers": list(topic.readers),
            }
            for topic in topics
        ]
    }


# --- AsyncAPI ---------------------------------------------------------------------------------------------------------


def asyncapi(examples: Mapping[str, Mapping[str, object]], topics: Sequence[Topic] = TOPICS) -> Json:
    """Return the AsyncAPI 3.0 document. `examples`: topic → name → value, each shown with its message."""
    schemas: dict[str, Json] = {}
    messages: dict[str, Json] = {}
    for topic in topics:
        payload: Json = {}
        if topic.value is not None:
            payload, components = _components(topic, "#/components/schemas/{name}")
            schemas |= components
        messages[_message_key(topic)] = _message(topic, payload, examples.get(topic.name, {}))
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Sluice",
            "version": f"{SCHEMA_VERSION}.0.0",
            "description": "Topics of Sluice. Fields are added with defaults, never renamed or reused: ignore what you "
            "don't know. A break is a new topic. All topics have the same number of partitions, chosen by the "
            "installation (64 unless told otherwise) and never changed: ordering rests on it. The partition of a key is "
            "that of Kafka's default partitioner (murmur2).",
        },
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic) for topic in topics},
        "operations": dict(
            _operation(topic, service, action)
            for topic in topics
            for action, services in (("send", topic.writers), ("receive", topic.readers))
            for service in services
        ),
        "components": {
            "messages": messages,
            "schemas": dict(sorted(schemas.items())),
            "messageTraits": {"Envelope": {"headers": _envelope_schema()}},
        },
    }


def _message_key(topic: Topic) -> str:
    return topic.value.__name__ if topic.value is not None else _DEAD_LETTER


def _message(topic: Topic, payload: Json, examples: Mapping[str, object]) -> Json:
    traits = [{"$ref": "#/components/messageTraits/Envelope"}]
    if topic.value is None:
        return {
            "name": _DEAD_LETTER,
            "summary": "A record set aside, its key, value and headers as they came.",
            "description": "A value too long to fit is cut. Headers say which group set it aside, why, after how many "
            "attempts, and from which topic, partition and offset (`dead-letter-*`, `origin-*`).",
            "contentType": "application/octet-stream",
        }
    key = {"key": {"type": "string", "description": topic.key}} if _has_key(topic) else {}
    return {
        "name": topic.value.__name__,
        "summary": (topic.value.__doc__ or "").partition("\n")[0],
        "traits": traits,
        "payload": payload,
        "bindings": {"kafka": {**key, "bindingVersion": _KAFKA_BINDING}},
        "examples": [{"name": name, "payload": value} for name, value in sorted(examples.items())],
    }


def _has_key(topic: Topic) -> bool:
    return not topic.key.startswith("none")


def _channel(topic: Topic) -> Json:
    key = _message_key(topic)
    config = topic_config(topic)
    return {
        "address": topic.name,
        "description": f"Key: {topic.key}. Order: {topic.ordering} Kept for {duration(topic.retention_s)}.",
        "messages": {key: {"$ref": f"#/components/messages/{key}"}},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "topicConfiguration": config | {"cleanup.policy": [config["cleanup.policy"]]},
                "bindingVersion": _KAFKA_BINDING,
            }
        },
    }


def _operation(topic: Topic, service: str, action: str) -> tuple[str, Json]:
    channel = f"#/channels/{topic.name}"
    note = NOT_YET.get((topic.name, service))
    operation = {
        "action": action,
        "channel": {"$ref": channel},
        "summary": f"{service} {'writes' if action == 'send' else 'reads'} {topic.name}"
        + (f", {note}" if note else ""),
        "tags": [{"name": service}],
        "messages": [{"$ref": f"{channel}/messages/{_message_key(topic)}"}],
    }
    return f"{service}.{action}.{topic.name}", operation


def _envelope_schema() -> Json:
    names = [name for name, _ in to_headers(Envelope(event_id="", event_type="", replay_for=""))]
    required = [name for name, _ in to_headers(Envelope(event_id="", event_type=""))]
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": _HEADER_MEANINGS[name]} for name in names},
        "required": required,
    }


# --- the table --------------------------------------------------------------------------------------------------------


def topic_table(topics: Sequence[Topic] = TOPICS) -> str:
    """Return the topics as a Markdown table, one row each."""
    rows = [("topic", "key", "value", "kept", "written by", "read by"), ("---",) * 6]
    rows += [
        (
            f"`{topic.name}`",
            _CODE.sub(r"`\g<0>`", topic.key),
            f"`{topic.value.__name__}`" if topic.value is not None else "as it came",
            duration(topic.retention_s),
            _named(topic, topic.writers),
            _named(topic, topic.readers),
        )
        for topic in topics
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_topic_table(document: str, topics: Sequence[Topic] = TOPICS) -> str:
    """Return the document with the table between its two markers; raises `NoMarkers`."""
    before, start, rest = document.partition(TABLE_START)
    _, end, after = rest.partition(TABLE_END)
    if not (start and end):
        raise NoMarkers(f"the table's place is between {TABLE_START} and {TABLE_END}")
    return f"{before}{start}\n{topic_table(topics)}{end}{after}"


def duration(duration_s: int) -> str:
    """Return whole days or hours as people write them: `7 d`, `1 h`."""
    if duration_s % DAY_S == 0:
        return f"{duration_s // DAY_S} d"
    assert duration_s % 3_600 == 0
    return f"{duration_s // 3_600} h"


def _named(topic: Topic, services: Sequence[str]) -> str:
    notes = {service: NOT_YET.get((topic.name, service)) for service in services}
    return ", ".join(f"{service} ({note})" if note else service for service, note in notes.items())
