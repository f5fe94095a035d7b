"""Webhook bodies: Meta's shapes, Meta's bytes, Meta's signature."""

import base64
import json
import re

from simulator.payload import (
    StatusUpdate,
    TextUpdate,
    accepted_body,
    encode,
    signature,
    wa_id,
    wamid,
    webhook_body,
)
from simulator.records import InboundRecord, MessageRecord, StatusRecord
from simulator.scenario import Number

WABA = "200000000000001"
NUMBER = Number(phone_number_id="300000000000001", display_phone_number="15550109000", waba_id=WABA)
SIBLING = Number(phone_number_id="300000000000002", display_phone_number="15550109001", waba_id=WABA)
STRANGER = Number(
    phone_number_id="300000000000003", display_phone_number="15550109002", waba_id="200000000000002"
)


def a_status(status="sent", *, number=NUMBER, to="15550100042", code=0, pricing=False, callback_data=True):
    message = MessageRecord(
        1,
        number.phone_number_id,
        1.0,
        to=to,
        callback_data="job7:row91",
        wamid="wamid.OUT",
        category="marketing",
    )
    return StatusUpdate(number, message, StatusRecord(status, 1790000005, code, callback_data), pricing)


def a_text(text="hi", *, number=NUMBER, order=1, answers=None, sender="15550100042"):
    record = InboundRecord(
        1, f"wamid.IN{order}", number.phone_number_id, sender, order, text, False, 1790000000, answers
    )
    return TextUpdate(number, record)


def values(*updates):
    whole = json.loads(webhook_body(updates))
    return [change["value"] for entry in whole["entry"] for change in entry["changes"]]


def test_bytes_and_signature_are_those_of_the_published_vector():
    body = encode(
        {
            "object": "whatsapp_business_account",
            "entry": [
                {
                    "id": WABA,
                    "changes": [{"field": "messages", "value": {"text": "café / \N{THUMBS UP SIGN}"}}],
                }
            ],
        }
    )
    assert len(body) == 151
    assert rb"caf\u00e9 \/ \ud83d\udc4d" in body
    expected = "ddd964a70b5134e725b749bb268762fa4786c1e578eb370df4537d1439cfc9c4"
    assert signature(b"sim-app-secret", body) == f"sha256={expected}"


def test_every_body_is_ascii_with_escaped_slashes_and_survives_a_reader():
    body = webhook_body([a_text('grüße / \N{THUMBS UP SIGN} \\ "')])
    assert body.isascii()
    assert not re.search(rb"(?<!\\)/", body)
    assert values(a_text('grüße / \\ "'))[0]["messages"][0]["text"]["body"] == 'grüße / \\ "'


def test_a_status_has_metas_shape():
    assert values(a_status("sent", pricing=True)) == [
        {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "15550109000", "phone_number_id": "300000000000001"},
            "contacts": [{"profile": {"name": "Zoë / 0042 \N{THUMBS UP SIGN}"}, "wa_id": "15550100042"}],
            "statuses": [
                {
                    "id": "wamid.OUT",
                    "status": "sent",
                    "timestamp": "1790000005",
                    "recipient_id": "15550100042",
                    "biz_opaque_callback_data": "job7:row91",
                    "pricing": {
                        "billable": True,
                        "pricing_model": "PMP",
                        "type": "regular",
                        "category": "marketing",
                    },
                }
            ],
        }
    ]


def test_a_failed_status_has_errors_and_no_contacts():
    [value] = values(a_status("failed", code=131026))
    assert "contacts" not in value
    [error] = value["statuses"][0]["errors"]
    assert (error["code"], error["title"]) == (131026, "Message undeliverable")
    assert {"message", "error_data", "href"} <= error.keys()


def test_callback_data_can_be_missing():
    [value] = values(a_status(callback_data=False))
    assert "biz_opaque_callback_data" not in value["statuses"][0]


