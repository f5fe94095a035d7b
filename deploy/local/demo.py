"""The main job before one's eyes: a campaign leaves and comes back, one sender dies on the way, and a judge decides.

`python deploy/local/demo.py` ends with the judge's exit code. `--keep` leaves everything running instead (`make up`).
"""

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType

if __package__ in (None, ""):  # run as a script: imports start at the repository, not at this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deploy.local.campaign_run import Plan, Run, Standing, a_run
from deploy.local.fleet import Fleet
from deploy.local.process import StackError
from deploy.local.stack import DATA_DIR, running_stack

FAULTS: dict[str, object] = {
    "timeout_after_accept": 0.004,
    "hang_without_accept": 0.002,
    "reset_after_accept": 0.002,
    "http_500_html_after_accept": 0.001,
    "http_503_code2": 0.004,
    "http_500_code131016": 0.002,
    "rejected": 0.004,
    "webhook_before_answer": 0.02,
    "late_s": 6.0,
    "throttle_every_s": 23.0,
    "throttle_s": 1.0,
}
JOURNEYS: dict[str, object] = {
    "sent_after_s": 0.2,
    "delivered_after_s": 0.4,
    "read_after_s": 2.5,
    "late": 0.01,
    "late_s": 6.0,
    "silent": 0.002,
    "failed": 0.02,
    "callback_data_missing": 20,
    "answers": 0.03,
    "answers_max": 4,
    "answer_after_s": 1.5,
    "answer_gap_s": 0.5,
    "answers_stop": 0.3,
}
# Webhooks carry several statuses of one message, often in the wrong order: what is proven must not depend on it.
WEBHOOKS: dict[str, object] = {"doubled": 0.1, "shuffled": 0.5, "batch_max": 100, "batch_linger_ms": 400}
STATES = ("pending", "sending", "accepted", "sent", "delivered", "read", "failed", "unknown", "given_up")


def say(line: str) -> None:
    print(line, flush=True)


class Progress:
    """Prints where a campaign stands, every two seconds."""

    def __init__(self) -> None:
        self._last_at = 0.0
        self._claimed: dict[str, int] = {}

    def __call__(self, standing: Standing) -> None:
        now = time.monotonic()
        gone_s = now - self._last_at
        if gone_s < 2.0:
            return
        rates = [
            f"…{number[-3:]} {max(0, count - self._claimed.get(number, count)) / gone_s:5.1f}/s"
            for number, count in standing.claimed.items()
        ]
        self._last_at, self._claimed = now, dict(standing.claimed)
        states = " ".join(
            f"{state} {standing.counts[state]}" for state in STATES if standing.counts.get(state)
        )
        eta = f"eta {standing.eta_s:.0f} s" if standing.eta_s else ""
        say(f"  {standing.state:10} {states} | {' '.join(rates)} {eta}".rstrip())


def play(run: Run[Fleet]) -> int:
    """The demo itself; return the judge's exit code."""
    began = time.monotonic()
    run.set_up()
    say(f"all services ready after {time.monotonic() - began:.1f} s; logs in {run.fleet.logs}")
    say(f"importing an audience of {run.plan.count} with wrong rows among them")
    say(run.create_and_import().rstrip())
    run.launch()
    began = time.monotonic()
    show = Progress()
    third = run.plan.count // 3
    run.watch(lambda s: s.claimed_count >= third, show, 120)
    run.note_starts()
    say("killing the sender with SIGKILL, and starting another")
    run.fleet.kill("sender")
    run.fleet.start("sender")
    run.watch(lambda s: s.state == "completed", show, 240)
    say(
        f"the campaign completed by itself after {time.monotonic() - began:.0f} s; waiting for the last statuses"
    )
    run.wait_until_quiet()
    code, table = run.judge()
    say(table.rstrip())
    return code


def keep(run: Run[Fleet]) -> int:
    """Leave everything running until Ctrl-C."""
    run.set_up()
    fleet = run.fleet
    say(f"admin        {fleet.admin_url}   (export SLUICE_ADMIN_URL={fleet.admin_url})")
    say(f"webhook      {fleet.webhook_url}")
    say(f"simulator    {fleet.simulator_url}/sim/report")
    say(
        f"kafka        {fleet.setup.endpoints.kafka_bootstrap}   (topics begin with {fleet.setup.topic_prefix})"
    )
    say(f"postgres     {fleet.setup.database_url}")
    for service, port in fleet.health_ports.items():
        if service != "simulator":
            say(f"{service:20} http://127.0.0.1:{port}/metrics")
    say(f"logs         {fleet.logs}")
    say("try: .venv/bin/sluice campaign list; Ctrl-C or `make down` stops everything")
    while True:
        fleet.check_alive()
        time.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=4_000, help="usable recipients (default 4,000)")
    parser.add_argument("--seed", type=int, default=7, help="same seed, same audience, faults and journeys")
    parser.add_argument("--on-unknown", choices=["give_up", "resend"], default="resend")
    parser.add_argument("--keep", action="store_true", help="start everything and leave it running")
    parser.add_argument("--data", type=Path, default=DATA_DIR, help="folder for all data (default: .sluice)")
    options = parser.parse_args()
    if not 100 <= options.count <= 100_000:
        parser.error("--count must be between 100 and 100,000")
    plan = Plan(
        count=options.count,
        seed=options.seed,
        on_unknown=options.on_unknown,
        faults=FAULTS,
        journeys=JOURNEYS,
        webhooks=WEBHOOKS,
    )
    signal.signal(signal.SIGTERM, _interrupt)
    folder = options.data.resolve() / "run"  # services start elsewhere
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with (
            running_stack(options.data, echo=say) as endpoints,
            a_run(endpoints, plan, folder, echo=say) as run,
        ):
            return keep(run) if options.keep else play(run)
    except StackError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        say("stopped")
        return 0 if options.keep else 130


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
