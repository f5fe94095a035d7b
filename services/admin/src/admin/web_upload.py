"""Files on their way in: pieces within bounds, and how they are to be read.

Invariant: no piece is waited for without end, and no file is read beyond its limit.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from starlette.requests import ClientDisconnect, Request

from admin.answers import ApiError
from admin.csv_audience import AudienceFile
from admin.csv_text import FileRefused

PIECE_S = 20.0  # how long the next piece of a file may take


def audience_file(request: Request, parameters: Sequence[str]) -> AudienceFile:
    """Return a reader of the file, as the query says how to. Raises `FileRefused`."""
    asked = request.query_params
    return AudienceFile(
        parameters,
        phone_column=asked.get("phone_column") or None,
        region=asked.get("region") or None,
        encoding=asked.get("encoding", "").lower() or None,
    )


async def pieces_of(request: Request, *, bytes_max: int, undone: str) -> AsyncGenerator[bytes, None]:
    """Yield the body. Raises `ApiError` when it stalls, breaks off or is too large; `undone` says what that leaves."""
    size_bytes = 0
    pieces = request.stream()
    while (piece := await _next_piece(pieces, undone)) is not None:
        size_bytes += len(piece)
        if size_bytes > bytes_max:
            raise ApiError(413, "too_large", f"The file must be below {bytes_max:,} bytes: split it.")
        yield piece


def refused(error: FileRefused) -> ApiError:
    """Return the answer for a file that can't be read."""
    text = str(error)
    return ApiError(422, error.code, text[:1].upper() + text[1:] + ".")


async def _next_piece(pieces: AsyncGenerator[bytes, None], undone: str) -> bytes | None:
    try:
        async with asyncio.timeout(PIECE_S):
            return await anext(pieces, None)
    except TimeoutError:
        raise ApiError(408, "too_slow", f"No more of the file came for {PIECE_S:g} s: {undone}.") from None
    except ClientDisconnect:
        raise ApiError(400, "gone", f"The file ended early: {undone}.") from None
