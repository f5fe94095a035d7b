"""Why a person has, or hasn't, got a campaign's message, and what comes next: facts of the ledger become words.

Invariant: each state and each reason has its words, and a row that isn't at its end says what it waits for.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from admin.answers import Attempt, Wait, WaitFor, Why
from contracts.campaign import CampaignState, OnUnknown, Reason, RecipientState
from contracts.codes import code_row
from ledger.campaigns import Campaign
from ledger.fate import Fate
from ledger.halts import CampaignHalt

STATE_WORDS = {
    RecipientState.PENDING: "not sent yet",
    RecipientState.SENDING: "being sent right now: the answer isn't here yet",
    RecipientState.ACCEPTED: "taken by Meta; no status has come yet",
    RecipientState.SENT: "sent by Meta; not on the person's phone yet",
    RecipientState.DELIVERED: "delivered to the person's phone",
    RecipientState.READ: "read by the person",
    RecipientState.FAILED: "failed, and not sent again",
    RecipientState.UNKNOWN: "perhaps sent: the answer to the attempt was lost",
    RecipientState.GIVEN_UP: "perhaps sent: nothing was heard of it, and it is not sent again",
    RecipientState.DEFERRED: "put off until later",
    RecipientState.CANCELLED: "never sent: the campaign was cancelled before its turn",
    RecipientState.EXPIRED: "never sent: the campaign's validity ran out before its turn",
    RecipientState.SUPPRESSED: "not sent on purpose: this person must not be written to",
}

REASON_WORDS = {
    Reason.OPTED_OUT: "the person has opted out",
    Reason.BLOCKED: "the person is blocked",
    Reason.DUPLICATE: "the campaign has another row of the same person",
    Reason.REFUSED: "Meta refused this message",
    Reason.TRIES_SPENT: "every try that the campaign allows failed",
    Reason.RETRYING: "an attempt failed in a way that may pass: it is tried again",
    Reason.THROTTLED: "Meta asked for a slower pace: it was not taken, and is sent again",
    Reason.RELEASED: "it was about to be sent and was put back unsent: a halt, a pause, a throttle or a stop of the sender",
    Reason.RECLAIMED: "its sender vanished in the middle of the attempt",
    Reason.NO_ANSWER: "the answer to the attempt was lost or unreadable",
    Reason.SILENT: "no status came within the campaign's wait",
    Reason.NO_LATER_STATUS: "a resend was allowed, but nothing proved that statuses were still arriving",
    Reason.CAMPAIGN_CANCELLED: "the campaign was cancelled",
    Reason.VALIDITY_OVER: "the campaign's validity ran out",
    Reason.PAIR_LIMIT: "Meta takes no more messages from this number to this person for a while",
    Reason.PORTFOLIO_BUDGET: "the portfolio's daily budget of people is spent",
    Reason.FREQUENCY_CAP: "the person has had as many messages as our own cap allows for now",
}

_CLAIMABLE = (RecipientState.PENDING, RecipientState.DEFERRED)
_SETTLED_WORDS = {
    CampaignState.PAUSED: "the campaign is paused",
    CampaignState.COMPLETING: "the campaign is completing: it runs again for this row",
    CampaignState.COMPLETED: "the campaign is completed: nothing more is sent",
    CampaignState.CANCELLED: "the campaign is cancelled: the row ends in a moment",
}


def why_of(campaign: Campaign, fate: Fate, halts: Sequence[CampaignHalt]) -> Why:
    """Return a recipient's story; `halts` are those that stop the campaign."""
    return Why(
        campaign_id=campaign.campaign_id,
        campaign_state=campaign.state,
        seq=fate.seq,
        line=fate.line,
        phone_number_id=fate.phone_number_id,
        state=fate.state,
        state_words=STATE_WORDS[fate.state],
        reason=fate.reason,
        reason_words=None if fate.reason is None else REASON_WORDS[fate.reason],
        code=fate.code,
        code_words=code_words(fate.code),
        attempt=fate.attempt,
        tries=fate.tries,
        tries_max=campaign.tries_max,
        started_at=fate.started_at,
        sent_at=fate.sent_at,
        delivered_at=fate.delivered_at,
        read_at=fate.read_at,
        failed_at=fate.failed_at,
        earlier_attempts=tuple(
            Attempt(
                attempt=earlier.attempt,
                state=earlier.state,
                reason=earlier.reason,
                reason_words=None if earlier.reason is None else REASON_WORDS[earlier.reason],
                code=earlier.code,
                code_words=code_words(earlier.code),
                started_at=earlier.started_at,
                sent_at=earlier.sent_at,
                failed_at=earlier.failed_at,
            )
            for earlier in fate.earlier
        ),
        waits=tuple(waits_of(campaign, fate, halts)),
    )


