"""The bodies we POST."""

import json

import msgspec
import pytest

from cloudapi.messages import template_message, text_message, typed_message

CALLBACK = "sl1:demo:c:7:91:1"


@pytest.mark.parametrize("to", ["+15550100042", "15550100042", "+1 555 010-0042", "+1 (555) 010 0042"])
def test_a_number_goes_out_as_a_plus_sign_and_digits(to: str) -> None:
    assert json.loads(text_message(to=to, text="hello", callback_data=CALLBACK))["to"] == "+15550100042"


def test_a_business_scoped_user_id_goes_into_recipient_unchanged() -> None:
    body = json.loads(text_message(to="GB.QA1abc", text="hello", callback_data=CALLBACK))
    assert body["recipient"] == "GB.QA1abc"
    assert "to" not in body


def test_body_parameters_keep_their_order_and_their_characters() -> None:
    values = ["Ada", "{{1}}", "שלום 😀", "0"]
    body = json.loads(
        template_message(
            to="+15550100042",
            template_name="order_ready",
            language="en_US",
            body_parameters=values,
            callback_data=CALLBACK,
        )
    )
    (component,) = body["template"]["components"]
    assert [parameter["text"] for parameter in component["parameters"]] == values


def test_a_template_without_parameters_has_no_components() -> None:
    body = json.loads(
        template_message(
            to="+15550100042",
            template_name="hello",
            language="en",
            body_parameters=[],
            callback_data=CALLBACK,
        )
    )
    assert "components" not in body["template"]


def test_a_text_quotes_the_message_it_replies_to() -> None:
    body = json.loads(text_message(to="+15550100042", text="hi", callback_data=CALLBACK, reply_to="wamid.IN"))
    assert body["context"] == {"message_id": "wamid.IN"}


def test_a_type_specific_part_cannot_redirect_the_message() -> None:
    part = msgspec.Raw(
        b'{"type":"text","text":{"body":"hi"},"to":"+447700900999","recipient":"GB.other",'
        b'"messaging_product":"x","recipient_type":"group","biz_opaque_callback_data":"theirs"}'
    )
    body = json.loads(typed_message(to="+15550100042", message=part, callback_data=CALLBACK))
    assert body == {
        "type": "text",
        "text": {"body": "hi"},
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": "+15550100042",
        "biz_opaque_callback_data": CALLBACK,
    }


@pytest.mark.parametrize("part", [b"", b"[]", b"null", b"{", b'"\xff"', b"[" * 100_000])
def test_a_type_specific_part_that_is_no_object_is_a_value_error_without_content(part: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON object"):
        typed_message(to="+15550100042", message=part, callback_data=CALLBACK)
