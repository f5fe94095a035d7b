"""How the database proves itself to us and we to it.

Invariant: each connection is made with the URL, password and CA of that moment; `verify-full` means what libpq means.
"""

import ssl
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

import asyncpg
from msgspec import Meta, Struct

from runtime.secret import Pem, Secret
from runtime.tls import client_context

SslMode = Literal["disable", "prefer", "require", "verify-full"]
AWAY: Final = "the database doesn't answer"


class DatabaseAccess(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`SLUICE_DATABASE_*`: what stands beside the URL, and wins over what the URL says."""

    password: (
        Annotated[Secret, Meta(description="Instead of one in the URL, so that its file alone is rotated.")]
        | None
    ) = None
    sslmode: (
        Annotated[
            SslMode,
            Meta(
                description="Beyond this machine: verify-full, the one that knows who answers. None: the URL's."
            ),
        ]
        | None
    ) = None
    ca: (
        Annotated[
            Pem, Meta(description="With verify-full: who may vouch for the server; none: the system's.")
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        verifies = self.sslmode == "verify-full"
        assert self.ca is None or verifies, "SLUICE_DATABASE_CA needs SLUICE_DATABASE_SSLMODE=verify-full"
        try:
            if verifies:
                client_context(ca=self.ca)
        except ValueError as error:
            raise AssertionError(f"SLUICE_DATABASE_CA: {error}") from None

    def arguments(self) -> dict[str, Any]:
        """Return what `asyncpg.connect` takes beside the URL, as of now; raises `ValueError` for a bad CA."""
        found: dict[str, Any] = {}
        if self.password is not None:
            found["password"] = self.password.reveal()
        if self.sslmode == "verify-full":
            found["ssl"] = client_context(ca=self.ca)
        elif self.sslmode is not None:
            found["ssl"] = self.sslmode
        return found

    def is_verified(self, url: str) -> bool:
        """Whether nobody in between can pose as the server: it is proven, or on this machine."""
        parts = urlsplit(url)
        mode = self.sslmode or parse_qs(parts.query).get("sslmode", ["prefer"])[-1]
        return mode == "verify-full" or parts.hostname in (None, "localhost", "127.0.0.1", "::1")


def fault_of(error: BaseException | None) -> str:
    """Return why there is no connection, for people; never a secret."""
    match error:
        case ssl.SSLCertVerificationError():
            return (
                "the database's certificate is not for the host name in SLUICE_DATABASE_URL"
                if "match" in error.verify_message
                else "the database's certificate is not vouched for: is SLUICE_DATABASE_CA the right one?"
            )
        case asyncpg.InvalidAuthorizationSpecificationError():
            return "the database refuses the user or the password"
        case ConnectionError() if "SSL" in str(error):
            return "the database speaks no TLS: SLUICE_DATABASE_SSLMODE asks for it"
        case _:
            return AWAY
