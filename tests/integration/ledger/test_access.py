"""Postgres over TLS, on a real server: who it is, is proven; a password or a CA is that of the moment."""

from collections.abc import Iterator

import asyncpg
import pytest

from ledger import migrate
from ledger.access import DatabaseAccess
from ledger.pool import Ledger, LedgerUnavailable
from runtime.secret import Pem, Secret
from tests.certificates import Authority
from tests.integration.admin.shell import Shell
from tests.integration.ledger.debian_postgres import PASSWORD, a_postgres_with_tls


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Authority]]:
    with a_postgres_with_tls() as found:
        yield found


def an_access(authority: Authority, **changes) -> DatabaseAccess:
    given = {"password": Secret(PASSWORD), "sslmode": "verify-full", "ca": Pem(authority.ca)}
    return DatabaseAccess(**{**given, **changes})


async def is_encrypted(ledger: Ledger) -> bool:
    return await ledger.value("tls", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")


async def test_verify_full_works_for_the_migrations_and_the_pool(server):
    url, authority = server
    access = an_access(authority)
    assert await migrate.apply(url, access=access)
    async with Ledger.open(url, shard=0, access=access) as ledger:
        assert await is_encrypted(ledger)
        assert await migrate.schema_fault(ledger) == ""


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("another CA", "SLUICE_DATABASE_CA"),
        ("the system's CAs", "SLUICE_DATABASE_CA"),
        ("another host name", "host name"),
        ("a wrong password", "the user or the password"),
        ("no TLS", "the user or the password"),
    ],
)
async def test_a_wrong_one_is_refused_with_a_reason(server, tmp_path, wrong, told):
    url, authority = server
    changes = {
        "another CA": lambda: {"ca": Pem(Authority(tmp_path).ca)},
        "the system's CAs": lambda: {"ca": None},
        "a wrong password": lambda: {"password": Secret("qa-wrong")},
        "no TLS": lambda: {"sslmode": "disable", "ca": None},
    }.get(wrong, dict)()
    if wrong == "another host name":
        url = url.replace("localhost", "127.0.0.1")
    async with Ledger.open(url, shard=0, access=an_access(authority, **changes)) as ledger:
        fault = await migrate.schema_fault(ledger)
    assert told in fault
    assert "qa-" not in fault


async def test_a_renewed_password_is_used_by_the_next_connection(server):
    url, authority = server
    access = an_access(authority)
    try:
        async with (
            Ledger.open(url, shard=0, connections_max=2, access=access) as ledger,
            ledger.connection("held") as first,
        ):
            await first.execute("ALTER ROLE postgres PASSWORD 'qa-password-2'")
            assert access.password is not None
            with pytest.raises(LedgerUnavailable):  # the pool's second connection is a new one
                await is_encrypted(ledger)
            access.password.renew("qa-password-2")
            assert await is_encrypted(ledger)
    finally:
        again = await asyncpg.connect(url, **{**access.arguments(), "password": "qa-password-2"})
        await again.execute(f"ALTER ROLE postgres PASSWORD '{PASSWORD}'")
        await again.close()


async def test_a_renewed_url_is_used_by_the_next_connection(server):
    url, authority = server
    whole = Secret(url.replace("postgres@", f"postgres:{PASSWORD}@"))
    access = DatabaseAccess(sslmode="verify-full", ca=Pem(authority.ca))
    async with (
        Ledger.open(whole, shard=0, connections_max=2, access=access) as ledger,
        ledger.connection("held"),
    ):
        whole.renew(url.replace("postgres@", "postgres:qa-wrong@"))
        with pytest.raises(LedgerUnavailable):
            await is_encrypted(ledger)
        whole.renew(url.replace("postgres@", f"postgres:{PASSWORD}@"))
        assert await is_encrypted(ledger)


async def test_migrate_takes_the_same_settings_and_says_what_is_wrong(server, tmp_path, monkeypatch, capsys):
    url, authority = server
    (tmp_path / "password").write_text(PASSWORD)
    monkeypatch.setenv("SLUICE_DATABASE_URL", url)
    monkeypatch.setenv("SLUICE_DATABASE_PASSWORD_FILE", str(tmp_path / "password"))
    monkeypatch.setenv("SLUICE_DATABASE_SSLMODE", "verify-full")
    shell = Shell(capsys)
    assert await shell("migrate") != 0
    assert "is SLUICE_DATABASE_CA the right one?" in shell.err
    monkeypatch.setenv("SLUICE_DATABASE_CA_FILE", str(authority.folder / "ca.pem"))
    assert await shell("migrate") == 0
    (tmp_path / "password").write_text("qa-wrong")
    assert await shell("migrate") != 0
    assert "the database refuses the user or the password" in shell.err
