"""The client's side of TLS, from PEM texts.

Invariant: a context that comes from here verifies the server's certificate and its host name; there is no other kind.
"""

import os
import ssl
from functools import lru_cache

from runtime.secret import Pem

CONTEXTS_MAX = 8


def client_context(
    *, ca: Pem | None, certificate: Pem | None = None, key: Pem | None = None
) -> ssl.SSLContext:
    """Return a context for these texts as they are now; without a CA, the system's are trusted.

    Raises `ValueError`, which names what can't be used. A key with a passphrase can't.
    """
    assert (certificate is None) == (key is None)
    return _context(*(None if pem is None else pem.reveal() for pem in (ca, certificate, key)))


@lru_cache(CONTEXTS_MAX)  # reading the system's hundred certificates takes longer than the handshake
def _context(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cadata=ca)
    except (ssl.SSLError, ValueError):
        raise ValueError("the CA holds no certificate that can be read") from None
    if certificate is not None:
        try:
            _load_chain(context, f"{key}\n{certificate}\n")
        except ssl.SSLError:
            raise ValueError(
                "certificate and key can't be used: no PEM, not a pair, or the key has a passphrase"
            ) from None
    return context


def _load_chain(context: ssl.SSLContext, chain: str) -> None:
    """The library takes a chain by its path alone; this one leads to memory and not to a disk."""
    descriptor = os.memfd_create("chain")
    try:
        with os.fdopen(os.dup(descriptor), "w") as file:
            file.write(chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: "")
    finally:
        os.close(descriptor)
