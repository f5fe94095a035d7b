"""Write what one image needs: its part of requirements.lock, hashes and all, and the folders of our packages.

Invariant: nothing is written that isn't pinned and hashed in the lock; the versions found are the lock's own.
Usage: `python deploy/subset.py SERVICE FOLDER` writes into FOLDER `requirements.txt`, `build.txt` (the same for what builds
our packages) and `packages.txt`.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD_BACKEND = "hatchling"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> dict[str, str]:
    """Distribution → its entry in the lock."""
    return {canonical(entry.split("==")[0]): entry for entry in re.split(r"\n(?=\S)", lock.strip())}


def packages_of(service: str) -> list[Path]:
    """The service's folder and those of all libs that it needs, each once."""
    found: list[Path] = []
    waiting = [ROOT / "services" / service]
    while waiting:
        folder = waiting.pop()
        if folder not in found:
            found.append(folder)
            ours = (name for name in dependencies_of(folder) if name.startswith("sluice-"))
            waiting += [ROOT / "libs" / name.removeprefix("sluice-").replace("-", "_") for name in ours]
    return found


def dependencies_of(folder: Path) -> list[str]:
    names: list[str] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["dependencies"]
    return names


def closure(names: set[str], lock: dict[str, str]) -> list[str]:
    """What pip would install for `names` on this machine, at the lock's versions."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.writelines(entry.split(" \\")[0] + "\n" for entry in lock.values())
        constraints.flush()
        report = subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
                "--disable-pip-version-check", "--report", "-", "-c", constraints.name, *sorted(names),
            ],
            stdout=subprocess.PIPE, check=True,
        ).stdout  # fmt: skip
    return sorted(canonical(one["metadata"]["name"]) for one in json.loads(report)["install"])


def main() -> None:
    service, folder = sys.argv[1], Path(sys.argv[2])
    lock = pins((ROOT / "requirements.lock").read_text())
    packages = packages_of(service)
    names = {name for package in packages for name in dependencies_of(package)}
    third_party = {name for name in names if not name.startswith("sluice-")}
    folder.mkdir(parents=True, exist_ok=True)
    for file, wanted in (("requirements.txt", third_party), ("build.txt", {BUILD_BACKEND})):
        (folder / file).write_text("".join(lock[name] + "\n" for name in closure(wanted, lock)))
    (folder / "packages.txt").write_text("".join(f"./{path.relative_to(ROOT)}\n" for path in packages))


if __name__ == "__main__":
    main()
