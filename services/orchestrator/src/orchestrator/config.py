"""What can be tuned in the orchestrator."""

from typing import Annotated

from msgspec import Meta, Struct

from kafkaio.access import KafkaAccess
from ledger.access import DatabaseAccess
from runtime.config import Secret
from runtime.logs import LogLevel


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ORCHESTRATOR_*`, and `SLUICE_*` for what all services share."""

    kafka_bootstrap: Annotated[str, Meta(description="Kafka's bootstrap servers, host:port.")]
    kafka: KafkaAccess = KafkaAccess()
    database_url: Annotated[Secret, Meta(description="Postgres, as a URL.")]
    database: DatabaseAccess = DatabaseAccess()
    topic_prefix: Annotated[str, Meta(description="Stands before each topic and group name.")] = ""
    look_every_s: Annotated[float, Meta(gt=0, le=60, description="How often the leader looks for work.")] = (
        1.0
    )
    lease_s: Annotated[float, Meta(gt=0, le=60, description="How long a leader may be silent.")] = 10.0
    settle_s: Annotated[
        float, Meta(ge=0, description="How long a finished campaign waits for its last statuses.")
    ] = 600.0
    patience_s: Annotated[
        float,
        Meta(
            ge=0, description="How much longer than its wait a resend waits for proof that statuses arrive."
        ),
    ] = 600.0
    drain_s: Annotated[float, Meta(gt=0, description="Time to finish in after a stop.")] = 20.0
    health_host: Annotated[str, Meta(description="Where /live, /ready and /metrics listen.")] = "127.0.0.1"
    health_port: Annotated[int, Meta(ge=0, le=65_535, description="0: any free port.")] = 0
    log_level: LogLevel = LogLevel.INFO
    log_hash_key: Secret | None = None

    def __post_init__(self) -> None:
        assert self.look_every_s < self.lease_s / 2, "the lead is renewed before it ends"
