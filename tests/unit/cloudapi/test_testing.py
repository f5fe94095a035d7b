"""The scripted far side itself, spoken to by hand."""

import asyncio
import contextlib

import pytest

from cloudapi.testing import Answer, Misdeed, Received, accepts, refused, refusing_url, scripted_transport

REQUEST = b"POST /v1/1/messages HTTP/1.1\r\nHost: x\r\nX-Name: value\r\nContent-Length: 4\r\n\r\nbody"


async def spoken(url: str, *requests: bytes) -> bytes:
    """Send requests over one connection, half-close, and return all that came back."""
    host, port = url.removeprefix("http://").split(":")
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"".join(requests))
        writer.write_eof()
        try:
            return await reader.read()
        finally:
            writer.close()


async def test_requests_are_recorded_whole_and_in_order() -> None:
    async with scripted_transport() as far_side:
        answer = await spoken(far_side.url, REQUEST, REQUEST.replace(b"body", b"more"))
        first, second = await far_side.received(2)
        assert (first.number, first.method, first.path) == (1, "POST", "/v1/1/messages")
        assert (first.body, second.body) == (b"body", b"more")
        assert first.headers["x-name"] == "value"
        assert first.connection == second.connection
        assert first.at_s <= second.at_s
        assert answer.count(b"wamid.SCRIPTED") == 2


async def test_a_script_plays_by_request() -> None:
    def script(request: Received) -> Answer:
        return refused(130429, status=429) if request.number == 2 else accepts(request)

    async with scripted_transport(script) as far_side:
        answer = await spoken(far_side.url, REQUEST, REQUEST, REQUEST)
        assert [part[1:4] for part in answer.split(b"HTTP/1.1")[1:]] == [b"200", b"429", b"200"]


async def test_the_last_play_of_a_list_is_repeated() -> None:
    async with scripted_transport([Answer(503), Answer(200)]) as far_side:
        answer = await spoken(far_side.url, REQUEST, REQUEST, REQUEST)
        assert (answer.count(b" 503 "), answer.count(b" 200 ")) == (1, 2)


async def test_a_reset_is_a_reset() -> None:
    async with scripted_transport([Misdeed.RESET]) as far_side:
        with pytest.raises(ConnectionResetError):
            await spoken(far_side.url, REQUEST)


async def test_a_cut_body_promises_more_than_it_brings() -> None:
    async with scripted_transport([Misdeed.CUT_BODY]) as far_side:
        head, _, body = (await spoken(far_side.url, REQUEST)).partition(b"\r\n\r\n")
        assert b"Content-Length: 1000" in head
        assert 0 < len(body) < 1000


async def test_leaving_ends_what_hangs() -> None:
    async with asyncio.TaskGroup() as tasks:
        async with scripted_transport([Misdeed.HANG]) as far_side:
            hanging = tasks.create_task(spoken(far_side.url, REQUEST))
            await far_side.received(1)
            assert not hanging.done()
        with contextlib.suppress(ConnectionError):
            assert await hanging == b""


async def test_missing_requests_are_a_time_out() -> None:
    async with scripted_transport() as far_side:
        with pytest.raises(TimeoutError):
            await far_side.received(1, within_s=0.01)


async def test_a_closed_listener_refuses() -> None:
    with pytest.raises(ConnectionRefusedError):
        await spoken(await refusing_url(), REQUEST)
