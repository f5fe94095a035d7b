"""`sluice why`: what became of one person in one campaign, why, and what comes next."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer

from admin.answers import Attempt, Why
from admin.cli_api import api_of
from admin.cli_output import say, say_json


def why(
    context: typer.Context,
    campaign_id: Annotated[int, typer.Argument(metavar="CAMPAIGN", min=1, help="The campaign's id.")],
    phone: Annotated[
        str | None, typer.Argument(metavar="PHONE", help="The person's number, like +447700900001.")
    ] = None,
    seq: Annotated[
        int | None, typer.Option(min=1, help="Instead: the row's number, as the export shows it.")
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="CC", help="Country of a number without a country code, like GB.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for scripts.")] = False,
) -> None:
    """Tell why a person has or hasn't got a campaign's message, what was tried, and what comes next."""
    if (phone is None) == (seq is None):
        raise typer.BadParameter("give a phone number, or a row with --seq")
    params = {"phone": phone} if phone is not None else {"seq": str(seq)}
    if region:
        params["region"] = region.upper()
    found = api_of(context).get(f"/v1/campaigns/{campaign_id}/why", Why, params=params)
    if as_json:
        say_json(found)
    else:
        for line in lines_of(found):
            say(line)


def lines_of(found: Why) -> Iterator[str]:
    """Yield the story for people, a line a fact."""
    yield f"{found.state}: {found.state_words}"
    if found.reason is not None:
        yield f"reason: {found.reason_words} ({found.reason})"
    if found.code is not None:
        yield f"Meta's code {found.code}: {found.code_words}"
    yield (
        f"row {found.seq} of campaign {found.campaign_id} ({found.campaign_state}), line {found.line} of its file,"
        f" number {found.phone_number_id}, tries {found.tries} of {found.tries_max}"
    )
    for attempt in found.earlier_attempts:
        yield _attempt_line(attempt)
    if found.attempt:
        yield f"attempt {found.attempt}" + _times(
            started=found.started_at,
            sent=found.sent_at,
            failed=found.failed_at,
            delivered=found.delivered_at,
            read=found.read_at,
        )
    for wait in found.waits:
        until = "" if wait.until is None else f" (until {_when(wait.until)})"
        yield f"waits for {wait.what}: {wait.words}{until}"
    if not found.waits:
        yield "nothing more is sent to this person by this campaign"


def _attempt_line(attempt: Attempt) -> str:
    told = f"attempt {attempt.attempt}" + _times(
        started=attempt.started_at, sent=attempt.sent_at, failed=attempt.failed_at
    )
    if attempt.reason_words:
        told += f": {attempt.reason_words}"
    if attempt.code is not None:
        told += f" ({attempt.code}, {attempt.code_words})"
    return told


def _times(**times: datetime | None) -> str:
    return "".join(f", {name} {_when(at)}" for name, at in times.items() if at is not None)


def _when(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
