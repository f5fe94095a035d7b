"""Promise 4: nobody got a second message that no failure and no policy allowed, and each got what the file says.

Doubled is a further POST accepted although an earlier accepted one was not known to have failed.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from enum import Enum, auto

from deploy.local.judge_records import Evidence, Person, Post, Row, Told
from deploy.local.judge_verdict import Verdict

# Meta's error page, 2026-09-11: asked again, each of these would be answered the same.
FINAL_CODES = frozenset(
    {
        130403,
        130472,
        130497,
        131008,
        131009,
        131021,
        131026,
        131047,
        131050,
        131051,
        131053,
        132000,
        132005,
        132012,
    }
)

_NOT_DIGITS = re.compile(r"\D+")
CLAIM_LIFE_S = (
    1.0  # a POST starts this long after it was decided at the latest: a status that young came too late
)


class Further(Enum):
    """What a further accepted POST for one recipient was."""

    AFTER_FAILURE = auto()
    AFTER_SILENCE = auto()
    DOUBLED = auto()


def check_sends(evidence: Evidence, verdict: Verdict) -> None:
    """Look at all POSTs of each recipient, and of each person."""
    rows = {row.seq: row for row in evidence.rows}
    people = {person.line: person for person in evidence.people}
    by_seq: dict[int, list[Post]] = defaultdict(list)
    for post in evidence.campaign_posts():
        assert post.seq is not None
        by_seq[post.seq].append(post)
    for seq, posts in by_seq.items():
        _check_repeats(seq, posts, evidence.on_unknown, verdict)
        row = rows.get(seq)
        if row is None:
            verdict.breach(4, "a POST for nobody in the export", f"seq {seq}")
            continue
        for post in posts:
            if post.accepted:
                _check_content(post, row, people.get(row.line), verdict)
    _check_persons(by_seq, verdict)


def _check_repeats(seq: int, posts: Sequence[Post], on_unknown: str, verdict: Verdict) -> None:
    attempts = [post.attempt for post in posts]
    if len(set(attempts)) < len(attempts):
        verdict.breach(4, "two POSTs of one attempt", f"seq {seq}")
    accepted = [post for post in posts if post.accepted]
    for at, later in enumerate(accepted[1:], 1):
        match further(accepted[:at], later, on_unknown):
            case Further.DOUBLED:
                verdict.figures["doubled"] += 1
                verdict.breach(4, "a second message was accepted", f"seq {seq} (attempt {later.attempt})")
            case Further.AFTER_SILENCE:
                verdict.figures["resent"] += 1
            case Further.AFTER_FAILURE:
                verdict.figures["after_failure"] += 1
        earlier = accepted[at - 1]
        verdict.figures["failed_yet_arrived"] += _failed_yet_arrived(earlier)
        if on_unknown == "give_up" and _final_failure_before(earlier, later.arrived_at):
            verdict.breach(5, "sent again after a final failure", f"seq {seq} (attempt {later.attempt})")


def further(earlier: Sequence[Post], later: Post, on_unknown: str) -> Further:
    """Return what the accepted `later` was, given the accepted POSTs before it."""
    answer = Further.AFTER_FAILURE
    for post in earlier:
        if any(_known_failure(told, later.arrived_at) for told in post.statuses):
            continue
        decided_at = later.arrived_at - CLAIM_LIFE_S
        if on_unknown != "resend" or any(_acked_before(told, decided_at) for told in post.statuses):
            return Further.DOUBLED
        answer = Further.AFTER_SILENCE
    return answer


def _known_failure(told: Told, at: float) -> bool:
    # From its first delivery on: its 200 comes later, by seconds when a broker stood still, or is lost.
    return told.status == "failed" and told.posted_at is not None and told.posted_at <= at


def _acked_before(told: Told, at: float) -> bool:
    return told.acked_at is not None and told.acked_at <= at


def _final_failure_before(post: Post, at: float) -> bool:
    return any(
        told.status == "failed" and told.code in FINAL_CODES and _acked_before(told, at)
        for told in post.statuses
    )


def _failed_yet_arrived(post: Post) -> bool:
    words = {told.status for told in post.statuses if told.acked}
    return "failed" in words and bool(words & {"delivered", "read"})


def _check_content(post: Post, row: Row, person: Person | None, verdict: Verdict) -> None:
    verdict.figures["contents"] += 1
    where = f"seq {row.seq}"
    if folded(post.to) != folded(row.address):
        verdict.breach(4, "a message went to somebody else", where)
    if post.number != row.number:
        verdict.breach(4, "a message went from another number", where)
    if person is not None and person.params and post.params != person.params:
        verdict.breach(4, "a message had another recipient's or a changed content", where)


def _check_persons(by_seq: dict[int, list[Post]], verdict: Verdict) -> None:
    seqs: dict[tuple[str, str | None], set[int]] = defaultdict(set)
    for seq, posts in by_seq.items():
        for post in posts:
            if post.accepted:
                seqs[folded(post.to), post.template].add(seq)
    for several in seqs.values():
        for seq in sorted(several)[1:]:
            verdict.figures["doubled"] += 1
            verdict.breach(4, "one person got the messages of two rows", f"seq {min(several)} and seq {seq}")


def folded(address: str) -> str:
    """Return what is equal for all forms of one address: Brazil's ninth digit, Mexico's 1 and Argentina's 9 are optional."""
    if "." in address:
        return address
    digits = _NOT_DIGITS.sub("", address)
    if len(digits) == 13 and digits[:2] == "55" and digits[4] == "9":
        return digits[:4] + digits[5:]
    if len(digits) == 13 and digits[:3] in ("521", "549"):
        return digits[:2] + digits[3:]
    return digits
