"""Build the images, start the compose file, and let the demo's campaign leave and come back on it: `make compose-test`.

The compose file and the Dockerfile are the ones that users have. A sender is killed on the way, a judge that imports
nothing of ours decides, every container is stopped in good order, and nothing stays. Exit codes: 0 all holds, 1 it
doesn't, 2 the machine lacks something, which is named with its remedy.
"""

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

if __package__ in (None, ""):  # run as a script: imports start at the repository, not at this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deploy.local.campaign_run import Plan, Run
from deploy.local.demo import FAULTS, JOURNEYS, WEBHOOKS, Progress, say
from deploy.local.process import MissingError, StackError, is_free
from deploy.local.stack import DATA_DIR
from tests.compose.containers import Containers, Stop, differences_of
from tests.compose.engine import Engine, an_engine
from tests.compose.stand_ins import base_images, provide

FOLDER = DATA_DIR / "compose"
MB = 1_000_000
FIGURES = ("rows", "lost_recipients", "lost_texts", "doubled")
T = TypeVar("T")


@dataclass
class Found:
    """What a run showed; `wrong` is empty when all holds."""

    engine: str = ""
    bases: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    image_bytes: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    stops: dict[str, Stop] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)
    table: str = ""
    wrong: list[str] = field(default_factory=list)

    def timed(self, what: str, step: Callable[[], T]) -> T:
        """Do a step and note how long it took."""
        began = time.monotonic()
        done = step()
        self.seconds[what] = time.monotonic() - began
        say(f"{what}: {self.seconds[what]:.1f} s")
        return done

    def check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)


def rehearse(engine: Engine, folder: Path, options: argparse.Namespace, found: Found) -> None:
    """All of it, from the images to the last stop."""
    found.engine = f"{engine.version}, {'of our own' if engine.is_own else 'the one that answers here'}"
    plan = Plan(count=options.count, on_unknown="resend", faults=FAULTS, journeys=JOURNEYS, webhooks=WEBHOOKS)
    containers = Containers(engine, folder)
    containers.differ({**differences_of(plan), "simulator": {"SIMULATOR_SEED": str(plan.seed)}})
    containers.down()  # what an interrupted run left
    check_ports(containers)
    with base_images_for(engine, folder, pull=not options.stand_ins, found=found):
        found.timed("images built", containers.build)
        found.image_bytes = containers.image_bytes()
        with removed_afterwards(containers, found):
            found.timed("all healthy", containers.up)
            check_started(containers, found)
            campaign(Run(containers, plan, folder), found)
            for service in containers.stop_order:
                found.stops[service] = stop = containers.stop(service)
                found.check(stop.clean, f"{service} ended with {stop.exit_code} after {stop.seconds:.1f} s")


@contextmanager
def base_images_for(engine: Engine, folder: Path, *, pull: bool, found: Found) -> Iterator[None]:
    """Have the base images; stand-ins don't stay in an engine that others use, where nobody would expect them."""
    try:
        for image in base_images():
            found.bases[image] = provide(engine, image, folder, pull=pull, echo=say)
        yield
    finally:
        stand_ins = [image for image, origin in found.bases.items() if origin == "stand-in"]
        if stand_ins and not engine.is_own:
            engine.docker("image", "rm", "--force", *stand_ins, *found.image_bytes)


def check_ports(containers: Containers) -> None:
    for name, step in containers.steps.items():
        for mapping in step.get("ports", ()):
            _address, port, _inside = mapping.split(":")
            if not is_free(int(port)):
                raise MissingError(f"port {port} of {name} is taken: stop what listens there")


@contextmanager
def removed_afterwards(containers: Containers, found: Found) -> Iterator[None]:
    try:
        yield
    except BaseException:
        say(f"what the containers said is in {containers.keep_logs()}")
        raise
    finally:
        containers.down()
        found.check(containers.left_behind() == [], f"left behind: {', '.join(containers.left_behind())}")


