"""All services as child processes on this machine, for `make up`, the demo, and tests that need the whole thing.

Invariant: every process is known by its handle, listens on 127.0.0.1 alone, and ends with the fleet.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from deploy.local.process import Host, StackError, free_port
from deploy.local.stack import Endpoints

READY_LIMIT_S = 120.0
STOP_LIMIT_S = 25.0
TOKEN = "local-access-token"  # a made-up token of the simulated Graph API
APP_SECRET = "local-app-secret"
VERIFY_TOKEN = "local-verify-token"
SERVICES = ("simulator", "ingress", "conversations", "status_aggregator", "sender", "orchestrator", "admin")
PARTITIONS = 8
WITH_HEALTH = frozenset(SERVICES) - {"simulator"}
ASKS_FOR_RESTART = 75  # EX_TEMPFAIL


class FleetError(StackError):
    """A service didn't start, or ended by itself; the text says which and where its log is."""


@dataclass(frozen=True)
class Setup:
    """What a fleet works with.

    `extra` adds to one service's environment, by service name; `ports` are those on which the services find `kafka`,
    `postgres` and `graph` when something stands in between.
    """

    endpoints: Endpoints
    database_url: str
    folder: Path
    topic_prefix: str = ""
    scenario: Mapping[str, object] = field(default_factory=dict)
    seed: int = 1
    extra: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)


class Stopped(NamedTuple):
    """How a service ended, and how long after it was asked to."""

    exit_code: int
    seconds: float


