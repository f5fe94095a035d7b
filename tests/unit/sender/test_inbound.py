"""Inbound traffic counts into a number's limit: how much of it there is, from totals of several processes, some late."""

from contracts.account import NumberLoad
from sender.inbound import InboundLoad
from sender.pacing import Pacer

NUMBER = "100000000000001"
WALL_S = 1_796_040_000.0


def a_total(
    count: int, *, number: str = NUMBER, by: str = "ingress-1", until_s: float = WALL_S
) -> NumberLoad:
    return NumberLoad(
        phone_number_id=number, counted_by=by, until_s=until_s, interval_s=0.25, received_count=count
    )


def watching() -> InboundLoad:
    load = InboundLoad()
    load.watch(frozenset({NUMBER}))
    return load


def test_the_busiest_second_of_the_last_three_counts_over_all_ingress_processes() -> None:
    load = watching()
    for quarter in range(8):
        load.note(a_total(1), now=quarter / 4, wall_s=WALL_S)
        load.note(a_total(2, by="ingress-2"), now=quarter / 4, wall_s=WALL_S)
    assert load.per_s(NUMBER, 2.0) == 12
    assert load.per_s(NUMBER, 5.0) == 0


def test_a_total_that_was_long_on_its_way_says_nothing() -> None:
    load = watching()
    load.note(a_total(5, until_s=WALL_S - 60), now=0.0, wall_s=WALL_S)
    assert load.per_s(NUMBER, 0.0) == 0


def test_totals_of_numbers_that_are_not_ours_are_not_kept() -> None:
    load = watching()
    load.note(a_total(5, number="100000000000002"), now=0.0, wall_s=WALL_S)
    load.watch(frozenset({"100000000000002"}))
    assert load.per_s("100000000000002", 0.0) == 0
    load.note(a_total(5, number="100000000000002"), now=0.0, wall_s=WALL_S)
    assert load.per_s("100000000000002", 0.0) == 5


def test_inbound_messages_are_taken_off_the_setting_and_never_stop_a_number() -> None:
    pacer = Pacer(76, now=0.0)
    pacer.set_setting(76, 0.0, inbound=6)
    assert pacer.pace == 70
    pacer.set_setting(76, 1.0, inbound=500)
    assert pacer.pace == 1
    pacer.set_setting(76, 2.0)
    assert pacer.pace == 76
