"""Gathers the facts for `sluice doctor`: Postgres, Kafka and Graph at the same time, and within each what is independent.

Invariant: every question has `ASK_S` to be answered, and whatever fails becomes a fact; nothing is written anywhere.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import TypeVar

from msgspec.structs import replace

from admin.finding import Facts, Skew, TopicFault, Trouble
from cloudapi.client import Answer, GraphClient
from cloudapi.nodes import Refused, Subscription, TokenInfo
from cloudapi.wire import TransportFailed, TransportFault
from contracts.topics import TOPICS
from kafkaio.admin import BrokerAway, verify_topics
from kafkaio.settings import KafkaSettings
from ledger import hearing, migrate, numbers
from ledger.access import DatabaseAccess
from ledger.pool import Ledger, LedgerUnavailable
from runtime.clock import Clock
from runtime.config import Secret, Secrets

T = TypeVar("T")

ASK_S = 10.0
CONNECT_S = 5.0
DATE_STEP_S = 1.0
"""A Date header is a whole second, and may be set once a second."""
LATE = Trouble(f"no answer within {ASK_S:g} s")
_WORDS = {
    TransportFault.NOT_CONNECTED: "no connection",
    TransportFault.UNUSABLE_TOKEN: "the token holds characters that no token has",
    TransportFault.TIMEOUT: LATE.words,
    TransportFault.CONNECTION_LOST: "the connection broke",
    TransportFault.GARBAGE: "the answer is not HTTP",
}


async def examine(
    *,
    database_url: Secret,
    database: DatabaseAccess,
    kafka: KafkaSettings,
    graph: GraphClient,
    app_secrets: Secrets,
    partitions: int | None,
    replication: int | None,
    min_insync: int | None,
    clock: Clock,
) -> Facts:
    """Return what could be learned."""
    async with asyncio.TaskGroup() as tasks:
        postgres = tasks.create_task(_postgres(database_url, database, clock))
        broker = tasks.create_task(_topics(kafka, partitions, replication, min_insync))
        token = tasks.create_task(_token(graph, app_secrets, clock))
    facts = _joined(postgres.result(), broker.result(), token.result())
    return await _accounts(facts, graph)


def _joined(postgres: Facts, broker: Facts, token: Facts) -> Facts:
    """One record of three that each know their own part."""
    return replace(
        postgres,
        broker=broker.broker,
        topic_faults=broker.topic_faults,
        topics_count=broker.topics_count,
        graph=token.graph,
        graph_root=token.graph_root,
        graph_skew=token.graph_skew,
        token=token.token,
        subscriptions=token.subscriptions,
    )


# --- Postgres ---


async def _postgres(database_url: Secret, access: DatabaseAccess, clock: Clock) -> Facts:
    opening = Ledger.open(
        database_url, access=access, shard=0, statement_s=ASK_S / 2, application="sluice-doctor"
    )
    async with opening as ledger:
        skew = await _from_ledger(lambda: _database_skew(ledger, clock))
        if isinstance(skew, Trouble):
            return Facts(database=skew)
        lacking = await _from_ledger(lambda: _lacking(ledger))
        facts = Facts(database_skew=skew, schema_lacking=lacking)
        if lacking != ():
            return facts
        connected = await _from_ledger(lambda: numbers.listed(ledger))
        if isinstance(connected, Trouble):
            return replace(facts, numbers=connected)
        ids = [number.phone_number_id for number in connected]
        heard = await _from_ledger(lambda: hearing.last_heard(ledger, phone_number_ids=ids))
        return replace(facts, numbers=tuple(connected), hearings=heard)


async def _from_ledger(ask: Callable[[], Awaitable[T]]) -> T | Trouble:
    try:
        async with asyncio.timeout(ASK_S):
            return await ask()
    except LedgerUnavailable as error:
        return Trouble(f"no answer ({str(error).rpartition(' ')[2]})")
    except TimeoutError:
        return LATE


async def _lacking(ledger: Ledger) -> tuple[str, ...]:
    async with ledger.connection("schema") as connection:
        return tuple(await migrate.missing(connection))


async def _database_skew(ledger: Ledger, clock: Clock) -> Skew:
    began = clock.wall()
    theirs = await ledger.wall_s()
    return _skew(theirs, began, clock.wall(), step_s=0.0)


# --- Kafka ---


async def _topics(
    kafka: KafkaSettings, partitions: int | None, replication: int | None, min_insync: int | None
) -> Facts:
    try:
        async with asyncio.timeout(ASK_S):
            found = await verify_topics(
                kafka, partitions_count=partitions, replication=replication, min_insync=min_insync
            )
    except TimeoutError:
        return Facts(broker=LATE)
    # The driver's own errors are RuntimeErrors; a bootstrap without host:port is a ValueError.
    except (BrokerAway, RuntimeError, OSError, ValueError) as error:
        return Facts(broker=Trouble(f"no answer ({type(error).__name__})"))
    faults = tuple(
        TopicFault(topic=one.topic, setting=one.setting, expected=one.expected, found=one.found)
        for one in found
    )
    return Facts(topic_faults=faults, topics_count=len(TOPICS))


# --- Graph ---


async def _token(graph: GraphClient, app_secrets: Secrets, clock: Clock) -> Facts:
    began = clock.wall()
    try:
        answer = await graph.token_info()
    except TransportFailed as failure:
        if failure.reason is TransportFault.UNUSABLE_TOKEN:  # nobody was asked
            return Facts(token=Refused(0, 190))
        return Facts(graph=Trouble(_WORDS[failure.reason]))
    said = answer.said
    if isinstance(said, Refused) and said.code is None:
        return Facts(graph=Trouble(f"what answers is not the Graph API: HTTP {said.http_status}"))
    facts = Facts(token=said, graph_root=graph.root, graph_skew=_date_skew(answer, began, clock.wall()))
    if isinstance(said, TokenInfo) and said.is_valid and app_secrets:
        return replace(facts, subscriptions=await _subscriptions(graph, said.app_id, app_secrets))
    return facts


async def _subscriptions(
    graph: GraphClient, app_id: str, app_secrets: Secrets
) -> tuple[Subscription, ...] | Refused | Trouble:
    """What the app asked to be told; during a rotation one of its secrets is the one that Graph knows."""
    said: tuple[Subscription, ...] | Refused | Trouble = ()
    for secret in app_secrets:
        said = await _from_graph(graph.subscriptions(app_id, secret.reveal()))
        if not (isinstance(said, Refused) and said.is_token):
            break
    return said


async def _accounts(facts: Facts, graph: GraphClient) -> Facts:
    """Ask about each WABA and number, once it is known that the token is one."""
    connected, token = facts.numbers, facts.token
    if not (isinstance(connected, tuple) and isinstance(token, TokenInfo) and token.is_valid):
        return facts
    wabas = sorted({number.waba_id for number in connected})
    ids = [number.phone_number_id for number in connected]
    async with asyncio.TaskGroup() as tasks:
        apps = tasks.create_task(_each(wabas, graph.subscribed_apps))
        listed = tasks.create_task(_each(wabas, graph.phone_numbers))
        nodes = tasks.create_task(_each(ids, graph.number))
    return replace(facts, apps=apps.result(), listed=listed.result(), nodes=nodes.result())


async def _each(
    ids: Iterable[str], ask: Callable[[str], Awaitable[Answer[T]]]
) -> dict[str, T | Refused | Trouble]:
    async def answer_about(one: str) -> T | Refused | Trouble:
        said = await _from_graph(ask(one))
        return said  # noqa: RET504  # in one line mypy takes T for the whole union

    async with asyncio.TaskGroup() as tasks:  # the client holds few connections, so few ask at once
        asked = {one: tasks.create_task(answer_about(one)) for one in ids}
    return {one: task.result() for one, task in asked.items()}


async def _from_graph(asked: Awaitable[Answer[T]]) -> T | Refused | Trouble:
    try:
        async with asyncio.timeout(ASK_S):
            answer = await asked
        return answer.said
    except TransportFailed as failure:
        return Trouble(_WORDS[failure.reason])
    except TimeoutError:
        return LATE


# --- clocks ---


def _date_skew(answer: Answer[TokenInfo], began: float, ended: float) -> Skew | None:
    try:
        theirs = parsedate_to_datetime(answer.date or "").timestamp()
    except ValueError:
        return None
    return _skew(theirs, began, ended, step_s=DATE_STEP_S)


def _skew(theirs: float, began: float, ended: float, *, step_s: float) -> Skew:
    """Their clock was read somewhere between our two readings, and up to `step_s` after the second it shows."""
    ours = (began + ended) / 2
    return Skew(theirs + step_s / 2 - ours, (ended - began) / 2 + step_s)
