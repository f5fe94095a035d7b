"""A TCP proxy between clients and one server of the tests, which spoils their connections while they are in use.

Invariant: bytes are never reordered or made up; what is held back waits in the kernel, so the proxy's memory stays small.
"""

import asyncio
import random
import re
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, cast

from deploy.local.process import free_port

CALL_LIMIT_S = 10.0
DELAYED_MAX = 256  # chunks on the way, per direction of a connection; then reading waits
RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: closing sends RST
PARSE = re.compile(rb"P.{4}([^\0]*)\0([^\0]*)", re.DOTALL)
BIND = re.compile(rb"B.{4}[^\0]*\0([^\0]*)", re.DOTALL)


class Way(Enum):
    TO_SERVER = auto()
    TO_CLIENT = auto()


class Snare(Enum):
    """What becomes of a connection whose request was waited for."""

    ANSWER_CUT = auto()  # the server answers, but both sides see a reset instead
    ANSWER_HELD = auto()  # the server answers, and the answer doesn't come until `mend`
    REQUEST_CUT = auto()  # half of the request arrives, then both sides see a reset


Memory = dict[bytes, bytes]  # what one connection's client has said before
Asks = Callable[[Memory, bytes], str]  # a client's chunk, as text to look for words in


def opening(_memory: Memory, chunk: bytes) -> str:
    """How a chunk begins: enough for HTTP."""
    return chunk[:200].decode("latin-1")


def postgres_statement(memory: Memory, chunk: bytes) -> str:
    """The SQL that is executed here. It is told once, when it is prepared; a Bind names what was prepared."""
    if parse := PARSE.match(chunk):
        memory[parse[1]] = parse[2]
    bind = BIND.match(chunk)
    return memory.get(bind[1], b"").decode() if bind else ""


class End(asyncio.Protocol):
    """One side of a connection; `way` is where what it reads has to go."""

    def __init__(self, link: "Link", way: Way) -> None:
        self.link, self.way = link, way
        self.transport: asyncio.Transport | None = None
        self.full = False
        self.on_the_way: deque[bytes] = deque()  # read here, delayed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.link.joined(self)

    def data_received(self, chunk: bytes) -> None:
        self.link.carry(self, chunk)

    def eof_received(self) -> bool:
        self.link.carry(self, b"")
        return True

    def pause_writing(self) -> None:
        self.full = True
        self.link.regulate()

    def resume_writing(self) -> None:
        self.full = False
        self.link.regulate()

    def connection_lost(self, error: Exception | None) -> None:
        self.link.reset() if error else self.link.close()

    def write(self, chunk: bytes) -> None:
        """Pass bytes to this side; no bytes are the end of them."""
        if self.transport is None or self.transport.is_closing():
            return
        if chunk:
            self.transport.write(chunk)
        elif self.transport.can_write_eof():
            self.transport.write_eof()


