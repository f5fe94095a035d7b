"""What we POST and what comes back, held to payloads written by hand from Meta's documentation (2026-09-11).

The simulator is held to the same files, so that a wrong name cannot cancel out.
"""

import json
from pathlib import Path

import msgspec
import pytest

from cloudapi.messages import template_message, text_message, typed_message
from cloudapi.reply import outcome_of

HERE = Path(__file__).parent
ANSWERS = sorted((HERE / "answers").glob("*.json"))
ONE_TIME_CODE = (
    b'{"type":"template","template":{"name":"otp","language":{"code":"en"},"components":['
    b'{"type":"body","parameters":[{"type":"text","text":"492817"}]},'
    b'{"type":"button","sub_type":"url","index":"0","parameters":[{"type":"text","text":"492817"}]}]}}'
)
BODIES = {
    "template-with-parameters": template_message(
        to="15550100042",
        template_name="order_ready",
        language="en_US",
        body_parameters=("Ada", "Friday, 3 pm"),
        callback_data="sl1:demo:c:7:91:1",
    ),
    "template-without-parameters": template_message(
        to="+44 7700 900123",
        template_name="hello_again",
        language="en",
        body_parameters=(),
        callback_data="sl1:demo:c:7:92:1",
    ),
    "text-reply": text_message(
        to="+15550100042", text="hello", callback_data="sl1:demo:r:4711:1", reply_to="wamid.EXAMPLE-IN-1"
    ),
    "text-to-a-user-id": text_message(
        to="US.90000000000000000001", text="hello", callback_data="sl1:demo:r:4712:1"
    ),
    "one-time-code": typed_message(
        to="+15550100042", message=ONE_TIME_CODE, callback_data="sl1:demo:r:4713:1"
    ),
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_body_is_the_documented_one(name: str) -> None:
    assert json.loads(BODIES[name]) == json.loads((HERE / "requests" / f"{name}.json").read_text())


def test_every_documented_request_has_its_body() -> None:
    assert {path.stem for path in (HERE / "requests").glob("*.json")} == set(BODIES)


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_an_answer_has_the_outcome_written_beside_it(path: Path) -> None:
    case = json.loads(path.read_text())
    body = case["text"].encode() if "text" in case else json.dumps(case["body"]).encode()
    outcome = outcome_of(case["http_status"], body, retry_after=case.get("retry_after"))
    assert msgspec.to_builtins(outcome) == case["outcome"]
