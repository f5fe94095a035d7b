"""Meta's own OpenAPI description as referee: the bodies that our client writes, and the simulator's answers and
statuses.

The description is not part of this project: `SLUICE_THIRD_PARTY` names the folder it lies in, beside this one by
default. It is version 23.0 of November 2025; what has changed since, or is a slip of the pen in it, stands in
`DIFFERENCES`, each with a proof that it is still needed. We are held to it closed: a member that it does not describe
fails, although it forbids few.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cloudapi.messages import template_message, text_message, typed_message
from contracts.codes import CODES
from simulator.journey import Status
from simulator.payload import StatusUpdate, webhook_body
from simulator.records import MessageRecord, StatusRecord
from simulator.scenario import Number, Scenario, merged
from simulator.script import Behaviour, Rule
from simulator.world import Answer, World

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("SLUICE_THIRD_PARTY") or ROOT.parent / "shared" / "third_party")
FILE = FOLDER / "meta" / "business-messaging-api_v23.0.yaml"
IS_CI = os.environ.get("CI", "").lower() in ("true", "1")
# Where CI=true an absent file fails every test here that needs it.
pytestmark = pytest.mark.skipif(
    not FILE.is_file() and not IS_CI,
    reason="Meta's OpenAPI description is absent; SLUICE_THIRD_PARTY may name the folder that holds meta/",
)
SEND = "/{Version}/{Phone-Number-ID}/messages"
HISTORY = "/{Version}/{Phone-Number-ID}/message_history"
JSON = "application/json"
Schemas = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Where the description is not followed."""

    reason: str
    allow: Callable[[Schemas], None]


def open_heirs(schemas: Schemas) -> None:
    for schema in schemas.values():
        for part in schema.get("allOf", ()):
            part.pop("additionalProperties", None)


def describe_callback_data(schemas: Schemas) -> None:
    described = {"type": "string", "maxLength": 512}
    schemas["BaseMessageProperties"]["properties"]["biz_opaque_callback_data"] = described
    schemas["Statuses"]["properties"]["biz_opaque_callback_data"] = described


def take_user_ids_in_requests(schemas: Schemas) -> None:
    message = schemas["BaseMessageProperties"]
    message["properties"]["recipient"] = {
        "type": "string",
        "pattern": r"^[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}$",
    }
    message["required"].remove("to")
    message["anyOf"] = [{"required": ["to"]}, {"required": ["recipient"]}]


def give_user_ids_in_answers(schemas: Schemas) -> None:
    contact = schemas["MessageResponsePayload"]["properties"]["contacts"]["items"]
    contact["properties"]["user_id"] = {"type": "string"}


def give_user_ids_in_statuses(schemas: Schemas) -> None:
    status = schemas["Statuses"]
    status["properties"]["recipient_user_id"] = {"type": "string"}
    status["required"].remove("recipient_id")
    status["anyOf"] = [{"required": ["recipient_id"]}, {"required": ["recipient_user_id"]}]


def give_contacts_with_statuses(schemas: Schemas) -> None:
    schemas["StatusMessageValue"]["properties"]["contacts"] = {"type": "array", "minItems": 1}


def give_the_type_of_a_price(schemas: Schemas) -> None:
    schemas["Pricing"]["properties"]["type"] = {
        "enum": ["regular", "free_customer_service", "free_entry_point"]
    }


def leave_out_the_policy(schemas: Schemas) -> None:
    schemas["LanguageObject"]["required"].remove("policy")


def count_buttons_from_zero(schemas: Schemas) -> None:
    for name in ("TemplateComponent", "ButtonComponent"):
        for part in (schemas[name], *schemas[name].get("allOf", ())):
            part.get("properties", {}).get("index", {}).pop("pattern", None)


def give_details_of_errors(schemas: Schemas) -> None:
    error = schemas["GraphAPIError"]["properties"]["error"]
    error["properties"]["error_data"] = {
        "type": "object",
        "required": ["messaging_product", "details"],
        "properties": {"messaging_product": {"const": "whatsapp"}, "details": {"type": "string"}},
    }


