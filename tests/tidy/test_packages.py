"""A package's dependency list is its list of powers; each has the files that everybody looks for; the lock pins all."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.tidy.tree import PACKAGES, ROOT, SERVICES, Package, imports_of, parsed, source_files

OURS = {package.name: f"sluice-{package.name.replace('_', '-')}" for package in PACKAGES}
# Chosen by name at run time, never imported by us.
BY_NAME = {
    "cramjam": "aiokafka's lz4",
    "httptools": "uvicorn's HTTP parser",
    "uvloop": "the event loop",
}
SERVICE_FILES = ("__main__.py", "config.py", "app.py", "metrics.py")
INSTALLED = packages_distributions()
LOCK = (ROOT / "requirements.lock").read_text()

each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
each_service = pytest.mark.parametrize("package", SERVICES, ids=lambda package: package.name)


def canonical(requirement: str) -> str:
    """The distribution's name in a requirement, in the one spelling that indexes compare."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def distributions_of(modules: set[str]) -> dict[str, str]:
    """Imported top-level module → the distribution that brings it."""
    return {
        module: OURS.get(module) or canonical(INSTALLED.get(module, [module])[0])
        for module in modules
        if module not in sys.stdlib_module_names
    }


def imported_by(package: Package) -> set[str]:
    found = {
        one.module.partition(".")[0] for path in source_files([package]) for one in imports_of(parsed(path))
    }
    return found - {package.name}


def pins(lock: str) -> dict[str, str]:
    """Distribution → its entry in the lock, with the hashes."""
    entries = re.split(r"\n(?=\S)", lock.strip())
    return {canonical(entry): entry for entry in entries if not entry.startswith("#")}


@each_package
def test_a_package_declares_what_it_imports(package: Package) -> None:
    declared = {canonical(one) for one in package.project["dependencies"]}
    needed = set(distributions_of(imported_by(package)).values())
    assert needed - declared == set(), "imported, not declared"


@each_package
def test_a_package_declares_no_power_that_it_does_not_use(package: Package) -> None:
    declared = {canonical(one) for one in package.project["dependencies"]}
    used = set(distributions_of(imported_by(package)).values()) | BY_NAME.keys()
    assert declared - used == set(), "declared, not imported"


@each_package
def test_a_package_is_named_after_its_directory_and_is_typed(package: Package) -> None:
    assert package.project["name"] == OURS[package.name]
    assert (package.source / "py.typed").is_file()


@each_service
def test_a_service_has_the_files_that_everybody_looks_for(package: Package) -> None:
    missing = [name for name in SERVICE_FILES if not (package.source / name).is_file()]
    missing += [name for name in ("README.md",) if not (package.folder / name).is_file()]
    assert missing == []


@each_service
def test_a_service_is_started_by_its_name(package: Package) -> None:
    scripts = package.project["scripts"]
    assert scripts[package.name.replace("_", "-")] == f"{package.name}.__main__:main"


def test_the_lock_pins_everything_by_version_and_hash_and_names_no_host() -> None:
    assert pins(LOCK), "the lock is empty"
    bare = [
        name
        for name, entry in pins(LOCK).items()
        if not re.match(r"\S+==\S+.*--hash=sha256:[0-9a-f]{64}", entry, re.DOTALL)
    ]
    assert bare == []
    assert "://" not in LOCK
    assert "--index" not in LOCK


@each_package
def test_the_lock_holds_each_dependency(package: Package) -> None:
    wanted = {canonical(one) for one in package.project["dependencies"]} - set(OURS.values())
    assert wanted - pins(LOCK).keys() == set()


def test_the_lock_holds_each_tool() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert {canonical(one) for one in groups["dev"]} - pins(LOCK).keys() == set()


def test_a_module_leads_to_the_distribution_that_brings_it() -> None:
    found = distributions_of({"faust", "prometheus_client", "ledger", "json", "status_aggregator", "no_such"})
    assert found == {
        "faust": "faust-streaming",
        "prometheus_client": "prometheus-client",
        "ledger": "sluice-ledger",
        "status_aggregator": "sluice-status-aggregator",
        "no_such": "no-such",
    }


def test_an_import_counts_wherever_it_stands() -> None:
    code = "def f():\n  import httpx\nif TYPE_CHECKING:\n  from asyncpg.pool import Pool\n"
    assert {found.module for found in imports_of(ast.parse(code))} == {"httpx", "asyncpg.pool.Pool"}
