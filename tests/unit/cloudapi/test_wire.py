"""The POST against a far side that misbehaves."""

import asyncio
import socket
import struct
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from cloudapi.reply import outcome_of
from cloudapi.testing import (
    Answer,
    Misdeed,
    Play,
    Received,
    accepted,
    refused,
    refusing_url,
    scripted_transport,
)
from cloudapi.wire import ANSWER_BYTES_MAX, TransportFailed, TransportFault, Wire, send
from contracts.contact import Wamid
from contracts.outcome import Accepted, Scope, Throttled, Unknown, UnknownReason, Unsent, UnsentReason

NUMBER = "300000000000001"
TOKEN = "fictional-token-of-a-test"
BODY = b'{"to":"+15550100042","type":"text"}'


@asynccontextmanager
async def a_wire(
    url: str, *, connections_max: int = 4, timeout_s: float = 30.0, connect_s: float = 20.0
) -> AsyncIterator[Wire]:
    async with Wire.open(
        url,
        "v25.0",
        lambda: TOKEN,
        connections_max=connections_max,
        timeout_s=timeout_s,
        connect_s=connect_s,
    ) as wire:
        yield wire


async def failure_of(wire: Wire) -> TransportFailed:
    with pytest.raises(TransportFailed) as caught:
        await wire.post_message(NUMBER, BODY)
    return caught.value


async def test_a_post_reaches_the_number_with_token_and_body() -> None:
    async with scripted_transport() as far_side, a_wire(far_side.url) as wire:
        reply = await wire.post_message(NUMBER, BODY)
        (request,) = far_side.requests
        assert (request.method, request.path) == ("POST", f"/v25.0/{NUMBER}/messages")
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert request.headers["content-type"] == "application/json"
        assert request.body == BODY
        assert isinstance(outcome_of(reply.http_status, reply.body), Accepted)


@pytest.mark.parametrize(
    ("misdeed", "reason"),
    [
        (Misdeed.CLOSE, TransportFault.CONNECTION_LOST),
        (Misdeed.RESET, TransportFault.CONNECTION_LOST),
        (Misdeed.CUT_BODY, TransportFault.CONNECTION_LOST),
        (Misdeed.HANG, TransportFault.TIMEOUT),
        (Misdeed.HALF_HEAD, TransportFault.TIMEOUT),
        (Misdeed.GARBAGE, TransportFault.GARBAGE),
        (Answer(after_s=30.0), TransportFault.TIMEOUT),
    ],
)
async def test_a_request_that_was_read_may_have_arrived_and_is_written_once(
    misdeed: Play, reason: TransportFault
) -> None:
    timeout_s = 1.0 if reason is TransportFault.TIMEOUT else 30.0
    async with (
        scripted_transport([misdeed]) as far_side,
        a_wire(far_side.url, timeout_s=timeout_s, connect_s=0.9) as wire,
    ):
        failure = await failure_of(wire)
        assert failure.may_have_arrived
        assert failure.reason is reason
        assert len(far_side.requests) == 1


async def test_a_refused_connection_is_surely_not_sent() -> None:
    async with a_wire(await refusing_url()) as wire:
        failure = await failure_of(wire)
        assert not failure.may_have_arrived
        assert failure.reason is TransportFault.NOT_CONNECTED


@pytest.mark.parametrize(
    "raised",
    [aiohttp.ClientConnectorDNSError, aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError],
)
def test_what_fails_before_a_connection_is_a_connector_error(raised: type[Exception]) -> None:
    assert issubclass(raised, aiohttp.ClientConnectorError)


