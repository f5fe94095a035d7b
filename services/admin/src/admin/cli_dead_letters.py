"""`sluice dead-letters`: what consumers have set aside, told, shown, and handed to its group once more."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import quote

import typer

from admin.answers import DeadLetter, DeadLetterCount, DeadLetterReport, ReplayStep
from admin.cli_api import Api, api_of
from admin.cli_campaign import duration_s
from admin.cli_output import EXIT_REFUSED, CliError, note, say, say_json, say_table
from admin.letters import REFUSALS, printable

app = typer.Typer(no_args_is_help=True)

LIST = "/v1/dead-letters"
STEP_S = 60.0

Topic = Annotated[str | None, typer.Option(help="Only of this topic, like inbound-messages.")]
Group = Annotated[str | None, typer.Option(help="Only those that this consumer group has set aside.")]
Reason = Annotated[str | None, typer.Option(help="Only of this reason, like foreign_number.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Not older than 2h, 3d, or 2026-12-01T08:00 (UTC).")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Older than this; forms as for --since.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for scripts.")]


@app.command("list", epilog="Example: sluice dead-letters list --topic inbound-messages --since 1d")
def list_all(
    context: typer.Context,
    topic: Topic = None,
    group: Group = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=0, max=1_000, help="How many of the newest are told.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Count the dead letters by topic, group and reason, and tell the newest, without what they hold."""
    wanted = _wanted(topic=topic, group=group, reason=reason, since=since, until=until)
    report = _survey(api_of(context), wanted, limit)
    if as_json:
        say_json(report)
        return
    if not report.counts:
        note("there are no dead letters")
        return
    _say_counts(report.counts)
    if report.letters:
        say()
        say_table(
            ("when", "place", "group", "reason", "attempts", "key", "replayed"),
            [
                (_when(one.at), one.place, one.group, one.reason, one.attempts, printable(one.key or ""),
                 one.refused or (_when(one.replayed_at) if one.replayed_at else "-"))
                for one in report.letters
            ],
        )  # fmt: skip
    if not report.complete:
        note("there are more than could be counted in time: narrow it by --topic or --since")


@app.command(epilog="Example: sluice dead-letters show inbound-messages.dlq/3/17")
def show(
    context: typer.Context,
    place: Annotated[str, typer.Argument(metavar="PLACE", help="topic/partition/offset, as the list tells.")],
    body: Annotated[
        bool, typer.Option("--body", help="With key and body: they are a person's data, mind who sees them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: where it comes from, why it is there, its headers."""
    params = {"body": "true"} if body else {}
    found = api_of(context).get(_path(place), DeadLetter, params=params)
    if as_json:
        say_json(found)
        return
    letter = found.letter
    say(f"{letter.place}, set aside {_when(letter.at)} UTC by {letter.group or '-'}: {letter.reason or '-'}")
    say(f"attempts {letter.attempts or '-'}, origin {letter.origin or '-'}, {letter.value_bytes:,} bytes")
    say(f"key {printable(found.key or letter.key or '-')}")
    if found.refused_words is not None:
        say(f"can't be replayed: {found.refused_words}")
    elif letter.replayed_at is not None:
        say(f"replayed {_when(letter.replayed_at)} UTC")
    for header in found.headers:
        say(
            f"{printable(header.name)}: {'(only with --body)' if header.content is None else printable(header.content)}"
        )
    if body:
        say()
        say(printable(found.body) if found.body is not None else f"base64: {found.body_base64 or ''}")


@app.command(epilog="Example: sluice dead-letters replay --topic inbound-messages --reason foreign_number")
def replay(
    context: typer.Context,
    place: Annotated[
        str | None,
        typer.Argument(metavar="[PLACE]", help="One letter; without it, all that the options name."),
    ] = None,
    topic: Topic = None,
    group: Group = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    rate: Annotated[float, typer.Option(min=1, max=1_000, help="Records a second, at most.")] = 50.0,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Also those that were replayed before; a group knows what it has handled."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell how many would be replayed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put dead letters back on their topic, for the group that failed on them alone; asks before it does.

    Interrupted, it ends within seconds, and the same command goes on where it was.
    """
    api = api_of(context)
    wanted = _wanted(topic=topic, group=group, reason=reason, since=since, until=until)
    if place is not None:
        if wanted or dry_run:
            raise typer.BadParameter(
                "with a PLACE there is nothing to choose: see `sluice dead-letters show`"
            )
        _say_done([api.post(f"{_path(place)}/replay", ReplayStep, {"again": again})], as_json)
        return
    report = _survey(api, wanted, 0)
    if not report.complete:
        raise CliError(
            EXIT_REFUSED, "there are more than could be counted in time: narrow it by --topic or --since"
        )
    count = sum(one.replayable + (one.replayed if again else 0) for one in report.counts)
    if dry_run and as_json:
        say_json({"would_replay": count, "until": report.until, "counts": report.counts})
        return
    if not (as_json or yes) or dry_run:
        _say_counts(report.counts)
    if dry_run:
        say(f"would replay {count}")
        return
    if count and not yes:
        typer.confirm(f"replay {count} now, at most {rate:g} a second?", abort=True, err=True)
    order = {**wanted, "until": report.until, "again": again, "rate_per_s": rate}
    _say_done(_steps(api, order, count) if count else [], as_json)


def _steps(api: Api, order: dict[str, object], count: int) -> list[ReplayStep]:
    steps = [api.post(f"{LIST}/replay", ReplayStep, order, answer_s=STEP_S)]
    while (after := steps[-1].next) is not None:
        note(f"replayed {sum(step.replayed for step in steps)} of {count}")
        steps.append(api.post(f"{LIST}/replay", ReplayStep, {**order, "after": after}, answer_s=STEP_S))
    return steps


def _say_done(steps: list[ReplayStep], as_json: bool) -> None:
    replayed, already = sum(step.replayed for step in steps), sum(step.already for step in steps)
    refused: Counter[str] = Counter()
    for step in steps:
        refused.update(step.refused)
    if as_json:
        say_json({"replayed": replayed, "already": already, "refused": dict(refused)})
        return
    say(f"replayed {replayed}, left out {already} that were replayed before")
    _say_refused(refused)


def _say_counts(counts: tuple[DeadLetterCount, ...]) -> None:
    refused: Counter[str] = Counter()
    for one in counts:
        refused.update(one.refused)
    say_table(
        ("topic", "group", "reason", "replayable", "replayed", "can't be"),
        [
            (one.topic, one.group, one.reason, one.replayable, one.replayed, sum(one.refused.values()))
            for one in counts
        ],
    )
    _say_refused(refused)


def _say_refused(refused: Counter[str]) -> None:
    for why, count in sorted(refused.items()):
        say(f"{count} can't be replayed ({why}): {REFUSALS.get(why, why)}")


def _survey(api: Api, wanted: dict[str, str], limit: int) -> DeadLetterReport:
    return api.get(LIST, DeadLetterReport, params={**wanted, "limit": str(limit)})


def _wanted(**given: str | None) -> dict[str, str]:
    moments = {name: _moment(text) for name in ("since", "until") if (text := given.pop(name)) is not None}
    return {name: text for name, text in given.items() if text is not None} | {
        name: moment.isoformat() for name, moment in moments.items()
    }


def _moment(text: str) -> datetime:
    if text.strip().isalnum() and not text.strip().isdigit():
        return datetime.now(UTC) - timedelta(seconds=duration_s(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write 2h, 3d or 2026-12-01T08:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _path(place: str) -> str:
    return f"{LIST}/{quote(place, safe='/')}"


def _when(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
