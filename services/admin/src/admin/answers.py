"""What the API says: reports as structs, and every refusal as a code and one sentence.

Invariant: nothing here holds a secret, a stack or a person's data; phone numbers leave through the export alone.
"""

from datetime import datetime

from msgspec import Struct

from admin.csv_audience import Problem
from contracts.campaign import CampaignState, OnUnknown, TemplateRef


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
    """Seconds at the numbers' settings; None unless it runs."""
    numbers: tuple[NumberProgress, ...]
    pause: Pause | None
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
