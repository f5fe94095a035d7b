"""`sluice campaign`: created, filled, launched, paused, resumed, cancelled."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from admin import cli_files, cli_watch
from admin.answers import CampaignLine, CampaignStatus, ImportReport
from admin.cli_api import LAUNCH_S, Api, api_of
from admin.cli_output import EXIT_REFUSED, note, say, say_json, say_table
from contracts.campaign import CampaignState, OnUnknown

_UNITS_S = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,9})\s*([a-z]*)\Z")

app = typer.Typer(no_args_is_help=True)

CampaignId = Annotated[
    int, typer.Argument(metavar="ID", min=1, help="The campaign's id, as `campaign list` shows it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for scripts.")]


def duration_s(text: str) -> int:
    """Return the seconds of `90`, `90s`, `15m`, `2h` or `3d`. Raises `typer.BadParameter`."""
    found = _DURATION.match(text.strip().lower())
    if found is None or found[2] not in _UNITS_S:
        raise typer.BadParameter(f"{text!r} is no duration: write 90s, 15m, 2h or 3d")
    return int(found[1]) * _UNITS_S[found[2]]


@app.command(
    epilog="Example: sluice campaign create --name 'Spring sale' --template spring_sale --language en_US"
    " --param first_name --param code --number 100000000000001"
)
def create(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="A name for people.")],
    template: Annotated[str, typer.Option(help="The approved template's name.")],
    number: Annotated[
        list[str],
        typer.Option(metavar="ID", help="Phone number ID to send from; repeat it to share the work."),
    ],
    language: Annotated[str, typer.Option(help="The template's language, as Meta writes it.")] = "en_US",
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Column of the file for {{1}}, then {{2}} …: repeat it in this order."
        ),
    ] = None,
    on_unknown: Annotated[
        OnUnknown,
        typer.Option(
            help="When nobody can say whether a message left: resend may double it, give_up may lose it."
        ),
    ] = OnUnknown.GIVE_UP,
    unknown_wait: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait for a status before that: 90s, 15m, 2h, 1d.")
    ] = "15m",
    valid_for: Annotated[
        str, typer.Option(metavar="TIME", help="What isn't sent so long after the launch expires.")
    ] = "3d",
    tries: Annotated[int, typer.Option(min=1, max=20, help="How often one recipient is tried at most.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Create a draft; it sends nothing until it is launched."""
    wanted = {
        "name": name,
        "template": {"name": template, "language": language, "body": param or []},
        "numbers": number,
        "on_unknown": on_unknown,
        "unknown_wait_s": duration_s(unknown_wait),
        "valid_for_s": duration_s(valid_for),
        "tries_max": tries,
    }
    created = api_of(context).post("/v1/campaigns", dict[str, int], wanted)
    if as_json:
        say_json(created)
    else:
        campaign_id = created["campaign_id"]
        say(f"created campaign {campaign_id}: next, sluice campaign import {campaign_id} FILE.csv")


