"""Within a service: edges are imported by `app` alone, and a file without `await` imports no driver."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.tree import SERVICES, Import, each, imports_of, parsed, source_files

# The reserved names of files that talk to the world. `web` and `cli` may be split by area, the others not.
EDGES = frozenset(
    {"web", "kafka", "stream", "graph", "bot", "objects", "callbacks", "notify", "scanner", "cli"}
)
FAMILIES = ("web_", "cli_")
ASSEMBLED = frozenset({"__main__", "app", "config", "metrics"})  # their imports are named by their roles
DRIVERS = frozenset(
    {
        *("aiohttp", "aiokafka", "asyncpg", "faust", "mode", "httpx", "kafkaio", "prometheus_client"),
        *("starlette", "uvicorn", "socket", "ssl", "subprocess", "urllib.request", "http.client"),
    }
)
PURE_ANYWAY = {
    # Values, without I/O, in libs that have some: a pure file may speak of them.
    *("kafkaio.disposition", "kafkaio.settings", "kafkaio.consumer.Record"),
}
FILES = source_files(SERVICES)


def is_edge(module: str) -> bool:
    return module in EDGES or module.startswith(FAMILIES)


def edges_imported(importer: str, service: str, imports: list[Import]) -> list[str]:
    """Edges of its own service that this file imports without being `app`, or of the same family (`web_*`, `cli_*`)."""
    if importer == "app":
        return []
    family = importer.partition("_")[0] if is_edge(importer) else ""
    own = [found.module.removeprefix(f"{service}.").partition(".")[0] for found in imports
           if found.module.startswith(f"{service}.")]  # fmt: skip
    return [module for module in own if is_edge(module) and module.partition("_")[0] != family]


def drivers_imported(imports: list[Import]) -> list[str]:
    return [
        found.module
        for found in imports
        if found.module not in PURE_ANYWAY
        and found.module.rpartition(".")[0] not in PURE_ANYWAY
        and any(re.match(rf"{re.escape(driver)}(\.|$)", found.module) for driver in DRIVERS)
    ]


def awaits(tree: ast.Module) -> bool:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    return any(isinstance(node, waiting) for node in ast.walk(tree))


def is_pure(path: Path) -> bool:
    return not (is_edge(path.stem) or path.stem in ASSEMBLED or awaits(parsed(path)))


@each(FILES)
def test_an_edge_is_imported_by_app_alone_or_by_its_family(path: Path) -> None:
    assert edges_imported(path.stem, path.parent.name, imports_of(parsed(path))) == []


@each([path for path in FILES if is_pure(path)])
def test_a_file_without_await_imports_no_driver(path: Path) -> None:
    assert drivers_imported(imports_of(parsed(path))) == []


def test_most_decisions_are_in_pure_files() -> None:
    assert sum(map(is_pure, FILES)) > 20, "the rule above has lost its files"


@pytest.mark.parametrize(
    ("importer", "code", "offences"),
    [
        ("claiming", "from sender.graph import GraphApi", ["graph"]),
        ("claiming", "from sender import kafka", ["kafka"]),
        ("claiming", "def f():\n  import sender.kafka", ["kafka"]),
        ("app", "from sender import kafka", []),
        ("web", "from sender.web_numbers import routes", []),
        ("web_numbers", "from sender.web_json import answer", []),
        ("web_numbers", "from sender.cli_output import say", ["cli_output"]),
        ("kafka", "from sender.graph import GraphApi", ["graph"]),
        ("claiming", "from sender.webhook import items_of", []),
        ("claiming", "from kafkaio.admin import apply_topics", []),
    ],
)
def test_an_edge_is_recognised_by_its_name(importer: str, code: str, offences: list[str]) -> None:
    assert edges_imported(importer, "sender", imports_of(ast.parse(code))) == offences


@pytest.mark.parametrize(
    ("code", "offences"),
    [
        ("import asyncpg", ["asyncpg"]),
        ("from starlette.requests import Request", ["starlette.requests.Request"]),
        ("from kafkaio.disposition import Done", []),
        ("from kafkaio.producer import Producer", ["kafkaio.producer.Producer"]),
        ("from urllib.parse import quote", []),
        ("import ssl_facts", []),
    ],
)
def test_a_driver_is_recognised_by_its_name(code: str, offences: list[str]) -> None:
    assert drivers_imported(imports_of(ast.parse(code))) == offences
