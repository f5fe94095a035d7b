"""The `sluice` command: numbers, campaigns and recipients over the HTTP API; schema and topics directly.

Exit codes: 0 done, 1 refused or different, 2 wrong usage, 69 nobody answers, 77 not allowed.
"""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from admin import (
    cli_campaign,
    cli_dead_letters,
    cli_doctor,
    cli_halt,
    cli_number,
    cli_opt_outs,
    cli_recipients,
    cli_setup,
    cli_why,
)
from admin.cli_api import Api, token_from
from admin.cli_output import CliError, note

EXIT_INTERRUPTED = 130

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="Start here: sluice migrate, sluice topics apply, then number add, campaign create, import, launch, status"
    " --watch. Exit codes: 0 done, 1 refused, 2 wrong usage, 69 nobody answers, 77 not allowed.",
)


@app.callback()
def sluice(
    context: typer.Context,
    url: Annotated[
        str, typer.Option(envvar="SLUICE_ADMIN_URL", help="Address of the admin API.")
    ] = "http://127.0.0.1:8090",
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="SLUICE_ADMIN_TOKEN_FILE",
            metavar="FILE",
            help="File with the API's token; or set SLUICE_ADMIN_TOKEN to the token itself.",
        ),
    ] = None,
    token: Annotated[str | None, typer.Option(envvar="SLUICE_ADMIN_TOKEN", hidden=True)] = None,
) -> None:
    """Send WhatsApp campaigns with Sluice: at the pace each number may take, with the fate of every recipient known."""
    context.obj = api = Api(url, token_from(token_file, token))
    context.call_on_close(api.close)


app.command("migrate", epilog="Example: sluice migrate --database-url postgresql://sluice@localhost/sluice")(
    cli_setup.migrate
)
app.command("doctor", epilog="Example: sluice doctor --replication 3 --min-insync 2")(cli_doctor.doctor)
app.add_typer(cli_setup.topics_app, name="topics", help="Create and check the Kafka topics.")
app.add_typer(cli_number.app, name="number", help="Business phone numbers that send.")
app.add_typer(cli_campaign.app, name="campaign", help="Create, fill, launch, pause and watch campaigns.")
app.add_typer(cli_recipients.app, name="recipients", help="Every recipient with what became of it.")
app.add_typer(cli_halt.app, name="halt", help="Halt a campaign, a number, a WABA or everything, at once.")
app.add_typer(cli_opt_outs.app, name="opt-outs", help="Who must not be written to, as a file out and in.")
app.add_typer(
    cli_dead_letters.app, name="dead-letters", help="What could not be handled: told, shown, replayed."
)
app.command("why", epilog="Example: sluice why 12 +447700900001")(cli_why.why)


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    logging.disable(
        logging.CRITICAL
    )  # drivers' own remarks; what an operator must know is said in one sentence
    command: Any = typer.main.get_command(app)
    try:
        command.main(args=list(arguments), prog_name="sluice", standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except CliError as error:
        note(f"sluice: {error}")
        return error.code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        logging.disable(logging.NOTSET)
    return 0


def main() -> None:
    """The console script."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, like `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
