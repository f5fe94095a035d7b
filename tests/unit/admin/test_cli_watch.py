"""What two looks at a campaign tell of its pace."""

from datetime import UTC, datetime

import pytest
import typer
from msgspec.structs import replace

from admin.answers import CampaignStatus, HaltLine, NumberProgress
from admin.cli_campaign import duration_s
from admin.cli_output import duration_text
from admin.cli_watch import eta_s, headline, rates_per_s
from contracts.campaign import CampaignState, OnUnknown, TemplateRef


def a_status(claimed_count: int, state: CampaignState = CampaignState.RUNNING) -> CampaignStatus:
    number = NumberProgress(
        phone_number_id="1", rows_count=1000, claimed_count=claimed_count, setting_per_s=76
    )
    remaining = 1000 - claimed_count
    return CampaignStatus(
        campaign_id=7, name="sale", state=state, portfolio_id="p", template=TemplateRef(name="t", language="en"),
        on_unknown=OnUnknown.GIVE_UP, unknown_wait_s=1, valid_for_s=60, tries_max=1, audience_size=1000, counts={},
        remaining_count=remaining, eta_s=remaining / 76 if state is CampaignState.RUNNING else None, numbers=(number,),
        pause=None, created_at=datetime(2026, 11, 30, tzinfo=UTC), launched_at=None, valid_until=None,
        completing_at=None, ended_at=None,
    )  # fmt: skip


def test_the_rate_is_what_was_claimed_between_two_looks() -> None:
    rates = rates_per_s(a_status(100), a_status(200), 2.0)
    assert rates == {"1": 50.0}
    assert eta_s(a_status(200), rates) == 16.0


def test_without_a_rate_the_settings_tell_what_is_left() -> None:
    assert eta_s(a_status(240), None) == 10.0
    assert "about 10 s left" in headline(a_status(240), None)
    assert eta_s(a_status(240, CampaignState.PAUSED), {"1": 50.0}) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("3d", 259_200)]
)
def test_durations_are_read(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-5s", "1.5h", "3 weeks"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (45, "45 s"), (720, "12 min"), (12_600, "3.5 h"), (172_800, "2.0 d")]
)
def test_durations_are_told(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("halted", "told"),
    [((), "running,"), (("1",), "running, halted on 1 of 2 numbers,"), (("1", "2"), "running, halted,")],
)
def test_a_halt_is_said_in_the_headline(halted: tuple[str, ...], told: str) -> None:
    status = a_status(100)
    halt = HaltLine(
        scope="waba", key="9", actor="ann", reason="why not", since=status.created_at, numbers=halted
    )
    other = replace(status.numbers[0], phone_number_id="2")
    status = replace(status, numbers=(*status.numbers, other), halts=(halt,) if halted else ())
    assert told in headline(status, None)
    ended = replace(status, state=CampaignState.COMPLETED)
    assert "halted" not in headline(ended, None)
