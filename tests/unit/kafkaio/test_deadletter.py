import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts.codec import Envelope
from contracts.topics import RECORD_BYTES_MAX
from kafkaio.consumer import Record
from kafkaio.deadletter import OURS, Letter, fitted, headers_of, replay_of, story_of, without
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


def a_letter(record=None, *, group="g", **more):
    record = record or a_record()
    topic = f"{record.topic}.dlq"
    headers = headers_of(record, group=group, reason=DeadLetterReason.POISON, attempts=2)
    letter = fitted(topic, record.key, record.value or b"", headers)
    found = a_record(
        topic=topic, partition=0, offset=3, key=letter.key, value=letter.value, headers=tuple(letter.headers)
    )
    return replace(found, **more)


def test_a_replay_is_the_record_as_it_was_for_the_group_that_failed():
    once_more = replay_of(a_letter(), partitions_count=2)
    assert (once_more.topic, once_more.partition, once_more.key, once_more.value) == ("sample", 1, b"k", b"v")
    assert once_more.headers == [*a_record().headers, ("replay-for", b"g")]
    assert "v" not in repr(once_more).removeprefix("Replay")


def test_a_replay_that_failed_again_is_for_its_new_group_alone():
    first = replay_of(a_letter(), partitions_count=2)
    failed = a_record(headers=tuple(first.headers))
    second = replay_of(a_letter(failed, group="h"), partitions_count=2)
    assert [content for name, content in second.headers if name == "replay-for"] == [b"h"]
    assert len(second.headers) == len(first.headers)


@given(
    key=st.none() | st.binary(max_size=50),
    value=st.binary(max_size=200),
    headers=st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=50)), max_size=5),
    group=st.text("abc-_.", min_size=1, max_size=249),
)
def test_a_replay_keeps_key_value_and_headers_and_is_smaller_than_its_letter(key, value, headers, group):
    headers = tuple(one for one in headers if one[0] not in OURS)
    record = a_record(key=key, value=value, headers=headers)
    letter = a_letter(record, group=group)
    once_more = replay_of(letter, partitions_count=2)
    assert (once_more.key, once_more.value) == (key, value)
    assert once_more.headers[:-1] == [one for one in headers if one[0] != "replay-for"]
    size_bytes = record_bytes(once_more.key, once_more.value, once_more.headers)
    assert size_bytes < record_bytes(letter.key, letter.value, letter.headers)


def without_header(name):
    letter = a_letter()
    return replace(letter, headers=tuple(one for one in letter.headers if one[0] != name))


def with_header(name, content):
    return replace(without_header(name), headers=(*without_header(name).headers, (name, content)))


@pytest.mark.parametrize(
    ("letter", "refusal"),
    [
        (a_letter(a_record(value=bytes(RECORD_BYTES_MAX))), "cut"),
        (a_letter(a_record(headers=(("big", bytes(RECORD_BYTES_MAX)),))), "cut"),
        (replace(a_letter(), topic="webhooks.dlq"), "unreadable_webhook"),
        (replace(a_letter(), topic="another.dlq"), "no_origin"),
        (without_header("dead-letter-group"), "no_group"),
        (with_header("dead-letter-group", b""), "no_group"),
        (with_header("dead-letter-group", b"\x1b[2J"), "no_group"),
        (without_header("origin-topic"), "no_origin"),
        (without_header("origin-offset"), "no_origin"),
        (with_header("origin-partition", b"2"), "no_origin"),
        (with_header("origin-partition", b"-1"), "no_origin"),
        (with_header("origin-partition", b"\xb2"), "no_origin"),
        (with_header("origin-offset", b"9" * 5000), "no_origin"),
        (with_header("origin-value-bytes", b"?"), "cut"),
    ],
)
def test_what_is_not_a_whole_letter_of_a_consumer_is_refused(letter, refusal):
    assert replay_of(letter, partitions_count=2) == refusal


def test_a_letter_tells_its_story():
    story = story_of(a_letter())
    assert (story.group, story.reason, story.attempts, story.is_cut) == ("g", "poison", 2, False)
    assert str(story.origin) == "sample/1/7"


def test_an_unreadable_webhook_names_ingress_and_its_own_reason():
    envelope = Envelope(event_id="e", event_type="webhook.not_json")
    story = story_of(a_record(topic="webhooks.dlq", envelope=envelope))
    assert (story.group, story.reason, story.origin) == ("ingress", "not_json", None)
