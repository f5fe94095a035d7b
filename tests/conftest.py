"""What several test folders share: one real Kafka and one real Postgres a run, a database a test, topic names a file."""

import logging
import os
import secrets
import shutil
from collections.abc import Iterator

import psutil
import pytest

from deploy.local.stack import (
    DATA_DIR,
    Endpoints,
    create_database,
    drop_database,
    end_leftovers,
    in_thread,
    running_stack,
)


def remove_folders_of_killed_runs() -> None:
    for folder in DATA_DIR.glob("test-*"):
        if not psutil.pid_exists(int(folder.name.split("-")[1])):
            end_leftovers(folder)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Logging is configured once a process; a test that does so leaves no trace for the next."""
    from runtime import logs

    root = logging.getLogger()
    handlers, level, pipeline = root.handlers[:], root.level, logs._pipeline
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logs._pipeline = pipeline


@pytest.fixture(scope="session")
def stack() -> Iterator[Endpoints]:
    """Started when the first test asks for it; each run has its own, in a folder that goes with it."""
    remove_folders_of_killed_runs()
    data_dir = DATA_DIR / f"test-{os.getpid()}"
    try:
        with running_stack(data_dir) as endpoints:
            yield endpoints
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture(scope="session")
def kafka_bootstrap(stack: Endpoints) -> str:
    return stack.kafka_bootstrap


@pytest.fixture(scope="session")
def template_database(stack: Endpoints) -> Iterator[str]:
    """The name of a migrated database that nobody is connected to; random, as a given server may be shared."""
    from ledger import migrate

    name = f"sluice_template_{secrets.token_hex(3)}"
    url = in_thread(create_database(stack.database_url, name))
    try:
        in_thread(migrate.apply(url))
        yield name
    finally:
        in_thread(drop_database(stack.database_url, name))


@pytest.fixture
def database_url(stack: Endpoints, template_database: str) -> Iterator[str]:
    """A migrated, empty database of this test's own."""
    name = f"test_{secrets.token_hex(6)}"
    url = in_thread(create_database(stack.database_url, name, template_database))
    try:
        yield url
    finally:
        in_thread(drop_database(stack.database_url, name))


@pytest.fixture(scope="module")
def topic_prefix() -> str:
    """Begins the name of every topic that this file makes, e.g. `t3fa9.`."""
    return f"t{secrets.token_hex(3)}."
