"""The proxy of the disasters: what it is told to spoil is spoilt, and nothing else."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Thread

import pytest

from tests.proxy import Proxy, Snare, Way, a_proxy, postgres_statement

LIMIT_S = 30.0
HOLD_S = 0.2  # how long nothing has to come before we believe that nothing comes


class Echo:
    """A server that says back what it hears, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                while chunk := connection.recv(65_536):
                    self.heard += chunk
                    connection.sendall(chunk)
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(LIMIT_S)


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as server:
        yield server


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with a_proxy(echo.port) as proxy:
        yield proxy


@contextmanager
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), LIMIT_S) as connection:
        yield connection


def receive(connection: socket.socket, count: int) -> bytes:
    heard = b""
    while len(heard) < count and (chunk := connection.recv(count - len(heard))):
        heard += chunk
    return heard


def says(connection: socket.socket, words: bytes) -> bytes:
    connection.sendall(words)
    return receive(connection, len(words))


def nothing_comes(connection: socket.socket) -> bool:
    connection.settimeout(HOLD_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(LIMIT_S)
    return False


def test_what_goes_in_comes_out_whole_and_in_order(proxy: Proxy, echo: Echo) -> None:
    words = b"".join(struct.pack(">I", n) for n in range(500_000))
    with client(proxy) as connection:
        sender = Thread(target=connection.sendall, args=(words,))
        sender.start()
        heard = receive(connection, len(words))
        sender.join(LIMIT_S)
    assert heard == words == echo.heard
    assert proxy.counts["to_server"] == proxy.counts["to_client"] == len(words)


def test_a_delay_holds_for_its_direction_and_keeps_the_order(proxy: Proxy) -> None:
    proxy.delay(to_client_s=0.2)
    with client(proxy) as connection:
        began = time.monotonic()
        for n in range(20):
            connection.sendall(bytes([n]))
        assert receive(connection, 20) == bytes(range(20))
        assert 0.2 <= time.monotonic() - began < 2.0, "late once, not once a chunk"


def test_a_cut_resets_what_is_there_and_refuses_what_comes(proxy: Proxy) -> None:
    with client(proxy) as connection:
        says(connection, b"hello")
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), LIMIT_S)
    proxy.mend()
    with client(proxy) as connection:
        assert says(connection, b"again") == b"again"
    assert proxy.counts["resets"] == 1


def test_a_reset_spares_those_who_come_later(proxy: Proxy) -> None:
    with client(proxy) as old:
        says(old, b"hello")
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
        with client(proxy) as new:
            assert says(new, b"hello") == b"hello"


def test_what_hangs_is_accepted_and_flows_on_when_mended(proxy: Proxy, echo: Echo) -> None:
    with client(proxy) as old:
        says(old, b"before ")
        proxy.hang()
        with client(proxy) as new:
            for connection in (old, new):
                connection.sendall(b"held")
            assert nothing_comes(old)
            assert nothing_comes(new)
            assert echo.heard == b"before "
            proxy.mend()
            for connection in (old, new):
                assert receive(connection, 4) == b"held"


def test_half_of_a_closed_connection_still_works(proxy: Proxy, echo: Echo) -> None:
    with client(proxy) as connection:
        says(connection, b"hello")
        proxy.half_close(Way.TO_CLIENT)
        assert connection.recv(1) == b"", "the server has nothing more to say"
        connection.sendall(b" still heard")
        deadline = time.monotonic() + LIMIT_S
        while echo.heard != b"hello still heard":
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_trap_lets_the_request_pass_and_cuts_the_answer_as_often_as_it_was_set(
    proxy: Proxy, echo: Echo
) -> None:
    proxy.trap("PAY", Snare.ANSWER_CUT, times=1)
    with client(proxy) as one, client(proxy) as other:
        assert says(other, b"LOOK") == b"LOOK"
        one.sendall(b"PAY 5")
        with pytest.raises(ConnectionResetError):
            one.recv(1)
        assert says(other, b"PAY 6") == b"PAY 6", "it was set for one"
    assert echo.heard == b"LOOKPAY 5PAY 6"
    assert proxy.counts["sprung"] == 1


def test_a_held_answer_comes_when_mended(proxy: Proxy) -> None:
    proxy.trap("PAY", Snare.ANSWER_HELD)
    with client(proxy) as connection:
        connection.sendall(b"PAY 5")
        assert nothing_comes(connection)
        proxy.mend()
        assert receive(connection, 5) == b"PAY 5"


def test_a_cut_request_arrives_half(proxy: Proxy, echo: Echo) -> None:
    proxy.trap("PAY", Snare.REQUEST_CUT)
    with client(proxy) as connection:
        connection.sendall(b"PAY 5000")
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert echo.heard in (b"", b"PAY "), "a reset may overtake what the server has not read"


def test_a_server_that_is_away_resets_its_clients() -> None:
    with a_proxy(1) as proxy, pytest.raises(ConnectionResetError), client(proxy) as connection:
        connection.recv(1)


def test_what_was_prepared_is_known_by_its_name_alone() -> None:
    memory: dict[bytes, bytes] = {}
    assert postgres_statement(memory, b"P\0\0\0\x30s1\0SELECT claim($1)\0\0\0D\0\0\0\x08Ss1\0") == ""
    assert postgres_statement(memory, b"B\0\0\0\x20\0s1\0\0\1") == "SELECT claim($1)"
    assert postgres_statement(memory, b"B\0\0\0\x20\0s2\0\0\1") == ""
