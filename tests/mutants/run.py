"""Apply each mutant to a copy of the tree and see the test that it names go red.

A mutant is `NN-name.patch`: comment lines first, `# red: <pytest node>` (or `# red: demo`) and why, then a unified diff.
Invariant: a mutant that can't be applied any more, or whose test passes, or whose test fails without it too, fails the run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from deploy.local.stack import DATA_DIR, running_stack  # noqa: E402 - the path comes first

FOLDER = Path(__file__).parent
TEST_LIMIT_S = 300
TESTS_FAILED = 1  # pytest's own exit code


@dataclass(frozen=True)
class Mutant:
    path: Path
    red: str

    @property
    def name(self) -> str:
        return self.path.stem


def mutants() -> list[Mutant]:
    found = []
    for path in sorted(FOLDER.glob("*.patch")):
        named = [
            line.removeprefix("# red:").strip()
            for line in path.read_text().splitlines()
            if line.startswith("# red:")
        ]
        if len(named) != 1:
            raise SystemExit(f"{path.name}: exactly one line '# red: <test>' is needed")
        found.append(Mutant(path, named[0]))
    return found


def copy_tree(to: Path) -> None:
    """Copy what git knows and what it would know, as it stands now."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, to / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def environment(copy: Path, stack: Mapping[str, str]) -> dict[str, str]:
    """The copy's packages come before the installed ones, in this process and in the services that tests start."""
    sources = [str(path) for kind in ("libs", "services") for path in sorted((copy / kind).glob("*/src"))]
    return {
        **os.environ,
        **stack,
        "PYTHONPATH": os.pathsep.join([str(copy), *sources]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(copy: Path, red: str, stack: Mapping[str, str]) -> tuple[int, str]:
    """Run what a mutant names; return its exit code and the end of its output."""
    if red == "demo":
        data = copy / ".sluice"
        command = [sys.executable, "deploy/local/demo.py", "--count", "1200", "--data", str(data)]
    else:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", red]
    done = subprocess.run(
        command,
        cwd=copy,
        env=environment(copy, stack),
        capture_output=True,
        text=True,
        timeout=TEST_LIMIT_S,
        check=False,
    )
    return done.returncode, "\n".join((done.stdout + done.stderr).strip().splitlines()[-6:])


def verdict(mutant: Mutant, stack: Mapping[str, str], *, check_green: bool) -> str:
    """Return what is wrong with a mutant; empty when its test goes red because of it."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        copy_tree(copy)
        if check_green:
            code, words = run(copy, mutant.red, stack)
            if code != 0:
                return f"its test fails without it, too ({code}):\n{words}"
        applied = subprocess.run(
            ["git", "apply", str(mutant.path)],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
        if applied.returncode != 0:
            return f"can't be applied any more: {applied.stderr.strip()}"
        code, words = run(copy, mutant.red, stack)
        if code == 0:
            return "survived: its test passes"
        if mutant.red != "demo" and code != TESTS_FAILED:
            return f"its test didn't run ({code}):\n{words}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only mutants whose name begins so")
    parser.add_argument(
        "--quick", action="store_true", help="don't see first that each test passes without its mutant"
    )
    options = parser.parse_args()
    chosen = [
        m for m in mutants() if not options.names or any(m.name.startswith(name) for name in options.names)
    ]
    failed = 0
    with running_stack(DATA_DIR / f"mutants-{os.getpid()}", echo=lambda _line: None) as endpoints:
        stack = {
            "SLUICE_KAFKA_BOOTSTRAP": endpoints.kafka_bootstrap,
            "SLUICE_DATABASE_URL": endpoints.database_url,
        }
        for mutant in chosen:
            began = time.monotonic()
            check_green = not options.quick and mutant.red != "demo"  # the demo's own pass is `make demo`
            wrong = verdict(mutant, stack, check_green=check_green)
            failed += bool(wrong)
            print(
                f"{mutant.name:44} {wrong or 'red, as it must be'} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    shutil.rmtree(DATA_DIR / f"mutants-{os.getpid()}", ignore_errors=True)
    print(f"{len(chosen) - failed} passed, {failed} failed", flush=True)
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
