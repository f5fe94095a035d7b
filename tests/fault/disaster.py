"""A campaign that a disaster meets half-way, and what is found out about it afterwards.

Invariant: what a test asserts of the sending comes from the simulator's records and the judge, never from what the
services say of themselves; whatever was frozen runs again, however the block ends.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from deploy.local.campaign_run import Number, Plan, Run, a_run
from deploy.local.demo import JOURNEYS, WEBHOOKS
from deploy.local.fleet import SERVICES, FleetError
from deploy.local.process import Server
from deploy.local.stack import DATA_DIR, Endpoints
from tests.proxy import Proxy

# Slow enough that the campaign outlives the disaster, however few cores there are.
NUMBERS = (
    Number("100000000000001", limit=44, setting=38),
    Number("100000000000002", limit=44, setting=38),
)
FULL_SHARE = 0.8  # of all settings together, over one second
OURS = tuple(name for name in SERVICES if name != "simulator")  # the witness lives through everything
FULL = (
    os.environ.get("SLUICE_FAULT_FULL") == "1"
)  # production times: minutes instead of seconds, and every case
TIMES = 4
"""How much longer everything is at production times."""
SCALE = 1.0 if FULL else 1.0 / TIMES
LEASE_S = 12.0 * SCALE
END_LIMIT_S = 480.0 if FULL else 240.0
TABLE = DATA_DIR / "fault-full.md"
LOOK_EVERY_S = 0.2


def at(short: int, full: int) -> int:
    """The one that holds for this run."""
    return full if FULL else short


def plan_of(
    count: int,
    *,
    on_unknown: str = "give_up",
    numbers: tuple[Number, ...] = NUMBERS,
    seed: int = 5,
    silent: bool = False,
) -> Plan:
    """A campaign at a quarter of all lease times, or four times as long at all of them.

    Each accepted message gets a status that names its attempt, or all stay silent.
    """
    journeys = {**JOURNEYS, "silent": 0.0, "callback_data_missing": 0, "late_s": 3.0}
    return Plan(
        count=at(count, TIMES * count),
        seed=seed,
        numbers=numbers,
        on_unknown=on_unknown,
        unknown_wait_s=at(6, 24),
        timing_scale=SCALE,
        settle_s=3.0,
        retry_base_s=0.25,
        faults={"webhook_before_answer": 0.0 if silent else 0.05},
        journeys={"silent": 1.0, "failed": 0.0, "stays_sent": 0.0, "late": 0.0, "answers": 0.0}
        if silent
        else journeys,
        # A real redelivery may take hours; here the longest wait for one is two seconds.
        webhooks={**WEBHOOKS, "retry_cap_s": 2.0},
    )


@contextmanager
def sending(
    endpoints: Endpoints,
    plan: Plan,
    folder: Path,
    *,
    share: float,
    more: tuple[str, ...] = (),
    through: Mapping[str, Proxy] | None = None,
) -> Iterator[Run]:
    """A campaign of which `share` is claimed.

    `more` names services to start beside the usual ones, `through` the proxies by which they reach `postgres` or `graph`.
    """
    ports = {server: proxy.port for server, proxy in (through or {}).items()}
    with a_run(endpoints, plan, folder, ports=ports) as run:
        if through and "graph" in through:
            through["graph"].server_port = run.fleet.simulator_port
        run.set_up()
        run.fleet.start(*more)
        run.fleet.wait_ready(*more)
        run.create_and_import()
        run.launch()
        until_claimed(run, share)
        yield run


@contextmanager
def killed(server: Server) -> Iterator[None]:
    """SIGKILL to a server, which runs again at the end."""
    server.kill()
    try:
        yield
    finally:
        server.start()


def until_claimed(run: Run, share: float) -> None:
    until(
        run,
        lambda: run.standing().claimed_count >= share * run.plan.count,
        f"{share:.0%} to be claimed",
        END_LIMIT_S,
    )


def until(run: Run, condition: Callable[[], bool], what: str, limit_s: float) -> None:
    """Wait for a condition; one that can't be looked at, since something is down, isn't met."""
    deadline = time.monotonic() + limit_s
    while True:
        run.fleet.check_alive()
        run.note_starts()
        with suppress(OSError):
            if condition():
                return
        if time.monotonic() > deadline:
            raise FleetError(f"waited {limit_s:.0f} s in vain for {what}: see {run.fleet.logs}")
        time.sleep(LOOK_EVERY_S)


def elapse(run: Run, seconds: float) -> None:
    """Let a disaster last, and look on meanwhile."""
    ends_at = time.monotonic() + seconds
    until(run, lambda: time.monotonic() >= ends_at, f"{seconds:g} s to pass", seconds + 60.0)


@contextmanager
def frozen(pid: int | None) -> Iterator[None]:
    """SIGSTOP to a process and its children; SIGCONT to all at the end."""
    assert pid is not None, "it runs"
    parent = psutil.Process(pid)
    family: list[psutil.Process] = []
    try:
        parent.suspend()
        family = [parent, *parent.children(recursive=True)]
        for one in family[1:]:
            with suppress(psutil.NoSuchProcess):
                one.suspend()
        yield
    finally:
        for one in reversed(family or [parent]):
            with suppress(psutil.NoSuchProcess):
                one.resume()


@dataclass(frozen=True)
class Aftermath:
    """What was found out. Times are Unix seconds, by the simulator's clock, which is this machine's."""

    counts: dict[str, int]
    figures: dict[str, Any]
    table: str
    posts: list[dict[str, Any]]

    def arrived_between(self, begin: float, end: float, number: str = "") -> int:
        """How many POSTs arrived, from one number or from all."""
        return sum(
            begin <= post["arrived_at"] < end and number in ("", post["phone_number_id"])
            for post in self.posts
        )

    def seconds_until_full_rate(self, since: float) -> float | None:
        """From `since` to the first second with nearly all starts that the settings allow; None if it never came."""
        times = sorted(post["arrived_at"] for post in self.posts if post["arrived_at"] >= since)
        wanted = int(FULL_SHARE * sum(number.setting for number in NUMBERS))
        for first, last in zip(times, times[wanted - 1 :], strict=False):
            if last - first <= 1.0:
                return round(first - since, 2)
        return None


def judged(run: Run, what: str, *, since: float) -> Aftermath:
    """Wait for the campaign's end, hear the judge, who must find nothing, and print the figures."""
    until(run, lambda: run.standing().state == "completed", "the campaign to complete", END_LIMIT_S)
    run.wait_until_quiet()
    code, table = run.judge()
    assert code == 0, table
    verdict = json.loads((run.folder / "verdict.json").read_text())
    figures = verdict["figures"]
    posts = [json.loads(line) for line in (run.folder / "messages.ndjson").read_text().splitlines()]
    found = Aftermath(run.standing().counts, figures, table, posts)
    print(table)
    tell(what, found, starts=json.loads((run.folder / "starts.json").read_text()), since=since)
    return found


def tell(what: str, found: Aftermath, *, starts: dict[str, int], since: float) -> None:
    """Print the figures, and keep them for the table of a long run."""
    figures = {
        "lost": found.figures.get("lost_recipients", 0),
        "doubled": found.figures.get("doubled", 0),
        "explained unknowns": found.figures.get("unknown_accepted", 0)
        + found.figures.get("unknown_not_accepted", 0),
        "largest sliding second of starts": max(starts.values(), default=0),
        "seconds until full rate": found.seconds_until_full_rate(since),
    }
    print(f"{what}: " + ", ".join(f"{name} {figure}" for name, figure in figures.items()))
    if FULL:
        TABLE.parent.mkdir(exist_ok=True)
        with TABLE.open("a") as table:
            table.write(f"| {what} | " + " | ".join(str(figure) for figure in figures.values()) + " |\n")
