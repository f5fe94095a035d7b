"""Messages on the topic are handled once, in order per contact, whatever they are and however often they come."""

import random
import time

import pytest

from contracts.codec import event_id
from contracts.conversation import Consent
from ledger import inbox, suppressions
from tests.integration.conversations.driving import (
    FOREIGN_NUMBER,
    NUMBER,
    U1,
    House,
    a_message,
    by_contact,
    numbers_of,
)

DAY_S = 86_400


@pytest.mark.bco("C01")
async def test_bco_c01_copies_of_a_message_delivered_at_once_are_handled_once(house: House):
    rng = random.Random(1)
    messages = [a_message(n, phone=f"4477009{n % 40:05}") for n in range(200)]
    copies = [message for message in messages for _ in range(rng.randint(2, 5))]
    rng.shuffle(copies)
    async with house.running(instances=3):
        await house.publish(*copies)
        events = await house.all_told(200)
    assert sorted(numbers_of(events)) == list(range(200))
    for mine in by_contact(events).values():
        assert [event.turn for event in mine] == list(range(1, len(mine) + 1))
    assert await house.count("inbox_waiting") == await house.count("inbox_lanes") == 0


@pytest.mark.bco("C02")
async def test_bco_c02_an_album_from_a_new_contact_makes_one_contact_and_one_conversation(house: House):
    images = [{"image": {"id": f"70000000000000{n}"}} for n in range(6)]
    messages = [a_message(n, message_type="image", raw=raw) for n, raw in enumerate(images)]
    async with house.running(instances=3):
        await house.publish(*messages, a_message(6, user_id="GB.QA1"))  # under another key
        events = await house.all_told(7)
    assert sorted(event.turn for event in events) == list(range(1, 8))
    assert len({event.contact_id for event in events}) == 1
    assert await house.count("contacts") == await house.count("conversations") == 1


@pytest.mark.bco("C03")
async def test_bco_c03_messages_of_the_same_second_keep_their_payloads_order(house: House):
    at_s = int(time.time())
    async with house.running():
        await house.publish(*(a_message(n, at_s=at_s, position=n - 1) for n in range(1, 11)))
        await house.all_told(10)
        await house.publish(a_message(11, at_s=at_s - 1))
        events = await house.all_told(11)
    assert numbers_of(events) == list(range(1, 12))
    kept = await house.ledger.rows("kept", "SELECT wamid FROM inbox ORDER BY contact_id, turn")
    assert [row["wamid"] for row in kept] == [f"wamid.{n}" for n in range(1, 12)]


