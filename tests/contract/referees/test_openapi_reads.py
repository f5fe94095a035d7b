"""Meta's OpenAPI description as referee of the reads: what our client asks, and what the simulator answers.

`/debug_token` and an app's subscriptions belong to Graph at large and are not in it. As for sending, we are held to it
closed, and where it isn't followed stands in `DIFFERENCES`.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import pytest
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from cloudapi.client import GraphClient
from cloudapi.nodes import Refused
from runtime.clock import SYSTEM_CLOCK
from runtime.health import serve_http
from simulator.graph_reads import Reads
from simulator.scenario import Account, Number, Scenario
from simulator.web_graph import GraphReads
from tests.contract.referees.test_openapi import FILE, IS_CI, JSON, Difference, Schemas, close, description

pytestmark = pytest.mark.skipif(
    not FILE.is_file() and not IS_CI,
    reason="Meta's OpenAPI description is absent; SLUICE_THIRD_PARTY may name the folder that holds meta/",
)
HEALTHY = Account()
WABA, NUMBER = "200000000000001", "300000000000001"
LIST, NODE, APPS = (
    "/{Version}/{WABA-ID}/phone_numbers",
    "/{Version}/{Phone-Number-ID}",
    "/{Version}/{WABA-ID}/subscribed_apps",
)


def call_it_connected(schemas: Schemas) -> None:
    schemas["WhatsAppPhoneNumberStatus"]["enum"].append("CONNECTED")


def wrap_the_app(schemas: Schemas) -> None:
    app = schemas["SubscribedApp"]["properties"]
    app["link"] = {"type": "string"}
    wrapped = {"type": "object", "properties": dict(app), "required": ["id"]}
    schemas["SubscribedApp"]["properties"] = {"whatsapp_business_api_data": wrapped}


def tell_pace_and_callbacks(schemas: Schemas) -> None:
    node = schemas["PhoneNumberInfo"]["properties"]
    levels = {"enum": ["STANDARD", "HIGH", "NOT_APPLICABLE"]}
    node["throughput"] = {"type": "object", "properties": {"level": levels}, "required": ["level"]}
    node["whatsapp_business_manager_messaging_limit"] = {"type": "string", "pattern": "^TIER_"}
    places = ("phone_number", "whatsapp_business_account", "application")
    node["webhook_configuration"] = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in places},
    }


def give_details_of_errors(schemas: Schemas) -> None:
    schemas["GraphAPIError"]["properties"]["error"]["properties"]["error_data"] = {"type": "object"}


DIFFERENCES = {
    "connected": Difference(
        "A number that is registered is CONNECTED on the phone number page.", call_it_connected
    ),
    "wrapped app": Difference(
        "The description's own examples have each app in whatsapp_business_api_data.", wrap_the_app
    ),
    "pace and callbacks": Difference(
        "throughput, the messaging limit and webhook_configuration are on their own pages.",
        tell_pace_and_callbacks,
    ),
    "details of errors": Difference(
        "error_data is what the error page says to build on.", give_details_of_errors
    ),
}


def judge(path: str, status: int, without: str = "") -> Draft202012Validator:
    schemas = deepcopy(description()["components"]["schemas"])
    for name, difference in DIFFERENCES.items():
        if name != without:
            difference.allow(schemas)
    for schema in schemas.values():
        close(schema)
    schema = description()["paths"][path]["get"]["responses"][str(status)]["content"][JSON]["schema"]
    return Draft202012Validator({**schema, "components": {"schemas": schemas}})


@dataclass(frozen=True)
class Exchange:
    """One read: what went over the wire."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    status: int
    answer: Any


class Recorder:
    """An ASGI application around another one, that keeps what it saw."""

    def __init__(self, inner: Starlette) -> None:
        self._inner = inner
        self.seen: list[Exchange] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, body = 0, b""

        async def kept(message: Message) -> None:
            nonlocal status, body
            status = message.get("status", status)
            body += message.get("body", b"")
            await send(message)

        await self._inner(scope, receive, kept)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode()))
        self.seen.append(Exchange(scope["path"], query, headers, status, json.loads(body)))


