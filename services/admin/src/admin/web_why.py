"""One recipient over HTTP: what became of a person, why, and what comes next.

Invariant: the person asked for appears in no log, no metric and no answer.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admin.answers import ApiError
from admin.phone import REGIONS, address_of
from admin.request import campaign_id_of, no_campaign
from admin.row_fault import WORDS, RowFault
from admin.web_json import json_answer
from admin.why import why_of
from contracts.campaign import CampaignState
from contracts.contact import folded_phone
from ledger import campaigns, fate, halts
from ledger.campaigns import Campaign
from ledger.pool import Ledger

_SEQ_DIGITS_MAX = 15


def routes(ledger: Ledger) -> list[Route]:
    """Return the routes of this area."""

    async def why(request: Request) -> Response:
        campaign_id = campaign_id_of(request)
        campaign = await campaigns.find(ledger, campaign_id)
        if campaign is None:
            raise no_campaign(campaign_id)
        seq = await _seq(ledger, campaign, request)
        found = await fate.find(ledger, campaign_id, seq=seq)
        if found is None:
            raise _absent(campaign, f"It has no row {seq}: its rows are 1 to {campaign.audience_size}.")
        return json_answer(why_of(campaign, found, await halts.of_campaign(ledger, campaign_id)))

    return [Route("/v1/campaigns/{campaign_id}/why", why, methods=["GET"], name="campaign_why")]


async def _seq(ledger: Ledger, campaign: Campaign, request: Request) -> int:
    """Return the row that is asked for, by its number in the campaign or by the person's phone number."""
    phone, seq = request.query_params.get("phone", ""), request.query_params.get("seq", "")
    if bool(phone) == bool(seq):
        raise ApiError(400, "who", "Name the person by phone or the row by seq, one of the two.")
    if seq:
        if not (seq.isascii() and seq.isdecimal() and len(seq) <= _SEQ_DIGITS_MAX):
            raise ApiError(400, "bad_seq", "seq must be a row's number: 1, 2, 3 …")
        return int(seq)
    region = request.query_params.get("region") or None
    if region is not None and region not in REGIONS:
        raise ApiError(422, "unknown_region", "The region must be two capital letters, like GB.")
    address = address_of(phone, region)
    if isinstance(address, RowFault):
        raise ApiError(422, address.value, f"{WORDS[address][:1].upper()}{WORDS[address][1:]}.")
    found = await fate.seq_of(ledger, campaign.campaign_id, folded=folded_phone(address))
    if found is None:
        raise _absent(
            campaign,
            "This person is not in its audience, neither under this number nor under a variant of it.",
        )
    return found


def _absent(campaign: Campaign, sentence: str) -> ApiError:
    if campaign.launched_at is None:
        words = (
            "was cancelled before its launch"
            if campaign.state is CampaignState.CANCELLED
            else "isn't launched"
        )
        sentence = f"The campaign {words}: its audience has no rows yet, and nobody is sent anything."
        return ApiError(404, "not_launched", sentence)
    return ApiError(404, "no_recipient", sentence)