async def test_messages_shuffled_within_the_hold_are_handled_by_their_own_time(house: House):
    at_s = int(time.time()) - 100
    messages = [
        a_message(n, phone=f"44770090000{n % 3}", at_s=at_s + n // 12, position=n % 12) for n in range(60)
    ]
    random.Random(5).shuffle(messages)
    async with house.running(instances=2, hold_ms=1500):
        await house.publish(*messages)
        events = await house.all_told(60)
    assert len(events) == 60
    for mine in by_contact(events).values():
        assert numbers_of(mine) == sorted(numbers_of(mine))


async def test_an_event_says_what_was_handled(house: House):
    message = a_message(1, user_id="GB.QA1", at_s=time.time() - 60)
    async with house.running():
        await house.publish(message)
        (event,) = await house.all_told(1)
    assert event.event_id == event_id("message_handled", NUMBER, "wamid.1")
    assert (event.phone_number_id, event.contact_key) == (NUMBER, f"{NUMBER}:GB.QA1")
    assert (event.wamid, event.type, event.timestamp_s) == ("wamid.1", "text", message.timestamp_s)
    assert event.window_closes_at_s == message.timestamp_s + DAY_S
    assert event.consent is None
    assert bytes(event.raw) == bytes(message.raw)


async def test_stop_suppresses_the_contact_and_start_lifts_it(house: House):
    async with house.running():
        await house.publish(a_message(1, raw={"text": {"body": "  Stop! "}}))
        (stop,) = await house.all_told(1)
        assert stop.consent is Consent.OPTED_OUT
        found = await suppressions.find(house.ledger, contact_id=stop.contact_id)
        assert (found.reason, found.source, found.since_s) == ("opted_out", "message", stop.timestamp_s)
        await house.publish(
            a_message(2, message_type="button", raw={"button": {"payload": "OPT_IN", "text": "x"}})
        )
        _, start = await house.all_told(2)
        assert start.consent is Consent.OPTED_IN
        assert await suppressions.find(house.ledger, contact_id=stop.contact_id) is None


@pytest.mark.bco("D01")
async def test_bco_d01_the_window_follows_the_messages_own_time_not_the_moment_it_is_handled(house: House):
    t0 = int(time.time()) - 30 * 3600
    async with house.running():
        await house.publish(a_message(1, at_s=t0))
        (first,) = await house.all_told(1)
        assert first.window_closes_at_s == t0 + DAY_S
        await house.publish(a_message(2, at_s=t0 + 29 * 3600), a_message(3, at_s=t0 - 60, position=1))
        events = await house.all_told(3)
    found = await inbox.conversation(house.ledger, phone_number_id=NUMBER, contact_id=events[0].contact_id)
    assert found.window_closes_at_s == t0 + 53 * 3600
    assert found.last_inbound_at_s == t0 + 29 * 3600


@pytest.mark.bco("B08")
async def test_bco_b08_messages_whose_contact_has_only_ids_are_handled(house: House):
    messages = [a_message(1), a_message(2, user_id="GB.QA1"), a_message(3, phone=None, user_id="GB.QA1")]
    assert all(message.profile_name is None for message in messages)
    async with house.running():
        await house.publish(*messages)
        events = await house.all_told(3)
    assert len({event.contact_id for event in events if event.wamid != "wamid.1"}) == 1


@pytest.mark.bco("B11")
async def test_bco_b11_reactions_set_and_removed_in_any_shape_hold_nothing_up(house: House):
    bodies = [
        {"message_id": "wamid.QA-OUT-1", "emoji": "👍"},
        {"message_id": "wamid.QA-OUT-1"},
        {"message_id": "wamid.QA-OUT-1", "emoji": ""},
        {"message_id": "wamid.QA-OUT-1", "emoji": "👩🏽‍❤️‍💋‍👨🏿"},
        {"message_id": "wamid.UNKNOWN", "emoji": "👍"},
    ]
    reactions = [
        a_message(n, message_type="reaction", position=n, raw={"reaction": body})
        for n, body in enumerate(bodies)
    ]
    async with house.running():
        await house.publish(*reactions, a_message(5, position=5))
        events = await house.all_told(6)
    assert numbers_of(events) == list(range(6))
    assert [event.window_closes_at_s is None for event in events] == [True] * 5 + [False]
    assert [bytes(event.raw) for event in events[:5]] == [bytes(message.raw) for message in reactions]


@pytest.mark.bco("B13")
async def test_bco_b13_a_message_to_a_number_that_is_not_ours_is_kept_apart(house: House):
    async with house.running():
        await house.publish(a_message(1, number=FOREIGN_NUMBER), a_message(2))
        events = await house.all_told(1)
        assert numbers_of(events) == [2]
        assert await house.count(f"inbox WHERE phone_number_id = '{FOREIGN_NUMBER}'") == 0
    assert await house.dead_letters() == ["foreign_number"]


async def test_no_record_stops_its_partition(house: House):
    key = f"{NUMBER}:{U1}".encode()
    good = a_message(0)
    good_value = (
        b'{"event_id":"e","phone_number_id":"%s","waba_id":"2","contact_key":"%s","wamid":"wamid.%d",'
    )
    good_value += b'"type":"%s","timestamp_s":%d,"received_at_s":%d,"position":%d,"raw":%s}'

    def a_value(
        n: int, *, wa: bytes = b"", kind: bytes = b"text", at: int = 0, position: int = 0, raw: bytes = b"{}"
    ):
        at = at or good.timestamp_s
        return good_value % (NUMBER.encode(), key + wa, n, kind, at, good.timestamp_s, position, raw)

    bad = [
        b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"wamid":"x"}', b"\x1f\x8b\x08\x00",
        a_value(90, wa=b"\\u0000"), a_value(90, wa=b"x" * 600), a_value(90, at=-1), a_value(90, at=1),
    ]  # fmt: skip
    odd = [
        a_value(1, raw=b'{"text":{"body":"a\\u0000b"}}'),
        a_value(2, kind=b"unheard of"),
        a_value(3, position=2**62),
        a_value(4, at=2**62),
        a_value(5, raw=b'{"text":{"body":"\\ud800"}}'),
        a_value(6, raw=b'{"text":[1,{}],"button":7,"interactive":null}'),
        a_value(7, kind=b"system", raw=b'{"system":{"type":"user_changed_number","wa_id":[]}}'),
    ]
    async with house.running():
        for value in bad + odd:
            await house.publish_raw(value, key)
        await house.publish_raw(a_value(8), None)
        await house.publish_raw(a_value(9), b"\xff")
        events = await house.all_told(8)
    assert {1, 2, 3, 4, 6, 7, 8, 9} == set(numbers_of(events))
    letters = await house.dead_letters()
    assert letters == ["stale"] * 2 + ["undecodable"] * (len(bad) - 1)


async def test_a_text_with_a_nul_reaches_the_event_as_it_was(house: House):
    async with house.running():
        message = a_message(1, raw={"text": {"body": "a\x00b"}})
        await house.publish(message)
        (event,) = await house.all_told(1)
    assert bytes(event.raw) == bytes(message.raw)
