"""Whether a webhook's bytes carry the HMAC of one of our app secrets.

Invariant: fail closed. Without a secret, without a header or with one that isn't 64 hex digits, nothing is genuine.
"""

import hmac
import re
from collections.abc import Sequence

HEADER = b"x-hub-signature-256"
_SHAPE = re.compile(rb"sha256=([0-9a-fA-F]{64})\Z")


def is_genuine(body: bytes, signatures: Sequence[bytes], secrets: Sequence[bytes]) -> bool:
    """Return whether every copy of the signature header is the HMAC-SHA256 of exactly these bytes.

    Copies must be equal, so that none is accepted on the strength of another. The comparison is on bytes and takes
    the same time wherever they differ; each secret is tried, because a rotation has two.
    """
    found = _SHAPE.match(signatures[0]) if signatures else None
    if found is None or any(copy != signatures[0] for copy in signatures[1:]):
        return False
    claimed = bytes.fromhex(found[1].decode("ascii"))
    genuine = False
    for secret in secrets:
        if secret.strip():
            genuine |= hmac.compare_digest(hmac.digest(secret, body, "sha256"), claimed)
    return genuine
