"""What can be tuned in the sender."""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.status import INSTALLATION_PATTERN
from kafkaio.access import KafkaAccess
from ledger.access import DatabaseAccess
from runtime.config import Secret
from runtime.logs import LogLevel


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`SENDER_*`, and `SLUICE_*` for what all services share."""

    kafka_bootstrap: Annotated[str, Meta(description="Kafka's bootstrap servers, host:port.")]
    kafka: KafkaAccess = KafkaAccess()
    database_url: Annotated[Secret, Meta(description="Postgres, as a URL.")]
    database: DatabaseAccess = DatabaseAccess()
    graph_url: Annotated[str, Meta(description="Base URL of the Graph API.")] = "https://graph.facebook.com"
    graph_version: Annotated[str, Meta(pattern=r"^v\d+\.\d+$", description="Graph API version.")] = "v26.0"
    access_token: Annotated[Secret, Meta(description="Token that may send messages.")]
    installation: Annotated[str, Meta(pattern=INSTALLATION_PATTERN, description="Our name in callback data.")]
    topic_prefix: Annotated[str, Meta(description="Stands before each topic and group name.")] = ""
    inflight_max: Annotated[
        int, Meta(ge=1, le=10_000, description="Sends awaiting a reply, per process.")
    ] = 512
    results_max: Annotated[int, Meta(ge=1, le=100_000, description="Results waiting to be written.")] = 2_000
    settle_rows_max: Annotated[int, Meta(ge=1, le=1_000, description="Results written at once.")] = 500
    settle_linger_s: Annotated[float, Meta(gt=0, le=1, description="How long a result waits for others.")] = (
        0.25
    )
    timing_scale: Annotated[float, Meta(gt=0, le=1, description="Shrinks all lease times; for tests.")] = 1.0
    drain_s: Annotated[float, Meta(gt=0, description="Time to finish in after a stop.")] = 25.0
    health_host: Annotated[str, Meta(description="Where /live, /ready and /metrics listen.")] = "127.0.0.1"
    health_port: Annotated[int, Meta(ge=0, le=65_535, description="0: any free port.")] = 0
    log_level: LogLevel = LogLevel.INFO
    log_hash_key: Secret | None = None
