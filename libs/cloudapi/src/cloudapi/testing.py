"""The far side of HTTP for tests: a server on loopback that answers, or misbehaves, as it is told.

Invariant: it shares no code with the client it tests; every request that was read whole is recorded before its play.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

_HEAD_BYTES_MAX = 64 * 1024
_CLOSING_S = 5.0


@dataclass(frozen=True)
class Received:
    """One request as it was read; `number` counts from 1, `at_s` is the loop's clock when its last byte had come."""

    number: int
    at_s: float
    connection: int
    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True)
class Answer:
    """Answer after a while. `close` ends the connection after it, without a word in the head."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    close: bool = False


class Misdeed(Enum):
    """What may happen to a request that was read instead of an answer."""

    CLOSE = auto()
    """FIN."""
    RESET = auto()
    """RST."""
    HANG = auto()
    """Nothing, until the client gives up."""
    HALF_HEAD = auto()
    """Part of an answer's head, then nothing."""
    CUT_BODY = auto()
    """A head that promises more body than comes before the FIN."""
    GARBAGE = auto()
    """Bytes that are not HTTP, then FIN."""


Play = Answer | Misdeed
Script = Callable[[Received], Play] | Sequence[Play]


def accepts(request: Received) -> Answer:
    """Play for each request: accepted, with a wamid of its own."""
    return accepted(f"wamid.SCRIPTED{request.number:06d}")


def accepted(wamid: str, *, wa_id: str | None = None, after_s: float = 0.0) -> Answer:
    """Return the answer that accepts a message."""
    contacts = [{"input": f"+{wa_id}", "wa_id": wa_id}] if wa_id else []
    body = {"messaging_product": "whatsapp", "contacts": contacts, "messages": [{"id": wamid}]}
    return Answer(200, msgspec.json.encode(body), after_s=after_s)


def refused(
    code: int, *, status: int = 400, subcode: int | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return the answer that refuses a message with one of Meta's codes."""
    error: dict[str, object] = {"message": f"(#{code})", "type": "OAuthException", "code": code}
    if subcode is not None:
        error["error_subcode"] = subcode
    return Answer(status, msgspec.json.encode({"error": error}), headers or {})


class ScriptedTransport:
    """The running server: its address and what it has read."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Received] = []
        self.connections_count = 0
        self.url = ""
        self._script = script
        self._server: asyncio.Server | None = None
        self._over = asyncio.Event()
        self._arrived = asyncio.Condition()
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def received(self, count: int, *, within_s: float = 30.0) -> list[Received]:
        """Wait until `count` requests were read and return all; raise `TimeoutError` when they don't come."""
        async with asyncio.timeout(within_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return list(self.requests)

    async def stop_listening(self) -> None:
        """Refuse connections from now on; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def listen_again(self) -> None:
        """Take connections again, at the same address."""
        assert self._server is None
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        self._server = await asyncio.start_server(self._serve, host, int(port), limit=_HEAD_BYTES_MAX)

    def close_connections(self) -> None:
        """Close every open connection, as a server does with idle ones."""
        for writer in self._open.values():
            writer.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        self._over.set()
        await self.stop_listening()
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(self._open, timeout=_CLOSING_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        self.connections_count += 1
        connection = self.connections_count
        try:
            alive = True
            while alive and not self._over.is_set():
                request = await self._read(reader, connection)
                alive = await self._perform(self._play_for(request), writer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # the client went away, which is its right
        finally:
            writer.close()
            del self._open[task]

    async def _read(self, reader: asyncio.StreamReader, connection: int) -> Received:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in head[1:] if ":" in line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        async with self._arrived:
            at_s = asyncio.get_running_loop().time()
            number = len(self.requests) + 1
            request = Received(number, at_s, connection, method, path, headers, body)
            self.requests.append(request)
            self._arrived.notify_all()
        return request

    def _play_for(self, request: Received) -> Play:
        if callable(self._script):
            return self._script(request)
        return self._script[min(request.number, len(self._script)) - 1]

    async def _perform(self, play: Play, writer: asyncio.StreamWriter) -> bool:
        """Do it, and return whether the connection lives on."""
        if isinstance(play, Answer):
            await self._pause(play.after_s)
            writer.write(_head(play.status, len(play.body), play.headers) + play.body)
            await writer.drain()
            return not play.close
        if play is Misdeed.RESET:
            _reset_on_close(writer)
        else:
            writer.write(_WORDS.get(play, b""))
        if play in (Misdeed.HANG, Misdeed.HALF_HEAD):
            await self._pause(None)
        return False

    async def _pause(self, for_s: float | None) -> None:
        """Wait, but no longer than the server lives."""
        if for_s == 0:
            return
        try:
            async with asyncio.timeout(for_s):
                await self._over.wait()
        except TimeoutError:
            pass


def _head(status: int, body_bytes: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {body_bytes}"]
    lines += [f"{name}: {value}" for name, value in {"Content-Type": "application/json", **headers}.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


_WORDS = {
    Misdeed.HALF_HEAD: b"HTTP/1.1 200 OK\r\nContent-Le",
    Misdeed.CUT_BODY: _head(200, 1_000, {}) + b'{"messages":[{"id":',
    Misdeed.GARBAGE: b"\x00\x01 not http at all \xff\r\n\r\n",
}


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    no_linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
    writer.transport.abort()


@asynccontextmanager
async def scripted_transport(script: Script = accepts) -> AsyncIterator[ScriptedTransport]:
    """Run a server that plays `script`: a play by request, or a list of plays, whose last one is repeated."""
    far_side = ScriptedTransport(script)
    await far_side._start()
    try:
        yield far_side
    finally:
        await far_side._stop()


async def refusing_url() -> str:
    """Return a base URL on loopback at which every connection is refused."""
    async with scripted_transport() as far_side:
        return far_side.url
