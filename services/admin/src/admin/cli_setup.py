"""`sluice migrate` and `sluice topics`: what has to be there before anything runs; these go to Postgres and Kafka directly.

Invariant: running one twice changes nothing the second time.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from admin.cli_output import EXIT_REFUSED, EXIT_UNREACHABLE, CliError, say

if TYPE_CHECKING:
    from admin.config import Reach

T = TypeVar("T")

KAFKA_S = 60.0

topics_app = typer.Typer(no_args_is_help=True)

Bootstrap = Annotated[
    str, typer.Option(envvar="SLUICE_KAFKA_BOOTSTRAP", help="Kafka brokers, host:port, comma-separated.")
]
Prefix = Annotated[str, typer.Option(envvar="SLUICE_TOPIC_PREFIX", help="Stands before each topic name.")]
Partitions = Annotated[int, typer.Option(min=1, help="Partitions of each topic; never changed later.")]
Replication = Annotated[int, typer.Option(min=1, help="Copies of each partition.")]
MinInsync = Annotated[int, typer.Option(min=1, help="Copies that must be in step for a write.")]


def migrate(
    database_url: Annotated[
        str | None,
        typer.Option(
            help="Postgres, postgresql://user:password@host:port/name. Without it: SLUICE_DATABASE_URL, or the file"
            " that SLUICE_DATABASE_URL_FILE names.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Bring the database's schema up to this release."""
    if database_url is None:
        found = _reach().database_url
        if found is None:
            raise typer.BadParameter(
                "give --database-url, or set SLUICE_DATABASE_URL or SLUICE_DATABASE_URL_FILE"
            )
        database_url = found.reveal()
    applied = asyncio.run(_migrate(database_url))
    for name in applied:
        say(f"applied {name}")
    if not applied:
        say("nothing to do: the schema is up to date")


@topics_app.command(
    epilog="Example: sluice topics apply --bootstrap localhost:9092 --partitions 4 --replication 1 --min-insync 1"
)
def apply(
    bootstrap: Bootstrap,
    partitions: Partitions = 64,
    replication: Replication = 3,
    min_insync: MinInsync = 2,
    topic_prefix: Prefix = "",
) -> None:
    """Create the topics that are missing; what exists is left as it is."""
    _check_copies(replication, min_insync)
    from kafkaio.admin import TopicsRefused, apply_topics

    try:
        lines = _on_kafka(
            bootstrap,
            apply_topics(
                _settings(bootstrap, topic_prefix),
                partitions_count=partitions,
                replication=replication,
                min_insync=min_insync,
            ),
        )
    except TopicsRefused as error:
        raise CliError(EXIT_REFUSED, f"the broker refused a topic: {error}") from None
    for line in lines:
        say(line)


@topics_app.command(
    epilog="Example: sluice topics verify --bootstrap localhost:9092 --replication 1 --min-insync 1"
)
def verify(
    bootstrap: Bootstrap,
    partitions: Partitions = 64,
    replication: Replication = 3,
    min_insync: MinInsync = 2,
    topic_prefix: Prefix = "",
) -> None:
    """Compare the topics with what is declared: a line for each difference, then exit code 1."""
    _check_copies(replication, min_insync)
    from kafkaio.admin import verify_topics

    mismatches = _on_kafka(
        bootstrap,
        verify_topics(
            _settings(bootstrap, topic_prefix),
            partitions_count=partitions,
            replication=replication,
            min_insync=min_insync,
        ),
    )
    for found in mismatches:
        say(f"{found.topic}: {found.setting} is {found.found}, expected {found.expected}")
    if mismatches:
        raise typer.Exit(EXIT_REFUSED)
    say("all topics are as declared")


def _check_copies(replication: int, min_insync: int) -> None:
    if min_insync > replication:
        raise typer.BadParameter("--min-insync can't be above --replication")


def _settings(bootstrap: str, topic_prefix: str) -> Any:
    from kafkaio.settings import KafkaSettings

    return KafkaSettings(
        bootstrap=bootstrap, access=_reach().kafka, client_id="sluice-cli", topic_prefix=topic_prefix
    )


def _reach() -> "Reach":
    """TLS, SASL and the database's password, which come from the environment alone: `SLUICE_KAFKA_*`, `_DATABASE_*`."""
    from admin.config import Reach
    from runtime.config import ConfigError, load

    try:
        return load(Reach, prefix="SLUICE")
    except ConfigError as error:
        raise CliError(EXIT_REFUSED, str(error)) from None


def _on_kafka(bootstrap: str, asked: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(KAFKA_S):
            return await asked

    from kafkaio.admin import BrokerAway, broker_fault

    try:
        return asyncio.run(bounded())
    except (BrokerAway, TimeoutError) as error:
        fault = asyncio.run(broker_fault(_settings(bootstrap, "")))
        raise CliError(EXIT_UNREACHABLE, f"Kafka at {bootstrap}: {fault} ({type(error).__name__})") from None
    except ValueError:
        raise CliError(EXIT_UNREACHABLE, f"Kafka at {bootstrap}: that is no host:port") from None


async def _migrate(database_url: str) -> list[str]:
    from ledger import migrate as migrations
    from ledger.access import fault_of
    from ledger.pool import LedgerUnavailable

    try:
        return await migrations.apply(database_url, access=_reach().database)
    except (LedgerUnavailable, OSError, TimeoutError) as error:
        raise CliError(
            EXIT_UNREACHABLE,
            f"the database can't be reached ({fault_of(error.__cause__)}): is --database-url right, does it take"
            " connections?",
        ) from None
