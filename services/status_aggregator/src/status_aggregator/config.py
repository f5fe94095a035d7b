"""What can be tuned in the status aggregator."""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.status import INSTALLATION_PATTERN
from kafkaio.access import KafkaAccess
from kafkaio.producer import CLOSE_S
from ledger.access import DatabaseAccess
from runtime.config import Secret
from runtime.logs import LogLevel


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`STATUS_AGGREGATOR_*`, and `SLUICE_*` for what all services share."""

    kafka_bootstrap: Annotated[str, Meta(description="Kafka's bootstrap servers, host:port.")]
    kafka: KafkaAccess = KafkaAccess()
    database_url: Annotated[Secret, Meta(description="Postgres, as a URL.")]
    database: DatabaseAccess = DatabaseAccess()
    installation: Annotated[str, Meta(pattern=INSTALLATION_PATTERN, description="Our name in callback data.")]
    topic_prefix: Annotated[str, Meta(description="Stands before each topic and group name.")] = ""
    retry_base_s: Annotated[
        float, Meta(gt=0, le=3_600, description="A failure that may pass is tried again within this.")
    ] = 30.0
    join_every_s: Annotated[
        float, Meta(gt=0, le=600, description="How often parked statuses are matched with new wamids.")
    ] = 10.0
    parked_max: Annotated[int, Meta(ge=1, description="Parked statuses; beyond it new ones are dropped.")] = (
        1_000_000
    )
    parked_keep_s: Annotated[
        float, Meta(gt=0, description="How long a parked status waits for its wamid.")
    ] = 691_200.0
    flush_deadline_s: Annotated[
        float, Meta(gt=0, description="A batch that isn't written by then ends the process, unacknowledged.")
    ] = 20.0
    session_s: Annotated[float, Meta(gt=0, description="A silent member leaves its group after this.")] = 30.0
    rebalance_s: Annotated[float, Meta(gt=0, description="How long a rebalance waits for a batch.")] = 60.0
    commit_every_s: Annotated[float, Meta(gt=0, le=10, description="How often offsets are committed.")] = 1.0
    last_batch_s: Annotated[
        float,
        Meta(gt=0, description="After a stop, a batch that isn't written and committed by then is left."),
    ] = 5.0
    drain_s: Annotated[float, Meta(gt=0, description="Time to finish in after a stop.")] = 20.0
    health_host: Annotated[str, Meta(description="Where /live, /ready and /metrics listen.")] = "127.0.0.1"
    health_port: Annotated[int, Meta(ge=0, le=65_535, description="0: any free port.")] = 0
    log_level: LogLevel = LogLevel.INFO
    log_hash_key: Secret | None = None

    def __post_init__(self) -> None:
        assert self.flush_deadline_s <= self.rebalance_s / 2, "a batch must end well within a rebalance"
        assert self.last_batch_s + 2 * CLOSE_S < self.drain_s, "the producer closes after the last batch"
