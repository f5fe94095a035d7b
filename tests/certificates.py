"""Certificates for an afternoon, by openssl: a CA, and leaves that it signs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def need(program: str | None, remedy: str) -> str:
    """Return the program; a test that lacks it skips with the remedy, and fails where CI=true says that nothing lacks."""
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(remedy)
    return program


class Authority:
    """A CA whose files lie in `folder`: `ca.pem`, and `<name>.pem`, `<name>.key` of each leaf."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._make(
            "req", "-x509", "-days", "2", "-subj", "/CN=Test CA", "-keyout", "ca.key", "-out", "ca.pem",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", *_EC,
        )  # fmt: skip

    @property
    def ca(self) -> str:
        return (self.folder / "ca.pem").read_text()

    def leaf(self, name: str, *, host: str = "localhost") -> tuple[str, str]:
        """Return certificate and key of a server at `host`, or of a client."""
        self._make("req", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr", *_EC)
        (self.folder / "extensions").write_text(f"subjectAltName=DNS:{host}\n")
        self._make(
            "x509", "-req", "-days", "2", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-extfile", "extensions", "-out", f"{name}.pem",
        )  # fmt: skip
        return (self.folder / f"{name}.pem").read_text(), (self.folder / f"{name}.key").read_text()

    def _make(self, *command: str) -> None:
        openssl = need(shutil.which("openssl"), "no `openssl`: apt-get install openssl")
        subprocess.run([openssl, *command], cwd=self.folder, check=True, capture_output=True, timeout=30)


_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
