"""The transition table of one recipient's row, as pure functions: what `functions/*.sql` do to it, in one place.

Invariant: the state is the best delivery of any attempt, else what is proven of the current attempt, else what our last
command left; so for a given sequence of commands the row doesn't depend on the order or repetition of the provider's events.

| command or event                | from                      | to                                                        |
| ------------------------------- | ------------------------- | --------------------------------------------------------- |
| claim                           | pending, deferred, unknown| sending: a new attempt, one try; the one before is kept   |
| claim of a suppressed person    | the same                  | suppressed; of unknown: given_up; of a failure: failed    |
| accepted                        | nothing proven            | accepted; of another attempt: noted with that attempt     |
| refused                         | not failed                | failed(refused)                                           |
| returned, tries left            | sending, unknown          | what it was before its claim: pending, unknown, …; due    |
| returned, campaign over         | sending, unknown          | what it was before its claim, ended                       |
| returned, tries spent           | sending, unknown          | failed(tries_spent)                                       |
| no answer, reclaim              | sending                   | unknown(no_answer, reclaimed)                             |
| silent: resend                  | unknown                   | unknown, due                                              |
| silent: give up                 | unknown                   | given_up(silent, no_later_status)                         |
| cancel, expiry                  | pending, deferred, unknown| cancelled or expired; failed(refused); given_up(silent)   |
| delivered, read of any attempt  | any                       | delivered, read                                           |
| sent of the current attempt     | not failed                | sent                                                      |
| failed of the current attempt   | not delivered             | failed; pending(retrying), due, where it may pass         |
| sent, failed of an earlier one  | any                       | the same; it counts if that attempt is current again      |

The SQL is what runs; this is what it is tested against.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from contracts.campaign import Rank, Reason, RecipientState

S = RecipientState
_CLAIMABLE = (S.PENDING, S.DEFERRED, S.UNKNOWN)


class Campaign(Struct, frozen=True, kw_only=True):
    """What a row's transitions depend on of its campaign."""

    is_open: bool = True
    """Running, paused or completing: only then may a row return to pending."""
    is_cancelled: bool = False
    tries_max: int = 5


class Earlier(Struct, frozen=True, kw_only=True):
    """What is proven of an attempt that isn't current; `state` is None for one that can't be current again."""

    state: RecipientState | None = None
    reason: Reason | None = None
    proof: int = Rank.NONE
    code: int | None = None
    sent_s: int | None = None
    failed_s: int | None = None


class Row(Struct, frozen=True, kw_only=True):
    """One recipient; times in Unix seconds."""

    state: RecipientState = S.PENDING
    attempt: int = 0
    attempt_last: int = 0
    tries: int = 0
    proof: int = Rank.NONE
    best: int = Rank.NONE
    code: int | None = None
    reason: Reason | None = None
    sent_s: int | None = None
    failed_s: int | None = None
    delivered_s: int | None = None
    read_s: int | None = None
    is_due: bool = False
    earlier: Mapping[int, Earlier] = MappingProxyType({})


class Events(Struct, frozen=True, kw_only=True):
    """What the provider said of one attempt: the earliest time of each status; `may_pass` of the winning failure."""

    attempt: int
    sent_s: int | None = None
    delivered_s: int | None = None
    read_s: int | None = None
    failed_s: int | None = None
    code: int | None = None
    may_pass: bool = False

    @property
    def rank(self) -> Rank:
        """The highest rank among them."""
        if self.read_s is not None:
            return Rank.READ
        if self.delivered_s is not None:
            return Rank.DELIVERED
        if self.failed_s is not None:
            return Rank.FAILED
        return Rank.NONE if self.sent_s is None else Rank.SENT


