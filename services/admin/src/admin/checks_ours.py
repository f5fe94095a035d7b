"""The checks of what is ours: Postgres, Kafka, clocks, the numbers connected, and when each was last heard of."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from admin.finding import Check, Facts, Finding, Skew, Trouble, at, connected, failed, ok, skipped, some

CLOCK_S_MAX = 5.0
SILENCE_S_MAX = 600
"""Statuses of a message that was sent come within seconds; after this their absence is a fault."""


def database(facts: Facts, _now: datetime) -> Iterator[Finding]:
    if facts.database is None:
        yield ok(Check.DATABASE, "answers")
    else:
        remedy = "Start Postgres and let this machine reach it, or correct SLUICE_DATABASE_URL."
        yield failed(Check.DATABASE, facts.database.words, remedy)


def schema(facts: Facts, _now: datetime) -> Iterator[Finding]:
    match facts.schema_lacking:
        case Trouble(words=words):
            yield failed(Check.SCHEMA, words, "See why Postgres doesn't answer in time, then ask again.")
        case () | None:
            yield ok(Check.SCHEMA, "is what this release needs")
        case lacking:
            yield failed(Check.SCHEMA, f"lacks {some(lacking)}", "Run `sluice migrate`.")


def broker(facts: Facts, _now: datetime) -> Iterator[Finding]:
    if facts.broker is None:
        yield ok(Check.BROKER, "answers")
    else:
        remedy = "Start Kafka and let this machine reach it, or correct SLUICE_KAFKA_BOOTSTRAP."
        yield failed(Check.BROKER, facts.broker.words, remedy)


def topics(facts: Facts, _now: datetime) -> Iterator[Finding]:
    faults = facts.topic_faults or ()
    absent = tuple(fault.topic for fault in faults if fault.setting == "exists")
    if absent:
        remedy = "Run `sluice topics apply` with the --partitions, --replication and --min-insync that all topics have."
        yield failed(Check.TOPICS, f"missing: {some(absent)}", remedy)
    alike: dict[tuple[str, str, str], list[str]] = {}
    for fault in faults:
        if fault.setting != "exists":
            alike.setdefault((fault.setting, fault.expected, fault.found), []).append(fault.topic)
    for (setting, expected, there), names in alike.items():
        says = f"{some(tuple(names))}: {setting} is {there}, must be {expected}"
        yield failed(Check.TOPICS, says, _topic_remedy(setting, expected))
    if not faults:
        yield ok(Check.TOPICS, f"all {facts.topics_count} are as declared")


def _topic_remedy(setting: str, expected: str) -> str:
    match setting:
        case "partitions":
            return "Delete it while nothing runs, then run `sluice topics apply` with the --partitions of the others."
        case "replication":
            return "Reassign the partitions to more brokers with your broker's own tool."
        case _:
            return f"Set {setting}={expected} with your broker's own tool: `sluice topics` never changes a topic."


def clock(facts: Facts, _now: datetime) -> Iterator[Finding]:
    server = "this machine and of the database server"
    for whose, machines, needs, skew in (
        ("Graph", "this machine", Check.GRAPH, facts.graph_skew),
        ("Postgres", server, Check.DATABASE, facts.database_skew),
    ):
        if not isinstance(skew, Skew):
            yield skipped(Check.CLOCK, f"needs {needs}", whose)
        elif abs(skew.ahead_s) - skew.within_s <= CLOCK_S_MAX:
            yield ok(Check.CLOCK, f"within {CLOCK_S_MAX:g} s of ours", whose)
        else:
            way = "ahead of" if skew.ahead_s > 0 else "behind"
            says = f"{abs(skew.ahead_s):.0f} s {way} ours, {CLOCK_S_MAX:g} s are allowed"
            yield failed(Check.CLOCK, says, f"Let NTP set the clock of {machines}.", whose)


def numbers(facts: Facts, _now: datetime) -> Iterator[Finding]:
    match facts.numbers:
        case Trouble(words=words):
            yield failed(Check.NUMBERS, words, "See why Postgres doesn't answer in time, then ask again.")
        case () | None:
            remedy = "Run `sluice number add ID --waba WABA --portfolio PORTFOLIO` with the ids of Meta's WhatsApp Manager."
            yield failed(Check.NUMBERS, "none is connected", remedy)
        case numbers:
            yield ok(Check.NUMBERS, f"{len(numbers)} connected")


def last_webhook(facts: Facts, now: datetime) -> Iterator[Finding]:
    check = Check.LAST_WEBHOOK
    for number in connected(facts):
        name = number.phone_number_id
        if not isinstance(facts.hearings, Mapping):
            words = facts.hearings.words if isinstance(facts.hearings, Trouble) else "not asked"
            yield skipped(check, words, name)
            continue
        heard = facts.hearings[name]
        remedy = "Send it a message from a phone; if that isn't seen either, see that ingress and conversations run."
        if heard.heard_at is None:
            yield failed(check, "nothing was ever heard of it", remedy, name)
        elif _is_silent(heard.heard_at, heard.sent_at, now):
            assert heard.sent_at is not None
            says = f"{at(heard.heard_at)}; what was sent until {at(heard.sent_at)} got no status"
            remedy = "See that ingress and status_aggregator run, and that the callback URL is theirs."
            yield failed(check, says, remedy, name)
        else:
            yield ok(check, f"heard {at(heard.heard_at)}", name)


def _is_silent(heard_at: datetime, sent_at: datetime | None, now: datetime) -> bool:
    if sent_at is None:
        return False
    return min(now, sent_at).timestamp() - heard_at.timestamp() > SILENCE_S_MAX and (
        (now - sent_at).total_seconds() > SILENCE_S_MAX
    )
