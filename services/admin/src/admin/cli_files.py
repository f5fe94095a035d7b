"""Files of the `sluice` command: sent with their progress, written whole or not at all, and the rows they were refused."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from admin.cli_api import Api
from admin.cli_output import EXIT_REFUSED, CliError, note, say, with_progress
from admin.csv_audience import Problem
from admin.row_fault import WORDS

PIECE_BYTES = 256 * 1024
T = TypeVar("T")


def uploaded(api: Api, target: str, path: Path, answer_type: type[T], *, params: dict[str, str]) -> T:
    """Return the answer to the file's upload; `-` is standard input. Raises `CliError`."""
    if str(path) == "-":
        return api.upload(target, _pieces(sys.stdin.buffer), answer_type, params=params)
    try:
        with path.open("rb") as file, with_progress(file, path.stat().st_size, path.name) as shown:
            return api.upload(target, _pieces(shown), answer_type, params=params)
    except OSError as error:
        raise CliError(
            EXIT_REFUSED, f"{path} can't be read ({error.strerror or type(error).__name__})"
        ) from None


def write(pieces: Iterable[bytes], output: Path | None) -> None:
    """Write the pieces to standard output (None), or to a file that appears when it is complete. Raises `CliError`."""
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


def say_problems(problems: Sequence[Problem], refused_count: int) -> None:
    """Write a line for each row that was refused, and how many of `refused_count` aren't told."""
    for problem in problems:
        lines = f"line {problem.line}"
        if problem.lines_count > 1:
            lines = f"lines {problem.line}-{problem.line + problem.lines_count - 1}"
        where = f", column {problem.column}" if problem.column else ""
        say(f"{lines}{where}: {WORDS[problem.reason]}")
    untold = refused_count - len(problems)
    if untold > 0:
        say(f"and {untold} more")


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece
