"""Errors in the Graph API's own words: code, HTTP status and body; one place says which status goes with which code."""

from typing import Any

import msgspec
from msgspec import Struct

# HTTP statuses of the codes this simulator can be asked for; the sources disagree about some, so a rule may
# override them. Every other code is a 400.
_HTTP_STATUS = {
    0: 401, 2: 503, 3: 500, 10: 403, 190: 401, 200: 403, 368: 403, 613: 429, 130429: 429, 130497: 403,
    131000: 500, 131005: 403, 131016: 500, 131031: 403, 131056: 400, 131057: 503, 132001: 404, 133004: 503,
    134102: 500,
}  # fmt: skip

_TITLES = {
    0: "AuthException", 1: "API Unknown", 2: "API Service", 3: "API Method", 4: "API Too Many Calls",
    10: "Permission Denied", 33: "Parameter value is not valid", 100: "Invalid parameter",
    190: "Access token has expired", 200: "API Permission", 368: "Temporarily blocked for policies violations",
    130429: "Rate limit hit", 130472: "User's number is part of an experiment", 131000: "Something went wrong",
    131008: "Required parameter is missing", 131009: "Parameter value is not valid",
    131016: "Service unavailable", 131021: "Recipient cannot be sender", 131026: "Message undeliverable",
    131047: "Re-engagement message", 131048: "Spam rate limit hit", 131049: "Meta chose not to deliver.",
    131050: "User has stopped marketing messages", 131051: "Unsupported message type",
    131053: "Media upload error", 131056: "Business account, consumer account pair rate limit hit",
    131057: "Account in maintenance mode", 131062: "Recipient not supported",
    132000: "Number of parameters does not match the expected number of params",
    132001: "Template name does not exist in the translation",
    132012: "Parameter format does not match format in the created template", 132015: "Template is paused",
    132016: "Template is disabled", 133010: "Phone number not registered",
}  # fmt: skip

HTML_PAGE = b"<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Something went wrong.</h1></body></html>"


def title(code: int) -> str:
    """The short name of a code, as errors and failed statuses carry it."""
    return _TITLES.get(code, "Unknown error")


def http_status(code: int) -> int:
    """The HTTP status a code usually comes with."""
    return _HTTP_STATUS.get(code, 400)


class Refusal(Struct, frozen=True):
    """A POST that is refused: code, what is wrong, and where Meta adds one, the subcode. No part of the request
    is quoted."""

    code: int
    details: str
    subcode: int | None = None

    @property
    def http_status(self) -> int:
        return http_status(self.code)


def error_body(refusal: Refusal, trace_id: str) -> bytes:
    """The JSON body `{"error": {...}}` of a refusal."""
    bad_object = refusal.code == 100 and refusal.subcode == 33
    error: dict[str, Any] = {
        "message": refusal.details if bad_object else f"(#{refusal.code}) {title(refusal.code)}",
        "type": "GraphMethodException" if bad_object else "OAuthException",
        "code": refusal.code,
    }
    if not bad_object and refusal.code != 190:
        error["error_data"] = {"messaging_product": "whatsapp", "details": refusal.details}
    if refusal.subcode is not None:
        error["error_subcode"] = refusal.subcode
    error["fbtrace_id"] = trace_id
    return msgspec.json.encode({"error": error})
