"""The simulated reads of the token, the accounts and the numbers, and what they share with sending."""

import pytest

from simulator.graph_reads import MANAGEMENT, MESSAGING, Reads, messaging_fault
from simulator.refusal import Refusal
from simulator.scenario import Account, Number, Scenario

BEARER = "Bearer sesame"
WABA = "200000000000001"
NUMBERS = tuple(
    Number(phone_number_id=f"30000000000000{n}", display_phone_number="15550109000", waba_id=WABA)
    for n in range(5)
)


def reads(**account: object) -> Reads:
    scenario = Scenario(numbers=NUMBERS, account=Account(**account))  # type: ignore[arg-type]
    return Reads(lambda: scenario, access_token="sesame", app_secret="secret")


def test_a_token_is_described_with_its_permissions_and_its_end() -> None:
    told = reads(token_expires_in_s=60, scopes=(MESSAGING,)).debug_token(BEARER, "sesame", unix=1_000)
    assert isinstance(told, dict)
    assert (told["data"]["expires_at"], told["data"]["is_valid"]) == (1_060, True)
    assert told["data"]["granular_scopes"] == [{"scope": MESSAGING, "target_ids": [WABA]}]
    other = reads().debug_token(BEARER, "other", unix=1_000)
    assert isinstance(other, dict)
    assert not other["data"]["is_valid"]


@pytest.mark.parametrize(
    ("account", "bearer", "code"),
    [
        ({}, "Bearer other", 190),
        ({"token_expired": True}, BEARER, 190),
        ({"scopes": (MESSAGING,)}, BEARER, 200),
    ],
)
def test_nothing_is_told_to_a_token_that_may_not_know(
    account: dict[str, object], bearer: str, code: int
) -> None:
    graph = reads(**account)
    for told in (
        graph.number(bearer, "300000000000000", ""),
        graph.phone_numbers(bearer, WABA, "", limit=10, after=""),
        graph.subscribed_apps(bearer, WABA),
    ):
        assert isinstance(told, Refusal)
        assert told.code == code


def test_a_list_is_told_page_by_page_with_the_fields_asked_for() -> None:
    seen, after = [], ""
    while True:
        told = reads().phone_numbers(BEARER, WABA, "status", limit=2, after=after)
        assert isinstance(told, dict)
        seen += told["data"]
        if "next" not in told["paging"]:
            break
        after = told["paging"]["cursors"]["after"]
    assert seen == [{"id": number.phone_number_id, "status": "CONNECTED"} for number in NUMBERS]


def test_an_app_learns_of_its_subscriptions_by_its_secret_alone() -> None:
    app = Account().app_id
    assert isinstance(reads().subscriptions(BEARER, app), Refusal)
    assert isinstance(reads().subscriptions(f"Bearer {app}|other", app), Refusal)
    told = reads(fields=("messages",)).subscriptions(f"Bearer {app}|secret", app)
    assert isinstance(told, dict)
    assert told["data"][0]["fields"] == [{"name": "messages", "version": "v26.0"}]


@pytest.mark.parametrize(
    ("account", "status", "code"),
    [
        (Account(), "CONNECTED", None),
        (Account(token_expired=True), "CONNECTED", 190),
        (Account(scopes=(MANAGEMENT,)), "CONNECTED", 200),
        (Account(scopes=(MESSAGING,)), "CONNECTED", None),
        (Account(), "PENDING", 133010),
    ],
)
def test_what_the_reads_tell_is_what_sending_meets(account: Account, status: str, code: int | None) -> None:
    number = Number(phone_number_id="3", display_phone_number="15550109000", waba_id=WABA, status=status)
    fault = messaging_fault(account, number)
    assert (fault.code if fault else None) == code
