"""Campaigns over HTTP: created, launched, paused, resumed, cancelled, and looked at.

Invariant: a command that is repeated does nothing more, and one that doesn't fit the campaign's state is refused.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admin.answers import ApiError, CampaignLine, CampaignStatus, NumberProgress, Pause
from admin.request import ACTOR, campaign_id_of, json_body, no_campaign
from admin.web_halts import halt_line
from admin.web_json import json_answer
from contracts.campaign import CampaignDefinition, CampaignState, OnUnknown, RecipientState, TemplateRef
from ledger import audience, campaigns, halts, numbers
from ledger.campaigns import Campaign, Refusal
from ledger.halts import CampaignHalt
from ledger.pool import Ledger

LIST_MAX = 200
_TO_SEND = (RecipientState.PENDING, RecipientState.DEFERRED, RecipientState.SENDING)
_NOT_FROZEN = (CampaignState.DRAFT, CampaignState.SCHEDULED)


class PauseOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a campaign is to pause."""

    reason: Annotated[str, Meta(min_length=1, max_length=500)] = "paused by an operator"


class CampaignRoutes:
    """The routes of this area."""

    def __init__(self, ledger: Ledger, *, is_importing: Callable[[int], bool]) -> None:
        self._ledger = ledger
        self._is_importing = is_importing

    def routes(self) -> list[Route]:
        one = "/v1/campaigns/{campaign_id}"
        return [
            Route("/v1/campaigns", self.create, methods=["POST"], name="campaign_create"),
            Route("/v1/campaigns", self.list_all, methods=["GET"], name="campaigns"),
            Route(one, self.show, methods=["GET"], name="campaign"),
            Route(f"{one}/reasons", self.reasons, methods=["GET"], name="campaign_reasons"),
            Route(f"{one}/launch", self.launch, methods=["POST"], name="campaign_launch"),
            Route(f"{one}/pause", self.pause, methods=["POST"], name="campaign_pause"),
            Route(f"{one}/resume", self.resume, methods=["POST"], name="campaign_resume"),
            Route(f"{one}/cancel", self.cancel, methods=["POST"], name="campaign_cancel"),
        ]

    async def create(self, request: Request) -> Response:
        definition = await json_body(request, CampaignDefinition)
        _check(definition)
        return json_answer({"campaign_id": await campaigns.create(self._ledger, definition)}, status=201)

    async def list_all(self, request: Request) -> Response:
        wanted = request.query_params.getlist("state")
        unknown = [state for state in wanted if state not in list(CampaignState)]
        if unknown:
            raise ApiError(400, "unknown_state", f"state must be one of {', '.join(CampaignState)}.")
        found = await campaigns.listed(
            self._ledger, states=[CampaignState(state) for state in wanted], limit=LIST_MAX
        )
        return json_answer({"campaigns": [_line(campaign) for campaign in found]})

    async def show(self, request: Request) -> Response:
        return json_answer(await self._status(campaign_id_of(request)))

    async def reasons(self, request: Request) -> Response:
        campaign = await self._find(campaign_id_of(request))
        found = await campaigns.reasons(self._ledger, campaign.campaign_id)
        fields = ("state", "reason", "code", "count")
        return json_answer({"reasons": [dict(zip(fields, row, strict=True)) for row in found]})

    async def launch(self, request: Request) -> Response:
        campaign = await self._find(campaign_id_of(request))
        if self._is_importing(campaign.campaign_id):
            raise ApiError(409, "import_under_way", "An import is under way: launch when it has ended.")
        size = await campaigns.launch(self._ledger, campaign.campaign_id)
        return json_answer({"campaign_id": campaign.campaign_id, "audience_size": size})

    async def pause(self, request: Request) -> Response:
        order = await json_body(request, PauseOrder, default=PauseOrder())
        return await self._move(request, CampaignState.PAUSED, reason=order.reason)

    async def resume(self, request: Request) -> Response:
        campaign = await self._find(campaign_id_of(request))
        # A draft may become running too, but by its launch, which freezes the audience.
        if campaign.state not in (CampaignState.PAUSED, CampaignState.RUNNING):
            raise Refusal(f"the campaign is {campaign.state.value}: only a paused one can be resumed")
        return await self._move(request, CampaignState.RUNNING)

    async def cancel(self, request: Request) -> Response:
        return await self._move(request, CampaignState.CANCELLED)

    async def _move(self, request: Request, to: CampaignState, *, reason: str | None = None) -> Response:
        campaign = await self._find(campaign_id_of(request))
        changed = await campaigns.move(
            self._ledger, campaign.campaign_id, to, actor=ACTOR, reason=reason, lifted_by=_lifted_by(to)
        )
        return json_answer({"campaign_id": campaign.campaign_id, "state": to, "changed": changed})

    async def _find(self, campaign_id: int) -> Campaign:
        campaign = await campaigns.find(self._ledger, campaign_id)
        if campaign is None:
            raise no_campaign(campaign_id)
        return campaign

    async def _status(self, campaign_id: int) -> CampaignStatus:
        campaign = await self._find(campaign_id)
        if campaign.state in _NOT_FROZEN:
            settings = {n.phone_number_id: n.setting_per_s for n in await numbers.listed(self._ledger)}
            shares = tuple(
                NumberProgress(
                    phone_number_id=number,
                    rows_count=0,
                    claimed_count=0,
                    setting_per_s=settings.get(number, 0),
                )
                for number in campaign.numbers
            )
            size = await audience.waiting(self._ledger, campaign_id)
        else:
            shares = tuple(
                NumberProgress(
                    phone_number_id=share.phone_number_id,
                    rows_count=share.rows_count,
                    claimed_count=share.claimed_count,
                    setting_per_s=share.setting_per_s,
                )
                for share in await campaigns.shares(self._ledger, campaign_id)
            )
            size = campaign.audience_size
        return _told(
            campaign,
            size,
            shares,
            await campaigns.counts(self._ledger, campaign_id),
            await halts.of_campaign(self._ledger, campaign_id),
        )


