"""What the inbox takes in, and which time counts."""

import pytest

from contracts.contact import ContactKey
from contracts.inbound import MessageReceived
from conversations import admission

NOW_S = 1_796_040_000.0
KEPT_S = 30 * 86_400


def a_message(
    *, timestamp_s=int(NOW_S), received_at_s=NOW_S, position=0, wamid="wamid.1", key="1:2", number="1"
):
    return MessageReceived(
        event_id="e", phone_number_id=number, waba_id="2", contact_key=ContactKey(key), wamid=wamid, type="text",
        timestamp_s=timestamp_s, received_at_s=received_at_s, position=position,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("timestamp_s", "received_at_s", "expected"),
    [
        (NOW_S - 3600, NOW_S, NOW_S - 3600),
        (NOW_S - KEPT_S, NOW_S, NOW_S - KEPT_S),
        (NOW_S - KEPT_S - 1, NOW_S, None),
        (-5, NOW_S, None),
        (NOW_S + 3600, NOW_S, NOW_S + 3600),
        (NOW_S + 86_401, NOW_S - 7, NOW_S - 7),
        (2**63, NOW_S + 9e9, NOW_S),
        (2**63, -1.0, NOW_S),
        (2**63, 1.0, None),
    ],
)
def test_a_moment_is_the_messages_own_unless_it_is_stale_or_impossible(timestamp_s, received_at_s, expected):
    message = a_message(timestamp_s=int(timestamp_s), received_at_s=received_at_s)
    assert admission.moment_s(message, now_s=NOW_S, kept_s=KEPT_S) == expected


@pytest.mark.parametrize(
    "fault", [{"wamid": "a\x00"}, {"wamid": ""}, {"wamid": "w" * 513}, {"key": "1:\x00"}, {"number": "1\n"}]
)
def test_ids_that_no_index_takes_are_refused(fault):
    assert admission.is_storable(a_message())
    assert not admission.is_storable(a_message(**fault))


def test_a_position_is_kept_within_what_a_column_holds():
    found = [admission.position(a_message(position=n)) for n in (-1, 0, 7, 2**40)]
    assert found == [0, 0, 7, 2**31 - 1]
