"""How the `sluice` command speaks: tables, JSON, progress, and failures as one sentence with an exit code.

Invariant: what a script reads goes to standard output without colour; everything else goes to standard error.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO

import msgspec
from rich.console import Console
from rich.progress import wrap_file
from rich.table import Table

EXIT_REFUSED = 1
EXIT_UNREACHABLE = 69  # EX_UNAVAILABLE
EXIT_NOT_ALLOWED = 77  # EX_NOPERM


class CliError(Exception):
    """Ends the command with this exit code; the text is one sentence for the operator."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def say(text: str = "") -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(text + "\n")


def say_json(value: object) -> None:
    """Write a value as indented JSON."""
    say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def say_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table: drawn for a person at a terminal, else plain columns that `awk` can take."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    console = Console()
    if console.is_terminal:
        console.print(drawn_table(headers, cells))
        return
    widths = [max(len(row[at]) for row in (headers, *cells)) for at in range(len(headers))]
    for row in (headers, *cells):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def drawn_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table for a terminal; cells are text, never markup."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header)
    for row in rows:
        table.add_row(*(escaped(cell) for cell in row))
    return table


def escaped(text: str) -> str:
    """Return `text` so that rich shows it as it is."""
    return text.replace("[", "\\[")


def with_progress(file: BinaryIO, size_bytes: int, description: str) -> AbstractContextManager[Any]:
    """Return a reader of `file` that shows how far it is, if there is somebody at a terminal to see it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return nullcontext(file)
    return wrap_file(file, size_bytes, description=description, console=console)


def duration_text(seconds: float | None) -> str:
    """Return seconds for people: `45 s`, `12 min`, `3.5 h`, `2.0 d`; `-` for None."""
    if seconds is None:
        return "-"
    for limit, divisor, unit in ((90, 1, "s"), (5_400, 60, "min"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}" if unit != "h" else f"{seconds / divisor:.1f} h"
    return f"{seconds / 86_400:.1f} d"