def claimed(row: Row, *, suppression: Reason | None = None) -> Row:
    """Return the row after a claim that picked it."""
    if row.state not in _CLAIMABLE:
        return replace(row, is_due=False)
    if suppression is not None:
        if row.state is S.UNKNOWN:
            return _ended(row, S.GIVEN_UP, suppression)
        if row.proof == Rank.FAILED:
            return _ended(row, S.FAILED, Reason.REFUSED)
        return _ended(row, S.SUPPRESSED, suppression)
    earlier = dict(row.earlier)
    if row.attempt:
        earlier[row.attempt] = Earlier(
            state=row.state, reason=row.reason, proof=row.proof, code=row.code, sent_s=row.sent_s, failed_s=row.failed_s
        )  # fmt: skip
    number = row.attempt_last + 1
    return replace(
        row, state=S.SENDING, attempt=number, attempt_last=number, tries=row.tries + 1, proof=Rank.NONE, code=None,
        reason=None, sent_s=None, failed_s=None, is_due=False, earlier=earlier,
    )  # fmt: skip


def accepted(row: Row, attempt: int) -> Row:
    """Return the row after a POST was answered with a wamid."""
    if attempt == row.attempt:
        if row.proof != Rank.NONE:
            return row
        return _progressed(replace(row, proof=Rank.ACCEPTED), S.ACCEPTED)
    if not 1 <= attempt <= row.attempt_last:
        return row
    before = row.earlier.get(attempt, Earlier())
    return _with_earlier(row, attempt, replace(before, proof=max(before.proof, Rank.ACCEPTED)))


def refused(row: Row, attempt: int, *, code: int | None, now_s: int) -> Row:
    """Return the row after a POST was answered: this message never."""
    if attempt != row.attempt or row.proof >= Rank.FAILED:
        return row
    return _failed(row, Reason.REFUSED, code=code, at_s=now_s)


def returned(
    row: Row,
    attempt: int,
    campaign: Campaign,
    *,
    reason: Reason,
    code: int | None,
    gives_back: bool,
    now_s: int,
) -> Row:
    """Return the row after a POST that surely sent nothing: its attempt is taken back, its number never used again."""
    if attempt != row.attempt or row.proof != Rank.NONE or row.state not in (S.SENDING, S.UNKNOWN):
        return row
    tries = row.tries - gives_back
    if tries >= campaign.tries_max:
        return _failed(row, Reason.TRIES_SPENT, code=code, at_s=now_s)
    back = max((n for n, e in row.earlier.items() if n < attempt and e.state is not None), default=0)
    before = row.earlier.get(back, Earlier(state=S.PENDING, reason=reason, code=code))
    row = replace(
        row, attempt=back, tries=tries, proof=before.proof, code=before.code, reason=before.reason, sent_s=before.sent_s,
        failed_s=before.failed_s, earlier={n: e for n, e in row.earlier.items() if n != back},
    )  # fmt: skip
    if before.proof in (Rank.ACCEPTED, Rank.SENT):
        return _progressed(row, S.SENT if before.proof == Rank.SENT else S.ACCEPTED)
    if before.state is S.FAILED:
        return _ended(row, S.FAILED, Reason.REFUSED)
    if before.proof == Rank.FAILED:
        row = replace(row, state=S.PENDING, reason=Reason.RETRYING, is_due=True)
    else:
        row = replace(row, state=S.UNKNOWN if before.state is S.UNKNOWN else S.PENDING, is_due=True)
    return row if campaign.is_open else ended(row, campaign)


def lost(row: Row, attempt: int, reason: Reason) -> Row:
    """Return the row after nobody can say whether the message left: no answer, or the sender vanished."""
    if attempt != row.attempt or row.proof != Rank.NONE or row.state is not S.SENDING:
        return row
    return replace(row, state=S.UNKNOWN, reason=reason)


def resend_due(row: Row) -> Row:
    """Return a silent row that is to be sent again; it stays unknown until it is claimed."""
    return replace(row, is_due=True) if row.state is S.UNKNOWN else row


def given_up(row: Row, reason: Reason) -> Row:
    """Return a silent row that is not to be sent again."""
    return _ended(row, S.GIVEN_UP, reason) if row.state is S.UNKNOWN else row


