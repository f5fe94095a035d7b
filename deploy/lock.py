"""Write requirements.lock: every dependency of every package, pinned and hashed, with no index or host in it."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ["aiokafka==0.14.0", "faust-streaming==0.15.3"]  # fixed by the project, see ARCHITECTURE.md


def requirements() -> list[str]:
    wanted = set(PINS)
    for path in sorted(ROOT.glob("*/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        wanted.update(name for name in project["dependencies"] if not name.startswith("sluice-"))
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted.update(root["dependency-groups"]["dev"])
    return sorted(wanted)


def main() -> None:
    command = [
        "uv", "pip", "compile", "-", "--universal", "--generate-hashes", "--no-header", "--no-annotate",
        "--no-emit-index-url", "--no-emit-find-links", "--python-version", "3.11", "-q", "-o",
        str(ROOT / "requirements.lock"),
    ]  # fmt: skip
    sys.exit(subprocess.run(command, input="\n".join(requirements()), text=True, check=False).returncode)


if __name__ == "__main__":
    main()
