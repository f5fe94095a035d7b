"""Keeps the secrets that came from files as the files are.

Invariant: a secret in use was valid when it was taken over, and the record that holds it keeps its own rules; whatever
a file says that can't be used, the value before stays, a gauge says so, and no line shows either.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, structs

from runtime import metrics
from runtime.background import Background
from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.logs import get_logger
from runtime.secret import SecretText

EVERY_S: Final = 2.0
FILE_BYTES_MAX: Final = 1024 * 1024

_log = get_logger()


class _Kept(NamedTuple):
    """A secret that came from a file, and where it stands in the record."""

    secret: SecretText
    group: str
    field: str
    name: str
    path: Path


class Renewal:
    """The file-backed secrets of one configuration."""

    def __init__(self, config: Struct, *, every_s: float = EVERY_S, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._kept = list(_kept(config))
        self._every_s = every_s
        self._clock = clock
        self._refused: dict[str, str] = {}
        for kept in self._kept:
            metrics.SECRET_REFUSED.labels(kept.name).set(0)

    async def run(self) -> None:
        """Look every few seconds, until cancelled. The files are read in a thread: their disk may hang."""
        while self._kept:
            await self._clock.sleep(self._every_s)
            self.take(await asyncio.to_thread(self.read))

    def read(self) -> dict[str, str]:
        """Return variable → what its file says, empty if it can't be read.

        The content is compared, not a time or an inode, since Kubernetes changes a link two folders above.
        """
        return {kept.name: _content(kept.path) for kept in self._kept}

    def take(self, contents: Mapping[str, str]) -> None:
        """Take over what has changed: a group's together (a key and its certificate), else each by itself."""
        changed: dict[str, list[_Kept]] = {}
        for kept in self._kept:
            if contents[kept.name] == kept.secret.reveal():
                self._accept(kept)
            else:
                changed.setdefault(kept.group or kept.name, []).append(kept)
        for together in changed.values():
            if self._holds(together, contents):
                self._renew(together, contents)
                continue
            for kept in together:
                if self._holds([kept], contents):
                    self._renew([kept], contents)
                else:
                    self._refuse(kept, contents[kept.name])

    def _holds(self, changed: Sequence[_Kept], contents: Mapping[str, str]) -> bool:
        """Whether the record, with these secrets in it, would be one to start with."""
        changes: dict[str, dict[str, SecretText]] = {}
        try:
            for kept in changed:
                fresh = type(kept.secret).parsed(contents[kept.name])
                changes.setdefault(kept.group, {})[kept.field] = fresh
            own = changes.pop("", {})
            groups = {
                name: structs.replace(getattr(self._config, name), **of) for name, of in changes.items()
            }
            structs.replace(self._config, **own, **groups)
        except (ValueError, AssertionError):
            return False
        return True

    def _renew(self, changed: Sequence[_Kept], contents: Mapping[str, str]) -> None:
        for kept in changed:
            kept.secret.renew(contents[kept.name])
            self._accept(kept)
            _log.info("secret.renewed", name=kept.name)

    def _accept(self, kept: _Kept) -> None:
        self._refused.pop(kept.name, None)
        metrics.SECRET_REFUSED.labels(kept.name).set(0)

    def _refuse(self, kept: _Kept, content: str) -> None:
        if self._refused.get(kept.name) != content:
            self._refused[kept.name] = content
            metrics.SECRET_REFUSED.labels(kept.name).set(1)
            _log.error("secret.refused", name=kept.name, is_empty=not content)


@asynccontextmanager
async def renewing(config: Struct) -> AsyncIterator[None]:
    """Keep the configuration's secrets current for the block."""
    async with Background() as tasks:
        renewal = tasks.create_task(Renewal(config).run())
        try:
            yield
        finally:
            renewal.cancel()


def _kept(config: Struct, group: str = "") -> Iterator[_Kept]:
    for field in config.__struct_fields__:
        value = getattr(config, field)
        if isinstance(value, SecretText) and value.source is not None:
            yield _Kept(value, group, field, *value.source)
        elif isinstance(value, Struct) and not group:
            yield from _kept(value, field)


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode().strip()
    except (OSError, ValueError):
        return ""
