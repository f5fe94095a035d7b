"""What an outcome means for its row and for its number.

Invariant: `Unknown` never leads to a send; only what was surely not sent goes back to pending.
"""

from random import Random
from typing import assert_never

from msgspec import Struct

from contracts.campaign import Reason
from contracts.outcome import Accepted, Outcome, Rejected, Scope, Throttled, Unknown, Unsent, UnsentReason
from ledger.recipients import Settlement
from sender.retry import next_delay_s


class Post(Struct, frozen=True, kw_only=True):
    """One attempt of one recipient."""

    campaign_id: int
    seq: int
    attempt: int
    tries: int = 1
    """The budget spent, this attempt included."""

    def __repr__(self) -> str:
        return f"Post(c:{self.campaign_id}:{self.seq}:{self.attempt})"


class Hold(Struct, frozen=True, kw_only=True):
    """Something larger than the row must wait."""

    scope: Scope
    for_s: float
    code: int


def settlement(post: Post, outcome: Outcome, rng: Random) -> Settlement:
    """Return how a row is settled by the outcome of its POST."""
    match outcome:
        case Accepted(wamid=wamid):
            return _settled(post, "accepted", wamid=wamid)
        case Rejected(code=code):
            return _settled(post, "refused", code=code)
        case Unknown():
            return _settled(post, "unknown", reason=Reason.NO_ANSWER)
        case Throttled(scope=Scope.PAIR, retry_after_s=wait_s, code=code):
            return _returned(post, Reason.PAIR_LIMIT, wait_s * (1 + rng.random()), code=code)
        case Throttled(retry_after_s=wait_s, code=code):
            # The claim itself obeys the throttle; the due time only spreads the returning rows.
            return _returned(post, Reason.THROTTLED, min(wait_s, 1.0) * rng.random(), code=code)
        case Unsent(reason=UnsentReason.RETRY_CODE | UnsentReason.REFUSED_WITHOUT_CODE, code=code):
            delay_s = next_delay_s(post.tries, rng)
            return _returned(post, Reason.RETRYING, delay_s, code=code, gives_back=False)
        case Unsent():
            return released(post)
        case _:
            assert_never(outcome)


def released(post: Post) -> Settlement:
    """Return how a row that was claimed and not sent goes back: at once, nothing spent."""
    return _returned(post, Reason.RELEASED, 0.0)


def hold_of(outcome: Outcome) -> Hold | None:
    """Return what must wait besides the row itself, if anything."""
    if isinstance(outcome, Throttled) and outcome.scope is not Scope.PAIR:
        return Hold(scope=outcome.scope, for_s=outcome.retry_after_s, code=outcome.code)
    return None


def _settled(
    post: Post, kind: str, *, wamid: str | None = None, code: int | None = None, reason: Reason | None = None
) -> Settlement:
    return Settlement(
        campaign_id=post.campaign_id,
        seq=post.seq,
        attempt=post.attempt,
        kind=kind,
        wamid=wamid,
        code=code,
        reason=reason,
    )


def _returned(
    post: Post, reason: Reason, due_in_s: float, *, code: int | None = None, gives_back: bool = True
) -> Settlement:
    return Settlement(
        campaign_id=post.campaign_id,
        seq=post.seq,
        attempt=post.attempt,
        kind="returned",
        code=code,
        reason=reason,
        due_in_s=due_in_s,
        gives_back=gives_back,
    )
