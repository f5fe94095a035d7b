"""AsyncAPI's own parser reads the generated document without an objection, and objects to a broken one."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from contracts.topics import TOPICS
from deploy.write_contracts import FOLDER

HERE = Path(__file__).parent / "asyncapi"
DOCUMENT = FOLDER / "asyncapi.yaml"
INSTALLED = HERE / "node_modules" / ".package-lock.json"
INSTALL_S = 90.0
PARSE_S = 30.0


def unavailable(remedy: str) -> None:
    """Skip; under CI, where nobody reads a skip, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(remedy)
    pytest.skip(remedy)


def install() -> str | None:
    """Install the parser as locked, if it isn't; return why that failed."""
    if INSTALLED.is_file() and INSTALLED.stat().st_mtime >= (HERE / "package-lock.json").stat().st_mtime:
        return None
    command = ["npm", "ci", "--fetch-retries=1"]
    try:
        done = subprocess.run(
            command, cwd=HERE, capture_output=True, text=True, check=False, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired:
        return f"not done after {INSTALL_S:.0f} s"
    return None if done.returncode == 0 else done.stderr[-500:]


@pytest.fixture(scope="module")
def parser() -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        unavailable(
            "no `node` and `npm` to run AsyncAPI's parser with: install Node.js 18 or later, with npm"
        )
    if why := install():
        unavailable(
            f"`npm ci` in {HERE.name}/ failed; run it by hand where a registry is within reach: {why}"
        )


def parsed(document: Path) -> subprocess.CompletedProcess[str]:
    command = ["node", str(HERE / "validate.mjs"), str(document)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PARSE_S)


@pytest.mark.usefixtures("parser")
def test_asyncapis_own_parser_accepts_the_document() -> None:
    done = parsed(DOCUMENT)
    assert done.returncode == 0, done.stderr
    jobs = sum(len(topic.writers) + len(topic.readers) for topic in TOPICS)
    kinds = {topic.value for topic in TOPICS}
    assert json.loads(done.stdout) == {"channels": len(TOPICS), "operations": jobs, "messages": len(kinds)}


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("action: send\n", "action: shout\n"),
        ("$ref: '#/components/messages/MessageReceived'", "$ref: '#/components/messages/Nobody'"),
        ("type: integer\n", "type: whole\n"),
    ],
)
def test_asyncapis_own_parser_refuses_a_broken_document(tmp_path: Path, right: str, wrong: str) -> None:
    broken = tmp_path / DOCUMENT.name
    text = DOCUMENT.read_text()
    assert right in text
    broken.write_text(text.replace(right, wrong, 1))
    done = parsed(broken)
    assert done.returncode == 1
    assert done.stderr
