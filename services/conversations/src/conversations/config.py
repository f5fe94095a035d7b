"""What can be tuned in conversations."""

from typing import Annotated

from msgspec import Meta, Struct

from kafkaio.access import KafkaAccess
from ledger.access import DatabaseAccess
from runtime.config import Secret
from runtime.logs import LogLevel


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`CONVERSATIONS_*`, and `SLUICE_*` for what all services share."""

    kafka_bootstrap: Annotated[str, Meta(description="Kafka's bootstrap servers, host:port.")]
    kafka: KafkaAccess = KafkaAccess()
    database_url: Annotated[Secret, Meta(description="Postgres, as a URL.")]
    database: DatabaseAccess = DatabaseAccess()
    topic_prefix: Annotated[str, Meta(description="Stands before each topic and group name.")] = ""
    hold_ms: Annotated[
        int, Meta(ge=0, le=10_000, description="How long a message waits for others to be sorted with.")
    ] = 500
    concurrency: Annotated[int, Meta(ge=1, le=1_000, description="Records taken in at once.")] = 128
    handlers: Annotated[int, Meta(ge=1, le=32, description="Transactions that handle messages at once.")] = 3
    lanes_max: Annotated[int, Meta(ge=1, le=500, description="Contacts handled in one transaction.")] = 50
    per_lane_max: Annotated[
        int, Meta(ge=1, le=100, description="Messages of one contact handled in one transaction.")
    ] = 10
    publish_s: Annotated[
        float, Meta(gt=0, le=60, description="Patience for an event; after twice that others tell it.")
    ] = 5.0
    session_s: Annotated[
        float, Meta(gt=0, le=300, description="A silent process loses its partitions after this.")
    ] = 30.0
    drain_s: Annotated[float, Meta(gt=0, description="Time to finish in after a stop.")] = 25.0
    health_host: Annotated[str, Meta(description="Where /live, /ready and /metrics listen.")] = "127.0.0.1"
    health_port: Annotated[int, Meta(ge=0, le=65_535, description="0: any free port.")] = 0
    log_level: LogLevel = LogLevel.INFO
    log_hash_key: Secret | None = None
