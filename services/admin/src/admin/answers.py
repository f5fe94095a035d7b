"""What the API says: reports as structs, and every refusal as a code and one sentence.

Invariant: nothing here holds a secret, a stack or a person's data; phone numbers leave through the export alone.
"""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from admin.csv_audience import Problem
from contracts.campaign import CampaignState, OnUnknown, Reason, RecipientState, TemplateRef


class ApiError(Exception):
    """Ends a request with this status, code (for programs) and sentence (for people)."""

    def __init__(self, status: int, code: str, sentence: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.sentence = sentence
        self.retry_after_s = retry_after_s


class NumberProgress(Struct, frozen=True, kw_only=True):
    """A number's share of a campaign; how fast it goes shows in `claimed_count` from one look to the next."""

    phone_number_id: str
    rows_count: int
    claimed_count: int
    setting_per_s: int


class Pause(Struct, frozen=True, kw_only=True):
    """Who paused a campaign, why, on what evidence, and what would lift it."""

    actor: str | None
    reason: str | None
    evidence: str | None
    lifted_by: str | None


class HaltLine(Struct, frozen=True, kw_only=True):
    """A halt, and its name: scope and key."""

    scope: str
    """`campaign`, `number`, `waba` or `all`."""
    key: str
    """`*` for `all`."""
    actor: str
    reason: str
    since: datetime
    numbers: tuple[str, ...] | None = None
    """In a campaign's status: those of its numbers that stand still by this."""


class HaltPlaced(Struct, frozen=True, kw_only=True):
    """What stands after a halt was asked for; one that stood before keeps its actor and reason."""

    halt: HaltLine
    changed: bool


class CampaignStatus(Struct, frozen=True, kw_only=True):
    """A campaign as it stands; of a draft, `audience_size` is what was imported so far."""

    campaign_id: int
    name: str
    state: CampaignState
    portfolio_id: str
    template: TemplateRef
    on_unknown: OnUnknown
    unknown_wait_s: int
    valid_for_s: int
    tries_max: int
    audience_size: int
    counts: dict[str, int]
    """Recipients by state; all states are there."""
    remaining_count: int
    """Not sent yet, or being sent."""
    eta_s: float | None
    """Seconds at the settings of the numbers that aren't halted; None unless it runs on one of them."""
    numbers: tuple[NumberProgress, ...]
    pause: Pause | None
    halts: tuple[HaltLine, ...] = ()
    """What stops it besides its own state, on some numbers or on all."""
    created_at: datetime
    launched_at: datetime | None
    valid_until: datetime | None
    completing_at: datetime | None
    ended_at: datetime | None


class CampaignLine(Struct, frozen=True, kw_only=True):
    """A campaign in a list."""

    campaign_id: int
    name: str
    state: CampaignState
    template_name: str
    audience_size: int
    created_at: datetime


class ImportReport(Struct, frozen=True, kw_only=True):
    """What an import did. `rows` = added + rejected + duplicates; blank lines are not counted among them."""

    added: int
    rejected: int
    duplicates: int
    rows: int
    blank: int
    reasons: dict[str, int]
    """Rejected rows by reason."""
    problems: tuple[Problem, ...]
    """Of the rejected and of the duplicates the first thousand each, by line."""
    encoding: str
    delimiter: str


class OptOutReport(Struct, frozen=True, kw_only=True):
    """What an import of opt-outs did. `rows` = opted_out + already + rejected; blank lines are not counted among them."""

    opted_out: int
    already: int
    """Whom nobody would have written to anyway, and rows of a person who occurs twice."""
    rejected: int
    rows: int
    blank: int
    reasons: dict[str, int]
    """Rejected rows by reason."""
    problems: tuple[Problem, ...]
    """The first thousand, by line."""
    encoding: str
    delimiter: str


class WaitFor(StrEnum):
    """What may stand between a recipient and what comes next."""

    TURN = "turn"
    ANSWER = "answer"
    STATUS = "status"
    DUE = "due"
    CAMPAIGN = "campaign"
    EXPIRY = "expiry"
    HALT = "halt"
    THROTTLE = "throttle"
    SETTING = "setting"
    SENDER = "sender"
    SUPPRESSION = "suppression"


class Wait(Struct, frozen=True, kw_only=True):
    """One thing that a recipient waits for."""

    what: WaitFor
    words: str
    until: datetime | None = None
    """Known for throttles, due times, and an unknown row's wait for a status."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One POST that isn't the current one; `state` is the one in which the next found the row."""

    attempt: int
    state: RecipientState | None
    reason: Reason | None
    reason_words: str | None
    code: int | None
    code_words: str | None
    started_at: datetime | None
    sent_at: datetime | None
    failed_at: datetime | None


class Why(Struct, frozen=True, kw_only=True):
    """What became of one recipient, why, and what comes next; who it is isn't said again."""

    campaign_id: int
    campaign_state: CampaignState
    seq: int
    line: int
    """Of the file that was imported."""
    phone_number_id: str
    state: RecipientState
    state_words: str
    reason: Reason | None
    reason_words: str | None
    code: int | None
    code_words: str | None
    attempt: int
    """The current POST; 0: none so far."""
    tries: int
    tries_max: int
    started_at: datetime | None
    sent_at: datetime | None
    delivered_at: datetime | None
    read_at: datetime | None
    failed_at: datetime | None
    earlier_attempts: tuple[Attempt, ...]
    waits: tuple[Wait, ...]
    """Empty for a row that is at its end."""


class DeadLetterCount(Struct, frozen=True, kw_only=True):
    """How many dead letters one group wrote to one topic for one reason; all three add up over the counts."""

    topic: str
    group: str
    reason: str
    replayable: int
    replayed: int
    """They stand on their topic again; a replay leaves them out unless it is told otherwise."""
    refused: dict[str, int]
    """Those that can't be replayed, by why."""


class DeadLetterLine(Struct, frozen=True, kw_only=True):
    """A dead letter without what it holds."""

    place: str
    at: datetime
    group: str | None
    reason: str | None
    attempts: int | None
    origin: str | None
    key: str | None
    """Masked."""
    event_id: str
    value_bytes: int
    """Of the letter; a value that was cut was longer."""
    replayed_at: datetime | None
    refused: str | None
    """Why it can't be replayed."""


class DeadLetterReport(Struct, frozen=True, kw_only=True):
    """The dead letters before `until`: all of them counted, the newest told."""

    complete: bool
    """False when the time was over before the topics were: the counts are too low."""
    until: datetime
    counts: tuple[DeadLetterCount, ...]
    letters: tuple[DeadLetterLine, ...]


class HeaderLine(Struct, frozen=True, kw_only=True):
    """A record's header; what a foreign writer put there is told only with the body."""

    name: str
    content: str | None


class DeadLetter(Struct, frozen=True, kw_only=True):
    """One dead letter; key and body are a person's data, and stand here only when they were asked for by name."""

    letter: DeadLetterLine
    refused_words: str | None
    headers: tuple[HeaderLine, ...]
    key: str | None = None
    body: str | None = None
    body_base64: str | None = None
    """Instead of `body` where the bytes are no UTF-8."""


class ReplayStep(Struct, frozen=True, kw_only=True):
    """What one request replayed; with `next`, there may be more: ask again, `after` it."""

    replayed: int
    already: int
    refused: dict[str, int]
    next: str | None