DIFFERENCES = {
    "heirs": Difference(
        "Message types are `allOf` of the common members and a part that allows no additional ones: read to the "
        "letter no message is valid, the description's own examples included. Read as meant for the whole.",
        open_heirs,
    ),
    "callback data": Difference(
        "biz_opaque_callback_data is on the send and status pages (512 characters by the changelog), not in here.",
        describe_callback_data,
    ),
    "user ids in requests": Difference(
        "`recipient` takes the place of `to` for a business-scoped user id: page of 2026-06-29, sending since July.",
        take_user_ids_in_requests,
    ),
    "user ids in answers": Difference(
        "The contact of an answer has user_id in place of wa_id: the same page.", give_user_ids_in_answers
    ),
    "user ids in statuses": Difference(
        "recipient_user_id, and no recipient_id where the phone is unknown: the same page.",
        give_user_ids_in_statuses,
    ),
    "contacts of statuses": Difference(
        "sent, delivered and read carry contacts: the same page.", give_contacts_with_statuses
    ),
    "type of a price": Difference(
        "pricing.type came with the payloads of version 24.0.", give_the_type_of_a_price
    ),
    "language policy": Difference(
        "`policy` is required here and legacy on the template page; most examples in here leave it out.",
        leave_out_the_policy,
    ),
    "button index": Difference(
        "The pattern of a button's index is a stray footnote, `^[2-6, 11-14]$`: it refuses the example '0' beside it.",
        count_buttons_from_zero,
    ),
    "details of errors": Difference(
        "error_data with details is what the error page says to build on; the description has no such member.",
        give_details_of_errors,
    ),
}


def told_apart_by_discriminator(node: Any, schemas: Schemas, *, in_all_of: bool = False) -> Any:
    """References to a parent, whose heirs only a discriminator names, as references to one of the heirs: JSON Schema
    knows no discriminator, so that components and parameters of templates would go unchecked."""
    if isinstance(node, list):
        return [told_apart_by_discriminator(item, schemas, in_all_of=in_all_of) for item in node]
    if not isinstance(node, dict):
        return node
    if not in_all_of and set(node) == {"$ref"}:
        parent = schemas[node["$ref"].rpartition("/")[2]]
        if "discriminator" in parent and "oneOf" not in parent:
            return {"oneOf": [{"$ref": heir} for heir in parent["discriminator"]["mapping"].values()]}
    return {
        key: told_apart_by_discriminator(value, schemas, in_all_of=key == "allOf")
        for key, value in node.items()
    }


def close(node: Any) -> None:
    """Every object with described members has no others."""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        close(child)
    if isinstance(node, dict) and isinstance(node.get("properties"), dict) and node.get("type") == "object":
        node.setdefault("additionalProperties", False)


ANSWERS = ("MessageResponsePayload", "GraphAPIError", "StatusMessageValue", "Statuses", "Pricing", "StatusError",
           "ErrorData", "Metadata")  # fmt: skip


