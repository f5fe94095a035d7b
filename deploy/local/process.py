"""Child processes of the local stack: started, known by pid and start time, and ended with whoever started them."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, cast

import psutil

POLL_S = 0.03
ANSWER_LIMIT_S = 60.0  # measured 1 s (Postgres) and 3 to 6 s (Kafka); the rest is for slow machines
STOP_LIMIT_S = 10.0
START_TRIES = 3
# Below every system's ephemeral range: while a server is down, no outgoing connection can take (or, reconnecting over
# the loopback, join itself on) the port that the server will want back.
PORTS = range(20_000, 30_000)
BIND_ERRORS = ("Address already in use", "could not bind", "could not create any TCP/IP sockets")


class StackError(Exception):
    """Something went wrong; the text is one line for people."""

    exit_code = 1


class MissingError(StackError):
    """The machine lacks something; the text names it and the remedy."""

    exit_code = 2


class AlreadyRunningError(StackError):
    """The data folder belongs to a stack that runs."""

    exit_code = 3


class StoppingError(StackError):
    """The stack was told to stop while it was starting."""


@dataclass(frozen=True)
class Account:
    """The operating system's user that a program runs as."""

    uid: int
    gid: int


def free_port(rng: random.Random, *, but: Sequence[int] = ()) -> int:
    """A port nobody listens on at this moment; it may be taken before it is used, so be ready to ask again."""
    while True:
        port = rng.choice(PORTS)
        if port not in but and is_free(port):
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def write_record(path: Path, pid: int, **more: object) -> None:
    """Remember a process by pid and start time, so that it is never mistaken for a later one with its pid."""
    record = {"pid": pid, "created": psutil.Process(pid).create_time(), **more}
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(record))
    fresh.replace(path)


def read_record(path: Path) -> dict[str, object]:
    try:
        record = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def living(path: Path) -> psutil.Process | None:
    """The recorded process, if that very process still runs."""
    record = read_record(path)
    pid, created = record.get("pid"), record.get("created")
    if not isinstance(pid, int) or not isinstance(created, float):
        return None
    try:
        process = psutil.Process(pid)
        # The system derives start times from its clock, which may be adjusted a little meanwhile.
        same = abs(process.create_time() - created) < 2
    except psutil.Error:
        return None
    return process if same and not is_gone(process) else None