@asynccontextmanager
async def a_graph(
    account: Account = HEALTHY, token: str = "sesame"
) -> AsyncIterator[tuple[GraphClient, Recorder]]:
    number = Number(phone_number_id=NUMBER, display_phone_number="15550109000", waba_id=WABA)
    scenario = Scenario(numbers=(number,), account=account)
    reads = Reads(lambda: scenario, access_token="sesame", app_secret="secret")
    recorder = Recorder(Starlette(routes=GraphReads(reads, SYSTEM_CLOCK).routes()))
    async with (
        serve_http(recorder, "127.0.0.1", 0) as port,
        GraphClient.open(f"http://127.0.0.1:{port}", "v26.0", token, timeout_s=5, connect_s=5) as client,
    ):
        yield client, recorder


Ask = Callable[[GraphClient, str], Awaitable[Any]]
READS: dict[str, tuple[Ask, str]] = {
    LIST: (GraphClient.phone_numbers, WABA),
    NODE: (GraphClient.number, NUMBER),
    APPS: (GraphClient.subscribed_apps, WABA),
}


def faults(path: str, exchange: Exchange, without: str = "") -> list[str]:
    status = (
        exchange.status if str(exchange.status) in description()["paths"][path]["get"]["responses"] else 400
    )
    return [error.message for error in judge(path, status, without).iter_errors(exchange.answer)]


async def answered() -> dict[str, Exchange]:
    async with a_graph() as (client, recorder):
        for path, (ask, known) in READS.items():
            said = (await ask(client, known)).said
            assert not isinstance(said, Refused), path
        return dict(zip(READS, recorder.seen, strict=True))


async def refused() -> list[tuple[str, Exchange]]:
    """Each read of an unknown id, without the permission, with an expired token and with a wrong one."""
    found: list[tuple[str, Exchange]] = []
    for account, token, ids in (
        (Account(), "sesame", "299999999999999"),
        (Account(scopes=()), "sesame", None),
        (Account(token_expired=True), "sesame", None),
        (Account(), "wrong", None),
    ):
        async with a_graph(account, token) as (client, recorder):
            for ask, known in READS.values():
                assert isinstance((await ask(client, ids or known)).said, Refused)
            found += zip(READS, recorder.seen, strict=True)
    return found


async def test_answers_and_refusals_of_the_reads_are_as_described() -> None:
    judged = [*(await answered()).items(), *await refused()]
    assert len(judged) == 15
    assert [(path, found) for path, one in judged if (found := faults(path, one))] == []


@pytest.mark.parametrize("name", DIFFERENCES)
async def test_a_difference_of_the_reads_is_still_needed(name: str) -> None:
    judged = [*(await answered()).items(), *await refused()]
    assert any(faults(path, one, name) for path, one in judged), "the description has caught up: take it out"


async def test_what_our_client_asks_is_described() -> None:
    for path, exchange in (await answered()).items():
        parameters = description()["paths"][path]["get"]["parameters"]
        shared = description()["components"]["parameters"]
        known = [shared[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in parameters]
        by_place = {(one["in"], one["name"]): one for one in known}
        for part, name in zip(
            exchange.path.split("/")[1:], re.findall(r"\{(.+?)\}|/(\w+)$", path), strict=False
        ):
            if name[0]:
                assert re.search(by_place["path", name[0]]["schema"]["pattern"], part)
        for name in exchange.query:
            assert ("query", name) in by_place, name
        for name in ("Authorization", "User-Agent"):
            pattern = by_place["header", name]["schema"]["pattern"]
            assert re.search(pattern, exchange.headers[name.lower()]), name
        if path == LIST:
            fields = by_place["query", "fields"]["description"]
            assert all(re.search(rf"\b{field}\b", fields) for field in exchange.query["fields"].split(","))


async def test_the_referee_of_the_reads_sees_what_is_wrong() -> None:
    for path, spoilt in (
        (LIST, {"data": [{"id": NUMBER, "display_phone_number": "+1 555", "status": "GREAT"}]}),
        (LIST, {"data": [{"id": NUMBER}]}),
        (NODE, {"id": NUMBER, "colour": "red"}),
        (APPS, {"data": [{"app": "1"}]}),
        (APPS, {}),
    ):
        assert faults(path, Exchange(path, {}, {}, 200, spoilt)), (path, spoilt)
