"""`sluice recipients`: every recipient with what became of it."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from admin import cli_files
from admin.cli_api import api_of

app = typer.Typer(no_args_is_help=True)


@app.callback()
def recipients() -> None:
    """Every recipient with what became of it."""


class Format(StrEnum):
    """How the file is written."""

    CSV = "csv"
    NDJSON = "ndjson"


@app.command(epilog="Example: sluice recipients export 12 -o campaign-12.csv")
def export(
    context: typer.Context,
    campaign_id: Annotated[int, typer.Argument(metavar="ID", min=1, help="The campaign's id.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; else standard output.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="CSV, or a JSON object a line.")] = Format.CSV,
) -> None:
    """Write all recipients of a launched campaign, with state, reason, error code and times (UTC).

    A named file appears only when it is complete.
    """
    pieces = api_of(context).download(
        f"/v1/campaigns/{campaign_id}/recipients.csv", params={"format": form.value}
    )
    cli_files.write(pieces, output)
