"""The outer doors of a sender: campaigns in the real Postgres, senders in this process or in their own, and Meta's side."""

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import httpx
import msgspec
import psutil

from cloudapi.testing import Received
from contracts.campaign import CampaignDefinition, OnUnknown, RecipientState, TemplateRef
from contracts.contact import folded_phone
from deploy.local.process import free_port
from ledger import audience, campaigns, numbers
from ledger.audience import AudienceRow
from ledger.pool import Ledger
from runtime.background import Background
from runtime.config import load
from sender.app import App, open_app
from sender.config import Config

NUMBER = "100000000000001"
OTHER_NUMBER = "100000000000002"
INSTALLATION = "test"
JITTER_S = 0.2
"""How much longer one POST may be on its way, on a busy machine, than another: a second of starts arrives within a second
less this, at the shortest."""

Row = tuple[int, int]
"""Campaign id and seq."""


async def until(condition: Callable[[], Awaitable[object]], what: str, *, within_s: float = 60.0) -> float:
    """Wait for a condition and return how long it took; fail, naming it, when it doesn't come true in time."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while not await condition():
        assert loop.time() - started < within_s, f"waited {within_s:.0f} s in vain for {what}"
        await asyncio.sleep(0.02)
    return loop.time() - started


async def add_number(
    ledger: Ledger, number: str = NUMBER, *, limit: int = 80, setting: int | None = 76
) -> None:
    await numbers.add(
        ledger, phone_number_id=number, waba_id="200000000000001", portfolio_id="p1", display="",
        limit_per_s=limit, setting_per_s=setting, slots_count=4,
    )  # fmt: skip


async def launch(
    ledger: Ledger,
    size: int,
    *,
    senders: Sequence[str] = (NUMBER,),
    on_unknown: OnUnknown = OnUnknown.GIVE_UP,
    wait_s: int = 60,
    template: str = "hello",
) -> int:
    """Launch a campaign to `size` recipients, split over these numbers; return its id."""
    campaign_id = await campaigns.create(
        ledger,
        CampaignDefinition(
            name="test", template=TemplateRef(name=template, language="en", body=("name",)), numbers=tuple(senders),
            on_unknown=on_unknown, unknown_wait_s=wait_s,
        ),
    )  # fmt: skip

    async def rows() -> AsyncIterator[list[AudienceRow]]:
        addresses = [f"+447700{900000 + i}" for i in range(size)]
        yield [
            AudienceRow(line=line, address=address, folded=folded_phone(address), params=("Ada",))
            for line, address in enumerate(addresses, 1)
        ]

    await audience.add(ledger, campaign_id, rows())
    assert await campaigns.launch(ledger, campaign_id) == size
    return campaign_id


@asynccontextmanager
async def a_campaign(
    database_url: str, size: int, *, limit: int = 1000, setting: int = 500, **how: object
) -> AsyncIterator[tuple[Ledger, int]]:
    """Yield (ledger, campaign id) of a running campaign on one number that nobody owns yet."""
    async with Ledger.open(database_url, shard=1, statement_s=20.0) as ledger:
        await add_number(ledger, limit=limit, setting=setting)
        yield ledger, await launch(ledger, size, **how)


async def count_of(ledger: Ledger, campaign_id: int, state: RecipientState) -> int:
    return (await campaigns.counts(ledger, campaign_id))[state]


async def all_are(
    ledger: Ledger, campaign_id: int, wanted: dict[RecipientState, int], *, within_s: float = 60.0
) -> float:
    """Wait until the campaign's rows are exactly these; the counters must equal the rows then."""

    async def reached() -> bool:
        return {k: n for k, n in (await campaigns.counts(ledger, campaign_id)).items() if n} == wanted

    try:
        took_s = await until(reached, f"rows to be {wanted}", within_s=within_s)
    except AssertionError as late:
        raise AssertionError(f"{late}; they are {await campaigns.reasons(ledger, campaign_id)}") from None
    counted: Counter[RecipientState] = Counter()
    for state, _reason, _code, n in await campaigns.reasons(ledger, campaign_id):
        counted[state] += n
    assert counted == wanted
    return took_s