def _check(definition: CampaignDefinition) -> None:
    if not definition.name.strip():
        raise ApiError(422, "blank_name", "A campaign needs a name that can be seen.")
    if "\0" in definition.name or any("\0" in text for text in definition.template.body):
        raise ApiError(422, "bad_text", "Names can't hold a NUL character.")
    if any(not column.strip() for column in definition.template.body):
        raise ApiError(422, "blank_column", "Each template parameter needs the name of a column.")


def _lifted_by(to: CampaignState) -> str | None:
    return "resume" if to is CampaignState.PAUSED else None


def _line(campaign: Campaign) -> CampaignLine:
    return CampaignLine(
        campaign_id=campaign.campaign_id,
        name=campaign.name,
        state=campaign.state,
        template_name=campaign.template_name,
        audience_size=campaign.audience_size,
        created_at=campaign.created_at,
    )


def _told(
    campaign: Campaign,
    size: int,
    shares: tuple[NumberProgress, ...],
    counts: dict[RecipientState, int],
    stops: Sequence[CampaignHalt],
) -> CampaignStatus:
    remaining = sum(counts[state] for state in _TO_SEND)
    halted = {number for stop in stops for number in stop.numbers}
    rate_per_s = sum(share.setting_per_s for share in shares if share.phone_number_id not in halted)
    runs = campaign.state is CampaignState.RUNNING and rate_per_s > 0
    return CampaignStatus(
        campaign_id=campaign.campaign_id,
        name=campaign.name,
        state=campaign.state,
        portfolio_id=campaign.portfolio_id,
        template=TemplateRef(
            name=campaign.template_name, language=campaign.template_language, body=campaign.body_columns
        ),
        on_unknown=OnUnknown(campaign.on_unknown),
        unknown_wait_s=campaign.unknown_wait_s,
        valid_for_s=campaign.valid_for_s,
        tries_max=campaign.tries_max,
        audience_size=size,
        counts={state.value: n for state, n in counts.items()},
        remaining_count=remaining,
        eta_s=round(remaining / rate_per_s, 1) if runs else None,
        numbers=shares,
        pause=_pause(campaign),
        halts=tuple(halt_line(stop.halt, numbers=stop.numbers) for stop in stops),
        created_at=campaign.created_at,
        launched_at=campaign.launched_at,
        valid_until=campaign.valid_until,
        completing_at=campaign.completing_at,
        ended_at=campaign.ended_at,
    )


def _pause(campaign: Campaign) -> Pause | None:
    if campaign.state is not CampaignState.PAUSED:
        return None
    return Pause(
        actor=campaign.pause_actor,
        reason=campaign.pause_reason,
        evidence=campaign.pause_evidence,
        lifted_by=campaign.pause_lifted_by,
    )
