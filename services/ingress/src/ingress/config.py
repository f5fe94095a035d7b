"""What can be set about ingress.

Invariant: it doesn't start without an app secret and a verify token, so there is no state in which it lets all pass.
"""

from typing import Annotated

from msgspec import Meta, Struct

from kafkaio.access import KafkaAccess
from runtime.config import Secret, Secrets
from runtime.logs import LogLevel


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All times in seconds, all sizes in bytes."""

    kafka_bootstrap: Annotated[
        str, Meta(min_length=1, description="Kafka brokers, host:port, comma-separated.")
    ]
    kafka: KafkaAccess = KafkaAccess()
    topic_prefix: Annotated[str, Meta(description="Stands before each topic name; for tests.")] = ""
    app_secrets: Annotated[
        Secrets,
        Meta(description="App secrets that may have signed a webhook; two during a rotation."),
    ]
    verify_token: Annotated[Secret, Meta(description="The token of the GET handshake.")]
    host: Annotated[str, Meta(description="Address to listen on for webhooks.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="Port of the webhook; 0 takes a free one.")] = 8080
    health_host: Annotated[str, Meta(description="Address of /live, /ready and /metrics.")] = "127.0.0.1"
    health_port: Annotated[
        int, Meta(ge=0, le=65_535, description="Port of the health routes; 0: any free.")
    ] = 0
    deadline_s: Annotated[
        float,
        Meta(
            gt=0,
            le=30,
            description="How long a body may take to arrive, and then its records to be acknowledged.",
        ),
    ] = 5.0
    inflight_requests_max: Annotated[
        int, Meta(ge=1, le=100_000, description="Webhooks taken and not settled; beyond it 503.")
    ] = 1_000
    inflight_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Body bytes taken and not settled; memory is about three times this. Beyond it 503.",
        ),
    ] = 256 * 1024 * 1024
    body_bytes_max: Annotated[
        int, Meta(ge=1, le=4 * 1024 * 1024, description="Largest body, else 413; Meta sends up to 3 MB.")
    ] = 4 * 1024 * 1024
    drain_s: Annotated[float, Meta(gt=0, description="How long a stop may take.")] = 20.0
    log_level: Annotated[LogLevel, Meta(description="Least level that is logged.")] = LogLevel.INFO

    def __post_init__(self) -> None:
        assert self.app_secrets, "an app secret is needed"
        assert all(secret.reveal().strip() for secret in self.app_secrets), "an app secret is blank"
        assert self.verify_token.reveal().strip(), "the verify token is blank"
        assert self.body_bytes_max <= self.inflight_bytes_max, "inflight_bytes_max must hold the largest body"
        assert 2 * self.deadline_s < self.drain_s, (
            "drain_s must outlast the reading and the publishing of a body"
        )
