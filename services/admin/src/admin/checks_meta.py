"""The checks of what is Meta's: the token and its permissions, where webhooks go, and each number's standing.

What Graph doesn't tell is skipped; its words (statuses, ratings, tiers) are shown as they are.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from shlex import quote
from urllib.parse import urlsplit

from admin.finding import Check, Facts, Finding, Trouble, at, connected, failed, ok, skipped
from cloudapi.nodes import ListedNumber, NumberNode, Refused, TokenInfo, WebhookConfiguration
from ledger.numbers import Number

EXPIRY_NOTICE_S = 7 * 86_400
REGISTERED = ("CONNECTED", "LINKED")
BARRED = ("BANNED", "RESTRICTED", "FLAGGED", "RATE_LIMITED")
LIMITS_PER_S = {"STANDARD": 80, "HIGH": 1_000}  # Meta's throughput page, 2026-09
MANAGEMENT = "whatsapp_business_management"
MESSAGING = "whatsapp_business_messaging"
_ANEW = "Create a token for a system user in Meta's Business Settings and set it as SLUICE_ACCESS_TOKEN"


def graph(facts: Facts, _now: datetime) -> Iterator[Finding]:
    if facts.graph is not None:
        remedy = "Let this machine reach the Graph API over HTTPS, or correct SLUICE_GRAPH_URL and SLUICE_GRAPH_VERSION."
        yield failed(Check.GRAPH, facts.graph.words, remedy)
    else:
        yield ok(Check.GRAPH, "answers")


def token(facts: Facts, _now: datetime) -> Iterator[Finding]:
    token = facts.token
    remedy = f"{_ANEW}."
    if isinstance(token, Refused) and not token.is_token:
        yield failed(Check.TOKEN, *_refusal(token))
    elif isinstance(token, Refused):
        says = "has expired" if token.subcode == 463 else "is not accepted: expired, revoked or mistyped"
        yield failed(Check.TOKEN, says, remedy)
    elif token is None or not token.is_valid:
        yield failed(Check.TOKEN, "is not valid", remedy)
    else:
        yield ok(Check.TOKEN, "is valid")


def expiry(facts: Facts, now: datetime) -> Iterator[Finding]:
    token = facts.token
    assert isinstance(token, TokenInfo)
    if not token.expires_at:
        yield ok(Check.EXPIRY, "never")
        return
    until = at(datetime.fromtimestamp(token.expires_at, UTC))
    if token.expires_at - now.timestamp() < EXPIRY_NOTICE_S:
        yield failed(Check.EXPIRY, until, f"{_ANEW} before then; one without expiry is best.")
    else:
        yield ok(Check.EXPIRY, until)


def may_manage(facts: Facts, _now: datetime) -> Iterator[Finding]:
    return _permission(facts, Check.MAY_MANAGE, MANAGEMENT)


def may_send(facts: Facts, _now: datetime) -> Iterator[Finding]:
    return _permission(facts, Check.MAY_SEND, MESSAGING)


def _permission(facts: Facts, check: Check, scope: str) -> Iterator[Finding]:
    token = facts.token
    assert isinstance(token, TokenInfo)
    if scope not in token.scopes:
        remedy = (
            f"Create the system user's token anew with {scope} ticked, and set it as SLUICE_ACCESS_TOKEN."
        )
        yield failed(check, f"the token lacks {scope}", remedy)
        return
    limited = [to for granted in token.granular_scopes if granted.scope == scope for to in granted.target_ids]
    outside = [waba for waba in _wabas(facts) if limited and waba not in limited]
    for waba in outside:
        remedy = (
            "Assign this WABA to the system user in Meta's Business Settings, then create the token anew."
        )
        yield failed(check, f"the token's {scope} leaves this WABA out", remedy, waba)
    if not outside:
        yield ok(check, f"the token has {scope}")


def callback(facts: Facts, _now: datetime) -> Iterator[Finding]:
    yield from _app_callback(facts)
    for number in connected(facts):
        told = _configuration(facts, number)
        if told and (told.phone_number or told.whatsapp_business_account):
            yield ok(Check.CALLBACK, f"overridden, goes to {_host(told.effective)}", number.phone_number_id)


def _app_callback(facts: Facts) -> Iterator[Finding]:
    where = "In Meta's App Dashboard, WhatsApp > Configuration,"
    match facts.subscriptions:
        case None if told := _told_callback(facts):
            yield ok(Check.CALLBACK, f"{_host(told)}; its fields are told with SLUICE_APP_SECRETS alone")
        case None:
            yield skipped(Check.CALLBACK, "SLUICE_APP_SECRETS isn't set, and Graph tells it to the app alone")
        case Trouble(words=words):
            yield failed(Check.CALLBACK, words, "Ask again.")
        case Refused() as refused if refused.is_token:
            remedy = "Set SLUICE_APP_SECRETS to the App Secret of Meta's App Dashboard, App settings > Basic."
            yield failed(
                Check.CALLBACK, "the app secret is not this app's: ingress refuses every webhook", remedy
            )
        case Refused() as refused:
            yield failed(Check.CALLBACK, *_refusal(refused))
        case subscriptions:
            asked = [one for one in subscriptions if one.object == "whatsapp_business_account"]
            if not asked or not asked[0].callback_url or not asked[0].active:
                remedy = (
                    f"{where} set the callback URL to ingress's https://…/webhook with SLUICE_VERIFY_TOKEN."
                )
                yield failed(Check.CALLBACK, "the app has no active callback URL", remedy)
            elif "messages" not in [field.name for field in asked[0].fields]:
                remedy = f"{where} subscribe to the field messages."
                yield failed(Check.CALLBACK, "the app isn't told the field messages", remedy)
            else:
                says = f"{_host(asked[0].callback_url)} is told {len(asked[0].fields)} fields, messages among them"
                yield ok(Check.CALLBACK, says)


def _configuration(facts: Facts, number: Number) -> WebhookConfiguration | None:
    node = facts.nodes.get(number.phone_number_id)
    return node.webhook_configuration if isinstance(node, NumberNode) else None


def _told_callback(facts: Facts) -> str:
    """The app's address, as its numbers tell it."""
    told = [_configuration(facts, number) for number in connected(facts)]
    return next((one.application for one in told if one and one.application), "")


