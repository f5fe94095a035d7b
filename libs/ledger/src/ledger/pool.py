"""One pool of connections, with a time-out on everything: acquiring, each statement, each lock, each idle transaction.

Invariant: whatever the database does, a caller gets an answer or `LedgerUnavailable` within a bounded time; its cause is
the first error, never that of the rollback or the return of the connection after it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg

from ledger import metrics
from ledger.access import DatabaseAccess
from ledger.outage import Outage
from runtime.logs import get_logger
from runtime.secret import Secret

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

SPREAD_SHARE = 0.25
"""Of the time to acquire a connection: how much of it a reconnect may wait."""
LOCK_S_MAX = 3.0
"""Whoever may let a statement run for long still hears soon that somebody holds a lock."""
IDLE_IN_TRANSACTION_S = 1.0
"""A client that says nothing within a transaction holds others up for no longer."""

Row = asyncpg.Record
Connection: TypeAlias = "PoolConnectionProxy[Row]"
Listener = Callable[[str], None]


_log = get_logger()


class LedgerUnavailable(Exception):
    """The database is away, busy, or took too long: nothing is known of the statement's effect; ask again."""


_PASSING = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    OSError,
    TimeoutError,
)


@contextmanager
def _mapped(name: str) -> Any:
    """Passing trouble becomes `LedgerUnavailable`, unless the caller is being cancelled.

    Giving a connection back, or rolling back, may time out while a cancellation passes through: it must not be lost.
    """
    try:
        yield
    except _PASSING as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from error
        metrics.UNAVAILABLE.labels(name).inc()
        raise LedgerUnavailable(f"{name}: {type(error).__name__}") from error


@contextmanager
def measured(name: str) -> Any:
    """Time a statement, and tell what passes by itself from what doesn't."""
    started = time.perf_counter()
    try:
        with _mapped(name):
            yield
    finally:
        metrics.STATEMENT.labels(name).observe(time.perf_counter() - started)


def _connecting(database_url: str | Secret, access: DatabaseAccess, outage: Outage) -> Callable[..., Any]:
    """Return what makes a connection, each with the URL, the password and the CA of its moment."""

    async def connect(_url: None, **settings: Any) -> "asyncpg.Connection[Row]":
        await outage.spread()
        url = database_url.reveal() if isinstance(database_url, Secret) else database_url
        connection: asyncpg.Connection[Row] = await asyncpg.connect(url, **access.arguments(), **settings)
        connection.add_termination_listener(lambda _connection: outage.lost())
        return connection

    return connect


async def _left_as_it_is(_connection: "asyncpg.Connection[Row]") -> None:
    """Nothing here changes a session beyond its transaction, so none of the driver's resetting statements is needed."""


class Ledger:
    """The way to the database: each method takes the statement's name (for metrics) and its SQL."""

    def __init__(self, pool: "asyncpg.Pool[Row]", outage: Outage, *, shard: int, acquire_s: float) -> None:
        self._pool = pool
        self._outage = outage
        self._acquire_s = acquire_s
        self.shard = shard
        """This process's share of the counters, so that processes don't wait for each other there."""

    @staticmethod
    @asynccontextmanager
    async def open(
        database_url: str | Secret,
        *,
        shard: int,
        access: DatabaseAccess = DatabaseAccess(),  # noqa: B008  # frozen
        connections_max: int = 8,
        statement_s: float = 1.5,
        acquire_s: float = 2.0,
        application: str = "sluice",
    ) -> AsyncIterator["Ledger"]:
        """Open a pool; `shard` is 0–63. The database may be away, or refuse us: `migrate.schema_fault` says so.

        A `Secret` may be renewed meanwhile: new connections are made with what it is then.
        """
        assert 0 <= shard < 64
        url = database_url.reveal() if isinstance(database_url, Secret) else database_url
        if not access.is_verified(url):
            _log.warning("database.unverified")
        outage = Outage(wait_s_max=SPREAD_SHARE * acquire_s)
        pool = await asyncpg.create_pool(
            connect=_connecting(database_url, access, outage),
            min_size=0,
            max_size=connections_max,
            timeout=acquire_s,
            command_timeout=statement_s + 1.0,
            max_inactive_connection_lifetime=60.0,
            reset=_left_as_it_is,
            server_settings={
                "application_name": application,
                "statement_timeout": f"{int(statement_s * 1000)}",
                "lock_timeout": f"{int(min(statement_s, LOCK_S_MAX) * 1000)}",
                "idle_in_transaction_session_timeout": f"{int(IDLE_IN_TRANSACTION_S * 1000)}",
                "timezone": "UTC",
                "jit": "off",
            },
        )
        try:
            yield Ledger(pool, outage, shard=shard, acquire_s=acquire_s)
        finally:
            pool.terminate()

    @asynccontextmanager
    async def connection(self, name: str) -> AsyncIterator[Connection]:
        """Lend a connection; what fails within is mapped like any statement."""
        with self._noticed(name), measured(name):
            started = time.perf_counter()
            connection = await self._pool.acquire(timeout=self._acquire_s)
            metrics.CONNECTION_WAIT.observe(time.perf_counter() - started)
            try:
                yield connection
            except BaseException:
                with suppress(*_PASSING):
                    await self._pool.release(connection, timeout=self._acquire_s)
                raise
            await self._pool.release(connection, timeout=self._acquire_s)

    @contextmanager
    def _noticed(self, name: str) -> Any:
        try:
            yield
        except LedgerUnavailable as error:
            self._outage.failed(name, error.__cause__)
            raise
        self._outage.over()

    @asynccontextmanager
    async def transaction(self, name: str) -> AsyncIterator[Connection]:
        """Lend a connection within a transaction: for the few changes that can't be one round trip."""
        async with self.connection(name) as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                yield connection
            except BaseException:
                with suppress(*_PASSING):  # the connection is gone, and with it the transaction
                    await transaction.rollback()
                raise
            await transaction.commit()

    async def rows(self, name: str, sql: str, *args: object) -> Sequence[Row]:
        async with self.connection(name) as connection:
            return await connection.fetch(sql, *args)

    async def row(self, name: str, sql: str, *args: object) -> Row | None:
        async with self.connection(name) as connection:
            return await connection.fetchrow(sql, *args)

    async def value(self, name: str, sql: str, *args: object) -> Any:
        async with self.connection(name) as connection:
            return await connection.fetchval(sql, *args)

    async def wall_s(self) -> float:
        """Return the database server's clock, Unix seconds."""
        return float(await self.value("clock", "SELECT extract(epoch FROM clock_timestamp())::float8"))

    async def run(self, name: str, sql: str, *args: object) -> int:
        """Run a statement; return how many rows it touched."""
        async with self.connection(name) as connection:
            tag = await connection.execute(sql, *args)
        last = tag.rpartition(" ")[2]
        return int(last) if last.isdigit() else 0

    @asynccontextmanager
    async def listening(self, channel: str, heard: Listener) -> AsyncIterator[Connection]:
        """Call `heard(payload)` for each notification; the caller polls besides, since a lost one is silent."""
        with _mapped("listen"):
            connection = await self._pool.acquire(timeout=self._acquire_s)
            try:
                await connection.add_listener(
                    channel, lambda _c, _pid, _channel, payload: heard(str(payload))
                )
                yield connection
            finally:
                with suppress(
                    asyncpg.InterfaceError
                ):  # the server has ended it, and the pool has taken it back
                    connection.terminate()
                await self._pool.release(connection, timeout=self._acquire_s)
