"""A campaign's status for people: once, or again and again with the rate that two looks tell."""

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from admin.answers import CampaignStatus
from admin.cli_output import drawn_table, duration_text, say, say_table
from contracts.campaign import CampaignState

_ENDED = frozenset({CampaignState.COMPLETED, CampaignState.CANCELLED})
_HEADERS = ("number", "rows", "claimed", "rate/s", "setting/s")

Rates = dict[str, float]


def rates_per_s(before: CampaignStatus, after: CampaignStatus, seconds: float) -> Rates:
    """Return how many first attempts a second each number made between two looks."""
    assert seconds > 0
    earlier = {number.phone_number_id: number.claimed_count for number in before.numbers}
    return {
        number.phone_number_id: max(
            0.0, (number.claimed_count - earlier.get(number.phone_number_id, 0)) / seconds
        )
        for number in after.numbers
    }


def eta_s(status: CampaignStatus, rates: Rates | None) -> float | None:
    """Return the seconds left at the measured rate, else at the settings; None unless it runs."""
    total_per_s = sum(rates.values()) if rates else 0.0
    if status.eta_s is None or total_per_s <= 0:
        return status.eta_s
    return status.remaining_count / total_per_s


def headline(status: CampaignStatus, rates: Rates | None) -> str:
    """Return the campaign in a line."""
    parts = [
        f"campaign {status.campaign_id} {status.name!r}: {status.state}{_halted(status)}",
        f"{status.audience_size} recipients",
        f"{status.remaining_count} to send",
    ]
    left_s = eta_s(status, rates)
    if left_s is not None and status.remaining_count:
        parts.append(f"about {duration_text(left_s)} left")
    return ", ".join(parts)


def _halted(status: CampaignStatus) -> str:
    """Said where the eye falls first: it stands still on all of its numbers, or on some."""
    if not status.halts or status.state in _ENDED:
        return ""
    halted = {number for halt in status.halts for number in halt.numbers or ()}
    everywhere = halted >= {number.phone_number_id for number in status.numbers}
    return ", halted" if everywhere else f", halted on {len(halted)} of {len(status.numbers)} numbers"


def say_status(status: CampaignStatus) -> None:
    """Write a status in full."""
    say(headline(status, None))
    for line in _facts(status):
        say(line)
    say()
    say_table(("state", "recipients"), _counts(status))
    say()
    say_table(_HEADERS, _numbers(status, None))


def watch(look: Callable[[], CampaignStatus], *, interval_s: float, as_json: bool) -> None:
    """Show the status until the campaign has ended: redrawn at a terminal, else a line (or JSON value) a look."""
    console = Console()
    if as_json or not console.is_terminal:
        for status, rates in _looks(look, interval_s):
            say(msgspec.json.encode(status).decode() if as_json else _line(status, rates))
        return
    with Live(console=console, auto_refresh=False) as live:
        for status, rates in _looks(look, interval_s):
            facts = [Text(headline(status, rates), style="bold"), *map(Text, _facts(status))]
            counts = drawn_table(("state", "recipients"), _counts(status))
            numbers = drawn_table(_HEADERS, _numbers(status, rates))
            live.update(Group(*facts, Text(), counts, Text(), numbers), refresh=True)


def _looks(
    look: Callable[[], CampaignStatus], interval_s: float
) -> Iterator[tuple[CampaignStatus, Rates | None]]:
    before: CampaignStatus | None = None
    looked_at = 0.0
    while True:
        status, now = look(), time.monotonic()
        yield status, None if before is None else rates_per_s(before, status, now - looked_at)
        if status.state in _ENDED:
            return
        before, looked_at = status, now
        time.sleep(interval_s)


def _line(status: CampaignStatus, rates: Rates | None) -> str:
    told = [headline(status, rates)]
    if rates is not None:
        told.append(f"{sum(rates.values()):.1f}/s")
    told += [f"{state} {count}" for state, count in _counts(status)]
    return ", ".join(told)


def _facts(status: CampaignStatus) -> list[str]:
    facts = [f"template {status.template.name} ({status.template.language}), on unknown: {status.on_unknown}"]
    if status.pause is not None:
        facts.append(f"paused by {status.pause.actor or '-'}: {status.pause.reason or '-'}")
        if status.pause.evidence:
            facts.append(f"evidence: {status.pause.evidence}")
        if status.pause.lifted_by:
            facts.append(f"lifted by: {status.pause.lifted_by}")
    for halt in status.halts:
        named = "everything" if halt.scope == "all" else f"{halt.scope} {halt.key}"
        facts.append(f"{named} is halted by {halt.actor}: {halt.reason}")
    if status.valid_until is not None and status.state not in _ENDED:
        facts.append(f"what isn't sent by {status.valid_until:%Y-%m-%d %H:%M} UTC expires")
    return facts


def _counts(status: CampaignStatus) -> list[tuple[str, str]]:
    return [(state, str(count)) for state, count in status.counts.items() if count]


def _numbers(status: CampaignStatus, rates: Rates | None) -> Sequence[Sequence[str]]:
    return [
        (
            number.phone_number_id,
            str(number.rows_count),
            str(number.claimed_count),
            "-" if rates is None else f"{rates.get(number.phone_number_id, 0.0):.1f}",
            str(number.setting_per_s),
        )
        for number in status.numbers
    ]
