"""Callback data: ours comes back as it went, any other is nobody's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.status import CampaignRow, RequestRow, StatusReported, callback_data, parse_callback_data

IDS = st.integers(min_value=0, max_value=10**18 - 1)
ATTEMPTS = st.integers(min_value=0, max_value=10**9 - 1)
ROWS = st.builds(CampaignRow, IDS, IDS, ATTEMPTS) | st.builds(RequestRow, IDS, ATTEMPTS)
INSTALLATIONS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,31}", fullmatch=True)


@given(INSTALLATIONS, ROWS)
def test_a_row_comes_back_from_its_callback_data(installation: str, row: CampaignRow | RequestRow) -> None:
    text = callback_data(installation, row)
    assert parse_callback_data(installation, text) == row
    assert len(text) <= 512


@given(INSTALLATIONS, INSTALLATIONS, ROWS)
def test_data_of_another_installation_is_not_ours(
    ours: str, theirs: str, row: CampaignRow | RequestRow
) -> None:
    if ours != theirs:
        assert parse_callback_data(ours, callback_data(theirs, row)) is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "job7:row91",
        "sl1:demo",
        "sl1:demo:c:7:91",
        "sl1:demo:c:7:91:1:2",
        "sl1:demo:c:7:91:1\n",
        " sl1:demo:c:7:91:1",
        "sl1:demo:c:-7:91:1",
        "sl1:demo:c:٧:91:1",
        "sl1:demo:r:7:91:1",
        "sl1:demo:x:7:1",
        "sl2:demo:r:7:1",
        "sl1:other:r:7:1",
        "sl1:demo:c:" + "9" * 19 + ":1:1",
        '{"sl1":"demo"}',
    ],
)
def test_foreign_callback_data_is_nobodys(text: str | None) -> None:
    assert parse_callback_data("demo", text) is None


@given(st.text(max_size=60))
def test_any_text_is_a_row_or_nobodys(text: str) -> None:
    assert parse_callback_data("demo", text) is None or text.startswith("sl1:demo:")


def test_a_status_does_not_print_whom_it_is_about() -> None:
    status = StatusReported(
        event_id="e1",
        phone_number_id="300000000000001",
        waba_id="200000000000001",
        wamid="wamid.SECRET",
        status="sent",
        timestamp_s=1,
        recipient_id="15550100042",
    )
    assert "15550100042" not in repr(status)
    assert "SECRET" not in repr(status)
