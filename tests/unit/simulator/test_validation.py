"""What the Graph API refuses, and with which code."""

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.refusal import Refusal, error_body, http_status
from simulator.scenario import Number, Template
from simulator.validation import Order, ReadMark, read_order

NUMBER = Number(
    phone_number_id="300000000000001", display_phone_number="15550109000", waba_id="200000000000001"
)
TEMPLATES = {
    (template.name, template.language): template
    for template in (
        Template(name="order_ready", language="en_US", body_params=2),
        Template(name="plain", language="en_US"),
        Template(name="otp", language="en", body_params=1, category="authentication"),
    )
}


def body(**change):
    whole = {"messaging_product": "whatsapp", "to": "+15550100042", "type": "text", "text": {"body": "hello"}}
    whole.update(change)
    return {key: value for key, value in whole.items() if value is not None}


def template(name="order_ready", code="en_US", params=("Ada", "9"), **more):
    parameters = [{"type": "text", "text": text} for text in params]
    content = {
        "name": name,
        "language": {"code": code},
        "components": [{"type": "body", "parameters": parameters}],
    }
    return body(type="template", text=None, template=content | more)


def read(value) -> Order | ReadMark | Refusal:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_order(raw, NUMBER, TEMPLATES)


class Case(NamedTuple):
    name: str
    given: object
    code: int


