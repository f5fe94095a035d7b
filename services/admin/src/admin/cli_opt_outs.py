"""`sluice opt-outs`: who must not be written to, as a file out and in."""

from pathlib import Path
from typing import Annotated

import typer

from admin import cli_files
from admin.answers import OptOutReport
from admin.cli_api import api_of
from admin.cli_output import EXIT_REFUSED, CliError, say, say_json

app = typer.Typer(no_args_is_help=True)

Portfolio = Annotated[str, typer.Option(metavar="ID", help="The business portfolio whose contacts they are.")]
_ID = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


@app.command(epilog="Example: sluice opt-outs export --portfolio 300000000000001 opt-outs.csv")
def export(
    context: typer.Context,
    portfolio: Portfolio,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; `-` is standard output.")],
) -> None:
    """Write everybody who must not be written to, with reason, source and time (UTC).

    The file appears only when it is complete.
    """
    pieces = api_of(context).download(_path(portfolio), params={})
    cli_files.write(pieces, None if str(file) == "-" else file)


@app.command("import", epilog="Example: sluice opt-outs import --portfolio 300000000000001 stop-list.csv")
def import_list(
    context: typer.Context,
    portfolio: Portfolio,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV with a header; `-` is standard input.")],
    phone_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Where the phone number is, if its name doesn't tell."),
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="CC", help="Country of numbers without a country code, like GB.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Only for a file that is not UTF-8, like cp1252.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 if any row was rejected; the others count all the same."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for scripts.")] = False,
) -> None:
    """Opt out everybody in the file, for all numbers of the portfolio. The same file twice does nothing more."""
    asked = {"phone_column": phone_column, "region": region and region.upper(), "encoding": encoding}
    params = {key: value for key, value in asked.items() if value}
    report = cli_files.uploaded(api_of(context), _path(portfolio), file, OptOutReport, params=params)
    if as_json:
        say_json(report)
    else:
        say(
            f"opted out {report.opted_out}, already {report.already}, rejected {report.rejected}"
            f" of {report.rows} rows ({report.encoding}, delimiter {report.delimiter!r})"
        )
        cli_files.say_problems(report.problems, report.rejected)
    if strict and report.rejected:
        raise typer.Exit(EXIT_REFUSED)


def _path(portfolio: str) -> str:
    if not portfolio or not set(portfolio) <= _ID or set(portfolio) <= {"."}:
        raise CliError(EXIT_REFUSED, f"{portfolio!r} is no portfolio's id")
    return f"/v1/portfolios/{portfolio}/opt-outs.csv"
