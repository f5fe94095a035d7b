"""The customer service window, from the message's own time."""

import pytest

from conversations.window import MARGIN_S, WINDOW_S, closes_at_s, is_open

T0 = 1_796_040_000


@pytest.mark.parametrize(
    "message_type", ["text", "image", "button", "interactive", "order", "location", "contacts"]
)
def test_what_a_person_sends_opens_a_window_of_24_hours(message_type):
    assert closes_at_s(message_type, T0) == T0 + WINDOW_S == T0 + 86_400


@pytest.mark.parametrize(
    "message_type", ["reaction", "system", "request_welcome", "unsupported", "poetry", ""]
)
def test_what_may_not_count_at_meta_opens_none(message_type):
    assert closes_at_s(message_type, T0) is None


def test_a_message_handled_30_hours_late_opens_nothing_and_a_newer_one_does():
    first, second = closes_at_s("text", T0), closes_at_s("text", T0 + 29 * 3600)
    now_s = T0 + 30 * 3600
    assert not is_open(first, now_s)
    assert second == T0 + 53 * 3600
    assert is_open(second, now_s)


def test_the_window_closes_a_margin_early():
    closes = closes_at_s("text", T0)
    assert is_open(closes, closes - MARGIN_S - 1)
    assert not is_open(closes, closes - MARGIN_S)
    assert not is_open(None, T0)
