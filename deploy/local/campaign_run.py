"""One campaign on a fleet, from the file to the verdict: what the demo shows and what end-to-end tests judge.

Invariant: what judges a run is a program of its own that imports nothing of ours; this only collects its evidence.
"""

import asyncio
import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from deploy.local.audience import csv_bytes, people, truth_csv
from deploy.local.fleet import PARTITIONS, Fleet, FleetError, Setup, running_fleet
from deploy.local.stack import Endpoints, create_database, drop_database

WABA = "200000000000001"
PORTFOLIO = "900000000000001"
TEMPLATE = "order_ready"
LANGUAGE = "en_US"
JUDGE = Path(__file__).with_name("judge.py")
OPEN = ("pending", "deferred", "sending", "unknown")
KAFKA_BACK_S = 30.0
STARTS = re.compile(r'^sluice_sender_starts_second_max\{phone_number_id="(\d+)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Number:
    """A simulated business number."""

    phone_number_id: str
    limit: int = 80
    setting: int = 76


NUMBERS = (Number("100000000000001"), Number("100000000000002"))


@dataclass(frozen=True)
class Plan:
    """What a run is to be: who, how many, what goes wrong."""

    count: int = 4_000
    seed: int = 7
    numbers: tuple[Number, ...] = NUMBERS
    on_unknown: str = "give_up"
    unknown_wait_s: int = 10
    timing_scale: float = 1.0
    faults: dict[str, object] = field(default_factory=dict)
    journeys: dict[str, object] = field(default_factory=dict)
    webhooks: dict[str, object] = field(default_factory=dict)
    settle_s: float = 6.0
    retry_base_s: float = 1.0
    ingress_window_bytes: int = 0
    """Of bodies in flight; 0 leaves what ingress has by itself."""

    def scenario(self) -> dict[str, object]:
        return {
            "numbers": [
                {
                    "phone_number_id": n.phone_number_id,
                    "display_phone_number": f"1555010{i:04}",
                    "waba_id": WABA,
                    "limit_per_s": n.limit,
                }
                for i, n in enumerate(self.numbers)
            ],
            "templates": [{"name": TEMPLATE, "language": LANGUAGE, "body_params": 2}],
            "faults": self.faults,
            "journeys": self.journeys,
            "webhooks": self.webhooks,
        }

    def extra(self) -> dict[str, dict[str, str]]:
        """The settings in which a run differs from production: shorter waits, since nobody watches for ten minutes."""
        scale = f"{self.timing_scale:g}"
        # Where times are shrunk, the other consumers' sessions are as short as the sender's.
        session = f"{12.0 * self.timing_scale if self.timing_scale < 1.0 else 30.0:g}"
        return {
            "sender": {"SENDER_TIMING_SCALE": scale},
            "orchestrator": {
                "ORCHESTRATOR_SETTLE_S": f"{self.settle_s:g}",
                "ORCHESTRATOR_PATIENCE_S": "20",
                "ORCHESTRATOR_LOOK_EVERY_S": "0.5",
            },
            "ingress": (
                {"INGRESS_INFLIGHT_BYTES_MAX": str(self.ingress_window_bytes)}
                if self.ingress_window_bytes
                else {}
            ),
            "conversations": {"CONVERSATIONS_SESSION_S": session},
            "status_aggregator": {
                "STATUS_AGGREGATOR_SESSION_S": session,
                "STATUS_AGGREGATOR_JOIN_EVERY_S": "0.5",
                "STATUS_AGGREGATOR_RETRY_BASE_S": f"{self.retry_base_s:g}",
            },
        }


@dataclass(frozen=True)
class Standing:
    """A campaign at one moment."""

    state: str
    counts: dict[str, int]
    claimed: dict[str, int]
    eta_s: float | None

    @property
    def claimed_count(self) -> int:
        return sum(self.claimed.values())

    @property
    def open_count(self) -> int:
        return sum(self.counts.get(state, 0) for state in OPEN)


class Services(Protocol):
    """What a run asks of the services, whatever they run in: a `Fleet` of processes, or containers."""

    setup: Setup

    def check_alive(self) -> None: ...
    def until(self, condition: Callable[[], bool], what: str, limit_s: float) -> None: ...
    def running(self, service: str) -> list[str]: ...
    def metrics(self, service: str) -> str: ...
    def admin(self, path: str) -> bytes: ...
    def simulator(self, path: str, body: object = None) -> bytes: ...
    def sluice(self, *arguments: str) -> subprocess.CompletedProcess[str]: ...


Where = TypeVar("Where", bound=Services)


class Run(Generic[Where]):
    """A campaign being run; every method is one step of an operator, or a look."""

    def __init__(self, fleet: Where, plan: Plan, folder: Path) -> None:
        self.fleet = fleet
        self.plan = plan
        self.folder = folder
        self.people = people(plan.count, seed=plan.seed)
        self.campaign_id = 0
        self._starts: dict[str, int] = {}

    def set_up(self: "Run[Fleet]") -> None:
        """Migrate, create the topics, start every service, connect the numbers."""
        self.command("migrate")
        self.command(
            "topics", "apply", "--partitions", str(PARTITIONS), "--replication", "1", "--min-insync", "1"
        )
        self.fleet.start(
            "simulator", "ingress", "conversations", "status_aggregator", "sender", "orchestrator", "admin"
        )
        self.fleet.wait_ready(
            "simulator", "admin", "ingress", "sender", "orchestrator", "conversations", "status_aggregator"
        )
        self.connect_numbers()

    def connect_numbers(self) -> None:
        for number in self.plan.numbers:
            self.command(
                "number", "add", number.phone_number_id, "--waba", WABA, "--portfolio", PORTFOLIO,
                "--limit", str(number.limit), "--setting", str(number.setting),
            )  # fmt: skip

    def create_and_import(self) -> str:
        """Create the campaign and import the audience; return what the import told."""
        numbers = [word for n in self.plan.numbers for word in ("--number", n.phone_number_id)]
        created = self.command(
            "campaign", "create", "--name", "demo", "--template", TEMPLATE, "--language", LANGUAGE,
            "--param", "name", "--param", "order", *numbers,
            "--on-unknown", self.plan.on_unknown, "--unknown-wait", f"{self.plan.unknown_wait_s}s", "--json",
        )  # fmt: skip
        self.campaign_id = int(json.loads(created)["campaign_id"])
        audience = self.folder / "audience.csv"
        audience.write_bytes(csv_bytes(self.people))
        (self.folder / "truth.csv").write_text(truth_csv(self.people))
        return self.command("campaign", "import", str(self.campaign_id), str(audience))

    def launch(self) -> None:
        self.command("campaign", "launch", str(self.campaign_id))

    def standing(self) -> Standing:
        told = json.loads(self.fleet.admin(f"/v1/campaigns/{self.campaign_id}"))
        return Standing(
            state=told["state"],
            counts=told["counts"],
            claimed={n["phone_number_id"]: n["claimed_count"] for n in told["numbers"]},
            eta_s=told["eta_s"],
        )

    def watch(
        self, until: Callable[[Standing], bool], show: Callable[[Standing], None], limit_s: float
    ) -> Standing:
        """Look at the campaign twice a second until it is as wanted."""
        deadline = time.monotonic() + limit_s
        while True:
            self.fleet.check_alive()
            self.note_starts()
            standing = self.standing()
            show(standing)
            if until(standing):
                return standing
            if time.monotonic() > deadline:
                raise FleetError(f"waited {limit_s:.0f} s in vain: the campaign is {standing}")
            time.sleep(0.5)

    def note_starts(self) -> None:
        """Remember the largest sliding second of starts that a sender has measured of itself."""
        for name in self.fleet.running("sender"):
            try:
                text = self.fleet.metrics(name)
            except OSError:
                continue  # it is down at this moment
            for number, most in STARTS.findall(text):
                self._starts[number] = max(self._starts.get(number, 0), int(float(most)))

    def wait_until_quiet(self, limit_s: float = 60.0) -> None:
        """Wait until the simulator has told everything and both consumers have worked it off."""
        self.fleet.until(
            lambda: bool(json.loads(self.fleet.simulator("/sim/idle"))["idle"]),
            "the simulator to be idle",
            limit_s,
        )
        for group, topic in (
            ("conversations", "inbound-messages"),
            ("status-aggregator", "message-statuses"),
        ):
            self.fleet.until(lambda g=group, t=topic: self.lag(g, t) == 0, f"{group} to catch up", limit_s)
        events = self.fleet.setup.topic_prefix + "conversation-events"
        steady = [-1, 0]

        def still() -> bool:
            count = self.records_count(events)
            steady[:] = [count, steady[1] + 1 if count == steady[0] else 0]
            return steady[1] >= 10

        self.fleet.until(still, "conversation-events to be still", limit_s)

    def lag(self, group: str, topic: str) -> int:
        """How many records of a topic a group has not committed."""
        prefix = self.fleet.setup.topic_prefix

        def behind() -> int:
            with _consumer(self.fleet.setup.endpoints, prefix + group) as consumer:
                missing = 0
                for partition in consumer.committed(_partitions(consumer, prefix + topic), timeout=30.0):
                    low, high = consumer.get_watermark_offsets(partition, timeout=30.0)
                    missing += high - max(low, partition.offset)
                return missing

        return _answer(behind)

    def records_count(self, topic: str) -> int:
        def held() -> int:
            with _consumer(self.fleet.setup.endpoints, "look") as consumer:
                ends = [
                    consumer.get_watermark_offsets(partition, timeout=30.0)
                    for partition in _partitions(consumer, topic)
                ]
            return sum(high - low for low, high in ends)

        return _answer(held)

    def judge(self) -> tuple[int, str]:
        """Collect the evidence and let the judge speak; return its exit code and its table."""
        folder = self.folder
        self.note_starts()
        (folder / "messages.ndjson").write_bytes(self.fleet.simulator("/sim/report/messages"))
        (folder / "inbound.ndjson").write_bytes(self.fleet.simulator("/sim/report/inbound"))
        (folder / "report.json").write_bytes(self.fleet.simulator("/sim/report"))
        (folder / "counts.json").write_text(json.dumps(self.standing().counts))
        (folder / "starts.json").write_text(json.dumps(self._starts))
        (folder / "numbers.json").write_text(json.dumps([vars(n) for n in self.plan.numbers]))
        self.command("recipients", "export", str(self.campaign_id), "-o", str(folder / "recipients.csv"))
        verdict = subprocess.run(
            [
                sys.executable, str(JUDGE),
                "--messages", str(folder / "messages.ndjson"), "--inbound", str(folder / "inbound.ndjson"),
                "--report", str(folder / "report.json"), "--recipients", str(folder / "recipients.csv"),
                "--audience", str(folder / "truth.csv"), "--counts", str(folder / "counts.json"),
                "--starts", str(folder / "starts.json"), "--numbers", str(folder / "numbers.json"),
                "--bootstrap", self.fleet.setup.endpoints.kafka_bootstrap,
                "--topic", self.fleet.setup.topic_prefix + "conversation-events",
                "--on-unknown", self.plan.on_unknown, "--json", str(folder / "verdict.json"),
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return verdict.returncode, verdict.stdout + verdict.stderr

    def command(self, *arguments: str) -> str:
        """Run a `sluice` command that must succeed; return what it printed."""
        done = self.fleet.sluice(*arguments)
        if done.returncode != 0:
            raise FleetError(
                f"sluice {' '.join(arguments[:2])} ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout


def _answer(ask: Callable[[], int]) -> int:
    """What Kafka answers: for a while a broker that has only just come back knows its topics, but not yet its groups."""
    deadline = time.monotonic() + KAFKA_BACK_S
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    return [
        TopicPartition(topic, p) for p in consumer.list_topics(topic, timeout=30.0).topics[topic].partitions
    ]


@contextmanager
def _consumer(endpoints: Endpoints, group: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {"bootstrap.servers": endpoints.kafka_bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def a_run(
    endpoints: Endpoints,
    plan: Plan,
    folder: Path,
    *,
    keep: bool = False,
    echo: Callable[[str], None] = print,
    ports: Mapping[str, int] | None = None,
) -> Iterator[Run[Fleet]]:
    """A fleet for one run, with a database and topics of its own; nothing is started yet."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"run_{secrets.token_hex(4)}"
    url = asyncio.run(create_database(endpoints.database_url, name))
    setup = Setup(
        endpoints=endpoints,
        database_url=url,
        folder=folder,
        topic_prefix=f"r{secrets.token_hex(3)}.",
        scenario=plan.scenario(),
        seed=plan.seed,
        extra=plan.extra(),
        ports=ports or {},
    )
    try:
        with running_fleet(setup, echo=echo) as fleet:
            yield Run(fleet, plan, folder)
    finally:
        if not keep:
            asyncio.run(drop_database(endpoints.database_url, name))
