"""The local stack: a real Kafka and a real Postgres for `make up`, the demo, the tests and the bench.

One data folder has one stack at a time, held by a lock that dies with its owner, and a stack that ends leaves no process.
`python deploy/local/stack.py up | status | down [--data DIR]`; exit codes: 0 done, 1 failed or (status) nothing runs,
2 something is missing, 3 it runs already.
"""

import argparse
import asyncio
import fcntl
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, TypeVar
from urllib.parse import urlsplit

if __package__ in (None, ""):  # run as a script: imports start at the repository, not at this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncpg

from deploy.local.kafka_server import Kafka, first_answering
from deploy.local.postgres_server import Postgres
from deploy.local.process import (
    POLL_S,
    AlreadyRunningError,
    Host,
    MissingError,
    Server,
    StackError,
    end_leftover,
    kill_tree,
    living,
    read_record,
    record_path,
    write_record,
)

ROOT = Path(__file__).resolve().parents[2]
DATA_DIR = ROOT / ".sluice"
DOWN_LIMIT_S = 30.0
EXTERNAL_LIMIT_S = 10.0
AS_GIVEN = "(as given)"
SERVERS: tuple[type[Server], ...] = (Kafka, Postgres)
Echo = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Endpoints:
    """Where the stack answers: Kafka's `host:port`, and the URL of Postgres's maintenance database."""

    kafka_bootstrap: str
    database_url: str


@dataclass(frozen=True)
class Stack:
    """A running stack; a server that someone else runs is None here."""

    endpoints: Endpoints
    kafka: Kafka | None
    postgres: Postgres | None


@contextmanager
def running_stack(data_dir: Path, *, echo: Echo = print) -> Iterator[Endpoints]:
    """Both servers, answering; the SLUICE_KAFKA_BOOTSTRAP and SLUICE_DATABASE_URL of the environment replace either.

    Raises AlreadyRunningError, MissingError or StackError, each with a line for people.
    """
    with open_stack(data_dir, echo=echo, environ=os.environ) as stack:
        yield stack.endpoints


@contextmanager
def open_stack(
    data_dir: Path,
    *,
    echo: Echo = print,
    environ: Mapping[str, str] | None = None,
    kafka_advertised_port: int | None = None,
) -> Iterator[Stack]:
    """The same, with servers that can be killed and started again; without an environment both are our own.

    `kafka_advertised_port` is a proxy's, before Kafka's `proxied_port`.
    """
    data_dir = data_dir.resolve()
    bootstrap = (environ or {}).get("SLUICE_KAFKA_BOOTSTRAP")
    database_url = (environ or {}).get("SLUICE_DATABASE_URL")
    check_external(bootstrap, database_url)
    with owned(data_dir) as publish, Host(echo) as host:
        kafka = None if bootstrap else Kafka(data_dir, host, random.Random())
        postgres = None if database_url else Postgres(data_dir, host, random.Random())
        if kafka:
            kafka.advertised_port = kafka_advertised_port
        servers = [server for server in (kafka, postgres) if server]
        try:
            start_all(servers, host)
            endpoints = Endpoints(
                bootstrap or (kafka.bootstrap if kafka else ""),
                database_url or (postgres.url if postgres else ""),
            )
            # A given URL may hold someone's password: it is not written down.
            publish(endpoints if postgres else replace(endpoints, database_url=AS_GIVEN))
            yield Stack(endpoints, kafka, postgres)
        finally:
            host.stopping.set()
            for server in servers:
                server.ask_to_stop()
            for server in servers:
                server.stop()


def start_all(servers: Sequence[Server], host: Host) -> None:
    """Start all at once; when one fails, or we are interrupted, the others give up too."""
    with ThreadPoolExecutor(len(SERVERS), "stack") as pool:
        starts = [pool.submit(server.start) for server in servers]
        try:
            for start in as_completed(starts):
                start.result()
        except BaseException:
            host.stopping.set()
            raise


def check_external(bootstrap: str | None, database_url: str | None) -> None:
    if bootstrap and first_answering(bootstrap, limit_s=EXTERNAL_LIMIT_S) is None:
        raise MissingError(
            f"no Kafka answers at SLUICE_KAFKA_BOOTSTRAP={bootstrap}: start it, or unset the variable"
        )
    if database_url:
        try:
            in_thread(execute(database_url, "SELECT 1"))
        except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            # The text of the error may hold the URL's password; its kind says enough.
            raise MissingError(
                f"the Postgres of SLUICE_DATABASE_URL can't be used ({type(error).__name__}): start or correct it, or"
                " unset the variable"
            ) from None


# The folder's owner


@contextmanager
def owned(data_dir: Path) -> Iterator[Callable[[Endpoints], None]]:
    """Hold the folder while inside; yields what publishes the endpoints to `status` and to a second start."""
    with locked(data_dir) as taken:
        if not taken:
            raise AlreadyRunningError(running_line(data_dir))
        owner = owner_path(data_dir)
        write_record(owner, os.getpid())
        try:
            yield lambda endpoints: write_record(owner, os.getpid(), **asdict(endpoints))
        finally:
            owner.unlink(missing_ok=True)


