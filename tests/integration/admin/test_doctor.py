"""`sluice doctor` as a process, against the simulator, the real Kafka and the real Postgres: healthy, then one thing broken
at a time."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from contracts.contact import ContactKey
from kafkaio.admin import apply_topics
from kafkaio.settings import KafkaSettings
from ledger import inbox, numbers
from ledger.inbox import Arrival
from ledger.pool import Ledger
from runtime.config import Secret
from simulator.app import open_app
from simulator.config import Config
from tests.integration.admin.shell import Shell

SLUICE = Path(sys.executable).with_name("sluice")
TOKEN, APP_SECRET = "qa-graph-token-1", "qa-app-secret-1"
NUMBER, WABA, PORTFOLIO = "100000000000001", "200000000000001", "300000000000001"
PERSON = "447700900001"
SIM_NUMBER = {"phone_number_id": NUMBER, "display_phone_number": "15550109000", "waba_id": WABA}
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Scene:
    """A healthy installation, and what a case needs to break it."""

    graph: httpx.AsyncClient
    ledger: Ledger
    kafka: KafkaSettings
    env: dict[str, str]

    async def setup(self, **change: Any) -> None:
        (await self.graph.post("/sim/setup", json=change)).raise_for_status()

    async def account(self, **change: Any) -> None:
        await self.setup(account=change)

    async def number(self, **change: Any) -> None:
        await self.setup(numbers=[SIM_NUMBER | change])

    async def run(self, sql: str) -> None:
        await self.ledger.run("break", sql)


async def spawned(scene: Scene, *options: str) -> tuple[int, str, str]:
    """Run `sluice doctor` as a process; return (exit code, output, errors)."""
    process = await asyncio.create_subprocess_exec(
        SLUICE, "doctor", *options, env=scene.env,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    assert_nothing_private(out.decode() + err.decode())
    return process.returncode, out.decode(), err.decode()


def assert_nothing_private(written: str) -> None:
    for private in (TOKEN, APP_SECRET, PERSON, "qa-wrong"):
        assert private not in written


@asynccontextmanager
async def a_simulator() -> AsyncIterator[httpx.AsyncClient]:
    config = Config(
        webhook_url="http://127.0.0.1:9/webhook", app_secret=Secret(APP_SECRET), access_token=Secret(TOKEN), port=0
    )  # fmt: skip
    stop = asyncio.Event()
    async with open_app(config) as app, asyncio.TaskGroup() as tasks:
        tasks.create_task(app.run(stop))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{app.port}", timeout=30.0) as client:
            yield client
        stop.set()


@asynccontextmanager
async def a_healthy_scene(database_url: str, bootstrap: str, prefix: str) -> AsyncIterator[Scene]:
    kafka = KafkaSettings(bootstrap=bootstrap, client_id="test", topic_prefix=prefix)
    await apply_topics(kafka, partitions_count=1, replication=1, min_insync=1)
    async with Ledger.open(database_url, shard=1) as ledger, a_simulator() as graph:
        await numbers.add(
            ledger, phone_number_id=NUMBER, waba_id=WABA, portfolio_id=PORTFOLIO, display="", limit_per_s=80,
            setting_per_s=None, slots_count=1,
        )  # fmt: skip
        now_s = int(time.time())
        arrival = Arrival(
            phone_number_id=NUMBER, wamid="wamid.1", contact_key=ContactKey(f"{NUMBER}:{PERSON}"),
            timestamp_s=now_s, received_s=now_s, position=0, closes_at_s=None, consent=None,
            identities=(("phone", PERSON),), record=b"{}",
        )  # fmt: skip
        await inbox.see(ledger, [arrival], hold_s=0)
        env = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")} | {
            "SLUICE_KAFKA_BOOTSTRAP": bootstrap,
            "SLUICE_DATABASE_URL": database_url,
            "SLUICE_TOPIC_PREFIX": prefix,
            "SLUICE_GRAPH_URL": str(graph.base_url),
            "SLUICE_ACCESS_TOKEN": TOKEN,
            "SLUICE_APP_SECRETS": f"qa-wrong,{APP_SECRET}",
            "SLUICE_INSTALLATION": "qa",
        }
        scene = Scene(graph, ledger, kafka, env)
        await scene.number()
        yield scene


Break = Callable[[Scene], Awaitable[None]]
META = ("subscription", "registration", "quality", "throughput")
AFTER_TOKEN = ("token expiry", "manage permission", "send permission", "callback", *META)


@dataclass(frozen=True)
class Case:
    """One thing broken: the checks that fail, what they say and advise, and the checks that are skipped for it."""

    name: str
    broken: Break
    fails: str
    says: str
    remedy: str
    skipped: tuple[str, ...] = ()
    options: tuple[str, ...] = field(default=())


async def forget_functions(scene: Scene) -> None:
    await scene.run("DELETE FROM migrations WHERE name LIKE 'functions-%'")


async def lose_postgres(scene: Scene) -> None:
    scene.env["SLUICE_DATABASE_URL"] = "postgresql://sluice:qa-wrong@127.0.0.1:9/sluice"


async def lose_kafka(scene: Scene) -> None:
    scene.env["SLUICE_KAFKA_BOOTSTRAP"] = "127.0.0.1:9"


async def lose_graph(scene: Scene) -> None:
    scene.env["SLUICE_GRAPH_URL"] = "http://127.0.0.1:9"


async def shift_the_clock(scene: Scene) -> None:
    await scene.account(clock_ahead_s=90)
    async with asyncio.timeout(DEADLINE_S):
        while True:
            shown = parsedate_to_datetime((await scene.graph.get("/live")).headers["date"])
            if shown.timestamp() > time.time() + 80:
                break
            await asyncio.sleep(0.05)


async def no_topics(scene: Scene) -> None:
    scene.env["SLUICE_TOPIC_PREFIX"] = "nowhere."


async def shorten_a_topic(scene: Scene) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=scene.kafka.bootstrap)
    await admin.start()
    try:
        topic = scene.kafka.topic("message-statuses")
        settings = {"retention.ms": "1000", "max.message.bytes": "5242880"}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)])
    finally:
        await admin.close()


async def mistype_the_token(scene: Scene) -> None:
    scene.env["SLUICE_ACCESS_TOKEN"] = "qa-wrong"


async def mistype_the_secret(scene: Scene) -> None:
    scene.env["SLUICE_APP_SECRETS"] = "qa-wrong"


CASES = (
    Case("postgres is away", lose_postgres, "database", "no answer", "SLUICE_DATABASE_URL",
         ("schema", "numbers", *META, "last webhook", "clock")),
    Case("the schema is behind", forget_functions, "schema", "functions-", "sluice migrate",
         ("numbers", *META, "last webhook")),
    Case("kafka is away", lose_kafka, "broker", "no answer", "SLUICE_KAFKA_BOOTSTRAP", ("topics",)),
    Case("no topics", no_topics, "topics", "missing: inbound-messages", "sluice topics apply"),
    Case("a topic forgets too early", shorten_a_topic, "topics", "retention.ms is 1000", "retention.ms=604800000"),
    Case("fewer copies than wanted", lambda _: asyncio.sleep(0), "topics", "replication is 1, must be 2", "Reassign",
         options=("--replication", "2")),
    Case("graph is away", lose_graph, "graph", "no connection", "SLUICE_GRAPH_URL",
         ("clock", "token", *AFTER_TOKEN)),
    Case("the clocks differ", shift_the_clock, "clock", "s ahead of ours", "NTP"),
    Case("the token has expired", lambda s: s.account(token_expired=True), "token", "has expired",
         "SLUICE_ACCESS_TOKEN", AFTER_TOKEN),
    Case("the token is wrong", mistype_the_token, "token", "not accepted", "SLUICE_ACCESS_TOKEN",
         AFTER_TOKEN),
    Case("the token expires soon", lambda s: s.account(token_expires_in_s=3_600), "token expiry", "UTC", "before then"),
    Case("may not manage", lambda s: s.account(scopes=["whatsapp_business_messaging"]), "manage permission",
         "lacks whatsapp_business_management", "ticked", META),
    Case("may not send", lambda s: s.account(scopes=["whatsapp_business_management"]), "send permission",
         "lacks whatsapp_business_messaging", "ticked"),
    Case("no number is connected", lambda s: s.run("DELETE FROM numbers"), "numbers", "none", "sluice number add",
         (*META, "last webhook")),
    Case("the app secret is wrong", mistype_the_secret, "callback", "not this app's", "SLUICE_APP_SECRETS"),
    Case("no callback", lambda s: s.account(callback_url=""), "callback", "no active callback", "callback URL"),
    Case("messages aren't told", lambda s: s.account(fields=["account_update"]), "callback", "messages",
         "subscribe to the field messages"),
    Case("the app isn't subscribed", lambda s: s.account(subscribed=False), "subscription", "don't go",
         f"/v26.0/{WABA}/subscribed_apps`"),
    Case("the number isn't registered", lambda s: s.number(status="PENDING"), "registration", "PENDING",
         f"{NUMBER}/register`"),
    Case("the number is restricted", lambda s: s.number(status="RESTRICTED"), "registration", "RESTRICTED",
         f"sluice halt number {NUMBER}"),
    Case("people complain", lambda s: s.number(quality_rating="RED"), "quality", "RED", f"sluice halt number {NUMBER}"),
    Case("a faster pace than Meta's", lambda s: s.run("UPDATE numbers SET limit_per_s = 1000"), "throughput",
         "STANDARD is 80/s", f"sluice number add {NUMBER} --waba {WABA} --portfolio {PORTFOLIO} --limit 80"),
    Case("nothing was heard", lambda s: s.run("TRUNCATE inbox"), "last webhook", "nothing was ever heard",
         "Send it a message"),
)  # fmt: skip


async def test_a_healthy_installation_passes_every_check(
    database_url: str, kafka_bootstrap: str, topic_prefix: str
) -> None:
    async with a_healthy_scene(database_url, kafka_bootstrap, f"{topic_prefix}h.") as scene:
        code, out, err = await spawned(scene)
        assert (code, err) == (0, ""), out
        assert {line.split()[0] for line in out.splitlines()[:-1]} == {"ok"}
        assert out.splitlines()[-1] == "18 ok"
        code, out, _ = await spawned(scene, "--json", "--partitions", "1", "--min-insync", "1")
        report = json.loads(out)
        assert (code, report["healthy"], len(report["findings"])) == (0, True, 18)

        await scene.account(token_expired=True)
        code, out, err = await spawned(scene)
        assert (code, err) == (1, ""), out
        lines = out.splitlines()
        place = next(at for at, line in enumerate(lines) if line.startswith("failed   token"))
        assert "has expired" in lines[place]
        assert lines[place + 1].lstrip().startswith("-> Create a token for a system user")
        assert lines[-1] == "9 ok, 1 failed, 8 skipped"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_is_broken_fails_with_its_remedy_and_nothing_else_does(
    case: Case,
    database_url: str,
    kafka_bootstrap: str,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prefix = f"{topic_prefix}c{CASES.index(case)}." if case.broken is shorten_a_topic else f"{topic_prefix}h."
    async with a_healthy_scene(database_url, kafka_bootstrap, prefix) as scene:
        await case.broken(scene)
        for name, value in scene.env.items():
            monkeypatch.setenv(name, value)
        sluice = Shell(capsys)
        code = await sluice("doctor", "--json", *case.options)
        assert_nothing_private(sluice.out + sluice.err)
        report = json.loads(sluice.out)
        failed = [one for one in report["findings"] if one["verdict"] == "failed"]
        assert (code, report["healthy"], {one["check"] for one in failed}) == (1, False, {case.fails})
        assert any(case.says in one["says"] and case.remedy in one["remedy"] for one in failed), failed
        skipped = [one for one in report["findings"] if one["verdict"] == "skipped"]
        assert {one["check"] for one in skipped} == set(case.skipped)
        assert all(one["says"].startswith("needs ") for one in skipped)


async def test_without_its_settings_it_names_the_one_that_is_missing() -> None:
    env = {"PATH": os.environ["PATH"], "SLUICE_KAFKA_BOOTSTRAP": "127.0.0.1:9"}
    process = await asyncio.create_subprocess_exec(SLUICE, "doctor", env=env, stderr=asyncio.subprocess.PIPE)
    _, err = await process.communicate()
    assert process.returncode == 2
    assert "SLUICE_DATABASE_URL" in err.decode()
