"""Campaigns come to their end: open rows of cancelled and expired ones are ended, finished ones complete by themselves."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from contracts.campaign import OPEN_STATES, CampaignChanged, CampaignState, RecipientState
from ledger import campaigns, recipients
from ledger.campaigns import Campaign, Refusal
from ledger.pool import Ledger
from orchestrator import metrics
from runtime.clock import Clock
from runtime.logs import get_logger

SPAN_ROWS = 5_000
CAMPAIGNS_MAX = 1_000
RETURNED = frozenset({RecipientState.PENDING, RecipientState.DEFERRED, RecipientState.UNKNOWN})
Tell = Callable[[CampaignChanged], Awaitable[None]]
log = get_logger()


class Finish:
    """Looks at each campaign that is under way."""

    def __init__(self, ledger: Ledger, *, settle_s: float, tell: Tell, clock: Clock) -> None:
        self._ledger = ledger
        self._settle_s = settle_s
        self._tell = tell
        self._clock = clock
        self._told: dict[int, CampaignState] = {}

    async def look(self) -> None:
        """Do what is due on every campaign that has, or may have, open rows."""
        states = (CampaignState.RUNNING, CampaignState.PAUSED, CampaignState.COMPLETING)
        for campaign in await campaigns.listed(self._ledger, states=states, limit=CAMPAIGNS_MAX):
            await self._advance(campaign)
        for campaign in await campaigns.cancelled_with_open_rows(self._ledger):
            await self._end_rows(campaign)

    async def _advance(self, campaign: Campaign) -> None:
        await self._announce(campaign.campaign_id, campaign.state)
        counts = await campaigns.counts(self._ledger, campaign.campaign_id)
        expired = campaign.valid_until is not None and campaign.valid_until <= datetime.fromtimestamp(
            self._clock.wall(), UTC
        )
        if expired and any(counts[state] for state in RETURNED):
            await self._end_rows(campaign)
            counts = await campaigns.counts(self._ledger, campaign.campaign_id)
        if campaign.state is CampaignState.RUNNING and not any(counts[state] for state in OPEN_STATES):
            try:
                await campaigns.move(
                    self._ledger, campaign.campaign_id, CampaignState.COMPLETING, actor="orchestrator"
                )
            except Refusal:
                return  # paused or cancelled meanwhile
            await self._announce(campaign.campaign_id, CampaignState.COMPLETING)
        reached = await campaigns.complete(self._ledger, campaign.campaign_id, settle_s=self._settle_s)
        if reached is not None:
            log.info("campaign.moved", state=reached)
            await self._announce(campaign.campaign_id, reached)

    async def _end_rows(self, campaign: Campaign) -> None:
        ended = 0
        for after in range(0, campaign.audience_size, SPAN_ROWS):
            ended += await recipients.end_rows(
                self._ledger, campaign_id=campaign.campaign_id, after_seq=after, span=SPAN_ROWS
            )
        if ended:
            metrics.ROWS.labels("ended").inc(ended)
            log.info("rows.ended", rows_count=ended)
        await self._announce(campaign.campaign_id, campaign.state)

    async def _announce(self, campaign_id: int, state: CampaignState) -> None:
        """Tell a state once, as far as this leader remembers."""
        if self._told.get(campaign_id) is state:
            return
        self._told[campaign_id] = state
        await self._tell(CampaignChanged(campaign_id=campaign_id, state=state, at_s=self._clock.wall()))
        if state in (CampaignState.COMPLETED, CampaignState.CANCELLED):
            self._told.pop(campaign_id, None)
