"""Values as JSON answers."""

import msgspec
from starlette.responses import Response

from admin.answers import ApiError

_encoder = msgspec.json.Encoder()


def json_answer(value: object, *, status: int = 200) -> Response:
    """Return `value` as JSON."""
    return Response(_encoder.encode(value), status, media_type="application/json")


def error_answer(error: ApiError) -> Response:
    """Return an error in the one form that all have."""
    answer = json_answer({"error": {"code": error.code, "message": error.sentence}}, status=error.status)
    if error.retry_after_s is not None:
        answer.headers["retry-after"] = str(error.retry_after_s)
    if error.status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    if error.status in (401, 408, 413, 415):  # what is left of the body must not be read as the next request
        answer.headers["connection"] = "close"
    return answer