def subscription(facts: Facts, _now: datetime) -> Iterator[Finding]:
    token = facts.token
    assert isinstance(token, TokenInfo)
    for waba in _wabas(facts):
        apps = facts.apps.get(waba)
        if isinstance(apps, tuple) and token.app_id in apps:
            yield ok(Check.SUBSCRIPTION, "its webhooks go to the token's app", waba)
        elif isinstance(apps, tuple):
            remedy = f"Subscribe the app: `{_curl(facts, f'{waba}/subscribed_apps')}`."
            yield failed(Check.SUBSCRIPTION, "its webhooks don't go to the token's app", remedy, waba)
        else:
            yield _unanswered(Check.SUBSCRIPTION, apps, waba)


def registration(facts: Facts, _now: datetime) -> Iterator[Finding]:
    check = Check.REGISTRATION
    for number in connected(facts):
        name, listed = number.phone_number_id, facts.listed.get(number.waba_id)
        if not isinstance(listed, tuple):
            yield _unanswered(check, listed, name)
            continue
        mine = _listed(facts, number)
        if mine is None:
            remedy = f"Correct its WABA: `sluice number add {name} --waba WABA {_rest(number, number.limit_per_s)}`."
            yield failed(check, f"WABA {number.waba_id} has no such number", remedy, name)
        elif mine.status in REGISTERED:
            yield ok(check, mine.status, name)
        elif not mine.status:
            yield skipped(check, "Graph doesn't tell", name)
        elif mine.status in BARRED:
            remedy = f"Run `sluice halt number {name}`, and see in Meta's WhatsApp Manager what it asks for."
            yield failed(check, mine.status, remedy, name)
        else:
            command = _curl(facts, f"{name}/register", " -d messaging_product=whatsapp -d pin=PIN")
            remedy = f"Register it with its two-step PIN: `{command}`."
            yield failed(check, f"{mine.status}, not registered", remedy, name)


