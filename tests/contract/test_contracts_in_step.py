"""What `make contracts` writes is what is committed, and it says the same as the code and the golden examples."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from contracts import topics as declared
from contracts.codec import Undecodable, decode
from contracts.schemas import NOT_YET, YOU, asyncapi, json_schema
from contracts.topics import TOPICS, Topic
from deploy.write_contracts import FOLDER, ROOT, generated, golden_examples
from deploy.write_metrics import declared_metrics
from kafkaio.admin import _configs
from tests.tidy.tree import files, parsed

REMEDY = "run `make contracts` and read what changed"
GENERATED = generated()
EXAMPLES = golden_examples()
WITH_A_VALUE = {topic.name: topic for topic in TOPICS if topic.value is not None}
CONSTANTS = {topic.name: name for name, topic in vars(declared).items() if isinstance(topic, Topic)}
AT_WORK = [
    (topic.name, service)
    for topic in WITH_A_VALUE.values()
    for service in (*topic.writers, *topic.readers)
    if service != YOU
]
TAG = "event"
"""Schemas ask for it; the decoder of a single struct does without."""
RAW = "message"
"""Takes any JSON."""
each_topic = pytest.mark.parametrize("name", sorted(WITH_A_VALUE))


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(GENERATED[FOLDER / f"{name}.schema.json"]))


def constants_used_by(service: str) -> set[str]:
    """Names that the service's code uses; an import alone is no use."""
    sources = files(f"services/{service}/src")
    return {node.id for path in sources for node in ast.walk(parsed(path)) if isinstance(node, ast.Name)}


# --- committed is generated -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_generated_file_is_as_committed(path: Path) -> None:
    assert path.is_file(), REMEDY
    assert path.read_text() == GENERATED[path], REMEDY


def test_no_file_is_left_of_a_topic_that_is_gone() -> None:
    assert set(FOLDER.iterdir()) <= set(GENERATED), REMEDY


def test_generating_twice_gives_the_same() -> None:
    assert generated() == GENERATED


# --- schemas and code agree -------------------------------------------------------------------------------------------


@each_topic
def test_a_schema_is_one_of_2020_12(name: str) -> None:
    schema = json_schema(WITH_A_VALUE[name])
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("name", "example"), [(name, example) for name, found in EXAMPLES.items() for example in found]
)
def test_a_golden_example_is_valid_by_its_schema(name: str, example: str) -> None:
    assert [error.message for error in validator(name).iter_errors(EXAMPLES[name][example])] == []


@each_topic
def test_schema_and_decoder_refuse_the_same_values(name: str) -> None:
    value_type = WITH_A_VALUE[name].value
    assert value_type is not None
    minimal: Any = EXAMPLES[name]["minimal"]
    without = [
        {other: minimal[other] for other in minimal if other != field} for field in minimal if field != TAG
    ]
    of_another_type = [minimal | {field: {"x": []}} for field in minimal if field != RAW]
    for value in (*without, *of_another_type, [], None, "text"):
        assert not validator(name).is_valid(value), value
        with pytest.raises(Undecodable):
            decode(value_type, json.dumps(value).encode())


def test_the_document_shows_every_golden_example() -> None:
    messages = asyncapi(EXAMPLES)["components"]["messages"]
    for name, topic in WITH_A_VALUE.items():
        assert topic.value is not None
        shown = messages[topic.value.__name__]["examples"]
        assert {example["name"]: example["payload"] for example in shown} == EXAMPLES[name]


# --- the declaration and what is done ---------------------------------------------------------------------------------


def test_the_settings_written_are_those_that_sluice_applies() -> None:
    written = yaml.safe_load((ROOT / "deploy" / "kafka" / "topics.yaml").read_text())["topics"]
    by_name = {topic.name: topic for topic in TOPICS}
    assert [topic["name"] for topic in written] == list(by_name)
    for topic in written:
        as_text = {name: str(setting) for name, setting in topic["config"].items()}
        assert as_text == _configs(by_name[topic["name"]], None)


@pytest.mark.parametrize(("topic", "service"), AT_WORK)
def test_a_declared_writer_or_reader_is_one_in_the_code_unless_it_comes_later(
    topic: str, service: str
) -> None:
    is_at_work = CONSTANTS[topic] in constants_used_by(service)
    assert is_at_work == (NOT_YET.get((topic, service)) != "later"), "bring contracts.schemas.NOT_YET in step"


def test_what_comes_later_is_declared() -> None:
    everyone = {(topic.name, service) for topic in TOPICS for service in (*topic.writers, *topic.readers)}
    assert set(NOT_YET) <= everyone


# --- metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", [path.parent.name for path in sorted(ROOT.glob("*/*/src/*/metrics.py"))])
def test_the_help_of_each_metric_says_what_a_bad_value_asks_for(package: str) -> None:
    for metric in declared_metrics(package):
        what, _, then = metric._documentation.partition(". ")
        assert what, metric._name
        assert then, f"{metric._name} doesn't say what to do when it is bad"
