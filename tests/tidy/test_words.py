"""What must not be written here: registries' hosts, one machine's paths, notes that no reader has, made-up topics."""

import ast
import re
from pathlib import Path

import pytest

from contracts.topics import TOPICS
from tests.tidy.tree import ROOT, each, files, parsed, shown, source_files

# A registry is the reader's choice, a path is one machine's, and a note that isn't in here explains nothing: a vendor's
# fact names its own source and date ("Meta's error page, 2026-09-11"). Written in pieces, so that they aren't here.
FOREIGN = tuple(
    "".join(pieces)
    for pieces in (
        ("pypi", ".org"),
        ("python", "hosted"),
        (".maven", ".org"),
        ("repo.", "maven.apache"),
        ("registry.", "npmjs"),
        ("proxy.", "golang"),
        ("crates", ".io"),
        ("deb.", "debian.org"),
        ("/wo", "rk/"),
        ("/tmp/", "lab"),
        ("/ro", "ot/"),
        ("tech", "-notes"),
        ("cloud-api", "-facts"),
        ("platform", "-notes"),
        ("bug", "-cases"),
    )
)
_FOREIGN = re.compile("|".join(map(re.escape, FOREIGN)))
BINARY = (".png", ".ico", ".woff2", ".gz")
NAMES = {topic.name for topic in TOPICS}
_LAST_WORDS = "|".join(sorted({re.split(r"[-.]", name)[-1] for name in NAMES} - {"dlq"}))
LOOKS_LIKE_A_TOPIC = re.compile(rf"[a-z]+(?:-[a-z]+)*-(?:{_LAST_WORDS})(?:\.dlq|\.v\d+)?|[a-z-]+\.dlq")


def foreign_words(text: str) -> list[str]:
    found = _FOREIGN.finditer(text.lower())
    return [f"{text.count(chr(10), 0, match.start()) + 1}: {match[0]}" for match in found]


def unknown_topics(tree: ast.Module) -> list[str]:
    """Texts in the code, documentation aside, that look like a topic's name and aren't one."""
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [text for text in texts if LOOKS_LIKE_A_TOPIC.fullmatch(text) and text not in NAMES]


@each(path for path in files("", suffix="") if not path.name.endswith(BINARY))
def test_a_file_speaks_of_the_project_alone(path: Path) -> None:
    assert foreign_words(path.read_text()) == []


@each(source_files())
def test_a_topic_in_the_code_is_declared(path: Path) -> None:
    assert unknown_topics(parsed(path)) == []


def test_the_walk_sees_all_kinds_of_files() -> None:
    seen = {shown(path) for path in files("", suffix="")}
    assert {
        "Makefile",
        "deploy/Dockerfile",
        "docker-compose.yml",
        "libs/contracts/contracts/topics.py",
    } <= seen
    assert not any(part in name for name in seen for part in (".git/", ".venv/", "__pycache__"))


def test_a_foreign_word_is_found_with_its_line() -> None:
    assert foreign_words("a\nsee " + "Tech" + "-Notes C\n") == ["2: " + "tech" + "-notes"]
    assert foreign_words(f"{ROOT.name}, worker, homework") == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('t = "inbound-message-statuses"', ["inbound-message-statuses"]),
        ('t = "send-requests"', []),
        ('t = "send-requests.dlq"', []),
        ('t = "send-outcomes.dlq"', ["send-outcomes.dlq"]),
        ('t = "send-requests.v2"', ["send-requests.v2"]),
        ('t = "webhooks.dlq"', []),
        ('t = "content-type"', []),
        ('t = "the send-requests of one pair"', []),
    ],
)
def test_a_topic_is_recognised_by_its_shape(code: str, found: list[str]) -> None:
    assert unknown_topics(ast.parse(code)) == found