class Link:
    """A client's connection, and ours to the server that goes with it."""

    def __init__(self, proxy: "Proxy") -> None:
        self.proxy = proxy
        self.ends = {way: End(self, way) for way in Way}
        self.held: set[Way] = set()
        self.ended: set[Way] = set()
        self.snared: Snare | None = None
        self.memory: Memory = {}
        self.connecting: asyncio.Task[Any] | None = None

    def joined(self, end: End) -> None:
        if end.way is Way.TO_SERVER:
            self.proxy.links.add(self)
            self.proxy.counts["links"] += 1
            self.connecting = asyncio.get_running_loop().create_task(self._connect())
        self.regulate()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: self.ends[Way.TO_CLIENT], "127.0.0.1", self.proxy.server_port
            )
        except OSError:
            self.reset()

    def regulate(self) -> None:
        """Read where what is read can go on."""
        source, target = self.ends[Way.TO_SERVER], self.ends[Way.TO_CLIENT]
        for reader, writer in ((source, target), (target, source)):
            if reader.transport is None or reader.transport.is_closing():
                continue
            ready = writer.transport is not None and not writer.full
            if (
                ready
                and reader.way not in self.held | self.proxy.held
                and len(reader.on_the_way) < DELAYED_MAX
            ):
                reader.transport.resume_reading()
            else:
                reader.transport.pause_reading()

    def carry(self, end: End, chunk: bytes) -> None:
        if self.snared is Snare.ANSWER_CUT and end.way is Way.TO_CLIENT:
            self.reset()
            return
        if chunk and end.way is Way.TO_SERVER:
            chunk = self._spoilt(chunk)
        delay_s = self.proxy.delays[end.way]
        if not delay_s and not end.on_the_way:
            self._deliver(end.way, chunk)
            return
        end.on_the_way.append(chunk)
        asyncio.get_running_loop().call_later(delay_s, self._arrive, end)
        self.regulate()

    def _spoilt(self, chunk: bytes) -> bytes:
        """What a client says, as it is passed on: whole, unless a trap waits for it."""
        asked = self.proxy.asks(self.memory, chunk)
        snare = None if self.snared else self.proxy.sprung(asked)
        self.snared = self.snared or snare
        if snare is Snare.REQUEST_CUT:
            asyncio.get_running_loop().call_soon(self.reset)
            return chunk[: len(chunk) // 2]
        if snare is Snare.ANSWER_HELD:
            self.held.add(Way.TO_CLIENT)
            self.regulate()
        return chunk

    def _arrive(self, end: End) -> None:
        """A delayed chunk is due: the one that went first, whichever timer rang."""
        self._deliver(end.way, end.on_the_way.popleft())
        self.regulate()

    def _deliver(self, way: Way, chunk: bytes) -> None:
        if way not in self.ended:
            self.proxy.counts[way.name.lower()] += len(chunk)
            self.ends[Way.TO_CLIENT if way is Way.TO_SERVER else Way.TO_SERVER].write(chunk)
        if not chunk:
            self.ended.add(way)
            if len(self.ended) == len(Way):
                self.close()

    def half_close(self, way: Way) -> None:
        self._deliver(way, b"")

    def reset(self) -> None:
        for end in self.ends.values():
            if end.transport and not end.transport.is_closing():
                end.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.transport.abort()
        self._forget()

    def close(self) -> None:
        for end in self.ends.values():
            if end.transport and not end.transport.is_closing():
                end.transport.close()
        self._forget()

    def _forget(self) -> None:
        self.proxy.links.discard(self)
        if self.connecting and not self.connecting.done():
            self.connecting.cancel()


class Proxy:
    """Listens on `port`, passes on to `server_port`, which may be set late. Every method may be called from any thread.

    `counts` holds `links` (accepted), `resets`, `sprung` (traps), and the bytes passed `to_server` and `to_client`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, server_port: int, asks: Asks) -> None:
        self._loop = loop
        self._listener: asyncio.Server | None = None
        self._trap: tuple[str, Snare] | None = None
        self._traps_left = 0
        self.server_port = server_port
        self.asks = asks
        self.port = free_port(random.Random())
        self.links: set[Link] = set()
        self.held: set[Way] = set()
        self.delays = dict.fromkeys(Way, 0.0)
        self.counts: Counter[str] = Counter()

    def delay(self, *, to_server_s: float = 0.0, to_client_s: float = 0.0) -> None:
        """What is read from now on arrives later by so much."""
        self._do(lambda: self.delays.update({Way.TO_SERVER: to_server_s, Way.TO_CLIENT: to_client_s}))

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._do(self._refuse)
        self.reset()

    def reset(self) -> None:
        """Reset every connection of now; new ones are served."""
        self._do(self._reset_all)

    def hang(self, *ways: Way) -> None:
        """Accept and hold: nothing flows, or nothing in these directions."""
        self._do(lambda: self._hold(set(ways or Way)))

    def half_close(self, way: Way) -> None:
        """End one direction of every connection of now, as if its sender had nothing more to say."""
        self._do(lambda: [link.half_close(way) for link in list(self.links)])

    def trap(self, word: str, snare: Snare, times: int = 1) -> None:
        """Spoil the next so many requests that hold a word; this trap takes the place of the one before."""
        self._do(lambda: self._set_trap((word, snare), times))

    def mend(self) -> None:
        """Serve as if nothing had been: what was held flows on, traps are gone."""
        self._do(self._mend)

    def sprung(self, asked: str) -> Snare | None:
        """What the trap does to this request, if it is set for it."""
        if self._trap is None or not self._traps_left or self._trap[0] not in asked:
            return None
        self._traps_left -= 1
        self.counts["sprung"] += 1
        return self._trap[1]

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await self._loop.create_server(
                lambda: Link(self).ends[Way.TO_SERVER], "127.0.0.1", self.port, reuse_address=True
            )

    def _refuse(self) -> None:
        if self._listener:
            self._listener.close()
            self._listener = None

    def _reset_all(self) -> None:
        self.counts["resets"] += len(self.links)
        for link in list(self.links):
            link.reset()

    def _hold(self, ways: set[Way]) -> None:
        self.held = ways
        for link in list(self.links):
            link.regulate()

    def _set_trap(self, trap: tuple[str, Snare] | None, times: int) -> None:
        self._trap, self._traps_left = trap, times

    async def _mend(self) -> None:
        self.delays = dict.fromkeys(Way, 0.0)
        self._set_trap(None, 0)
        for link in list(self.links):
            link.held.clear()
        self._hold(set())
        await self._listen()

    def _do(self, act: Callable[[], Any]) -> None:
        """Run something in the proxy's loop, and wait until it is done."""

        async def run() -> None:
            done = act()
            if asyncio.iscoroutine(done):
                await done

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(CALL_LIMIT_S)


@contextmanager
def a_proxy(server_port: int = 0, asks: Asks = opening) -> Iterator[Proxy]:
    """A proxy in a thread of its own, passing everything; its connections end with the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()
    proxy = Proxy(loop, server_port, asks)
    try:
        proxy.mend()
        yield proxy
    finally:
        proxy.cut()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CALL_LIMIT_S)
        loop.close()
