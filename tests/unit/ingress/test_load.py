"""Messages counted per number, within bounds."""

from ingress.load import LoadCount


def test_each_number_with_traffic_has_its_total_once() -> None:
    load = LoadCount(counted_by="i", numbers_max=10)
    for number in ("1", "2", "1"):
        load.add(number)
    totals = load.take(until_s=100.0, interval_s=0.25)
    assert [(one.phone_number_id, one.received_count) for one in totals] == [("1", 2), ("2", 1)]
    assert {(one.counted_by, one.until_s, one.interval_s) for one in totals} == {("i", 100.0, 0.25)}
    assert load.take(until_s=101.0, interval_s=0.25) == []


def test_numbers_beyond_the_bound_are_told_and_not_kept() -> None:
    load = LoadCount(counted_by="i", numbers_max=2)
    for number in ("1", "2", "3", "3", "1"):
        load.add(number)
    assert load.take_uncounted() == 2
    assert load.take_uncounted() == 0
    assert [one.received_count for one in load.take(until_s=0.0, interval_s=1.0)] == [2, 1]
