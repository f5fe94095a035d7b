"""The repository as the house rules see it: its packages, its files, and what each file imports. Nothing is executed."""

import ast
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {"__pycache__", "node_modules"}  # and every hidden folder


class Package(NamedTuple):
    """One lib or service; `name` is the directory's and the import's."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_service(self) -> bool:
        return self.folder.parent.name == "services"

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.name

    @property
    def project(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]


class Import(NamedTuple):
    """One imported module; `from a import b` counts as `a.b`, which may be a module or a name in one."""

    module: str
    line: int


PACKAGES = [
    Package(path.parent)
    for kind in ("libs", "services")
    for path in sorted((ROOT / kind).glob("*/pyproject.toml"))
]
SERVICES = [package for package in PACKAGES if package.is_service]


def files(*folders: str, suffix: str = ".py") -> list[Path]:
    """All files of ours below these folders of the repository ("" is all of it), with this suffix ("" is any)."""
    return sorted(path for folder in folders for path in _walked(ROOT / folder) if path.name.endswith(suffix))


def source_files(packages: Iterable[Package] = PACKAGES) -> list[Path]:
    return [path for package in packages for path in sorted(package.source.glob("**/*.py"))]


def each(paths: Iterable[Path]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrise a test by `path`, so that a failure names the file."""
    return pytest.mark.parametrize("path", [pytest.param(path, id=shown(path)) for path in paths])


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix().replace("/src/", "/")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports_of(tree: ast.Module) -> list[Import]:
    """Every import, wherever it stands: in a function or for types alone is an import too."""
    found: list[Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [Import(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


def _walked(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_OURS and _is_ours(name)]
        yield from (Path(parent) / name for name in names if name != ".git")  # a file in a linked worktree


def _is_ours(folder: str) -> bool:
    return folder == ".ci" or not (folder.startswith(".") or folder.endswith(".egg-info"))
