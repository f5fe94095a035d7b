"""What can be set about admin.

Invariant: without a token it listens to this machine alone, so there is no state in which strangers may command it.
"""

import ipaddress
from typing import Annotated

from msgspec import Meta, Struct

from kafkaio.access import KafkaAccess
from ledger.access import DatabaseAccess
from runtime.config import Secret, Secrets
from runtime.logs import LogLevel


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All times in seconds, all sizes in bytes."""

    database_url: Annotated[Secret, Meta(description="Postgres, postgresql://user:password@host:port/name.")]
    database: DatabaseAccess = DatabaseAccess()
    kafka_bootstrap: Annotated[str, Meta(description="Kafka's bootstrap servers, host:port.")]
    kafka: KafkaAccess = KafkaAccess()
    topic_prefix: Annotated[str, Meta(description="Stands before each topic and group name.")] = ""
    tokens: Annotated[
        Secrets,
        Meta(description="Bearer tokens that may command; two during a rotation. None: this machine only."),
    ] = Secrets()
    host: Annotated[str, Meta(min_length=1, description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="Port of the API; 0 takes a free one.")] = 8090
    health_host: Annotated[str, Meta(description="Address of /live, /ready and /metrics.")] = "127.0.0.1"
    health_port: Annotated[
        int, Meta(ge=0, le=65_535, description="Port of the health routes; 0: any free.")
    ] = 0
    slots_count: Annotated[
        int, Meta(ge=1, le=10_000, description="Partitions of send-requests: a number's slot is one of them.")
    ] = 64
    import_bytes_max: Annotated[int, Meta(ge=1, description="Largest audience file, else 413.")] = 4 * 1024**3
    drain_s: Annotated[float, Meta(gt=0, description="How long a stop may take.")] = 20.0
    log_level: Annotated[LogLevel, Meta(description="Least level that is logged.")] = LogLevel.INFO

    def __post_init__(self) -> None:
        assert self.database_url.reveal().strip(), "the database URL is blank"
        assert all(token.reveal().strip() for token in self.tokens), "a token is blank"
        assert self.tokens or is_loopback(self.host), (
            "without ADMIN_TOKENS it may listen on a loopback address alone, such as ADMIN_HOST=127.0.0.1:"
            " set a token, or keep to this machine"
        )


class Reach(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the commands that go to Kafka and Postgres themselves need beside their options."""

    kafka: KafkaAccess = KafkaAccess()
    database_url: Secret | None = None
    database: DatabaseAccess = DatabaseAccess()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host` (a name or an address, without port)."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
