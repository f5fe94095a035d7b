"""A request's parts, read within bounds and checked once.

Invariant: no body is held that is larger than its limit, and no wait for one is without end.
"""

import asyncio
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from admin.answers import ApiError

T = TypeVar("T")

ACTOR = "operator"
"""Who commands: whoever has a token, until tokens have names."""
JSON_BYTES_MAX = 1024 * 1024
JSON_S = 10.0
_ID_MAX = 2**63 - 1


async def json_body(request: Request, body_type: type[T], *, default: T | None = None) -> T:
    """Return the body as `body_type`; an empty one is `default`, if there is one. Raises `ApiError`."""
    body = await _read(request)
    if not body and default is not None:
        return default
    require_media_type(request, "application/json")
    try:
        return msgspec.json.decode(body, type=body_type)
    except msgspec.DecodeError as error:  # its text names the field and what was expected there
        raise ApiError(400, "malformed", f"The body is not as it must be: {error}.") from None
    except (UnicodeDecodeError, RecursionError):
        raise ApiError(400, "malformed", "The body is no JSON.") from None


def require_media_type(request: Request, *wanted: str) -> None:
    """Raise `ApiError` (415) unless the body is said to be one of these."""
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found not in wanted:
        raise ApiError(415, "media_type", f"The content type must be {' or '.join(wanted)}.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "content_encoding", "Send the body as it is, not compressed.")


def campaign_id_of(request: Request) -> int:
    """Return the campaign id in the path. Raises `ApiError` (404) for what can't be one."""
    text: str = request.path_params["campaign_id"]
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= _ID_MAX):
        raise no_campaign(text[:20])
    return int(text)


def no_campaign(campaign_id: int | str) -> ApiError:
    """Return the answer for a campaign that doesn't exist."""
    return ApiError(404, "no_campaign", f"There is no campaign {campaign_id}.")


async def _read(request: Request) -> bytes:
    pieces: list[bytes] = []
    size_bytes = 0
    try:
        async with asyncio.timeout(JSON_S):
            async for piece in request.stream():
                size_bytes += len(piece)
                if size_bytes > JSON_BYTES_MAX:
                    raise ApiError(413, "too_large", f"The body must be below {JSON_BYTES_MAX:,} bytes.")
                pieces.append(piece)
    except TimeoutError:
        raise ApiError(408, "too_slow", f"The body did not arrive within {JSON_S:g} s.") from None
    except ClientDisconnect:
        raise ApiError(400, "gone", "The body ended early.") from None
    return b"".join(pieces)
