"""`sluice halt`: a campaign, a number, a WABA or everything stands still until it is lifted by name."""

from typing import Annotated, Any

import typer

from admin.answers import HaltLine, HaltPlaced
from admin.cli_api import Api, api_of
from admin.cli_output import note, say, say_json, say_table

app = typer.Typer(no_args_is_help=True)

SCOPES = ("campaign", "number", "waba", "all")
EVERYTHING = "*"
Why = Annotated[str | None, typer.Option("--reason", help="Why, for whoever looks at it next.")]


@app.command(epilog="Example: sluice halt campaign 12 --reason 'wrong picture'")
def campaign(
    context: typer.Context,
    campaign_id: Annotated[int, typer.Argument(metavar="ID", min=1, help="The campaign's id.")],
    reason: Why = None,
) -> None:
    """Halt a campaign on all its numbers."""
    _place(api_of(context), "campaign", str(campaign_id), reason)


@app.command(epilog="Example: sluice halt number 100000000000001")
def number(
    context: typer.Context,
    number_id: Annotated[str, typer.Argument(metavar="ID", help="The phone number ID.")],
    reason: Why = None,
) -> None:
    """Halt all that a number sends."""
    _place(api_of(context), "number", number_id, reason)


@app.command(epilog="Example: sluice halt waba 200000000000001")
def waba(
    context: typer.Context,
    waba_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the WhatsApp Business Account.")],
    reason: Why = None,
) -> None:
    """Halt all numbers of a WhatsApp Business Account."""
    _place(api_of(context), "waba", waba_id, reason)


@app.command("all", epilog="Example: sluice halt all --reason 'prices are wrong'")
def everything(context: typer.Context, reason: Why = None) -> None:
    """Halt everything."""
    _place(api_of(context), "all", EVERYTHING, reason)


@app.command("list", epilog="Example: sluice halt list")
def list_all(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for scripts.")] = False,
) -> None:
    """List what is halted, by whom and why."""
    found = api_of(context).get("/v1/halts", dict[str, list[HaltLine]])["halts"]
    if as_json:
        say_json(found)
        return
    say_table(
        ("scope", "id", "since", "by", "reason"),
        [(h.scope, h.key, f"{h.since:%Y-%m-%d %H:%M}", h.actor, h.reason) for h in found],
    )
    if not found:
        note("nothing is halted")


@app.command(epilog="Example: sluice halt lift campaign 12")
def lift(
    context: typer.Context,
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="campaign, number, waba or all.")],
    key: Annotated[str | None, typer.Argument(metavar="ID", help="What is halted; none for all.")] = None,
) -> None:
    """Lift one halt, by its name; others that stop the same rows stay."""
    if scope not in SCOPES:
        raise typer.BadParameter(f"{scope!r} is no scope: write campaign, number, waba or all")
    if (scope == "all") != (key is None):
        raise typer.BadParameter("`all` takes no ID, every other scope does")
    if key is not None and not (key.isascii() and key.isdecimal()):
        raise typer.BadParameter(f"{key!r} is no id: ids are digits")
    lifted = api_of(context).delete(f"/v1/halts/{scope}/{key or EVERYTHING}", dict[str, Any])
    named = name_of(lifted["scope"], lifted["key"])
    say(f"the halt of {named} is lifted" if lifted["changed"] else f"there is no halt of {named}")


def name_of(scope: str, key: str) -> str:
    """Return what a halt stops, for people."""
    return "everything" if scope == "all" else f"{scope} {key}"


def _place(api: Api, scope: str, key: str, reason: str | None) -> None:
    wanted = {"scope": scope, "key": key} | ({"reason": reason} if reason else {})
    placed = api.post("/v1/halts", HaltPlaced, wanted)
    halt = placed.halt
    named = name_of(halt.scope, halt.key)
    if placed.changed:
        lifting = "all" if halt.scope == "all" else f"{halt.scope} {halt.key}"
        say(f"{named} is halted: to go on, sluice halt lift {lifting}")
    else:
        say(
            f"{named} is halted already, by {halt.actor} since {halt.since:%Y-%m-%d %H:%M} UTC: {halt.reason}"
        )