def test_a_text_has_metas_shape():
    assert values(a_text(answers="wamid.OUT")) == [
        {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "15550109000", "phone_number_id": "300000000000001"},
            "contacts": [{"profile": {"name": "Zoë / 0042 \N{THUMBS UP SIGN}"}, "wa_id": "15550100042"}],
            "messages": [
                {
                    "from": "15550100042",
                    "id": "wamid.IN1",
                    "timestamp": "1790000000",
                    "type": "text",
                    "text": {"body": "hi"},
                    "context": {"from": "15550109000", "id": "wamid.OUT"},
                }
            ],
        }
    ]


def test_a_person_without_a_phone_appears_by_user_id():
    status, text = values(a_status(to="US.9001"), a_text(sender="US.9001"))
    assert status["statuses"][0]["recipient_user_id"] == "US.9001"
    assert "recipient_id" not in status["statuses"][0]
    assert (text["contacts"][0]["user_id"], text["messages"][0]["from_user_id"]) == ("US.9001", "US.9001")


def test_a_phone_number_comes_with_a_user_id_where_that_is_asked_for_and_nothing_failed():
    updates = [a_status(), a_status("failed", code=131026), a_text(), a_text(sender="US.9001")]
    whole = json.loads(webhook_body(updates, user_ids=True))
    sent, failed, texts = [change["value"] for change in whole["entry"][0]["changes"]]
    user_id = sent["contacts"][0]["user_id"]
    assert re.fullmatch(r"US\.\d{20}", user_id)
    assert sent["contacts"][0]["wa_id"] == "15550100042"
    assert (sent["statuses"][0]["recipient_id"], sent["statuses"][0]["recipient_user_id"]) == (
        "15550100042",
        user_id,
    )
    assert "recipient_user_id" not in failed["statuses"][0]
    assert (texts["messages"][0]["from"], texts["messages"][0]["from_user_id"]) == ("15550100042", user_id)
    assert texts["contacts"][1]["user_id"] == texts["messages"][1]["from_user_id"] == "US.9001"
    assert "wa_id" not in texts["contacts"][1]


def test_wabas_are_entries_and_numbers_are_changes_in_their_order():
    updates = [
        a_status("sent"),
        a_status("delivered"),
        a_status("sent", number=SIBLING),
        a_status("sent", number=STRANGER),
        a_text(),
        a_status("failed", code=131026),
    ]
    whole = json.loads(webhook_body(updates))
    assert whole["object"] == "whatsapp_business_account"
    assert [entry["id"] for entry in whole["entry"]] == [WABA, STRANGER.waba_id]
    assert [
        (change["value"]["metadata"]["phone_number_id"][-1], len(change["value"].get("statuses", [])))
        for change in whole["entry"][0]["changes"]
    ] == [("1", 2), ("2", 1), ("1", 0), ("1", 1)]


def test_an_accepted_answer_echoes_input_and_tells_the_id():
    answer = json.loads(accepted_body("+15550100042", "15550100042", "wamid.X", is_template=True))
    assert answer == {
        "messaging_product": "whatsapp",
        "contacts": [{"input": "+15550100042", "wa_id": "15550100042"}],
        "messages": [{"id": "wamid.X", "message_status": "accepted"}],
    }
    text = json.loads(accepted_body("US.9001", "US.9001", "wamid.X", is_template=False))
    assert text["contacts"] == [{"input": "US.9001", "user_id": "US.9001"}]
    assert "message_status" not in text["messages"][0]


def test_a_wamid_holds_the_counterpart_and_its_direction():
    out, back = wamid("15550100042", 7, 1), wamid("15550100042", 7, 1, inbound=True)
    for message_id, marker in ((out, 0x11), (back, 0x12)):
        raw = base64.b64decode(message_id.removeprefix("wamid."))
        assert raw[3:14] == b"15550100042"
        assert raw[17] == marker
    assert len({out, back, wamid("15550100042", 8, 1), wamid("15550100042", 7, 2)}) == 4
    assert out[:44] == "wamid.HBgLMTU1NTAxMDAwNDIVAgARGBIwMTIzNDU2Nzg5"[:32] + out[32:44]


def test_canonical_forms_of_brazil_and_argentina():
    assert wa_id("5511912345678") == "551112345678"
    assert wa_id("551132345678") == "551132345678"
    assert wa_id("541112345678") == "5491112345678"
    assert wa_id("15550100042") == "15550100042"