def kill_tree(process: psutil.Process) -> None:
    """SIGKILL the process and its children; it is frozen first, so that it neither adds nor mourns a child."""
    try:
        process.suspend()
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for one in family:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    deadline = time.monotonic() + STOP_LIMIT_S
    while not all(map(is_gone, family)) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def is_gone(process: psutil.Process) -> bool:
    """Does it hold nothing any more? A dead one counts, though its new parent may take a while to notice."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Host:
    """Starts child processes for one stack; when it is closed, or its process dies, they end.

    The kernel ends a child when the *thread* that started it ends, hence one thread that lives as long as the host.
    """

    def __init__(self, echo: Callable[[str], None]) -> None:
        self.echo = echo
        self.stopping = threading.Event()
        self._starter = ThreadPoolExecutor(1, "stack-starter")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._starter.shutdown()

    def spawn(
        self,
        command: Sequence[str],
        *,
        log: Path,
        death_signal: signal.Signals = signal.SIGKILL,
        account: Account | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program, its output in `log`, in a session of its own so that Ctrl-C reaches us alone."""
        uid, gid = (account.uid, account.gid) if account else (-1, -1)
        launch = [
            sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py")),
            str(int(death_signal)), str(os.getpid()), str(uid), str(gid),
        ]  # fmt: skip

        def start() -> subprocess.Popen[bytes]:
            with log.open("wb") as output:
                return subprocess.Popen(
                    [*launch, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd="/",  # one that every account may enter
                    env=env,
                    start_new_session=True,
                )

        return self._starter.submit(start).result()

    def run(
        self,
        command: Sequence[str],
        *,
        log: Path,
        limit_s: float,
        account: Account | None = None,
        env: Mapping[str, str] | None = None,
        progress: Callable[[float], None] = lambda _: None,
    ) -> int:
        """Run a program to its end and return its exit code; `progress` gets the seconds gone, a few times a second.

        Raises StoppingError when the stack stops meanwhile, StackError past the limit; the program is killed then.
        """
        process = self.spawn(command, log=log, account=account, env=env)
        began = time.monotonic()
        try:
            while True:
                try:
                    return process.wait(0.25)
                except subprocess.TimeoutExpired:
                    gone_s = time.monotonic() - began
                if gone_s > limit_s:
                    raise StackError(f"{Path(command[0]).name} took longer than {limit_s:.0f} s, see {log}")
                self.check_stopping()
                progress(gone_s)
        finally:
            if process.poll() is None:
                kill_tree(psutil.Process(process.pid))
                process.wait()

    def check_stopping(self) -> None:
        if self.stopping.is_set():
            raise StoppingError("stopped while starting")


class Server(ABC):
    """One real server, a child process with a folder and, from its first start on, a fixed port on 127.0.0.1.

    Not for two threads at once. `start`, `stop` and `kill` block: call them in a thread from asynchronous code.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]  # asks for a quick but orderly end

    def __init__(self, data_dir: Path, host: Host, rng: random.Random) -> None:
        self.folder = data_dir / self.name.lower()
        self.log = self.folder / "server.log"
        self.record = record_path(data_dir, self.name)
        self.host = host
        self.rng = rng
        self.port = 0
        self._prepared = False
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Make the data and whatever else must be there before the first start."""

    @abstractmethod
    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process on `port`."""

    @abstractmethod
    def answers(self) -> bool:
        """Does it serve clients on `port`?"""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it and wait until it answers: the first time on the port of last time or a free one, then on its own."""
        assert self.pid is None, f"{self.name} runs already"
        if self._prepared:
            self._start_once()
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        last_port = read_record(self.record).get("port")
        end_leftover(self.record, self.stop_signal)
        self.prepare()
        for tries_left in reversed(range(START_TRIES)):
            keep = isinstance(last_port, int) and is_free(last_port)
            self.port = cast("int", last_port) if keep else free_port(self.rng)
            try:
                self._start_once()
                break
            except StackError:
                if not tries_left or not self._port_was_taken():
                    raise
                last_port = None
        self._prepared = True

    def _start_once(self) -> None:
        began = time.monotonic()
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        self._process = self.launch()
        write_record(self.record, self._process.pid, port=self.port)
        while not self.answers():
            self.host.check_stopping()
            late = time.monotonic() - began > ANSWER_LIMIT_S
            if late or self._process.poll() is not None:
                self.kill()
                why = f"did not answer within {ANSWER_LIMIT_S:.0f} s" if late else "ended at once"
                raise StackError(f"{self.name} {why}: {last_words(self.log)}")
            time.sleep(POLL_S)
        self.host.echo(f"{self.name} answers on 127.0.0.1:{self.port} after {time.monotonic() - began:.1f} s")

    def _port_was_taken(self) -> bool:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return any(error in text for error in BIND_ERRORS)

    def ask_to_stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(self.stop_signal)

    def stop(self) -> None:
        """End it in good order, or by force when that takes too long."""
        self.ask_to_stop()
        if self._process:
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL it and its children, and wait until they are gone. `start` brings it back on the same data."""
        if self._process:
            if self._process.poll() is None:
                kill_tree(psutil.Process(self._process.pid))
            self._process.wait()


def last_words(log: Path) -> str:
    """The last line of a log that is no part of a stack trace, and where the rest is."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    said = [line for line in lines if line.strip() and not line.startswith(("\t", " ", "Caused by"))]
    return f"{said[-1][:300] if said else 'without a word'} ({log})"


def record_path(data_dir: Path, name: str) -> Path:
    return data_dir / f"{name.lower()}.json"


def end_leftover(record: Path, stop_signal: signal.Signals) -> bool:
    """End the recorded process if it outlived its stack; True if there was one."""
    process = living(record)
    if process is None:
        return False
    with suppress(psutil.NoSuchProcess):
        process.send_signal(stop_signal)
    deadline = time.monotonic() + STOP_LIMIT_S
    while not is_gone(process):
        if time.monotonic() > deadline:
            kill_tree(process)
            break
        time.sleep(POLL_S)
    return True
