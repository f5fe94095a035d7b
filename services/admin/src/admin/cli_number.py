"""`sluice number`: the business phone numbers that send."""

from typing import Annotated, Any

import typer

from admin.cli_api import api_of
from admin.cli_output import say, say_json, say_table

app = typer.Typer(no_args_is_help=True)

_COLUMNS = ("phone_number_id", "waba_id", "portfolio_id", "display", "limit_per_s", "setting_per_s", "slot")


@app.command(
    epilog="Example: sluice number add 100000000000001 --waba 200000000000001 --portfolio 300000000000001"
)
def add(
    context: typer.Context,
    number: Annotated[
        str, typer.Argument(metavar="ID", help="The phone number ID (digits), not the number itself.")
    ],
    waba: Annotated[str, typer.Option(help="ID of its WhatsApp Business Account.")],
    portfolio: Annotated[str, typer.Option(help="ID of the business portfolio that the account belongs to.")],
    display: Annotated[str, typer.Option(help="A name for people.")] = "",
    limit: Annotated[
        int, typer.Option(min=1, max=1000, help="Messages a second that Meta allows: 80, or up to 1,000.")
    ] = 80,
    setting: Annotated[
        int | None,
        typer.Option(min=0, help="Messages a second that we send at most; 95 % of the limit if not given."),
    ] = None,
) -> None:
    """Connect a number, or change what is known of it."""
    wanted: dict[str, Any] = {
        "phone_number_id": number,
        "waba_id": waba,
        "portfolio_id": portfolio,
        "display": display,
        "limit_per_s": limit,
    }
    if setting is not None:
        wanted["setting_per_s"] = setting
    added = api_of(context).post("/v1/numbers", dict[str, Any], wanted)
    say(
        f"number {added['phone_number_id']} sends at most {added['setting_per_s']}/s of {added['limit_per_s']}/s"
    )


@app.command("list", epilog="Example: sluice number list")
def list_all(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for scripts.")] = False,
) -> None:
    """List the connected numbers."""
    found = api_of(context).get("/v1/numbers", dict[str, list[dict[str, Any]]])["numbers"]
    if as_json:
        say_json(found)
    else:
        say_table(_COLUMNS, [[number[column] for column in _COLUMNS] for number in found])
