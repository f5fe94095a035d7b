from contracts.codec import Envelope
from contracts.topics import RECORD_BYTES_MAX
from kafkaio.consumer import Record
from kafkaio.deadletter import Letter, fitted, headers_of, without
from kafkaio.disposition import DeadLetterReason
from kafkaio.producer import record_bytes


def a_record(**more):
    fields = {
        "topic": "sample",
        "partition": 1,
        "offset": 7,
        "key": b"k",
        "value": b"v",
        "headers": (("event-id", b"e"), ("trace-id", b"t")),
        "envelope": Envelope(event_id="e", event_type=""),
        "timestamp_s": 0.0,
    }
    return Record(**{**fields, **more})


def test_a_dead_letter_keeps_the_headers_and_names_group_reason_attempts_and_origin():
    headers = headers_of(a_record(), group="g", reason=DeadLetterReason.POISON, attempts=2)
    assert dict(headers) == {
        "event-id": b"e",
        "trace-id": b"t",
        "dead-letter-group": b"g",
        "dead-letter-reason": b"poison",
        "dead-letter-attempts": b"2",
        "origin-topic": b"sample",
        "origin-partition": b"1",
        "origin-offset": b"7",
    }


def test_a_replayed_record_that_fails_again_has_each_header_once():
    first = headers_of(a_record(), group="g", reason=DeadLetterReason.POISON, attempts=2)
    again = headers_of(a_record(headers=tuple(first)), group="g", reason=DeadLetterReason.BUG, attempts=1)
    assert len(again) == len(dict(again)) == len(first)
    assert dict(again)["dead-letter-reason"] == b"bug"
    assert without(again) == list(a_record().headers)


def test_a_value_that_no_longer_fits_is_cut_and_its_length_noted():
    value = bytes(RECORD_BYTES_MAX)
    headers = headers_of(a_record(), group="g", reason=DeadLetterReason.BUG, attempts=1)
    letter = fitted("sample.dlq", b"k", value, headers)
    size_bytes = record_bytes(b"k", letter.value, letter.headers)
    assert RECORD_BYTES_MAX - 5 < size_bytes <= RECORD_BYTES_MAX
    assert dict(letter.headers)["origin-value-bytes"] == b"%d" % RECORD_BYTES_MAX


def test_where_even_the_headers_are_too_long_origin_and_reason_are_left():
    record = a_record(headers=(("big", bytes(RECORD_BYTES_MAX)),))
    headers = headers_of(record, group="g", reason=DeadLetterReason.BUG, attempts=1)
    letter = fitted("sample.dlq", b"k", b"v", headers)
    assert (letter.key, letter.value) == (None, b"")
    assert set(dict(letter.headers)) >= {"dead-letter-reason", "origin-offset"}
    assert record_bytes(letter.key, letter.value, letter.headers) < 1_000


def test_what_fits_is_left_alone():
    assert fitted("sample.dlq", b"k", b"v", [("h", b"x")]) == Letter(b"k", b"v", [("h", b"x")])


def test_a_record_prints_only_where_it_stands():
    record = a_record(key=b"+15550100", value=b"secret")
    assert repr(record) == str(record) == "Record(sample/1@7)"
