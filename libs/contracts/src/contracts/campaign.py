"""What a campaign is, its states and a recipient's states, with the moves that are legal.

Invariant: a state outside these enums does not exist, and every state that isn't progress carries a `Reason`.
"""

from enum import IntEnum, StrEnum
from typing import Annotated

from msgspec import Meta, Struct


class CampaignState(StrEnum):
    """Where a campaign stands."""

    DRAFT = "draft"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETING = "completing"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


MOVES: dict[CampaignState, frozenset[CampaignState]] = {
    CampaignState.DRAFT: frozenset({CampaignState.SCHEDULED, CampaignState.RUNNING, CampaignState.CANCELLED}),
    CampaignState.SCHEDULED: frozenset({CampaignState.RUNNING, CampaignState.DRAFT, CampaignState.CANCELLED}),
    CampaignState.RUNNING: frozenset(
        {CampaignState.PAUSED, CampaignState.COMPLETING, CampaignState.CANCELLED}
    ),
    CampaignState.PAUSED: frozenset({CampaignState.RUNNING, CampaignState.CANCELLED}),
    CampaignState.COMPLETING: frozenset(
        {CampaignState.RUNNING, CampaignState.COMPLETED, CampaignState.CANCELLED}
    ),
    CampaignState.COMPLETED: frozenset(),
    CampaignState.CANCELLED: frozenset(),
}


class RecipientState(StrEnum):
    """Where one recipient of one campaign stands."""

    PENDING = "pending"
    SENDING = "sending"
    ACCEPTED = "accepted"
    SENT = "sent"
    DELIVERED = "delivered"
    READ = "read"
    FAILED = "failed"
    UNKNOWN = "unknown"
    GIVEN_UP = "given_up"
    DEFERRED = "deferred"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SUPPRESSED = "suppressed"


OPEN_STATES = frozenset(
    {RecipientState.PENDING, RecipientState.DEFERRED, RecipientState.SENDING, RecipientState.UNKNOWN}
)


class Rank(IntEnum):
    """What is proven of one attempt; a higher rank wins whatever order the proofs come in."""

    NONE = 0
    ACCEPTED = 1
    SENT = 2
    FAILED = 3
    DELIVERED = 4
    READ = 5


RANK_OF_STATUS = {
    "sent": Rank.SENT,
    "failed": Rank.FAILED,
    "delivered": Rank.DELIVERED,
    "read": Rank.READ,
    "played": Rank.READ,  # a voice note that was played was read
}


class Reason(StrEnum):
    """Why a recipient is not simply on the way: the closed list behind "why has this person not got it?"."""

    OPTED_OUT = "opted_out"
    BLOCKED = "blocked"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    """Failed with the row's error code."""
    TRIES_SPENT = "tries_spent"
    RETRYING = "retrying"
    """Pending again after a failure that may pass."""
    THROTTLED = "throttled"
    RELEASED = "released"
    """Claimed, not sent, handed back."""
    RECLAIMED = "reclaimed"
    """Its sender vanished between claim and answer."""
    NO_ANSWER = "no_answer"
    """The POST's answer was lost or unreadable."""
    SILENT = "silent"
    """No status came within the campaign's wait."""
    NO_LATER_STATUS = "no_later_status"
    """A resend was allowed, but nothing proved that statuses were still arriving."""
    CAMPAIGN_CANCELLED = "campaign_cancelled"
    VALIDITY_OVER = "validity_over"
    PAIR_LIMIT = "pair_limit"
    PORTFOLIO_BUDGET = "portfolio_budget"
    FREQUENCY_CAP = "frequency_cap"


class OnUnknown(StrEnum):
    """What to do with a recipient of whom nobody can say whether the message left."""

    RESEND = "resend"
    GIVE_UP = "give_up"


class TemplateRef(Struct, frozen=True, kw_only=True):
    """A template by name and language, and the values of its body parameters in order."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,512}$(?!\n)")]
    language: Annotated[str, Meta(pattern=r"^[a-z]{2,3}(_[A-Z]{2})?$(?!\n)")]
    body: tuple[str, ...] = ()

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"TemplateRef(name={self.name!r}, language={self.language!r})"


class CampaignDefinition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator says of a campaign. `template.body` names columns of the audience, one a parameter."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    template: TemplateRef
    numbers: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]
    """Phone number ids of one portfolio; each gets a share of the audience in proportion to its setting."""
    on_unknown: OnUnknown = OnUnknown.GIVE_UP
    unknown_wait_s: Annotated[int, Meta(ge=1, le=604_800)] = 900
    """How long an unknown recipient waits for a status before the policy applies."""
    valid_for_s: Annotated[int, Meta(ge=60, le=2_592_000)] = 259_200
    """Counted from the launch; what was not sent by then expires."""
    tries_max: Annotated[int, Meta(ge=1, le=20)] = 5


class CampaignChanged(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A campaign took a new state, on `campaign-events`."""

    campaign_id: int
    state: CampaignState
    at_s: float
    actor: str = "orchestrator"
    reason: str | None = None
