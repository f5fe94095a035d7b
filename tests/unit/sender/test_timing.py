"""The inequalities that one owner per number rests on."""

import pytest
from msgspec import structs

from sender.timing import Timing

FIXED = {"claim_life_s", "claim_cover_s", "takeover_s"}


def test_production_times_hold_every_inequality() -> None:
    timing = Timing()
    assert timing.claim_ends_s == timing.claim_life_s + timing.http_s + timing.grace_s


def test_a_quarter_of_all_lease_times_still_holds() -> None:
    whole, quarter = structs.asdict(Timing()), structs.asdict(Timing().scaled(0.25))
    for name, value in whole.items():
        assert quarter[name] == (value if name in FIXED else value * 0.25), name


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({"heartbeat_s": 5.0}, "two heartbeats"),
        ({"renew_s": 5.0}, "one missed renewal"),
        ({"statement_s": 3.0}, "one missed renewal"),
        ({"lease_s": 13.0}, "a crash costs no wait"),
        ({"http_s": 14.0, "lease_s": 40.0, "session_s": 40.0}, "a hand-over fits"),
        ({"grace_s": 1.5}, "bytes have arrived"),
        ({"fence_s": 8.0}, "fenced before its lease ends"),
        ({"connect_s": 4.0}, "a connection is part of the POST"),
        ({"claim_cover_s": 1.0}, "can start in time"),
        ({"takeover_s": 8.0}, "over a second old"),
    ],
)
def test_each_inequality_is_asserted(changed: dict[str, float], broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        Timing(**changed)


def test_a_scale_at_which_an_expired_lease_would_not_cover_the_sliding_second_is_refused() -> None:
    with pytest.raises(AssertionError, match="over a second old"):
        Timing().scaled(0.1)