@pytest.mark.bco("H04")
@pytest.mark.parametrize("ending", ["fin", "rst", "plain text"])
async def test_bco_h04_a_failed_tls_handshake_is_surely_not_sent(ending: str) -> None:
    greetings: list[bytes] = []

    async def fail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greetings.append(await reader.read(1024))
        if ending == "plain text":
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        elif ending == "rst":
            no_linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
            writer.transport.abort()
        writer.close()

    async with await asyncio.start_server(fail, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with a_wire(f"https://127.0.0.1:{port}") as wire:
            failure = await failure_of(wire)
    assert not failure.may_have_arrived
    assert greetings
    assert not any(b"15550100042" in greeting for greeting in greetings)


async def test_a_connection_that_is_never_taken_is_surely_not_sent() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        with socket.create_connection(
            ("127.0.0.1", port)
        ):  # fills the backlog, so that the next SYN has no answer
            async with a_wire(f"http://127.0.0.1:{port}", connect_s=0.2) as wire:
                failure = await failure_of(wire)
    assert not failure.may_have_arrived


async def test_waiting_for_a_free_connection_is_surely_not_sent() -> None:
    async with (
        scripted_transport([Misdeed.HANG]) as far_side,
        a_wire(far_side.url, connections_max=1, timeout_s=0.6, connect_s=0.1) as wire,
        asyncio.TaskGroup() as tasks,
    ):
        first = tasks.create_task(failure_of(wire))
        await far_side.received(1)
        second = await failure_of(wire)
        assert not second.may_have_arrived
        assert (await first).may_have_arrived
        assert len(far_side.requests) == 1


@pytest.mark.bco("H04")
async def test_bco_h04_a_kept_connection_closed_by_the_server_never_doubles_a_post() -> None:
    def closing(request: Received) -> Play:
        return Answer(200, accepted(f"wamid.{request.number}").body, close=True)

    async with scripted_transport(closing) as far_side, a_wire(far_side.url) as wire:
        bodies = [f'{{"n":{n}}}'.encode() for n in range(50)]
        outcomes = [await send(wire, NUMBER, body) for body in bodies]
        read = [request.body for request in far_side.requests]
        assert len(read) == len(set(read))
        assert all(isinstance(o, Accepted | Unknown) for o in outcomes)
        assert sum(isinstance(o, Accepted) for o in outcomes) <= len(read)


async def test_a_connection_is_used_again() -> None:
    async with scripted_transport() as far_side, a_wire(far_side.url) as wire:
        for _ in range(5):
            await wire.post_message(NUMBER, BODY)
        assert far_side.connections_count == 1


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    async with scripted_transport() as other:
        moved = Answer(307, b"", {"Location": f"{other.url}/elsewhere"})
        async with scripted_transport([moved]) as far_side, a_wire(far_side.url) as wire:
            assert (await wire.post_message(NUMBER, BODY)).http_status == 307
        assert other.requests == []


async def test_a_body_over_the_limit_is_cut_and_the_wire_goes_on() -> None:
    huge = Answer(403, b"x" * (10 * ANSWER_BYTES_MAX), {"Content-Type": "text/plain"})
    async with scripted_transport([huge, accepted("wamid.B")]) as far_side, a_wire(far_side.url) as wire:
        reply = await wire.post_message(NUMBER, BODY)
        assert (reply.http_status, len(reply.body)) == (403, ANSWER_BYTES_MAX)
        assert await send(wire, NUMBER, BODY) == Accepted(Wamid("wamid.B"))


async def test_the_token_is_asked_before_each_post() -> None:
    tokens = iter(["first-token", "second-token\n"])
    async with (
        scripted_transport() as far_side,
        Wire.open(
            far_side.url, "v25.0", lambda: next(tokens), connections_max=1, timeout_s=30.0, connect_s=20.0
        ) as wire,
    ):
        await wire.post_message(NUMBER, BODY)
        await wire.post_message(NUMBER, BODY)
        sent = [request.headers["authorization"] for request in far_side.requests]
        assert sent == ["Bearer first-token", "Bearer second-token"]


@pytest.mark.parametrize("token", ["", "a\r\nX-Other: b", "schlüssel"])
async def test_an_unusable_token_is_surely_not_sent(token: str) -> None:
    async with (
        scripted_transport() as far_side,
        Wire.open(
            far_side.url, "v25.0", lambda: token, connections_max=1, timeout_s=30.0, connect_s=20.0
        ) as wire,
    ):
        failure = await failure_of(wire)
        assert not failure.may_have_arrived
        assert far_side.requests == []


@pytest.mark.parametrize("misdeed", list(Misdeed))
async def test_no_failure_carries_the_token_or_the_body(misdeed: Misdeed) -> None:
    async with (
        scripted_transport([misdeed]) as far_side,
        a_wire(far_side.url, timeout_s=0.3, connect_s=0.25) as wire,
    ):
        failure = await failure_of(wire)
        assert failure.__cause__ is None
        assert failure.__context__ is None
        told = "".join(traceback.format_exception(failure)) + repr(failure) + repr(failure.__dict__)
        assert TOKEN not in told
        assert "5550100042" not in told


async def test_a_cancelled_post_stays_cancelled() -> None:
    async with (
        scripted_transport([Misdeed.HANG]) as far_side,
        a_wire(far_side.url, timeout_s=30.0) as wire,
        asyncio.TaskGroup() as tasks,
    ):
        posting = tasks.create_task(wire.post_message(NUMBER, BODY))
        await far_side.received(1)
        posting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await posting


@pytest.mark.parametrize("number", ["../me", "1/2", "1?x=2", "1#2", "%2e%2e", ""])
async def test_a_number_id_never_changes_the_path(number: str) -> None:
    async with scripted_transport() as far_side, a_wire(far_side.url) as wire:
        await wire.post_message(number, BODY)
        path = far_side.requests[0].path
        assert path.startswith("/v25.0/")
        assert path.endswith("/messages")
        assert path.count("/") == 3
        assert "?" not in path


@pytest.mark.parametrize("answers_after_s", [0.2, 30.0])
async def test_an_answer_that_came_while_the_process_stood_still_is_no_time_out(
    answers_after_s: float,
) -> None:
    loop = asyncio.get_running_loop()
    async with (
        scripted_transport([Answer(after_s=answers_after_s)]) as far_side,
        a_wire(far_side.url, timeout_s=1.0, connect_s=0.9) as wire,
    ):
        sending = asyncio.create_task(send(wire, NUMBER, BODY))
        await far_side.received(1)
        loop.call_soon(time.sleep, 1.5)  # past the answer, and past the time-out
        started = loop.time()
        outcome = await sending
    if answers_after_s < 1.0:
        assert outcome == outcome_of(200, Answer().body)
    else:
        assert outcome == Unknown(UnknownReason.TIMEOUT)
    assert loop.time() - started < 15.0, "what was late is over soon all the same"


async def test_send_turns_trouble_and_answers_into_outcomes() -> None:
    plays: list[Play] = [
        accepted("wamid.A", wa_id="15550100042"),
        refused(130429, status=403, headers={"Retry-After": "7"}),
        refused(131016, status=503),
        Answer(502, b"<html></html>", {"Content-Type": "text/html"}),
        Misdeed.GARBAGE,
        Misdeed.RESET,
    ]
    async with scripted_transport(plays) as far_side, a_wire(far_side.url) as wire:
        assert [await send(wire, NUMBER, BODY) for _ in plays] == [
            Accepted(Wamid("wamid.A"), "15550100042"),
            Throttled(Scope.NUMBER, 7.0, 130429),
            Unsent(UnsentReason.RETRY_CODE, 131016),
            Unknown(UnknownReason.UNREADABLE_ANSWER),
            Unknown(UnknownReason.UNREADABLE_ANSWER),
            Unknown(UnknownReason.CONNECTION_LOST),
        ]
    async with (
        scripted_transport([Misdeed.HANG]) as far_side,
        a_wire(far_side.url, timeout_s=1.0, connect_s=0.9) as wire,
    ):
        assert await send(wire, NUMBER, BODY) == Unknown(UnknownReason.TIMEOUT)
    async with a_wire(await refusing_url()) as wire:
        assert await send(wire, NUMBER, BODY) == Unsent(UnsentReason.NOT_CONNECTED)
