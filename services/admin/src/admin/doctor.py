"""What holds and what doesn't of an installation, and what to do about it: facts in, findings out.

Invariant: findings come in the order in which one would repair. A check that couldn't be made, as what it needs has
failed, is skipped and says so, and is never taken as passed.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from admin import checks_meta, checks_ours
from admin.finding import Check, Facts, Finding, Verdict, skipped

NEEDS: Mapping[Check, tuple[Check, ...]] = {
    Check.SCHEMA: (Check.DATABASE,),
    Check.TOPICS: (Check.BROKER,),
    Check.TOKEN: (Check.GRAPH,),
    Check.EXPIRY: (Check.TOKEN,),
    Check.MAY_MANAGE: (Check.TOKEN,),
    Check.MAY_SEND: (Check.TOKEN,),
    Check.NUMBERS: (Check.SCHEMA,),
    Check.CALLBACK: (Check.TOKEN,),
    Check.SUBSCRIPTION: (Check.MAY_MANAGE, Check.NUMBERS),
    Check.REGISTRATION: (Check.MAY_MANAGE, Check.NUMBERS),
    Check.QUALITY: (Check.MAY_MANAGE, Check.NUMBERS),
    Check.THROUGHPUT: (Check.MAY_MANAGE, Check.NUMBERS),
    Check.LAST_WEBHOOK: (Check.NUMBERS,),
}


CHECKS: Mapping[Check, Callable[[Facts, datetime], Iterator[Finding]]] = {
    Check.DATABASE: checks_ours.database,
    Check.SCHEMA: checks_ours.schema,
    Check.BROKER: checks_ours.broker,
    Check.TOPICS: checks_ours.topics,
    Check.GRAPH: checks_meta.graph,
    Check.CLOCK: checks_ours.clock,
    Check.TOKEN: checks_meta.token,
    Check.EXPIRY: checks_meta.expiry,
    Check.MAY_MANAGE: checks_meta.may_manage,
    Check.MAY_SEND: checks_meta.may_send,
    Check.NUMBERS: checks_ours.numbers,
    Check.CALLBACK: checks_meta.callback,
    Check.SUBSCRIPTION: checks_meta.subscription,
    Check.REGISTRATION: checks_meta.registration,
    Check.QUALITY: checks_meta.quality,
    Check.THROUGHPUT: checks_meta.throughput,
    Check.LAST_WEBHOOK: checks_ours.last_webhook,
}


def findings(facts: Facts, *, now: datetime) -> list[Finding]:
    """Return what each check came to, in order."""
    found: list[Finding] = []
    missing: set[Check] = set()
    for check in Check:
        needed = [need for need in NEEDS.get(check, ()) if need in missing]
        if needed:
            found.append(skipped(check, f"needs {', '.join(needed)}"))
            missing.add(check)
            continue
        results = list(CHECKS[check](facts, now))
        if any(one.verdict is Verdict.FAILED for one in results):
            missing.add(check)
        found += results
    return found
