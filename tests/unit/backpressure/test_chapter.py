"""The chapter's links lead to files that hold what it names."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
LINKS = re.findall(r"\[`(\w+)(?:\.py)?`\]\((\.\./[\w/.]+)\)", (DOCS / "backpressure.md").read_text())


@pytest.mark.parametrize(("name", "target"), LINKS, ids=[f"{name} in {target}" for name, target in LINKS])
def test_a_name_in_the_chapter_is_in_the_file_it_links_to(name: str, target: str) -> None:
    path = (DOCS / target).resolve()
    assert path.stem == name or re.search(rf"\b(?:class|def) {name}\b", path.read_text())


def test_the_chapter_tells_where_each_class_works() -> None:
    linked = {name for name, _ in LINKS}
    assert {
        "RateLimiter",
        "InFlightWindow",
        "CreditWindow",
        "Channel",
        "Lanes",
        "OffsetLedger",
        "Batch",
    } <= linked
