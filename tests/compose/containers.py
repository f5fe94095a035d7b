"""The compose file's containers: built, started, looked at, hurt, stopped and removed, under a project of their own.

Invariant: what is given to compose beside the file that users have is in `differences` alone.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy.local.campaign_run import Plan
from deploy.local.fleet import FleetError, Setup
from deploy.local.process import StackError
from deploy.local.stack import Endpoints
from tests.compose.engine import Engine, environment

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
PROJECT = "sluice-compose-test"
BUILD_LIMIT_S = 1_800.0
READY_LIMIT_S = 180.0
KAFKA = "127.0.0.1:19092"
ADMIN_URL = "http://127.0.0.1:8090"
SIMULATOR_URL = "http://127.0.0.1:8091"
ADMIN_TOKEN = "local-admin-token"
ASK_METRICS = (
    "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9000/metrics', timeout=3).read().decode())"
)
KILL_HARD = "import os, sys; os.kill(int(sys.argv[1]), 9)"
CLEAN_ENDS = {"kafka": {0, 143}}  # Java ends with 143 after an orderly end on SIGTERM; all others with 0


@dataclass(frozen=True)
class Stop:
    """How a container ended after it was asked to."""

    seconds: float
    exit_code: int
    grace_s: float
    clean: bool


class Containers:
    """What `campaign_run.Services` asks for, and what is done to containers alone."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.steps: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
        self.jobs = [name for name, step in self.steps.items() if step["restart"] == "no"]
        self.services = [name for name in self.steps if name not in self.jobs]
        waited_for = {other for step in self.steps.values() for other in step.get("depends_on", ())}
        # Whoever uses others ends before them.
        self.stop_order = sorted(self.services, key=lambda name: name in waited_for)
        self.setup = Setup(Endpoints(KAFKA, ""), "", folder)
        self._differences = folder / "differences.json"
        self.differ({})

    def differ(self, differences: Mapping[str, Mapping[str, str]]) -> None:
        """Variables to set beside those of the file, by service: shorter waits, so that nobody watches for ten minutes."""
        services = {name: {"environment": dict(more)} for name, more in differences.items()}
        self._differences.write_text(json.dumps({"services": services}))  # JSON is YAML

    def compose(self, *arguments: str, limit_s: float = 120.0, log: Path | None = None) -> str:
        files = ["--file", str(FILE), "--file", str(self._differences), "--env-file", os.devnull]
        command = [
            *self.engine.compose,
            "--project-name",
            PROJECT,
            *files,
            "--profile",
            "simulator",
            *arguments,
        ]
        return self.engine.run(command, f"compose {arguments[0]}", limit_s=limit_s, log=log)

    def build(self) -> None:
        self.compose("build", limit_s=BUILD_LIMIT_S, log=self.folder / "build.log")

    def up(self) -> None:
        """Start everything as the file says, and return when all is healthy."""
        self.compose(
            "up", "--detach", "--no-build", "--pull", "never", "--wait", "--wait-timeout", f"{READY_LIMIT_S:.0f}",
            limit_s=READY_LIMIT_S + 60, log=self.folder / "up.log",
        )  # fmt: skip

    def down(self) -> None:
        """Remove containers, network and volumes."""
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "60", limit_s=300)

    def keep_logs(self) -> Path:
        """What all containers said, for a reader; kept before they are removed."""
        self.compose("logs", "--no-color", "--timestamps", log=self.folder / "containers.log")
        return self.folder / "containers.log"

    def left_behind(self) -> list[str]:
        """What of this project is still there."""
        label = f"label=com.docker.compose.project={PROJECT}"
        return [
            *self.engine.docker("ps", "--all", "--filter", label, "--format", "{{.Names}}").split(),
            *self.engine.docker("volume", "ls", "--filter", label, "--format", "{{.Name}}").split(),
            *self.engine.docker("network", "ls", "--filter", label, "--format", "{{.Name}}").split(),
        ]

    def states(self) -> dict[str, dict[str, Any]]:
        """Each container as the engine describes it, by its name in the file."""
        ids = self.compose("ps", "--all", "--quiet").split()
        return {
            one["Config"]["Labels"]["com.docker.compose.service"]: one for one in self.engine.inspect(*ids)
        }

    def user(self, container: str) -> int:
        """The user id of a running container's first process, as the machine sees it."""
        pid = str(self.engine.inspect(container)[0]["State"]["Pid"])
        rows = (row.split() for row in self.engine.docker("top", container, "-eo", "pid,uid").splitlines())
        return next(int(uid) for row_pid, uid in rows if row_pid == pid)

    def image_bytes(self) -> dict[str, int]:
        images = sorted({step["image"] for step in self.steps.values()})
        return {
            name: int(one["Size"]) for name, one in zip(images, self.engine.inspect(*images), strict=True)
        }

    def crash(self, service: str) -> None:
        """SIGKILL the service's process itself, from outside its container: only then the engine's restart is put to use,
        since what was ended by the engine's own command stays down.
        """
        state = self.states()[service]
        self.engine.docker(
            "run", "--rm", "--user", "0", "--pid", "host", "--network", "none", state["Config"]["Image"],
            "python", "-c", KILL_HARD, str(state["State"]["Pid"]),
        )  # fmt: skip

    def stop(self, service: str) -> Stop:
        """Ask for an orderly end, as `compose stop` does."""
        grace_s = float(self.steps[service]["stop_grace_period"].removesuffix("s"))
        began = time.monotonic()
        self.compose("stop", service, limit_s=grace_s + 30)
        seconds = time.monotonic() - began
        code = int(self.states()[service]["State"]["ExitCode"])
        return Stop(seconds, code, grace_s, code in CLEAN_ENDS.get(service, {0}) and seconds < grace_s)

    # --- what a campaign's run asks for -----------------------------------------------------------------------------

    def check_alive(self) -> None:
        """Nothing to do: a container that ends is the engine's to start again."""

    def running(self, service: str) -> list[str]:
        return [service]

    def metrics(self, service: str) -> str:
        try:
            return self.compose("exec", "--no-TTY", service, "python", "-c", ASK_METRICS, limit_s=10)
        except StackError as error:
            raise OSError(f"{service} does not answer") from error

    def admin(self, path: str) -> bytes:
        return fetch(
            urllib.request.Request(ADMIN_URL + path, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
        )

    def simulator(self, path: str, body: object = None) -> bytes:
        payload = None if body is None else json.dumps(body).encode()
        return fetch(
            urllib.request.Request(
                SIMULATOR_URL + path, payload, headers={"Content-Type": "application/json"}
            )
        )

    def sluice(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command of the machine's own installation, as an operator uses it: through the published port."""
        return subprocess.run(
            [str(Path(sys.executable).with_name("sluice")), *arguments],
            env={**environment(None), "SLUICE_ADMIN_URL": ADMIN_URL, "SLUICE_ADMIN_TOKEN": ADMIN_TOKEN},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def until(self, condition: Callable[[], bool], what: str, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise FleetError(f"waited {limit_s:.0f} s in vain for {what}")
            time.sleep(0.2)


def fetch(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=60.0) as response:
        return bytes(response.read())


def differences_of(plan: Plan) -> dict[str, dict[str, str]]:
    """The demo's own settings under the names that services have in compose."""
    return {service.replace("_", "-"): more for service, more in plan.extra().items()}
