"""How much memory each process of a fleet takes while something else happens."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from deploy.local.fleet import Fleet

EVERY_S = 0.25
MB = 1_000_000


@contextmanager
def watching_memory(fleet: Fleet, services: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Yield the most that each service has taken so far, in MB of resident memory, growing beside the block."""
    most = dict.fromkeys(services, 0)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(EVERY_S):
            for service in services:
                with suppress(psutil.NoSuchProcess, KeyError):  # it is being started again
                    taken = psutil.Process(fleet.pid(service)).memory_info().rss // MB
                    most[service] = max(most[service], taken)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()
