"""`sluice doctor`: looks whether everything that sending and receiving need is there, with the services' own environment.

Invariant: it asks and never changes anything; no token, secret or person's number is printed.
"""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from msgspec import Meta, Struct

from admin.cli_output import EXIT_REFUSED, CliError, say, say_json
from admin.finding import Facts, Finding, Verdict
from kafkaio.access import KafkaAccess
from ledger.access import DatabaseAccess
from runtime.clock import SYSTEM_CLOCK
from runtime.config import ConfigError, Secret, Secrets, load

EXIT_USAGE = 2


class Environment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`SLUICE_*` as the services read it; `DOCTOR_*` wins."""

    kafka_bootstrap: str
    kafka: KafkaAccess = KafkaAccess()
    database_url: Secret
    database: DatabaseAccess = DatabaseAccess()
    access_token: Secret
    app_secrets: Secrets = Secrets()
    graph_url: str = "https://graph.facebook.com"
    graph_version: Annotated[str, Meta(pattern=r"^v\d+\.\d+$")] = "v26.0"
    topic_prefix: str = ""


class Report(Struct, frozen=True):
    """What `--json` prints."""

    healthy: bool
    findings: Sequence[Finding]


def doctor(
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions that each topic must have; any, if they agree.")
    ] = None,
    replication: Annotated[int | None, typer.Option(min=1, help="Copies that each must have.")] = None,
    min_insync: Annotated[
        int | None, typer.Option(min=1, help="Copies that must be in step for a write.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for scripts.")] = False,
) -> None:
    """Check token, permissions, webhooks, numbers, Kafka, Postgres and clocks; say what to do about what fails.

    Reads SLUICE_KAFKA_BOOTSTRAP, _DATABASE_URL, _ACCESS_TOKEN, _APP_SECRETS, _GRAPH_URL, _GRAPH_VERSION and
    _TOPIC_PREFIX, or the files that they name with _FILE appended. Exit code 1 if a check failed.
    """
    try:
        environment = load(Environment, prefix="DOCTOR")
    except ConfigError as error:
        raise CliError(EXIT_USAGE, str(error)) from None
    from admin.doctor import findings

    facts = asyncio.run(_facts(environment, partitions, replication, min_insync))
    found = findings(facts, now=datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC))
    healthy = all(one.verdict is not Verdict.FAILED for one in found)
    if as_json:
        say_json(Report(healthy, found))
    else:
        for line in lines_of(found):
            say(line)
    if not healthy:
        raise typer.Exit(EXIT_REFUSED)


async def _facts(
    environment: Environment, partitions: int | None, replication: int | None, min_insync: int | None
) -> Facts:
    from admin.examination import ASK_S, CONNECT_S, examine
    from cloudapi.client import GraphClient
    from kafkaio.settings import KafkaSettings

    kafka = KafkaSettings(
        bootstrap=environment.kafka_bootstrap,
        access=environment.kafka,
        client_id="sluice-doctor",
        topic_prefix=environment.topic_prefix,
    )
    async with GraphClient.open(
        environment.graph_url,
        environment.graph_version,
        environment.access_token.reveal(),
        timeout_s=ASK_S,
        connect_s=CONNECT_S,
    ) as graph:
        return await examine(
            database_url=environment.database_url,
            database=environment.database,
            kafka=kafka,
            graph=graph,
            app_secrets=environment.app_secrets,
            partitions=partitions,
            replication=replication,
            min_insync=min_insync,
            clock=SYSTEM_CLOCK,
        )


def lines_of(found: Sequence[Finding]) -> Iterator[str]:
    """Return the findings for a person: a line each, the remedy below what failed, a count at the end."""
    subjects = max((len(one.subject) for one in found), default=0)
    for one in found:
        yield f"{one.verdict:<7}  {one.check:<17}  {one.subject:<{subjects}}  {one.says}".rstrip()
        if one.remedy:
            yield f"         -> {one.remedy}"
    counts = {verdict: sum(one.verdict is verdict for one in found) for verdict in Verdict}
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
