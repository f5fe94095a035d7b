"""Apply the migrations: one linear history, forward only, under one lock; then the functions, as this release has them.

Invariant: a statement function is replaced only by one that the release before can still call; a change of its
arguments gets a new name. `pre` migrations run before the new code, `post` ones after the old code is gone.
"""

import hashlib
from importlib.resources import files

import asyncpg

from ledger.access import DatabaseAccess, fault_of
from ledger.pool import Connection, Ledger, LedgerUnavailable, measured

LOCK = 7_315_102
_HISTORY = """
CREATE TABLE IF NOT EXISTS migrations (
    name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())
"""


def _texts(folder: str) -> dict[str, str]:
    found = (path for path in files("ledger").joinpath(folder).iterdir() if path.name.endswith(".sql"))
    return {path.name: path.read_text() for path in sorted(found, key=lambda path: path.name)}


def functions_version() -> str:
    """Return the name under which this release's functions are recorded."""
    text = "".join(_texts("functions").values())
    return f"functions-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


async def apply(
    database_url: str,
    *,
    access: DatabaseAccess = DatabaseAccess(),  # noqa: B008  # frozen
    lock_s: float = 30.0,
) -> list[str]:
    """Apply what is missing; return the names applied, in order.

    Raises `LedgerUnavailable` when there is no connection, and what a migration raises as it is.
    """
    with measured("migrate"):
        connection = await asyncpg.connect(
            database_url, **access.arguments(), timeout=10.0, command_timeout=600.0
        )
    applied: list[str] = []
    try:
        await connection.execute(f"SET lock_timeout = '{int(lock_s)}s'")
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK)
        await connection.execute(_HISTORY)
        done = {row["name"] for row in await connection.fetch("SELECT name FROM migrations")}
        for name, text in _texts("migrations").items():
            if name not in done:
                async with connection.transaction():
                    await connection.execute(text)
                    await connection.execute("INSERT INTO migrations (name) VALUES ($1)", name)
                applied.append(name)
        version = functions_version()
        if version not in done:
            async with connection.transaction():
                await connection.execute("SET LOCAL check_function_bodies = off")
                for text in _texts("functions").values():
                    await connection.execute(text)
                await connection.execute("INSERT INTO migrations (name) VALUES ($1)", version)
            applied.append(version)
    finally:
        await connection.close(timeout=5.0)
    return applied


async def missing(connection: "asyncpg.Connection | Connection") -> list[str]:
    """Return the names this release needs and the database lacks; empty when it can be worked with."""
    if await connection.fetchval("SELECT to_regclass('migrations')") is None:
        return [*_texts("migrations"), functions_version()]
    done = {row["name"] for row in await connection.fetch("SELECT name FROM migrations")}
    return [name for name in (*_texts("migrations"), functions_version()) if name not in done]


async def schema_fault(ledger: Ledger) -> str:
    """Return why a service can't work with the database, for its readiness; empty when it can."""
    try:
        async with ledger.connection("schema") as connection:
            lacking = await missing(connection)
    except LedgerUnavailable as error:
        return fault_of(error.__cause__)
    return f"run `sluice migrate`: {', '.join(lacking)} missing" if lacking else ""
