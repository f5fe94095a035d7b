"""A Kafka and a Postgres that these tests may kill: one of each a file, apart from those that other tests use."""

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.stack import DATA_DIR, Stack, open_stack
from tests.fault.disaster import FULL, TIMES

BUSY = 3
"""Limits are for an idle machine; they only end what hangs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """At production times a test may take as much longer; on a machine that others keep busy, a good deal."""
    for item in items:
        if item.path.parent == Path(__file__).parent and (limit := item.get_closest_marker("timeout")):
            factor = TIMES if FULL else BUSY
            item.add_marker(pytest.mark.timeout(factor * limit.args[0]), append=False)


@pytest.fixture(scope="module")
def mortal() -> Iterator[Stack]:
    """Inside the repository, not in pytest's own folder: that one is closed to the user who runs Postgres."""
    folder = DATA_DIR / f"test-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        with open_stack(folder) as stack:
            yield stack
    finally:
        shutil.rmtree(folder, ignore_errors=True)
