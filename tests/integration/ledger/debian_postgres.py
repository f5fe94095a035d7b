"""Debian's PostgreSQL with TLS: the embedded one is built without OpenSSL."""

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.process import free_port
from tests.certificates import Authority, need

PASSWORD = "qa-password-1"
ACCOUNT = "postgres"
READY_S = 60.0


@contextmanager
def a_postgres_with_tls() -> Iterator[tuple[str, Authority]]:
    """Yield (URL without a password, CA). Its certificate is for `localhost`; it takes nobody without TLS."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = Path(need(str(found[-1]) if found else None, "no Debian PostgreSQL: apt-get install postgresql"))
    folder = Path(tempfile.mkdtemp(prefix="sluice-tls-"))
    as_postgres = ["runuser", "-u", ACCOUNT, "--"] if os.geteuid() == 0 else []

    def run(*command: str) -> None:
        subprocess.run([*as_postgres, *command], cwd="/", check=True, capture_output=True, timeout=60)

    try:
        authority = Authority(folder)
        authority.leaf("server")
        (folder / "password").write_text(PASSWORD)
        (folder / "server.key").chmod(0o600)
        if as_postgres:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, ACCOUNT, ACCOUNT)
        data, port = folder / "data", free_port(random.Random())
        run(
            str(initdb), "-D", str(data), "-U", "postgres", "--encoding=UTF8", "--no-locale", "--no-sync",
            "--auth=scram-sha-256", f"--pwfile={folder / 'password'}",
        )  # fmt: skip
        (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
        control = str(initdb.with_name("pg_ctl"))
        settings = (
            f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c ssl=on"
            f" -c ssl_cert_file={folder / 'server.pem'} -c ssl_key_file={folder / 'server.key'}"
        )
        run(
            control,
            "-D",
            str(data),
            "-l",
            str(folder / "log"),
            "-t",
            str(int(READY_S)),
            "-w",
            "-o",
            settings,
            "start",
        )
        try:
            yield f"postgresql://postgres@localhost:{port}/postgres", authority
        finally:
            run(control, "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