async def claims_left(ledger: Ledger) -> int:
    return int(await ledger.value("claims_left", "SELECT count(*) FROM claim_batches"))


def row_of(request: Received) -> Row:
    """The recipient that a POST is for, by its callback data."""
    data = msgspec.json.decode(request.body)["biz_opaque_callback_data"].split(":")
    assert data[:3] == ["sl1", INSTALLATION, "c"]
    return int(data[3]), int(data[4])


def posts_of(requests: Iterable[Received]) -> Counter[Row]:
    return Counter(row_of(request) for request in requests)


def largest_window(times: Sequence[float], length_s: float = 1.0) -> int:
    """The most of these moments in any sliding window."""
    ordered = sorted(times)
    most, first = 0, 0
    for last, at in enumerate(ordered):
        while at - ordered[first] >= length_s:
            first += 1
        most = max(most, last - first + 1)
    return most


def environment(
    url: str, database_url: str, kafka_bootstrap: str, prefix: str, **more: object
) -> dict[str, str]:
    """A sender's settings as its process gets them. Its times are production's, shorter ones only where a test needs them:
    a machine that stands still for a second must not turn a call into an unknown one."""
    return {
        "SLUICE_KAFKA_BOOTSTRAP": kafka_bootstrap,
        "SLUICE_DATABASE_URL": database_url,
        "SLUICE_TOPIC_PREFIX": prefix,
        "SLUICE_INSTALLATION": INSTALLATION,
        "SLUICE_GRAPH_URL": url,
        "SLUICE_ACCESS_TOKEN": "made-up-token",
        "SENDER_SETTLE_LINGER_S": "0.05",
        **{f"SENDER_{name.upper()}": str(value) for name, value in more.items()},
    }


@asynccontextmanager
async def a_sender(settings: dict[str, str]) -> AsyncIterator[App]:
    """A sender in this process, stopped with the block; its stop must fit into its drain time."""
    config = load(Config, prefix="SENDER", env=settings)
    stop = asyncio.Event()
    async with open_app(config) as app, Background() as tasks:
        running = tasks.create_task(app.run(stop))
        try:
            yield app
        finally:
            stop.set()
            async with asyncio.timeout(config.drain_s):
                await running


class SenderProcess:
    """A sender as a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, health_url: str) -> None:
        self._process = process
        self._health_url = health_url
        self.not_ready_for = "no answer"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def is_ready(self) -> bool:
        assert self.is_running, f"the sender ended by itself with code {self._process.returncode}"
        async with httpx.AsyncClient() as client:
            try:
                answer = await client.get(f"{self._health_url}/ready", timeout=2.0)
            except httpx.TransportError:
                return False
        self.not_ready_for = answer.text
        return answer.status_code == 200

    async def metrics(self) -> str:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{self._health_url}/metrics", timeout=20.0)).text

    async def kill(self) -> None:
        if self.is_running:
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """SIGTERM, and wait; return the exit code."""
        self._process.terminate()
        async with asyncio.timeout(60.0):
            return await self._process.wait()


@asynccontextmanager
async def a_sender_process(settings: dict[str, str]) -> AsyncIterator[SenderProcess]:
    """Start a sender; it is ready when the block begins, and gone when it ends."""
    port = free_port(random.Random())
    kept = {
        name: os.environ[name]
        for name in ("PATH", "PYTHONPATH", "HOME", "LANG", "TMPDIR")
        if name in os.environ
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sender",
        env={**kept, **settings, "SENDER_HEALTH_PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    sender = SenderProcess(process, f"http://127.0.0.1:{port}")
    try:
        try:
            await until(sender.is_ready, "the sender to be ready")
        except AssertionError as late:
            raise AssertionError(f"{late}: {sender.not_ready_for}") from None
        yield sender
    finally:
        await sender.kill()


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def starts_second_max(exposition: str, number: str = NUMBER) -> float:
    """The most starts in any second, as a sender says that it counted them by its own clock."""
    name = f'sluice_sender_starts_second_max{{phone_number_id="{number}"}} '
    return float(exposition.partition(name)[2].partition("\n")[0])


def report(**figures: object) -> None:
    """Print measured figures; pytest shows them with -s or when the test fails."""
    print(json.dumps(figures, default=str))