@app.command(
    "import",
    epilog="Example: sluice campaign import 12 customers.csv --phone-column mobile --region GB",
)
def import_audience(
    context: typer.Context,
    campaign_id: CampaignId,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV with a header; comma, semicolon or tab; `-` is standard input."
        ),
    ],
    phone_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Where the phone number is, if its name doesn't tell."),
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="CC", help="Country of numbers without a country code, like GB.")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(help="Only for a file that is not UTF-8, like cp1252: wrong ones garble names."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with 1 if any row was rejected. The others are imported all the same."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add the rows of a file to a draft's audience: all of the sound ones, or nothing.

    Each row that is refused is told with its line. A person who occurs twice is taken once, as in the first row.
    """
    api = api_of(context)
    api.get(f"/v1/campaigns/{campaign_id}", CampaignStatus)  # who isn't allowed hears it before the upload
    asked = {"phone_column": phone_column, "region": region and region.upper(), "encoding": encoding}
    params = {key: value for key, value in asked.items() if value}
    target = f"/v1/campaigns/{campaign_id}/audience"
    report = cli_files.uploaded(api, target, file, ImportReport, params=params)
    if as_json:
        say_json(report)
    else:
        _say_report(report)
    if strict and report.rejected:
        raise typer.Exit(EXIT_REFUSED)


def _say_report(report: ImportReport) -> None:
    say(
        f"added {report.added}, rejected {report.rejected}, duplicates {report.duplicates}"
        f" of {report.rows} rows ({report.encoding}, delimiter {report.delimiter!r})"
    )
    cli_files.say_problems(report.problems, report.rejected + report.duplicates)


@app.command(epilog="Example: sluice campaign launch 12")
def launch(context: typer.Context, campaign_id: CampaignId) -> None:
    """Freeze the audience and start sending. Launching what runs already changes nothing."""
    launched = api_of(context).post(f"/v1/campaigns/{campaign_id}/launch", dict[str, int], answer_s=LAUNCH_S)
    say(f"campaign {campaign_id} is launched with {launched['audience_size']} recipients")


@app.command(epilog="Example: sluice campaign pause 12 --reason 'wrong picture'")
def pause(
    context: typer.Context,
    campaign_id: CampaignId,
    reason: Annotated[str | None, typer.Option(help="Why, for whoever looks at it next.")] = None,
) -> None:
    """Stop sending, until it is resumed."""
    _move(api_of(context), campaign_id, "pause", {"reason": reason} if reason else None)


@app.command(epilog="Example: sluice campaign resume 12")
def resume(context: typer.Context, campaign_id: CampaignId) -> None:
    """Go on exactly where it was paused."""
    _move(api_of(context), campaign_id, "resume")


@app.command(epilog="Example: sluice campaign cancel 12")
def cancel(context: typer.Context, campaign_id: CampaignId) -> None:
    """End a campaign for good; what was sent stays sent, and its statuses are still followed."""
    _move(api_of(context), campaign_id, "cancel")


def _move(api: Api, campaign_id: int, verb: str, body: object = None) -> None:
    moved = api.post(f"/v1/campaigns/{campaign_id}/{verb}", dict[str, Any], body)
    say(f"campaign {campaign_id} is {moved['state']}" + ("" if moved["changed"] else " already"))


@app.command(epilog="Example: sluice campaign status 12 --watch")
def status(
    context: typer.Context,
    campaign_id: CampaignId,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again until it has ended.")] = False,
    interval: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between two looks.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show what became of the recipients, how fast each number sends, and how long it will take."""
    api = api_of(context)

    def look() -> CampaignStatus:
        return api.get(f"/v1/campaigns/{campaign_id}", CampaignStatus)

    if watch:
        cli_watch.watch(look, interval_s=interval, as_json=as_json)
    elif as_json:
        say_json(look())
    else:
        cli_watch.say_status(look())


@app.command(epilog="Example: sluice campaign reasons 12")
def reasons(context: typer.Context, campaign_id: CampaignId, as_json: AsJson = False) -> None:
    """Count recipients by state, reason and Meta's error code: why were some not reached?"""
    found = api_of(context).get(f"/v1/campaigns/{campaign_id}/reasons", dict[str, list[dict[str, Any]]])[
        "reasons"
    ]
    if as_json:
        say_json(found)
        return
    columns = ("state", "reason", "code", "count")
    say_table(columns, [[row[column] for column in columns] for row in found])


@app.command("list", epilog="Example: sluice campaign list --state running")
def list_all(
    context: typer.Context,
    state: Annotated[CampaignState | None, typer.Option(help="Only those in this state.")] = None,
    as_json: AsJson = False,
) -> None:
    """List campaigns, the newest first (200 at most)."""
    params = {"state": state.value} if state else None
    found = api_of(context).get("/v1/campaigns", dict[str, list[CampaignLine]], params=params)["campaigns"]
    if as_json:
        say_json(found)
        return
    say_table(
        ("id", "state", "audience", "template", "created", "name"),
        [
            (
                c.campaign_id,
                c.state,
                c.audience_size,
                c.template_name,
                f"{c.created_at:%Y-%m-%d %H:%M}",
                c.name,
            )
            for c in found
        ],
    )
    if not found and state is None:
        note("there are no campaigns yet: sluice campaign create --help")