class Fleet:
    """Starts, stops and kills services by name; a second one of a kind is `service-instance`, e.g. `sender-b`."""

    def __init__(self, setup: Setup, host: Host) -> None:
        self.setup = setup
        self._host = host
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.starts: Counter[str] = Counter()
        rng = random.Random()
        taken: list[int] = []

        def port() -> int:
            taken.append(free_port(rng, but=taken))
            return taken[-1]

        self.simulator_port = port()
        self.webhook_port = port()
        self.admin_port = port()
        self.health_ports = {name: port() for name in SERVICES}
        self._new_port = port
        self.logs = setup.folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        (setup.folder / "scenario.json").write_text(json.dumps(dict(setup.scenario)))

    @property
    def simulator_url(self) -> str:
        return f"http://127.0.0.1:{self.simulator_port}"

    @property
    def webhook_url(self) -> str:
        return f"http://127.0.0.1:{self.webhook_port}/webhook"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    def environment(self, name: str) -> dict[str, str]:
        """The whole environment of one service: nothing leaks in from ours but what a process needs to run."""
        service = kind(name)
        kept = {
            variable: os.environ[variable]
            for variable in ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH")
            if variable in os.environ
        }
        prefix = service.upper()
        own: dict[str, dict[str, str]] = {
            "ingress": {"INGRESS_PORT": str(self.webhook_port)},
            "admin": {"ADMIN_PORT": str(self.admin_port), "ADMIN_SLOTS_COUNT": str(PARTITIONS)},
            "simulator": {
                "SIMULATOR_PORT": str(self.simulator_port),
                "SIMULATOR_WEBHOOK_URL": self.webhook_url,
                "SIMULATOR_APP_SECRET": APP_SECRET,
                "SIMULATOR_SCENARIO_FILE": str(self.setup.folder / "scenario.json"),
                "SIMULATOR_SEED": str(self.setup.seed),
            },
        }
        health = {f"{prefix}_HEALTH_PORT": str(self.health_ports[name])} if service in WITH_HEALTH else {}
        return {
            **kept,
            "SLUICE_KAFKA_BOOTSTRAP": self._through("kafka", self.setup.endpoints.kafka_bootstrap),
            "SLUICE_DATABASE_URL": self._through("postgres", self.setup.database_url),
            "SLUICE_TOPIC_PREFIX": self.setup.topic_prefix,
            "SLUICE_INSTALLATION": "local",
            "SLUICE_GRAPH_URL": self._through("graph", self.simulator_url),
            "SLUICE_ACCESS_TOKEN": TOKEN,
            "SLUICE_APP_SECRETS": APP_SECRET,
            "SLUICE_VERIFY_TOKEN": VERIFY_TOKEN,
            **health,
            **own.get(service, {}),
            **self.setup.extra.get(service, {}),
        }

    def _through(self, server: str, address: str) -> str:
        """An address as the services see it: its last `:port` is another where something stands in between."""
        port = self.setup.ports.get(server)
        return re.sub(r":\d+(?=(/[^/@]*)?$)", f":{port}", address) if port else address

    def start(self, *services: str) -> None:
        """Start services; `wait_ready` tells when they work."""
        for name in services:
            if name not in self.health_ports:
                self.health_ports[name] = self._new_port()
            self.starts[name] += 1
            number = self.starts[name]
            log = self.logs / (f"{name}.log" if number == 1 else f"{name}.{number}.log")
            self._processes[name] = self._host.spawn(
                [sys.executable, "-m", kind(name)], log=log, env=self.environment(name)
            )

    def revive(self) -> list[str]:
        """Start again what ended and asked for it by its exit code, as any supervisor would; return what that was."""
        ended = [name for name, process in self._processes.items() if process.poll() == ASKS_FOR_RESTART]
        self.start(*ended)
        return ended

    def running(self, service: str) -> list[str]:
        """The names of all of a kind."""
        return [name for name in self._processes if kind(name) == service]

    def wait_ready(self, *services: str, limit_s: float = READY_LIMIT_S) -> None:
        """Wait until the services say that they are ready."""
        for service in services:
            self.until(lambda s=service: self.is_ready(s), f"{service} to be ready", limit_s)

    def is_ready(self, service: str) -> bool:
        if service == "simulator":
            return self.answers(f"{self.simulator_url}/sim/idle")
        return self.answers(f"http://127.0.0.1:{self.health_ports[service]}/ready")

    def until(self, condition: Callable[[], bool], what: str, limit_s: float) -> None:
        """Wait for a condition; raise `FleetError` when it takes too long, or a service has ended by itself."""
        deadline = time.monotonic() + limit_s
        while not condition():
            self.check_alive()
            if time.monotonic() > deadline:
                raise FleetError(f"waited {limit_s:.0f} s in vain for {what}: see {self.logs}")
            time.sleep(0.1)

    def check_alive(self) -> None:
        """Raise `FleetError` when a service has ended by itself; one that asks for it is started again."""
        for service in self.revive():
            print(f"{service} asked to be started again")
        for service, process in self._processes.items():
            if process.poll() is not None:
                raise FleetError(
                    f"{service} ended by itself with code {process.returncode}: see {self.logs}/{service}*.log"
                )

    def pid(self, service: str) -> int:
        return self._processes[service].pid

    def signal(self, service: str, number: signal.Signals) -> None:
        self._processes[service].send_signal(number)

    def kill(self, *services: str) -> None:
        """SIGKILL to all at once, and wait until they are gone."""
        processes = [self._processes.pop(service) for service in services]
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()

    def stop(self, *services: str, limit_s: float = STOP_LIMIT_S) -> dict[str, Stopped]:
        """SIGTERM to all at once, and wait for each one's drain; what doesn't end in time is killed."""
        processes = {service: self._processes.pop(service) for service in services}
        asked_at = time.monotonic()
        for process in processes.values():
            process.terminate()
        ended: dict[str, Stopped] = {}
        while len(ended) < len(processes):
            gone_s = time.monotonic() - asked_at
            for service, process in processes.items():
                if gone_s > limit_s and process.poll() is None:
                    process.kill()
                    process.wait()
                code = process.poll()
                if code is not None and service not in ended:
                    ended[service] = Stopped(code, gone_s)
            time.sleep(0.02)
        return ended

    def stop_all(self) -> None:
        """SIGTERM to all at once, then wait; what doesn't drain in time is killed."""
        processes, self._processes = self._processes, {}
        for process in processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_LIMIT_S
        for process in processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def answers(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(url, timeout=10.0) as response:
                return bool(response.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def metrics(self, service: str) -> str:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.health_ports[service]}/metrics", timeout=10.0
        ) as response:
            return str(response.read().decode())

    def admin(self, path: str) -> bytes:
        """GET one of admin's routes; return the answer's bytes."""
        with urllib.request.urlopen(self.admin_url + path, timeout=30.0) as response:
            return bytes(response.read())

    def simulator(self, path: str, body: object = None) -> bytes:
        """GET, or POST a JSON body to, one of the simulator's own routes; return the answer's bytes."""
        payload = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.simulator_url + path, data=payload, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60.0) as response:
            return bytes(response.read())

    def sluice(self, *arguments: str, limit_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run the `sluice` command as an operator would, against this fleet."""
        environment = {
            **self.environment("admin"),
            "SLUICE_ADMIN_URL": self.admin_url,
        }
        return subprocess.run(
            [str(Path(sys.executable).with_name("sluice")), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )


def kind(name: str) -> str:
    return name.partition("-")[0]


@contextmanager
def running_fleet(setup: Setup, *, echo: Callable[[str], None] = print) -> Iterator[Fleet]:
    """A fleet with nothing started yet; whatever was started ends with the block."""
    with Host(echo) as host:
        fleet = Fleet(setup, host)
        try:
            yield fleet
        finally:
            fleet.stop_all()
