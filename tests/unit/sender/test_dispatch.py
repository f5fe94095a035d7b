"""Campaigns of one number take turns, and share what may be claimed."""

from hypothesis import given
from hypothesis import strategies as st

from sender.dispatch import Turns, shares


def turns_of(**rows: int) -> Turns[tuple[int, int]]:
    turns: Turns[tuple[int, int]] = Turns()
    for name, count in rows.items():
        campaign_id = int(name[1:])
        turns.add(campaign_id, [(campaign_id, n) for n in range(count)])
    return turns


def test_a_small_campaign_is_not_queued_behind_a_large_one() -> None:
    turns = turns_of(c1=100, c2=2)
    assert [turns.take()[0] for _ in range(6)] == [1, 2, 1, 2, 1, 1]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_every_campaign_with_rows_goes_once_before_any_goes_twice(counts: list[int]) -> None:
    turns: Turns[tuple[int, int]] = Turns()
    left = {}
    for campaign_id, count in enumerate(counts):
        turns.add(campaign_id, [(campaign_id, n) for n in range(count)])
        if count:
            left[campaign_id] = count
    assert len(turns) == sum(counts)
    taken: dict[int, list[int]] = {}
    while left:
        round_ = []
        for _ in range(len(left)):
            row = turns.first()
            assert turns.take() == row
            round_.append(row[0])
            taken.setdefault(row[0], []).append(row[1])
        assert sorted(round_) == sorted(left)
        left = {c: n - 1 for c, n in left.items() if n > 1}
    assert len(turns) == 0
    assert all(rows == sorted(rows) for rows in taken.values()), "rows of one campaign keep their order"


def test_dropped_rows_are_returned_and_the_others_go_on() -> None:
    turns = turns_of(c1=3, c2=2, c3=1)
    assert sorted(turns.drop(keep=frozenset({2}))) == [(1, 0), (1, 1), (1, 2), (3, 0)]
    assert [turns.take() for _ in range(len(turns))] == [(2, 0), (2, 1)]
    turns.add(1, [(1, 9)])
    assert turns.take() == (1, 9)


@given(st.integers(0, 500), st.dictionaries(st.integers(1, 20), st.integers(0, 300), max_size=8))
def test_shares_give_what_there_is_to_those_who_want_it(room: int, wanted: dict[int, int]) -> None:
    given_ = shares(room, wanted)
    assert sum(given_.values()) == min(room, sum(wanted.values()))
    assert all(0 < n <= wanted[c] for c, n in given_.items())
    hungry = [c for c, n in wanted.items() if given_.get(c, 0) < n]
    most = max((given_.get(c, 0) for c in wanted), default=0)
    for campaign_id in hungry:
        assert given_.get(campaign_id, 0) >= most - max(1, len(wanted)), (
            "one got more while another wanted more"
        )


def test_a_room_smaller_than_the_campaigns_goes_to_the_first() -> None:
    assert shares(2, {5: 10, 1: 10, 3: 10}) == {5: 1, 1: 1}