def code_words(code: int | None) -> str | None:
    """Return what an error code of Meta's means; None without one."""
    return None if code is None else code_row(code).meaning


def waits_of(campaign: Campaign, fate: Fate, halts: Sequence[CampaignHalt]) -> Iterator[Wait]:
    """Yield what a row waits for; nothing for one that is at its end."""
    if fate.state is RecipientState.SENDING:
        yield Wait(
            what=WaitFor.ANSWER, words="the attempt's answer; without one it becomes unknown in seconds"
        )
    elif fate.state in (RecipientState.ACCEPTED, RecipientState.SENT):
        yield Wait(
            what=WaitFor.STATUS, words="Meta's next status: the phone may be off, or the status on its way"
        )
    elif fate.state is RecipientState.UNKNOWN and fate.due_at is None:
        yield _silence(campaign, fate)
    elif fate.state in _CLAIMABLE or fate.state is RecipientState.UNKNOWN:
        yield from _claim(campaign, fate, halts)


def _silence(campaign: Campaign, fate: Fate) -> Wait:
    """What an unknown row waits for, that isn't due for a resend."""
    resends = campaign.on_unknown == OnUnknown.RESEND
    then = (
        "then it is sent again, once it is proven that statuses still arrive"
        if resends
        else "then it is given up"
    )
    until = None
    if fate.unknown_since is not None:
        until = fate.unknown_since + timedelta(seconds=campaign.unknown_wait_s)
    return Wait(
        what=WaitFor.STATUS, until=until, words=f"a status that tells what became of the attempt; {then}"
    )


def _claim(campaign: Campaign, fate: Fate, halts: Sequence[CampaignHalt]) -> Iterator[Wait]:
    """What stands between a row and its next attempt; its turn, if nothing else does."""
    found = [
        *_of_campaign(campaign, fate),
        *(_of_halt(stop) for stop in halts if fate.phone_number_id in stop.numbers),
        *_of_number(fate),
        *_of_row(fate),
    ]
    if found:
        yield from found
    else:
        ahead = f"{fate.rows_before} rows of its number go before it" if fate.rows_before else "it is next"
        yield Wait(what=WaitFor.TURN, words=f"its turn: {ahead}")


def _of_campaign(campaign: Campaign, fate: Fate) -> Iterator[Wait]:
    if campaign.state in _SETTLED_WORDS:
        words = _SETTLED_WORDS[campaign.state]
        if campaign.state is CampaignState.PAUSED and campaign.pause_reason:
            words += f" by {campaign.pause_actor or 'nobody known'}: {campaign.pause_reason}"
        yield Wait(what=WaitFor.CAMPAIGN, words=words)
    if campaign.valid_until is not None and campaign.valid_until <= fate.now:
        yield Wait(what=WaitFor.EXPIRY, words="the campaign's validity is over: the row ends in a moment")


def _of_halt(stop: CampaignHalt) -> Wait:
    halt = stop.halt
    named = "everything" if halt.scope == "all" else f"{halt.scope} {halt.key}"
    return Wait(
        what=WaitFor.HALT, words=f"{named} is halted by {halt.actor}, until that is lifted: {halt.reason}"
    )


def _of_number(fate: Fate) -> Iterator[Wait]:
    for throttle in fate.throttles:
        cause = "" if throttle.code is None else f": {throttle.code}, {code_words(throttle.code)}"
        yield Wait(
            what=WaitFor.THROTTLE, until=throttle.until, words=f"the {throttle.scope} is held back{cause}"
        )
    if fate.setting_per_s == 0:
        yield Wait(what=WaitFor.SETTING, words="its number is set to send nothing (setting_per_s is 0)")
    elif not fate.is_owned:
        yield Wait(what=WaitFor.SENDER, words="no sender holds its number at the moment")


def _of_row(fate: Fate) -> Iterator[Wait]:
    if fate.suppression is not None:
        words = f"{REASON_WORDS[fate.suppression]}: it ends unsent when its turn comes"
        yield Wait(what=WaitFor.SUPPRESSION, words=words)
    if fate.due_at is not None and fate.due_at > fate.now:
        yield Wait(what=WaitFor.DUE, until=fate.due_at, words="the time of its next attempt")