def check_started(containers: Containers, found: Found) -> None:
    """Every job is done, every service healthy and nobody's root."""
    states = containers.states()
    found.check(
        states.keys() == containers.steps.keys(), f"not started: {containers.steps.keys() - states.keys()}"
    )
    for job in containers.jobs:
        code = states[job]["State"]["ExitCode"]
        found.check(code == 0, f"{job} ended with {code}")
    for service in containers.services:
        found.check(is_healthy(containers, service), f"{service} is not healthy")
        found.users[service] = containers.user(states[service]["Id"])
        found.check(found.users[service] != 0, f"{service} runs as root")


def is_healthy(containers: Containers, service: str) -> bool:
    return bool(containers.states()[service]["State"].get("Health", {}).get("Status") == "healthy")


def campaign(run: Run[Containers], found: Found) -> None:
    """The demo's journey, through the published ports alone."""
    containers, show = run.fleet, Progress()
    containers.simulator("/sim/setup", run.plan.scenario())
    run.connect_numbers()
    say(run.create_and_import().rstrip())
    run.launch()
    began = time.monotonic()
    run.watch(lambda s: s.claimed_count >= run.plan.count // 3, show, 120)
    run.note_starts()
    say("killing the sender with SIGKILL; the engine is to start it again")
    containers.crash("sender")
    found.timed("sender healthy again", lambda: wait_restarted(containers, "sender"))
    run.watch(lambda s: s.state == "completed", show, 240)
    found.seconds["campaign"] = time.monotonic() - began
    run.wait_until_quiet()
    code, found.table = run.judge()
    found.check(code == 0, "the judge: " + found.table.strip().splitlines()[-1])
    if code != 2:
        found.figures = json.loads((run.folder / "verdict.json").read_text())["figures"]
    for service in containers.services:
        found.check(is_healthy(containers, service), f"{service} is not healthy after the campaign")
        restarts = containers.states()[service]["RestartCount"]
        found.check(restarts == (service == "sender"), f"{service} was started again {restarts} times")


def wait_restarted(containers: Containers, service: str) -> None:
    containers.until(
        lambda: containers.states()[service]["RestartCount"] == 1 and is_healthy(containers, service),
        f"{service} to be healthy again",
        60,
    )


def summary(found: Found) -> str:
    """The run on one screen."""
    lines = [f"engine {found.engine}"]
    lines += [f"{image:30} {origin}" for image, origin in found.bases.items()]
    lines.append("")
    for image, size in found.image_bytes.items():
        lines.append(f"{image:30} {size / MB:6.0f} MB")
    lines.append("")
    lines.append(f"{'service':20} {'user id':>8} {'stopped in':>11} {'of':>5} {'exit':>5}")
    for service, stop in found.stops.items():
        user = found.users.get(service, "-")
        lines.append(
            f"{service:20} {user:>8} {stop.seconds:>9.1f} s {stop.grace_s:>3.0f} s {stop.exit_code:>5}"
        )
    lines.append("")
    lines += [f"{what:30} {seconds:6.1f} s" for what, seconds in found.seconds.items()]
    lines += [f"{name.replace('_', ' '):30} {found.figures.get(name, 0):6,}" for name in FIGURES]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=4_000, help="usable recipients (default 4,000)")
    parser.add_argument(
        "--stand-ins",
        action="store_true",
        help="don't try to pull base images that aren't there: make stand-ins",
    )
    options = parser.parse_args()
    folder = FOLDER / "run"
    found = Found()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with an_engine(FOLDER / "engine", echo=say) as engine:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            rehearse(engine, folder, options, found)
    except StackError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        say("stopped")
        return 130
    say(f"\n{found.table.rstrip()}\n\n{summary(found)}\n")
    say(
        "\n".join(found.wrong)
        or "the images build, the compose file starts, and the campaign went as promised"
    )
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