@cache
def description() -> Mapping[str, Any]:
    return yaml.load(FILE.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def validators(without: str = "") -> Mapping[str, Draft202012Validator]:
    """What judges requests, answers, errors and values of statuses, with all differences allowed but one."""
    paths = description()["paths"]
    schemas = deepcopy(description()["components"]["schemas"])
    for name, difference in DIFFERENCES.items():
        if name != without:
            difference.allow(schemas)
    for name, schema in schemas.items():
        if name in ANSWERS:
            close(schema)
        elif "allOf" in schema:
            schema["unevaluatedProperties"] = False
    schemas = told_apart_by_discriminator(schemas, schemas)
    send, history = paths[SEND]["post"], paths[HISTORY]["get"]["responses"]
    judged = {
        "request": send["requestBody"]["content"][JSON]["schema"],
        "answer": send["responses"]["200"]["content"][JSON]["schema"],
        # Sending has no error described; the neighbour names each of 400, 401, 403, 404, 422, 429 and 500.
        "error": history["400"]["content"][JSON]["schema"],
        "statuses": {"$ref": "#/components/schemas/StatusMessageValue"},
    }
    return {
        name: Draft202012Validator({**schema, "components": {"schemas": schemas}})
        for name, schema in judged.items()
    }


def faults(judge: str, value: Any, *, without: str = "") -> list[str]:
    return [error.message for error in validators(without)[judge].iter_errors(value)]


# --- what is judged ---

TO, USER_ID, DATA = "15550100042", "US.90000000000000000001", "sl1:demo:c:7:91:1"
NUMBER = Number(
    phone_number_id="300000000000001", display_phone_number="15550109000", waba_id="200000000000001"
)
OTP = """{"type":"template","template":{"name":"otp","language":{"code":"en"},"components":[
 {"type":"body","parameters":[{"type":"text","text":"492817"}]},
 {"type":"button","sub_type":"url","index":"0","parameters":[{"type":"text","text":"492817"}]}]}}"""
TYPED = (
    OTP,
    '{"type":"text","text":{"body":"hello","preview_url":false}}',
    '{"type":"image","image":{"id":"700000000000001","caption":"roof"}}',
    '{"type":"document","document":{"link":"https://shop.example/bill.pdf","filename":"bill.pdf"}}',
    '{"type":"audio","audio":{"id":"700000000000001"}}',
    '{"type":"sticker","sticker":{"id":"700000000000001"}}',
    '{"type":"reaction","reaction":{"message_id":"wamid.EXAMPLE-IN-1","emoji":"\\ud83d\\udc4d"}}',
    '{"type":"location","location":{"latitude":"10.5","longitude":"-66.9","name":"Depot"}}',
    '{"type":"contacts","contacts":[{"name":{"formatted_name":"Bo T","first_name":"Bo"}}]}',
    """{"type":"interactive","interactive":{"type":"button","body":{"text":"B"},"action":{"buttons":[
        {"type":"reply","reply":{"id":"b1","title":"Yes"}}]}}}""",
    """{"type":"interactive","interactive":{"type":"list","body":{"text":"Pick"},"action":{"button":"Open",
        "sections":[{"title":"Day","rows":[{"id":"r1","title":"Mon","description":"am"}]}]}}}""",
)


def template(to: str = TO, **more: Any) -> bytes:
    named = {"template_name": "order_ready", "language": "en_US", "body_parameters": ("Ada", "3 pm")} | more
    return template_message(to=to, callback_data=DATA, **named)


REQUESTS = (
    template(),
    template(USER_ID),
    template(template_name="hello_again", body_parameters=()),
    text_message(to=TO, text="hello", callback_data="x" * 512, reply_to="wamid.EXAMPLE-IN-1"),
    text_message(to=USER_ID, text="hello", callback_data=DATA),
    *(typed_message(to=TO, message=part.encode(), callback_data=DATA) for part in TYPED),
)


def a_world() -> World:
    scene = {
        "numbers": [
            {name: getattr(NUMBER, name) for name in NUMBER.__struct_fields__} | {"limit_per_s": 500}
        ],
        "templates": [
            {"name": "order_ready", "language": "en_US", "body_params": 2},
            {"name": "hello_again", "language": "en_US"},
            {"name": "otp", "language": "en", "body_params": 1, "category": "authentication"},
        ],
    }
    return World(merged(Scenario(), scene), seed=3, access_token="sesame", run_id=7)


def post(world: World, raw: bytes, *, number: str = NUMBER.phone_number_id, token: str = "sesame") -> Answer:
    return world.arrive(number, f"Bearer {token}".encode(), raw, now=0.0, unix=1_790_000_000)


def error_answers() -> Iterator[Answer]:
    """One of every kind: the edge's, each check's, the limiter's, the scenario's, and each code that we have a row for."""
    world, sent = a_world(), json.loads(REQUESTS[3])
    yield post(world, REQUESTS[0], token="wrong")
    yield post(world, REQUESTS[0], number="300000000000009")
    changes: tuple[dict[str, Any], ...] = (
        {"messaging_product": None}, {"to": "x"}, {"to": NUMBER.display_phone_number}, {"type": "hologram"},
        {"text": None}, {"text": {"body": "x" * 4_097}}, {"recipient_type": "crowd"}, {"context": {}},
        {"status": "seen"}, {"biz_opaque_callback_data": "x" * 513},
    )  # fmt: skip
    bodies = [json.dumps(sent | change).encode() for change in changes]
    bodies += [template(template_name="missing"), template(body_parameters=("one",)), b"{"]
    bodies += [typed_message(to=USER_ID, message=OTP.encode(), callback_data=DATA)]
    for body in bodies:
        yield post(world, body)
    for code in CODES:
        world.rule(Rule(recipient=TO, behaviour=Behaviour.REJECTED, code=code))
        yield post(world, REQUESTS[0])
    for behaviour in (Behaviour.HTTP_503_CODE2, Behaviour.HTTP_500_CODE131016):
        world.rule(Rule(recipient=TO, behaviour=behaviour))
        yield post(world, REQUESTS[0])
    answers = [post(world, REQUESTS[0]) for _ in range(600)]
    yield next(answer for answer in answers if answer.http_status == 429)


def status_values() -> list[dict[str, Any]]:
    """The values of one webhook with every status, of a person known by phone and of one known by user id."""
    updates = []
    for to in (TO, USER_ID):
        message = MessageRecord(
            1, NUMBER.phone_number_id, 1.0, to=to, callback_data=DATA, wamid="wamid.OUT", category="utility"
        )
        for status in Status:
            code = 131026 if status is Status.FAILED else 0
            record = StatusRecord(status.value, 1_790_000_005, code, True)
            updates.append(StatusUpdate(NUMBER, message, record, status is Status.SENT))
    whole = json.loads(webhook_body(updates, user_ids=True))
    return [change["value"] for entry in whole["entry"] for change in entry["changes"]]


@cache
def judged(judge: str) -> list[Any]:
    if judge == "request":
        return [json.loads(raw) for raw in REQUESTS]
    if judge == "answer":
        world = a_world()
        return [json.loads(post(world, raw).body) for raw in REQUESTS]
    if judge == "error":
        return [json.loads(answer.body) for answer in error_answers()]
    return status_values()


# --- the verdicts ---


@pytest.mark.parametrize("judge", ["request", "answer", "error", "statuses"])
def test_what_we_write_is_as_described(judge: str) -> None:
    values = judged(judge)
    assert len(values) > 3
    assert [(found, value) for value in values if (found := faults(judge, value))] == []


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_still_needed(name: str) -> None:
    found = any(
        faults(judge, value, without=name)
        for judge in ("request", "answer", "error", "statuses")
        for value in judged(judge)
    )
    assert found, "the description has caught up: take the difference out"


@pytest.mark.parametrize(
    ("judge", "value"),
    [
        ("request", json.loads(REQUESTS[0]) | {"to": 15550100042}),
        ("request", json.loads(REQUESTS[3]) | {"text": {"bodi": "hello"}}),
        ("request", json.loads(REQUESTS[3]) | {"colour": "red"}),
        ("request", json.loads(template(body_parameters=("x" * 32_769, "y")))),
        ("request", json.loads(template().replace(b'"parameters"', b'"params"'))),
        ("answer", {"messages": [{"id": "wamid.X", "message_status": "great"}]}),
        ("answer", {"messages": [{"wamid": "wamid.X"}]}),
        ("error", {"error": "Something went wrong"}),
        ("error", {"error": {"message": "x", "type": "OAuthException", "code": "100"}}),
        ("statuses", {"messaging_product": "whatsapp", "statuses": []}),
    ],
)
def test_the_referee_sees_what_is_wrong(judge: str, value: Any) -> None:
    assert faults(judge, value)


def members(value: Any) -> Any:
    """The names in a JSON value without what they hold."""
    if isinstance(value, list):
        return [members(item) for item in value]
    return {name: members(item) for name, item in value.items()} if isinstance(value, dict) else None


def test_an_answer_has_the_members_of_the_examples() -> None:
    """The schema requires none of them."""
    examples = description()["paths"][SEND]["post"]["responses"]["200"]["content"][JSON]["examples"]
    shape = members(examples["Example response"]["value"])
    _, to_user_id, _, text, *_ = judged("answer")
    assert members(text) == shape
    shape["contacts"][0] = {"input": None, "user_id": None}
    shape["messages"][0] |= {"message_status": None}
    assert members(to_user_id) == shape
    world = a_world()
    mark = {"messaging_product": "whatsapp", "status": "read", "message_id": "wamid.IN"}
    assert json.loads(post(world, json.dumps(mark).encode()).body) == {"success": True}


def test_the_simulator_takes_every_example_of_a_request() -> None:
    content = description()["paths"][SEND]["post"]["requestBody"]["content"][JSON]
    examples = {name: example["value"] for name, example in content["examples"].items()}
    assert len(examples) > 40
    world = a_world()
    world.adopt(merged(world.scenario, {"templates": [*templates_of(list(examples.values()))]}))
    refused = set()
    for name, body in examples.items():
        if "{{" in str(body.get("to")):  # a placeholder
            body = body | {"to": f"+{TO}"}
        if post(world, json.dumps(body).encode()).http_status != 200:
            refused.add(name)
    # It has no `type`, which the description requires; Meta reads that as a text, and there is none.
    assert refused == {"Send Reply to List Message"}
    assert "type" not in examples["Send Reply to List Message"]


def templates_of(bodies: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for body in bodies:
        if found := body.get("template"):
            texts = [part for part in found.get("components", []) if part["type"] == "body"]
            count = sum(len(part["parameters"]) for part in texts)
            yield {"name": found["name"], "language": found["language"]["code"], "body_params": count}