def quality(facts: Facts, _now: datetime) -> Iterator[Finding]:
    for number in connected(facts):
        name, mine = number.phone_number_id, _listed(facts, number)
        if mine is None:
            yield skipped(Check.QUALITY, "needs registration", name)
        elif mine.quality_rating == "RED":
            remedy = f"Run `sluice halt number {name}`, and write to fewer people, and only those who asked for it."
            yield failed(Check.QUALITY, "RED: Meta may restrict it", remedy, name)
        elif mine.quality_rating in ("GREEN", "YELLOW"):
            yield ok(Check.QUALITY, mine.quality_rating, name)
        else:
            yield ok(Check.QUALITY, "not rated yet", name)


def throughput(facts: Facts, _now: datetime) -> Iterator[Finding]:
    for number in connected(facts):
        name, node = number.phone_number_id, facts.nodes.get(number.phone_number_id)
        if _listed(facts, number) is None:
            yield skipped(Check.THROUGHPUT, "needs registration", name)
        elif not isinstance(node, NumberNode) or node.throughput is None:
            yield skipped(Check.THROUGHPUT, "Graph doesn't tell", name)
        else:
            yield _pace(number, node, node.throughput.level)


def _pace(number: Number, node: NumberNode, level: str) -> Finding:
    name, limit = number.phone_number_id, LIMITS_PER_S.get(level)
    tier = node.whatsapp_business_manager_messaging_limit or "tier not told"
    if limit is not None and number.limit_per_s > limit:
        remedy = f"Run `sluice number add {name} --waba {number.waba_id} {_rest(number, limit)}`."
        says = f"{level} is {limit:,}/s, but it is connected with {number.limit_per_s:,}/s"
        return failed(Check.THROUGHPUT, says, remedy, name)
    return ok(Check.THROUGHPUT, f"{level}, connected with {number.limit_per_s:,}/s; {tier}", name)


def _refusal(refused: Refused) -> tuple[str, str]:
    """What Graph said, and what to do, where it is neither the token nor a permission."""
    code = "no error of Graph's" if refused.code is None else f"code {refused.code}"
    return (
        f"Graph refused: HTTP {refused.http_status}, {code}",
        "Ask again in some minutes; if it stays, look the code up in Meta's error codes of the Cloud API.",
    )


def _unanswered(check: Check, answer: object, subject: str) -> Finding:
    """Of an object that Graph refused to show, or didn't show in time."""
    if isinstance(answer, Refused) and (answer.is_permission or answer.is_unknown_object):
        remedy = "Assign its WABA to the token's system user in Meta's Business Settings, or correct its id."
        return failed(check, "Graph shows it to this token not, or there is no such id", remedy, subject)
    if isinstance(answer, Refused):
        return failed(check, *_refusal(answer), subject)
    words = answer.words if isinstance(answer, Trouble) else "not asked"
    return failed(
        check, words, "Ask again; if it stays, see what is between this machine and the Graph API.", subject
    )


def _wabas(facts: Facts) -> list[str]:
    return sorted({number.waba_id for number in connected(facts)})


def _listed(facts: Facts, number: Number) -> ListedNumber | None:
    listed = facts.listed.get(number.waba_id)
    if not isinstance(listed, tuple):
        return None
    return next((one for one in listed if one.id == number.phone_number_id), None)


def _rest(number: Number, limit_per_s: int) -> str:
    """The options that keep what is known of a number: `number add` sets all of it."""
    display = f" --display {quote(number.display)}" if number.display else ""
    return f"--portfolio {number.portfolio_id} --limit {limit_per_s}{display}"


def _curl(facts: Facts, path: str, options: str = "") -> str:
    bearer = '-H "Authorization: Bearer $SLUICE_ACCESS_TOKEN"'
    return f"curl -X POST {bearer}{options} {facts.graph_root}/{path}"


def _host(url: str) -> str:
    """The address without path and query, which may hold a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"