BUTTONS = [{"type": "reply", "reply": {"id": str(n), "title": "Yes"}} for n in range(4)]
REFUSED = [
    Case("not json", b"{nope", 100),
    Case("not utf-8", b'{"to":"\xff"}', 100),
    Case("nested without end", b"[" * 100_000, 100),
    Case("no object", b"[]", 100),
    Case("no messaging_product", body(messaging_product=None), 100),
    Case("another messaging_product", body(messaging_product="sms"), 100),
    Case("no to", body(to=None), 131009),
    Case("to is a number", body(to=15550100042), 131009),
    Case("to is too short", body(to="+1555"), 131009),
    Case("to has letters", body(to="+1555O100042"), 131009),
    Case("to is the sender", body(to="+1 555 010-9000"), 131021),
    Case("recipient is no user id", body(to=None, recipient="nobody"), 131009),
    Case("a group", body(recipient_type="group"), 100),
    Case("callback data of 513", body(biz_opaque_callback_data="x" * 513), 100),
    Case("callback data no text", body(biz_opaque_callback_data=7), 100),
    Case("context without id", body(context={}), 131009),
    Case("unknown type", body(type="poll"), 131051),
    Case("type is a list", body(type=[]), 131051),
    Case("text missing", body(text=None), 131008),
    Case("text empty", body(text={"body": ""}), 131008),
    Case("text of 4097", body(text={"body": "x" * 4097}), 131009),
    Case("media with id and link", body(type="image", image={"id": "1", "link": "https://a.example"}), 131009),
    Case("media with neither", body(type="image", image={}), 131009),
    Case("caption of 1025", body(type="image", image={"id": "1", "caption": "x" * 1025}), 131009),
    Case("location without longitude", body(type="location", location={"latitude": 1}), 131008),
    Case("reaction without id", body(type="reaction", reaction={"emoji": "x"}), 131008),
    Case("contacts empty", body(type="contacts", contacts=[]), 131008),
    Case("four buttons", body(type="interactive", interactive={"type": "button", "action": {"buttons": BUTTONS}}), 131009),
    Case("no rows", body(type="interactive", interactive={"type": "list", "action": {"sections": []}}), 131009),
    Case("unknown template", template(name="nobody"), 132001),
    Case("unknown language", template(code="de"), 132001),
    Case("one parameter too few", template(params=("Ada",)), 132000),
    Case("one parameter too many", template(params=("Ada", "9", "x")), 132000),
    Case("no components", template(components=None), 132000),
    Case("template without language", template(language=None), 131008),
    Case("parameter of a wrong type", template(components=[{"type": "body", "parameters": [{"type": "image"}]}]), 132012),
    Case("parameter without text", template(params=("Ada", "")), 131008),
    Case("component of unknown type", template(components=[{"type": ["body"]}]), 100),
    Case("one-time code to a user id", template("otp", "en", ("1",)) | {"to": None, "recipient": "US.9001"}, 131062),
    Case("read mark without id", {"messaging_product": "whatsapp", "status": "read"}, 100),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_wrong_body_is_refused_with_its_code(case):
    found = read(case.given)
    assert isinstance(found, Refusal)
    assert found.code == case.code


ACCEPTED = [
    Case("text", body(), 0),
    Case("type left out", body(type=None), 0),
    Case("text of 4096", body(text={"body": "x" * 4096}), 0),
    Case("callback data of 512", body(biz_opaque_callback_data="x" * 512), 0),
    Case("bare digits", body(to="15550100042"), 0),
    Case("punctuated", body(to="+1 (555) 010-0042"), 0),
    Case("template", template(), 0),
    Case("template without parameters", template("plain", params=()), 0),
    Case("template with a button", template(components=[
        {"type": "body", "parameters": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"type": "button", "sub_type": "url", "index": 0, "parameters": [{"type": "text", "text": "t"}]}]), 0),
    Case("image by id", body(type="image", image={"id": "700000000000001", "caption": "roof"}), 0),
    Case("location", body(type="location", location={"latitude": 1, "longitude": 2}), 0),
    Case("reaction removed", body(type="reaction", reaction={"message_id": "wamid.X", "emoji": ""}), 0),
    Case("three buttons", body(type="interactive", interactive={"type": "button", "action": {"buttons": BUTTONS[:3]}}), 0),
    Case("unknown member", body(future={"x": 1}), 0),
]  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_a_right_body_is_an_order_to_the_bare_digits(case):
    found = read(case.given)
    assert isinstance(found, Order)
    assert found.who == "15550100042"


def test_an_order_keeps_what_the_report_needs():
    found = read(template() | {"biz_opaque_callback_data": "job7:row91"})
    assert isinstance(found, Order)
    assert (found.template, found.language, found.params) == ("order_ready", "en_US", ("Ada", "9"))
    assert found.callback_data == "job7:row91"


def test_money_and_dates_show_their_fallback():
    parameters = [
        {"type": "currency", "currency": {"fallback_value": "€ 5", "code": "EUR", "amount_1000": 5000}},
        {"type": "date_time", "date_time": {"fallback_value": "May 3"}},
    ]
    found = read(template(components=[{"type": "body", "parameters": parameters}]))
    assert isinstance(found, Order)
    assert found.params == ("€ 5", "May 3")


def test_a_component_counts_in_either_case():
    parameters = [{"type": "text", "text": text} for text in ("Ada", "9")]
    order = read(template(components=[{"type": "BODY", "parameters": parameters}]))
    assert order.params == ("Ada", "9")


def test_a_phone_number_wins_over_a_user_id():
    found = read(body(recipient="US.9001"))
    assert isinstance(found, Order)
    assert found.who == "15550100042"


def test_a_read_mark_is_no_order():
    mark = {"messaging_product": "whatsapp", "status": "read", "message_id": "wamid.IN"}
    assert read(mark | {"typing_indicator": {"type": "text"}}) == ReadMark("wamid.IN")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("whatsapp"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = st.sampled_from(
    ["to", "recipient", "type", "text", "template", "image", "contacts", "interactive", "location", "context"]
)


@given(
    st.dictionaries(MEMBERS, JSON_VALUES, max_size=4), st.sampled_from(["text", "template", "interactive"])
)
def test_no_body_raises(change, kind):
    assert read(body(type=kind) | change) is not None


@given(JSON_VALUES, JSON_VALUES, JSON_VALUES)
def test_no_template_raises(language, components, parameters):
    assert read(template(language=language)) is not None
    assert read(template(components=components)) is not None
    assert read(template(components=[{"type": "body", "parameters": parameters}])) is not None


def test_an_error_has_metas_shape():
    error = json.loads(error_body(Refusal(130429, "Too many."), "AbC"))["error"]
    assert error == {
        "message": "(#130429) Rate limit hit",
        "type": "OAuthException",
        "code": 130429,
        "error_data": {"messaging_product": "whatsapp", "details": "Too many."},
        "fbtrace_id": "AbC",
    }


def test_an_unknown_number_is_a_bad_object():
    error = json.loads(error_body(Refusal(100, "No such object.", 33), "AbC"))["error"]
    assert (error["type"], error["code"], error["error_subcode"]) == ("GraphMethodException", 100, 33)


@pytest.mark.parametrize(
    ("code", "status"),
    [(190, 401), (100, 400), (132001, 404), (132000, 400), (130429, 429), (2, 503), (131016, 500)],
)
def test_a_code_has_its_http_status(code, status):
    assert http_status(code) == status
