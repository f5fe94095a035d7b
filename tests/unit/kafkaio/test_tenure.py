from contracts.codec import Envelope
from kafkaio.consumer import Record, TopicPartition
from kafkaio.tenure import Tenure, Tracker

AT = TopicPartition("sample", 0)


def a_record(offset, timestamp_s=0.0):
    return Record(
        topic="sample",
        partition=0,
        offset=offset,
        key=None,
        value=b"",
        headers=(),
        envelope=Envelope(event_id="", event_type=""),
        timestamp_s=timestamp_s,
    )


def test_a_partition_pauses_when_the_service_is_full_or_a_record_is_held_back():
    tracker = Tracker(span_max=10, now=0.0)
    assert not tracker.should_pause(is_full=False)
    assert tracker.should_pause(is_full=True)
    tracker.receive([a_record(0)], 1.0)
    assert tracker.should_pause(is_full=False)
    tracker.begin()
    assert not tracker.should_pause(is_full=False)


def test_a_partition_paused_for_its_span_resumes_when_half_of_it_is_free():
    tracker = Tracker(span_max=10, now=0.0)
    records = [a_record(n) for n in range(12)]
    tracker.receive(records, 1.0)
    while tracker.may_begin:
        tracker.begin()
    assert tracker.unsettled == 12
    assert len(tracker.held) == 2
    tracker.held.clear()
    assert tracker.should_pause(is_full=False)
    tracker.is_paused = True
    for record in records[:4]:
        tracker.finish(record)
    assert tracker.should_pause(is_full=False)  # 6 of 10: not yet
    tracker.finish(records[4])
    assert not tracker.should_pause(is_full=False)
    tracker.is_paused = False
    assert not tracker.should_pause(is_full=False)


def test_the_oldest_unsettled_record_counts_even_while_it_is_held():
    tracker = Tracker(span_max=10, now=0.0)
    assert tracker.oldest_s is None
    tracker.receive([a_record(0, 5.0), a_record(1, 6.0)], 1.0)
    assert tracker.oldest_s == 5.0
    first = tracker.begin()
    tracker.begin()
    assert tracker.oldest_s == 5.0
    tracker.finish(first)
    assert tracker.oldest_s == 6.0


def test_only_a_partition_with_work_can_stall_and_only_one_without_can_be_silent():
    tenure = Tenure([AT], span_max=10, now=0.0)
    assert list(tenure.stalled(100.0, 60.0)) == []
    assert list(tenure.silent(100.0, 60.0)) == [AT]
    tenure.trackers[AT].receive([a_record(0)], 50.0)
    assert list(tenure.stalled(100.0, 60.0)) == []
    assert list(tenure.stalled(111.0, 60.0)) == [AT]
    assert list(tenure.silent(111.0, 60.0)) == []
