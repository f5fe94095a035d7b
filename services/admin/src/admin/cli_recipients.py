"""`sluice recipients`: every recipient with what became of it."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from admin.cli_api import api_of
from admin.cli_output import EXIT_REFUSED, CliError, note

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
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    part = output.with_name(output.name + ".part")
    try:
        with part.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        part.replace(output)
    except OSError as error:
        raise CliError(EXIT_REFUSED, f"{output} can't be written ({error.strerror or 'failed'})") from None
    finally:
        part.unlink(missing_ok=True)
    note(f"wrote {output}")
