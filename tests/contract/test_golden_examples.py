"""The golden examples of every topic: what was written once decodes for ever, and nothing known is lost on the way.

A field that no struct knows starts with `x_` in an example; nothing else may fall away.
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from contracts.codec import decode, encode
from contracts.topics import TOPICS, Topic

EXAMPLES = Path(str(files("contracts"))) / "examples"
WITH_A_VALUE = {topic.name: topic for topic in TOPICS if topic.value is not None}
FILES = sorted(EXAMPLES.glob("*/v*/*.json"))


def differences(before: object, after: object, path: str = "$") -> Iterator[str]:
    """Yield the paths at which two JSON values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys():
            if name not in before or name not in after:
                yield f"{path}.{name}"
            else:
                yield from differences(before[name], after[name], f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{path}[{i}]")
    elif before != after or type(before) is not type(after):
        yield path


def a_topic(path: Path) -> Topic:
    return WITH_A_VALUE[path.parent.parent.name]


@pytest.mark.parametrize("name", sorted(WITH_A_VALUE))
def test_every_topic_with_a_value_has_examples(name: str) -> None:
    assert (EXAMPLES / name / "v1" / "minimal.json").is_file()
    assert len(list((EXAMPLES / name / "v1").glob("*.json"))) >= 2


@pytest.mark.parametrize("name", sorted(WITH_A_VALUE))
def test_every_topic_has_an_example_of_a_later_field(name: str) -> None:
    assert any('"x_' in path.read_text() for path in (EXAMPLES / name / "v1").glob("*.json"))


def test_every_example_belongs_to_a_topic() -> None:
    assert {path.parent.parent.name for path in FILES} <= set(WITH_A_VALUE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.stem}")
def test_an_example_decodes_and_loses_nothing_known(path: Path) -> None:
    topic = a_topic(path)
    assert topic.value is not None
    payload = path.read_bytes()
    value = decode(topic.value, payload)
    again = encode(value)
    lost = list(differences(json.loads(payload), json.loads(again)))
    assert all(place.rpartition(".")[2].startswith("x_") for place in lost), lost
    assert decode(topic.value, again) == value
    assert encode(decode(topic.value, again)) == again


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.stem}")
def test_every_example_fits_its_topic(path: Path) -> None:
    assert path.stat().st_size <= a_topic(path).bytes_max
