"""The reads of Graph against a far side that answers, or misbehaves, as it is told."""

import asyncio
import json
import traceback
from contextlib import suppress

import pytest

from cloudapi.client import ANSWER_BYTES_MAX, PAGES_MAX, Answer, GraphClient
from cloudapi.nodes import ListedNumber, NumberNode, Refused, TokenInfo
from cloudapi.testing import Answer as Play
from cloudapi.testing import Misdeed, scripted_transport
from cloudapi.wire import TransportFailed, TransportFault

TOKEN = "qa-read-token-1"
WABA = "200000000000001"


def a_client(url: str, token: str = TOKEN, timeout_s: float = 30.0):  # type: ignore[no-untyped-def]
    return GraphClient.open(url, "v26.0", token, timeout_s=timeout_s, connect_s=min(timeout_s, 2.0))


def a_page(*ids: str, after: str = "") -> Play:
    page: dict[str, object] = {"data": [{"id": one, "status": "CONNECTED"} for one in ids]}
    if after:
        page["paging"] = {"cursors": {"after": after}, "next": "https://graph.example/next"}
    return Play(body=json.dumps(page).encode())


async def test_the_token_travels_in_the_header_and_to_debug_token_in_the_query_besides() -> None:
    told = Play(
        body=b'{"data": {"is_valid": true, "app_id": "6", "expires_at": 0, "scopes": ["a"], "new": 1}}'
    )
    async with scripted_transport([told, Play(body=b'{"id": "1"}')]) as far, a_client(far.url) as client:
        assert (await client.token_info()).said == TokenInfo(is_valid=True, app_id="6", scopes=("a",))
        assert (await client.number("1")).said == NumberNode(id="1")
    first, second = far.requests
    assert first.path == f"/v26.0/debug_token?input_token={TOKEN}"
    assert [one.headers["authorization"] for one in far.requests] == [f"Bearer {TOKEN}"] * 2
    assert TOKEN not in second.path
    assert second.path.startswith("/v26.0/1?fields=id")


async def test_pages_are_followed_by_their_cursor_and_never_by_the_address_they_name() -> None:
    async with (
        scripted_transport([a_page("1", after="A B"), a_page("2")]) as far,
        a_client(far.url) as client,
    ):
        said = (await client.phone_numbers(WABA)).said
    assert said == (ListedNumber(id="1", status="CONNECTED"), ListedNumber(id="2", status="CONNECTED"))
    assert "after=A+B" in far.requests[1].path or "after=A%20B" in far.requests[1].path


async def test_a_list_without_end_is_left_after_some_pages() -> None:
    async with scripted_transport([a_page("1", after="1")] * 50) as far, a_client(far.url) as client:
        assert len((await client.phone_numbers(WABA)).said) == PAGES_MAX  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("play", "refused"),
    [
        (
            Play(401, b'{"error": {"code": 190, "error_subcode": 463, "message": "x"}}'),
            Refused(401, 190, 463),
        ),
        (Play(400, b'{"error": {"code": 100, "error_subcode": 33}}'), Refused(400, 100, 33)),
        (Play(502, b"<html>"), Refused(502, None)),
        (Play(200, b"<html>"), Refused(200, None)),
        (Play(200, b'{"data": 1}'), Refused(200, None)),
        (Play(302, b"", {"location": "http://127.0.0.1:9/"}), Refused(302, None)),
        (Play(200, b'{"data": [' + b" " * ANSWER_BYTES_MAX + b"]}"), Refused(200, None)),
    ],
)
async def test_what_is_no_answer_of_graphs_is_refused_and_nothing_is_asked_twice(
    play: Play, refused: Refused
) -> None:
    async with scripted_transport([play]) as far, a_client(far.url) as client:
        assert await client.subscribed_apps(WABA) == Answer(refused, None)
    assert len(far.requests) == 1


@pytest.mark.parametrize(
    ("misdeed", "reason"),
    [
        (Misdeed.CLOSE, TransportFault.GARBAGE),
        (Misdeed.RESET, TransportFault.CONNECTION_LOST),
        (Misdeed.HANG, TransportFault.TIMEOUT),
        (Misdeed.HALF_HEAD, TransportFault.TIMEOUT),
        (Misdeed.GARBAGE, TransportFault.GARBAGE),
    ],
)
async def test_no_answer_is_one_transport_error_that_shows_nothing(
    misdeed: Misdeed, reason: TransportFault
) -> None:
    async with scripted_transport([misdeed]) as far, a_client(far.url, timeout_s=0.5) as client:
        with pytest.raises(TransportFailed) as failed:
            await client.token_info()
    assert failed.value.reason is reason
    assert failed.value.__context__ is None
    assert TOKEN not in "".join(traceback.format_exception(failed.value))


async def test_nobody_there_and_a_token_that_is_none_are_told_apart() -> None:
    async with a_client("http://127.0.0.1:9") as client:
        with pytest.raises(TransportFailed) as failed:
            await client.number("1")
    assert failed.value.reason is TransportFault.NOT_CONNECTED
    async with scripted_transport([]) as far, a_client(far.url, token="t\u00f6ken\n") as client:
        with pytest.raises(TransportFailed) as failed:
            await client.number("1")
        assert failed.value.reason is TransportFault.UNUSABLE_TOKEN
    assert far.requests == []


async def test_an_id_can_not_leave_its_place_in_the_address() -> None:
    async with scripted_transport([a_page()]) as far, a_client(far.url) as client:
        await client.phone_numbers("../1?x=/")
    assert far.requests[0].path.startswith("/v26.0/..%2F1%3Fx%3D%2F/phone_numbers?")


@pytest.mark.parametrize(
    ("piece", "pause_s", "ends"),
    [(b" " * 65_536, 0.0, Refused(200, None)), (b" ", 0.05, TransportFault.TIMEOUT)],
)
async def test_an_answer_without_end_is_left(
    piece: bytes, pause_s: float, ends: Refused | TransportFault
) -> None:
    poured = asyncio.Event()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with suppress(OSError):
            while not writer.is_closing():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)
            writer.close()
            await writer.wait_closed()
        poured.set()

    async with await asyncio.start_server(pour, "127.0.0.1", 0) as server, asyncio.timeout(30):
        port = server.sockets[0].getsockname()[1]
        async with a_client(f"http://127.0.0.1:{port}", timeout_s=1.0) as client:
            try:
                end: object = (await client.number("1")).said
            except TransportFailed as failed:
                end = failed.reason
        await poured.wait()
    assert end == ends