def ended(row: Row, campaign: Campaign) -> Row:
    """Return the row after its campaign was cancelled, or its validity ran out: it ends in what it was."""
    if row.state not in _CLAIMABLE:
        return row
    if row.state is S.UNKNOWN:
        # Past its validity a lost answer still has its campaign's whole wait, unless it was to be sent again.
        waits = campaign.is_open and not row.is_due
        return row if waits else _ended(row, S.GIVEN_UP, Reason.SILENT)
    if row.proof == Rank.FAILED:
        return _ended(row, S.FAILED, Reason.REFUSED)
    if campaign.is_cancelled:
        return _ended(row, S.CANCELLED, Reason.CAMPAIGN_CANCELLED)
    return _ended(row, S.EXPIRED, Reason.VALIDITY_OVER)


def applied(row: Row, events: Events, campaign: Campaign) -> Row:
    """Return the row after statuses of one attempt; those of an attempt that never was change nothing."""
    if not 1 <= events.attempt <= row.attempt_last:
        return row
    row = replace(
        row,
        best=max(row.best, events.rank if events.rank >= Rank.DELIVERED else Rank.NONE),
        delivered_s=_least(row.delivered_s, events.delivered_s),
        read_s=_least(row.read_s, events.read_s),
    )
    row = _of_current(row, events, campaign) if events.attempt == row.attempt else _of_earlier(row, events)
    if row.best == Rank.NONE:
        return row
    return _progressed(replace(row, failed_s=None), S.READ if row.best == Rank.READ else S.DELIVERED)


def _of_current(row: Row, events: Events, campaign: Campaign) -> Row:
    wins = _wins(events, row.failed_s, row.code)
    row = replace(row, proof=max(row.proof, events.rank), sent_s=_least(row.sent_s, events.sent_s))
    if row.proof in (Rank.ACCEPTED, Rank.SENT):
        return _progressed(row, S.SENT if row.proof == Rank.SENT else S.ACCEPTED)
    if row.proof != Rank.FAILED or not wins:
        return row
    row = replace(row, failed_s=events.failed_s, code=events.code)
    if events.may_pass and campaign.is_open and row.tries < campaign.tries_max:
        return replace(row, state=S.PENDING, reason=Reason.RETRYING, is_due=True)
    spent = events.may_pass and row.tries >= campaign.tries_max
    return _ended(row, S.FAILED, Reason.TRIES_SPENT if spent else Reason.REFUSED)


def _of_earlier(row: Row, events: Events) -> Row:
    before = row.earlier.get(events.attempt, Earlier())
    after = replace(before, proof=max(before.proof, events.rank), sent_s=_least(before.sent_s, events.sent_s))
    if _wins(events, before.failed_s, before.code):
        after = replace(after, failed_s=events.failed_s, code=events.code)
        if before.state is not None:
            after = replace(after, state=S.PENDING if events.may_pass else S.FAILED)
    return _with_earlier(row, events.attempt, after)


def _wins(events: Events, failed_s: int | None, code: int | None) -> bool:
    """Whether this failure is the one that counts: the least (time, code), a missing code behind all others."""
    if events.failed_s is None:
        return False
    return failed_s is None or (events.failed_s, _order(events.code)) < (failed_s, _order(code))


def _order(code: int | None) -> float:
    return float("inf") if code is None else code


def _least(a: int | None, b: int | None) -> int | None:
    return min((s for s in (a, b) if s is not None), default=None)


def _progressed(row: Row, state: RecipientState) -> Row:
    """A delivery of any attempt is never undone by what is proven of the current one."""
    if row.best != Rank.NONE:
        state = S.READ if row.best == Rank.READ else S.DELIVERED
    return replace(row, state=state, reason=None, code=None, is_due=False)


def _failed(row: Row, reason: Reason, *, code: int | None, at_s: int) -> Row:
    row = replace(row, proof=Rank.FAILED)
    if row.best != Rank.NONE:
        return _progressed(replace(row, failed_s=None), row.state)
    return _ended(replace(row, code=code, failed_s=at_s), S.FAILED, reason)


def _ended(row: Row, state: RecipientState, reason: Reason) -> Row:
    return replace(row, state=state, reason=reason, is_due=False)


def _with_earlier(row: Row, attempt: int, earlier: Earlier) -> Row:
    return replace(row, earlier={**row.earlier, attempt: earlier})
