"""Facts in, findings out: what fails, what hangs on it, and what is never said."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from admin.cli_doctor import lines_of
from admin.doctor import NEEDS, findings
from admin.finding import Check, Facts, Finding, Skew, TopicFault, Trouble, Verdict
from cloudapi.nodes import (
    GranularScope,
    ListedNumber,
    NumberNode,
    Refused,
    SubscribedField,
    Subscription,
    Throughput,
    TokenInfo,
    WebhookConfiguration,
)
from ledger.hearing import Hearing
from ledger.numbers import Number

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NUMBER, WABA = "100000000000001", "200000000000001"
SCOPES = ("whatsapp_business_management", "whatsapp_business_messaging")
CONNECTED = Number(
    phone_number_id=NUMBER, waba_id=WABA, portfolio_id="300000000000001", display="Shop; desk", limit_per_s=80,
    setting_per_s=76, slot=0,
)  # fmt: skip
CALLBACK = Subscription(
    object="whatsapp_business_account", callback_url="https://in.example/webhook?key=hush", active=True,
    fields=(SubscribedField("messages"),),
)  # fmt: skip
HEALTHY = Facts(
    schema_lacking=(), database_skew=Skew(0.1, 0.01), numbers=(CONNECTED,),
    hearings={NUMBER: Hearing(heard_at=NOW - timedelta(minutes=5), sent_at=None)},
    topic_faults=(), graph_root="https://graph.example/v26.0", topics_count=14,
    graph_skew=Skew(-1.0, 1.0), token=TokenInfo(is_valid=True, app_id="6", scopes=SCOPES),
    subscriptions=(CALLBACK,), apps={WABA: ("5", "6")},
    listed={WABA: (ListedNumber(id=NUMBER, status="CONNECTED", quality_rating="GREEN"),)},
    nodes={NUMBER: NumberNode(id=NUMBER, throughput=Throughput("STANDARD"))},
)  # fmt: skip


def found_in(**changes: Any) -> list[Finding]:
    return findings(replace(HEALTHY, **changes), now=NOW)


def of(check: Check, **changes: Any) -> Finding:
    (one,) = (one for one in found_in(**changes) if one.check is check)
    return one


def failed(found: list[Finding]) -> set[Check]:
    return {one.check for one in found if one.verdict is Verdict.FAILED}


def a_listed(**changes: Any) -> dict[str, tuple[ListedNumber, ...]]:
    return {
        WABA: (ListedNumber(**{"id": NUMBER, "status": "CONNECTED", "quality_rating": "GREEN", **changes}),)
    }


def a_token(**changes: Any) -> TokenInfo:
    return TokenInfo(**{"is_valid": True, "app_id": "6", "scopes": SCOPES, **changes})


def a_node(**webhook: str) -> dict[str, NumberNode]:
    return {NUMBER: NumberNode(id=NUMBER, webhook_configuration=WebhookConfiguration(**webhook))}


def heard(**ago_s: float | None) -> dict[str, Hearing]:
    at = {name: None if ago is None else NOW - timedelta(seconds=ago) for name, ago in ago_s.items()}
    return {NUMBER: Hearing(**{"heard_at": None, "sent_at": None, **at})}


def test_all_is_well_and_each_check_is_told_once_in_order() -> None:
    found = found_in()
    assert {one.verdict for one in found} == {Verdict.OK}
    assert list(dict.fromkeys(one.check for one in found)) == list(Check)
    assert list(lines_of(found))[-1] == f"{len(found)} ok"


def test_what_is_needed_comes_before_what_needs_it() -> None:
    order = list(Check)
    assert all(order.index(need) < order.index(check) for check, needs in NEEDS.items() for need in needs)


def test_without_any_fact_nothing_that_was_not_looked_at_is_green() -> None:
    found = findings(Facts(database=Trouble("away"), broker=Trouble("away"), graph=Trouble("away")), now=NOW)
    assert failed(found) == {Check.DATABASE, Check.BROKER, Check.GRAPH}
    rest = [one for one in found if one.verdict is not Verdict.FAILED]
    assert all(one.verdict is Verdict.SKIPPED and one.says for one in rest)
    assert {one.check for one in found} == set(Check)


@pytest.mark.parametrize(
    ("check", "changes", "says", "remedy"),
    [
        (Check.DATABASE, {"database": Trouble("no answer")}, "no answer", "SLUICE_DATABASE_URL"),
        (Check.SCHEMA, {"schema_lacking": ("1", "2", "3", "4", "5")}, "lacks 1, 2, 3 and 2 more", "sluice migrate"),
        (Check.BROKER, {"broker": Trouble("no answer")}, "no answer", "SLUICE_KAFKA_BOOTSTRAP"),
        (Check.TOKEN, {"token": Refused(401, 190, 463)}, "has expired", "SLUICE_ACCESS_TOKEN"),
        (Check.TOKEN, {"token": Refused(401, 190)}, "not accepted", "SLUICE_ACCESS_TOKEN"),
        (Check.TOKEN, {"token": Refused(429, 4)}, "HTTP 429, code 4", "Ask again"),
        (Check.TOKEN, {"token": TokenInfo(is_valid=False)}, "is not valid", "SLUICE_ACCESS_TOKEN"),
        (Check.EXPIRY, {"token": a_token(expires_at=int(NOW.timestamp()) + 6 * 86_400)}, "2026-12-06", "before"),
        (Check.MAY_SEND, {"token": a_token(scopes=SCOPES[:1])}, "lacks whatsapp_business_messaging", "ticked"),
        (Check.MAY_MANAGE, {"token": a_token(granular_scopes=(GranularScope(SCOPES[0], ("1",)),))}, "leaves this WABA",
         "Assign"),
        (Check.NUMBERS, {"numbers": ()}, "none", "sluice number add"),
        (Check.CALLBACK, {"subscriptions": ()}, "no active callback", "callback URL"),
        (Check.CALLBACK, {"subscriptions": (replace(CALLBACK, active=False),)}, "no active callback", "callback URL"),
        (Check.CALLBACK, {"subscriptions": Refused(400, 190)}, "not this app's", "SLUICE_APP_SECRETS"),
        (Check.SUBSCRIPTION, {"apps": {WABA: ("5",)}}, "don't go to", f"https://graph.example/v26.0/{WABA}/subscribed_apps`"),
        (Check.SUBSCRIPTION, {"apps": {WABA: Refused(400, 100, 33)}}, "no such id", "Assign"),
        (Check.SUBSCRIPTION, {"apps": {WABA: Trouble("late")}}, "late", "Ask again"),
        (Check.REGISTRATION, {"listed": a_listed(status="PENDING")}, "PENDING, not registered", "register"),
        (Check.REGISTRATION, {"listed": {WABA: ()}}, "has no such number", "--limit 80 --display 'Shop; desk'"),
        (Check.QUALITY, {"listed": a_listed(quality_rating="RED")}, "RED", f"sluice halt number {NUMBER}"),
        (Check.THROUGHPUT, {"numbers": (replace(CONNECTED, limit_per_s=500),)}, "STANDARD is 80/s", "--limit 80 "),
        (Check.LAST_WEBHOOK, {"hearings": heard()}, "nothing was ever heard", "Send it a message"),
        (Check.LAST_WEBHOOK, {"hearings": heard(heard_at=9_000, sent_at=700)}, "got no status", "status_aggregator"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_remedy_in_one_sentence(
    check: Check, changes: dict[str, Any], says: str, remedy: str
) -> None:
    assert failed(found_in(**changes)) == {check}
    one = of(check, **changes)
    assert says in one.says
    assert remedy in one.remedy
    assert one.remedy.endswith(".")
    assert one.remedy.count(". ") == 0


@pytest.mark.parametrize(
    ("check", "changes", "says"),
    [
        (Check.EXPIRY, {"token": a_token(expires_at=int(NOW.timestamp()) + 30 * 86_400)}, "2026-12-30"),
        (Check.MAY_SEND, {"token": a_token(granular_scopes=(GranularScope(SCOPES[1], (WABA,)),))}, "has"),
        (Check.REGISTRATION, {"listed": a_listed(status="LINKED")}, "LINKED"),
        (Check.QUALITY, {"listed": a_listed(quality_rating="YELLOW")}, "YELLOW"),
        (Check.QUALITY, {"listed": a_listed(quality_rating="UNKNOWN")}, "not rated yet"),
        (Check.THROUGHPUT, {"nodes": {NUMBER: NumberNode(
            id=NUMBER, throughput=Throughput("HIGH"), whatsapp_business_manager_messaging_limit="TIER_2K")}},
         "HIGH, connected with 80/s; TIER_2K"),
        (Check.THROUGHPUT, {"nodes": {NUMBER: NumberNode(id=NUMBER, throughput=Throughput("NEWER"))}}, "NEWER"),
        (Check.LAST_WEBHOOK, {"hearings": heard(heard_at=9_000, sent_at=60)}, "UTC"),
        (Check.LAST_WEBHOOK, {"hearings": heard(heard_at=9_000, sent_at=9_100)}, "UTC"),
        (Check.CALLBACK, {}, "https://in.example is told 1 fields"),
        (Check.CALLBACK, {"subscriptions": None, "nodes": a_node(application="https://in.example/x")},
         "https://in.example; its fields"),
    ],
)  # fmt: skip
def test_what_holds_is_said_as_meta_says_it(check: Check, changes: dict[str, Any], says: str) -> None:
    assert failed(found_in(**changes)) == set()
    assert says in of(check, **changes).says


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        (Check.CALLBACK, {"subscriptions": None}),
        (Check.REGISTRATION, {"listed": a_listed(status="")}),
        (Check.THROUGHPUT, {"nodes": {NUMBER: Refused(400, 100)}}),
        (Check.THROUGHPUT, {"nodes": {NUMBER: NumberNode(id=NUMBER)}}),
        (Check.LAST_WEBHOOK, {"hearings": Trouble("late")}),
    ],
)
def test_what_is_not_told_is_neither_green_nor_a_failure(check: Check, changes: dict[str, Any]) -> None:
    assert of(check, **changes).verdict is Verdict.SKIPPED
    assert failed(found_in(**changes)) == set()


@pytest.mark.parametrize(
    ("ahead_s", "within_s", "verdict"),
    [
        (4.9, 0.0, Verdict.OK),
        (6.0, 1.5, Verdict.OK),
        (6.6, 1.5, Verdict.FAILED),
        (-20.0, 1.0, Verdict.FAILED),
    ],
)
def test_a_clock_fails_only_where_it_surely_differs(
    ahead_s: float, within_s: float, verdict: Verdict
) -> None:
    graph, postgres = (
        one for one in found_in(graph_skew=Skew(ahead_s, within_s)) if one.check is Check.CLOCK
    )
    assert (graph.verdict, postgres.verdict) == (verdict, Verdict.OK)


def test_topics_that_lack_the_same_are_one_finding() -> None:
    faults = [TopicFault(topic=name, setting="exists", expected="yes", found="no") for name in "abcde"]
    faults += [TopicFault(topic=topic, setting=name, expected="2", found="1") for topic, name in
               (("f", "partitions"), ("g", "replication"), ("f", "retention.ms"), ("g", "retention.ms"))]  # fmt: skip
    found = [one for one in found_in(topic_faults=tuple(faults)) if one.check is Check.TOPICS]
    assert [one.says for one in found] == [
        "missing: a, b, c and 2 more", "f: partitions is 1, must be 2", "g: replication is 1, must be 2",
        "f, g: retention.ms is 1, must be 2",
    ]  # fmt: skip
    assert len({one.remedy for one in found}) == 4


def test_the_path_of_a_callback_is_not_shown() -> None:
    assert "hush" not in "\n".join(lines_of(found_in()))


def test_a_number_whose_webhooks_go_elsewhere_is_told() -> None:
    nodes = a_node(application="https://in.example/x", phone_number="https://other.example/hush")
    found = [one for one in found_in(nodes=nodes) if one.check is Check.CALLBACK]
    assert [(one.subject, one.verdict) for one in found] == [("", Verdict.OK), (NUMBER, Verdict.OK)]
    assert found[1].says == "overridden, goes to https://other.example"
