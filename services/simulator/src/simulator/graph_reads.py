"""Graph's answers about the token, the accounts and their numbers, as the scenario has them.

Invariant: a token that is refused, or lacks the permission, learns nothing but that.
"""

from collections.abc import Callable
from hmac import compare_digest
from typing import Any

from simulator.refusal import Refusal
from simulator.scenario import Account, Number, Scenario

MANAGEMENT = "whatsapp_business_management"
MESSAGING = "whatsapp_business_messaging"
EXPIRED = Refusal(190, "Error validating access token: Session has expired.", 463)
WRONG = Refusal(190, "Invalid OAuth access token.")
HIGH_PER_S = 1_000  # the upgraded throughput; facts of Meta's throughput page
Told = dict[str, Any] | Refusal
_UNKNOWN = Refusal(
    100,
    "Unsupported get request. The object does not exist or cannot be loaded due to missing permissions.",
    33,
)


def messaging_fault(account: Account, number: Number) -> Refusal | None:
    """Why no message can leave a number, whatever the message; None when nothing stands in the way."""
    if account.token_expired:
        return EXPIRED
    if MESSAGING not in account.scopes:
        return Refusal(200, f"The token lacks {MESSAGING}.")
    if not number.is_registered:
        return Refusal(133010, "The account is not registered.")
    return None


class Reads:
    """The reads, over the scenario of the moment."""

    def __init__(self, scenario: Callable[[], Scenario], *, access_token: str, app_secret: str) -> None:
        self._scenario = scenario
        self._access_token = access_token
        self._app_secret = app_secret

    def debug_token(self, authorization: str, input_token: str, *, unix: float) -> Told:
        """`GET /debug_token`: its own bearer is judged before the token that is asked about."""
        account = self._scenario().account
        fault = self._token_fault(authorization)
        if fault is not None:
            return fault
        if not _same(input_token, self._access_token):
            return {
                "data": {"is_valid": False, "scopes": [], "error": {"code": 190, "message": WRONG.details}}
            }
        expires_in_s = account.token_expires_in_s
        wabas = sorted({number.waba_id for number in self._scenario().numbers})
        return {
            "data": {
                "app_id": account.app_id,
                "type": "SYSTEM_USER",
                "application": "Sluice",
                "data_access_expires_at": 0,
                "expires_at": int(unix + expires_in_s) if expires_in_s else 0,
                "is_valid": True,
                "issued_at": int(unix) - 86_400,
                "scopes": [*account.scopes, "public_profile"],
                "granular_scopes": [{"scope": scope, "target_ids": wabas} for scope in account.scopes],
                "user_id": "500000000000001",
            }
        }

    def phone_numbers(self, authorization: str, waba_id: str, fields: str, *, limit: int, after: str) -> Told:
        """`GET /{waba}/phone_numbers`, a page of it; the cursor is the place of the next number."""
        numbers = self._numbers_of(authorization, waba_id)
        if isinstance(numbers, Refusal):
            return numbers
        start = int(after) if after.isdigit() else 0
        page = numbers[start : start + limit]
        told: dict[str, Any] = {"data": [_chosen(self._listed(number), fields) for number in page]}
        if page:
            told["paging"] = {"cursors": {"before": str(start), "after": str(start + len(page))}}
        if start + limit < len(numbers):
            told["paging"]["next"] = (
                f"https://graph.facebook.com/{waba_id}/phone_numbers?after={start + limit}"
            )
        return told

    def number(self, authorization: str, phone_number_id: str, fields: str) -> Told:
        """`GET /{phone_number_id}`."""
        fault = self._fault(authorization)
        if fault is not None:
            return fault
        for number in self._scenario().numbers:
            if number.phone_number_id == phone_number_id:
                return _chosen(
                    self._node(number), fields or "id,display_phone_number,quality_rating,verified_name"
                )
        return _UNKNOWN

    def subscribed_apps(self, authorization: str, waba_id: str) -> Told:
        """`GET /{waba}/subscribed_apps`."""
        numbers = self._numbers_of(authorization, waba_id)
        if isinstance(numbers, Refusal):
            return numbers
        account = self._scenario().account
        app = {
            "id": account.app_id,
            "name": "Sluice",
            "link": f"https://www.facebook.com/games/?app_id={account.app_id}",
        }
        return {"data": [{"whatsapp_business_api_data": app}] if account.subscribed else []}

    def subscriptions(self, authorization: str, app_id: str) -> Told:
        """`GET /{app}/subscriptions`: told to the app itself, whose token is its id and its secret."""
        account = self._scenario().account
        if not _same(authorization, f"Bearer {account.app_id}|{self._app_secret}"):
            return WRONG
        if app_id != account.app_id:
            return _UNKNOWN
        if not account.callback_url:
            return {"data": []}
        asked = {
            "object": "whatsapp_business_account",
            "callback_url": account.callback_url,
            "active": True,
            "fields": [{"name": name, "version": "v26.0"} for name in account.fields],
        }
        return {"data": [asked]}

    def _token_fault(self, authorization: str) -> Refusal | None:
        if not _same(authorization, f"Bearer {self._access_token}"):
            return WRONG
        return EXPIRED if self._scenario().account.token_expired else None

    def _fault(self, authorization: str) -> Refusal | None:
        fault = self._token_fault(authorization)
        if fault is None and MANAGEMENT not in self._scenario().account.scopes:
            return Refusal(200, f"The token lacks {MANAGEMENT}.")
        return fault

    def _numbers_of(self, authorization: str, waba_id: str) -> list[Number] | Refusal:
        fault = self._fault(authorization)
        if fault is not None:
            return fault
        return [one for one in self._scenario().numbers if one.waba_id == waba_id] or _UNKNOWN

    def _node(self, number: Number) -> dict[str, Any]:
        url = self._scenario().account.callback_url
        return {
            **self._listed(number),
            "throughput": {"level": "HIGH" if number.limit_per_s >= HIGH_PER_S else "STANDARD"},
            "whatsapp_business_manager_messaging_limit": number.messaging_limit,
            "webhook_configuration": {"application": url} if url else {},
        }

    def _listed(self, number: Number) -> dict[str, Any]:
        return {
            "id": number.phone_number_id,
            "display_phone_number": f"+{number.display_phone_number}",
            "verified_name": "Sluice",
            "status": number.status,
            "quality_rating": number.quality_rating,
            "code_verification_status": "VERIFIED",
        }


def _chosen(node: dict[str, Any], fields: str) -> dict[str, Any]:
    """The fields asked for; the id always comes along."""
    wanted = {"id", *fields.split(",")} if fields else node.keys()
    return {name: value for name, value in node.items() if name in wanted}


def _same(given: str, right: str) -> bool:
    return compare_digest(given.encode(), right.encode())
