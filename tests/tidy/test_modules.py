"""Modules stay small, are named after what is inside, and don't block the loop."""

import ast
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, each, files, parsed

LINES_MAX = 400
TEST_LINES_MAX = 600
BANNED_NAMES = frozenset(
    {
        *("utils", "util", "helpers", "helper", "common", "misc", "base", "core", "manager", "managers"),
        *("handlers", "handler", "models", "types", "tools", "shared"),
    }
)
CODE = files("libs", "services", "deploy")
TESTS = files("tests")


def lines_beyond(text: str, lines_max: int) -> int:
    return max(0, len(text.splitlines()) - lines_max)


def banned_words(path: Path) -> set[str]:
    """The file's own name, and those of folders below the package, if they say nothing about the content."""
    return BANNED_NAMES & {path.stem, path.parent.name}


def sleeps_in_coroutines(tree: ast.AST, *, inside: bool = False) -> list[int]:
    """Lines that call `time.sleep` where a coroutine runs."""
    found: list[int] = []
    for node in ast.iter_child_nodes(tree):
        if inside and isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep":
            found.append(node.lineno)
        within = isinstance(node, ast.AsyncFunctionDef) or (
            inside and not isinstance(node, ast.FunctionDef | ast.Lambda)
        )
        found += sleeps_in_coroutines(node, inside=within)
    return found


@each(CODE + TESTS)
def test_a_module_is_small_well_named_and_does_not_block_the_loop(path: Path) -> None:
    text = path.read_text()
    lines_max = TEST_LINES_MAX if path.is_relative_to(ROOT / "tests") else LINES_MAX
    assert lines_beyond(text, lines_max) == 0
    assert banned_words(path) == set()
    if "time.sleep" in text:
        assert sleeps_in_coroutines(parsed(path)) == []


def test_the_rules_see_what_they_forbid() -> None:
    assert lines_beyond("x\n" * 401, LINES_MAX) == 1
    assert lines_beyond("x\n" * 400, LINES_MAX) == 0
    assert banned_words(Path("libs/ledger/src/ledger/utils.py")) == {"utils"}
    assert banned_words(Path("libs/ledger/src/ledger/core/rows.py")) == {"core"}


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("async def f():\n  time.sleep(1)", [2]),
        ("async def f():\n  if x:\n    y(time.sleep(1))", [3]),
        ("def f():\n  time.sleep(1)", []),
        ("async def f():\n  def g():\n    time.sleep(1)\n  await to_thread(g)", []),
        ("def f():\n  async def g():\n    time.sleep(1)", [3]),
        ("async def f():\n  await asyncio.sleep(1)", []),
    ],
)
def test_a_sleep_counts_only_where_a_coroutine_runs(code: str, lines: list[int]) -> None:
    assert sleeps_in_coroutines(ast.parse(code)) == lines
