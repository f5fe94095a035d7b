from kafkaio.disposition import DeadLetterReason
from kafkaio.fuse import DlqLimit

BUG = DeadLetterReason.BUG


def test_a_run_of_failures_trips_and_a_success_in_between_starts_it_anew():
    limit = DlqLimit(run_max=3, share_max=0.9, window=1_000)
    assert [limit.settle(reason) for reason in (BUG, BUG, None, BUG, BUG, BUG)] == [False] * 5 + [True]


def test_a_share_trips_only_once_the_window_is_full():
    limit = DlqLimit(run_max=100, share_max=0.5, window=10)
    assert not any(limit.settle(BUG) for _ in range(9))
    assert limit.settle(None)  # 9 of 10


def test_the_window_forgets():
    limit = DlqLimit(run_max=100, share_max=0.5, window=10)
    for _ in range(5):
        assert not limit.settle(BUG)
    assert not any(limit.settle(None) for _ in range(10))
    assert not any(limit.settle(BUG) for _ in range(5))
    assert limit.settle(BUG)


def test_malformed_input_never_trips():
    limit = DlqLimit(run_max=3, share_max=0.1, window=5)
    input_faults = (DeadLetterReason.UNDECODABLE, DeadLetterReason.STALE, DeadLetterReason.FOREIGN_NUMBER)
    assert not any(limit.settle(reason) for reason in input_faults * 20)