@contextmanager
def locked(data_dir: Path) -> Iterator[bool]:
    """Take the folder's lock for as long as we are inside; False if another process has it."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "lock").open("a") as lock:
        yield lock_now(lock)


def lock_now(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def owner_path(data_dir: Path) -> Path:
    return data_dir / "stack.json"


def running_line(data_dir: Path) -> str:
    owner = read_record(owner_path(data_dir))
    where = f"Kafka {owner['kafka_bootstrap']}" if "kafka_bootstrap" in owner else "still starting"
    return f"the local stack already runs (pid {owner.get('pid', '?')}, {where}): use it, or `stack.py down` ends it"


def down(data_dir: Path, echo: Echo) -> None:
    """End the stack of a folder, whoever started it, and whatever a killed one left; return when it is gone."""
    owner = living(owner_path(data_dir))
    if owner is not None:
        with suppress(ProcessLookupError):
            owner.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + DOWN_LIMIT_S
    while True:
        with locked(data_dir) as taken:
            if taken:
                ended = end_leftovers(data_dir)
                owner_path(data_dir).unlink(missing_ok=True)
                echo("the local stack is down" if owner or ended else "the local stack was not running")
                return
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    stubborn = living(owner_path(data_dir))
    if stubborn is None:
        raise StackError(f"{data_dir} is locked by a process that left no name: end it by hand")
    kill_tree(stubborn)
    down(data_dir, echo)


def end_leftovers(data_dir: Path) -> bool:
    """End servers whose stack was killed before it could; True if there were any. Nobody else may hold the folder."""
    ended = [end_leftover(record_path(data_dir, server.name), server.stop_signal) for server in SERVERS]
    return any(ended)


# Databases


async def create_database(database_url: str, name: str, template: str | None = None) -> str:
    """Create a database, as a copy if a template is named (nobody may be connected to it); returns the new one's URL."""
    source = f" TEMPLATE {quoted(template)}" if template else ""
    await execute(database_url, f"CREATE DATABASE {quoted(name)}{source}")
    return urlsplit(database_url)._replace(path=f"/{name}").geturl()


async def drop_database(database_url: str, name: str) -> None:
    """Drop a database if it is there, cutting off whoever is connected; `database_url` must be another one's."""
    await execute(database_url, f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)")


async def execute(database_url: str, statement: str) -> None:
    connection = await asyncpg.connect(database_url, timeout=EXTERNAL_LIMIT_S, command_timeout=30)
    try:
        await connection.execute(statement)
    finally:
        await connection.close(timeout=EXTERNAL_LIMIT_S)


def quoted(name: str) -> str:
    assert re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name), f"not a plain name: {name!r}"
    return f'"{name}"'


def in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a loop and a thread of its own, so that it works under a running loop too."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


# The command


def up(data_dir: Path, echo: Echo) -> None:
    """Run the stack in the foreground until SIGINT, SIGTERM or SIGHUP, or until a server ends by itself."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in signals:
            signal.signal(one, signal.SIG_IGN)  # once is enough: the orderly end takes a second
        raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for one in signals:
        signal.signal(one, interrupt)
    began = time.monotonic()
    try:
        with open_stack(data_dir, echo=echo, environ=os.environ) as stack:
            echo(f"ready after {time.monotonic() - began:.1f} s; Ctrl-C stops it")
            echo(f"SLUICE_KAFKA_BOOTSTRAP={stack.endpoints.kafka_bootstrap}")
            echo(f"SLUICE_DATABASE_URL={stack.endpoints.database_url if stack.postgres else AS_GIVEN}")
            servers: list[Server] = [server for server in (stack.kafka, stack.postgres) if server]
            while all(server.pid for server in servers):
                time.sleep(0.25)
            ended = next(server for server in servers if not server.pid)
            raise StackError(f"{ended.name} ended by itself: see {ended.log}")
    except KeyboardInterrupt:
        echo("stopped")


def status(data_dir: Path, echo: Echo) -> int:
    owner = read_record(owner_path(data_dir))
    if living(owner_path(data_dir)) is None:
        echo("the local stack is not running")
        return 1
    if "kafka_bootstrap" not in owner:
        echo(f"the local stack is starting (pid {owner['pid']})")
        return 0
    echo(f"the local stack runs (pid {owner['pid']})")
    echo(f"SLUICE_KAFKA_BOOTSTRAP={owner['kafka_bootstrap']}")
    echo(f"SLUICE_DATABASE_URL={owner['database_url']}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A real Kafka and a real Postgres on this machine.")
    parser.add_argument("action", choices=["up", "status", "down"])
    parser.add_argument(
        "--data", type=Path, default=DATA_DIR, help="the folder for all data (default: .sluice)"
    )
    options = parser.parse_args(arguments)

    def echo(line: str) -> None:
        print(line, flush=True)

    try:
        if options.action == "status":
            return status(options.data, echo)
        (up if options.action == "up" else down)(options.data, echo)
    except StackError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
