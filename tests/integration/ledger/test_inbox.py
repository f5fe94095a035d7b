"""The inbox on the real Postgres: seen once, handled in order and one at a time, contacts merged, opt-outs kept."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

from contracts.contact import ContactKey
from contracts.conversation import Consent
from ledger import contacts, inbox, numbers, suppressions
from ledger.inbox import Arrival, SeenAs, Told
from ledger.pool import Ledger, LedgerUnavailable

NUMBER, OTHER_NUMBER = "100000000000001", "100000000000002"
FOREIGN_NUMBER = "199999999999999"
PHONE = ("phone", "447700900001")
NOW_S = int(time.time())


@asynccontextmanager
async def a_ledger(database_url: str) -> AsyncIterator[Ledger]:
    async with Ledger.open(database_url, shard=1, connections_max=12) as ledger:
        for number in (NUMBER, OTHER_NUMBER):
            await numbers.add(
                ledger, phone_number_id=number, waba_id="200000000000001", portfolio_id="p1", display="",
                limit_per_s=80, setting_per_s=76, slots_count=4,
            )  # fmt: skip
        yield ledger


def an_arrival(
    n: int,
    *,
    number: str = NUMBER,
    key: str = "U1",
    at_s: int = NOW_S,
    received_s: float = NOW_S,
    position: int = 0,
    opens: bool = True,
    consent: Consent | None = None,
    identities: Sequence[tuple[str, str]] = (PHONE,),
) -> Arrival:
    return Arrival(
        phone_number_id=number, wamid=f"wamid.{n}", contact_key=ContactKey(f"{number}:{key}"), timestamp_s=at_s,
        received_s=received_s, position=position, closes_at_s=at_s + 86_400 if opens else None, consent=consent,
        identities=tuple(identities), record=b"%d" % n,
    )  # fmt: skip


async def see(ledger: Ledger, *arrivals: Arrival, hold_s: float = 0.0) -> list[SeenAs]:
    return await inbox.see(ledger, arrivals, hold_s=hold_s)


async def handled(ledger: Ledger, *, lanes_max: int = 50, per_lane_max: int = 100) -> list[Told]:
    found = await inbox.handle(ledger, lanes_max=lanes_max, per_lane_max=per_lane_max)
    assert found.faults_count == 0
    return list(found.events)


async def drain(ledger: Ledger) -> list[Told]:
    """Handle and forget until nothing is due any more."""
    told: list[Told] = []
    while batch := await handled(ledger):
        await inbox.forget_told(ledger, batch)
        told += batch
    return told


def order(events: Sequence[Told]) -> list[int]:
    return [int(event.record) for event in events]


async def test_a_message_is_seen_once_however_often_it_comes(database_url):
    async with a_ledger(database_url) as ledger:
        assert await see(ledger, an_arrival(1), an_arrival(1), an_arrival(2)) == ["seen", "duplicate", "seen"]
        assert await see(ledger, an_arrival(2), an_arrival(3)) == ["duplicate", "seen"]
        assert order(await drain(ledger)) == [1, 2, 3]
        assert await see(ledger, an_arrival(1)) == ["duplicate"]
        assert await drain(ledger) == []


async def test_copies_that_arrive_at_the_same_instant_are_one_message(database_url):
    async with a_ledger(database_url) as ledger, asyncio.TaskGroup() as tasks:
        batches = []
        for seed in range(8):
            arrivals = [an_arrival(n, key=f"U{n}") for n in range(60)]
            random.Random(seed).shuffle(arrivals)
            batches.append(tasks.create_task(see(ledger, *arrivals)))
        outcomes = [outcome for batch in batches for outcome in await batch]
        assert outcomes.count(SeenAs.SEEN) == 60
        assert outcomes.count(SeenAs.DUPLICATE) == 60 * 7


async def test_a_message_to_a_number_that_is_not_ours_leaves_no_trace(database_url):
    async with a_ledger(database_url) as ledger:
        assert await see(ledger, an_arrival(1, number=FOREIGN_NUMBER), an_arrival(2)) == [
            "foreign_number",
            "seen",
        ]
        assert order(await drain(ledger)) == [2]
        assert await ledger.value("count", "SELECT count(*) FROM inbox") == 1


async def test_messages_of_other_weeks_have_partitions_of_their_own_and_go_when_they_are_old(database_url):
    async with a_ledger(database_url) as ledger:
        old_s = NOW_S - 3 * inbox.WEEK_S
        await see(ledger, an_arrival(1, at_s=old_s), an_arrival(2))
        much_later_s = NOW_S + inbox.KEPT_S
        assert await inbox.drop_old_weeks(ledger, now_s=much_later_s - inbox.WEEK_S) == 0, "it still waits"
        assert order(await drain(ledger)) == [1, 2]
        assert await inbox.drop_old_weeks(ledger, now_s=much_later_s - inbox.WEEK_S) == 1
        assert await ledger.value("count", "SELECT count(*) FROM inbox") == 1


async def test_what_arrives_within_the_hold_is_sorted_by_its_own_time_then_by_position(database_url):
    async with a_ledger(database_url) as ledger:
        expected = [an_arrival(n, at_s=NOW_S + n // 5, position=n % 5) for n in range(30)]
        shuffled = expected.copy()
        random.Random(3).shuffle(shuffled)
        for arrival in shuffled:
            await see(ledger, arrival, hold_s=0.5)
        assert await handled(ledger) == []
        events: list[Told] = []
        async with asyncio.timeout(40):
            while len(events) < len(expected):
                events += await drain(ledger)
                await asyncio.sleep(0.02)
        assert order(events) == [int(arrival.record) for arrival in expected]
        assert [event.turn for event in events] == list(range(1, 31))


async def test_messages_of_one_second_from_two_webhooks_are_handled_by_arrival(database_url):
    """A place within one webhook says nothing about another: the first message here is the third of its webhook."""
    async with a_ledger(database_url) as ledger:
        await see(ledger, an_arrival(1, received_s=NOW_S + 0.1, position=2))
        await see(ledger, an_arrival(2, received_s=NOW_S + 0.4, position=0))
        await see(ledger, an_arrival(3, received_s=NOW_S + 0.4, position=1))
        assert order(await drain(ledger)) == [1, 2, 3]


async def test_a_message_that_comes_after_the_hold_is_handled_by_arrival(database_url):
    async with a_ledger(database_url) as ledger:
        await see(ledger, *(an_arrival(n, position=n) for n in range(1, 11)))
        first = await drain(ledger)
        await see(ledger, an_arrival(11, at_s=NOW_S - 1))
        assert order(first + await drain(ledger)) == list(range(1, 12))
        kept = await ledger.rows("kept", "SELECT wamid FROM inbox ORDER BY turn")
        assert [row["wamid"] for row in kept] == [f"wamid.{n}" for n in range(1, 12)]


async def test_a_lane_waits_until_its_events_are_told(database_url):
    async with a_ledger(database_url) as ledger:
        await see(
            ledger,
            an_arrival(1),
            an_arrival(2, position=1),
            an_arrival(3, key="U2", identities=[("phone", "2")]),
        )
        first = await handled(ledger, per_lane_max=1)
        assert sorted(order(first)) == [1, 3]
        assert await handled(ledger) == []
        assert await inbox.forget_told(ledger, first) is True
        assert order(await handled(ledger)) == [2]


async def test_a_long_lane_does_not_hold_the_others_back(database_url):
    async with a_ledger(database_url) as ledger:
        await see(ledger, *(an_arrival(n, position=n) for n in range(200)))
        await see(
            ledger, *(an_arrival(n, key=f"V{n}", identities=[("phone", str(n))]) for n in range(200, 210))
        )
        told: list[Told] = []
        for _ in range(12):
            batch = await handled(ledger, lanes_max=1, per_lane_max=2)
            await inbox.forget_told(ledger, batch)
            told += batch
        assert {200, 209} <= set(order(told))


async def test_one_contact_is_handled_in_order_by_many_handlers_at_once(database_url):
    async with a_ledger(database_url) as ledger:
        count, people = 400, 12
        arrivals = [
            an_arrival(
                n, key=f"U{n % people}", position=n, identities=[("phone", f"44770090{n % people:04}")]
            )
            for n in range(count)
        ]
        for start in range(0, count, 50):
            await see(ledger, *arrivals[start : start + 50])
        told: list[Told] = []

        async def handler(seed: int) -> None:
            rng = random.Random(seed)
            while len(told) < count:
                batch = await handled(ledger, lanes_max=3, per_lane_max=2)
                await asyncio.sleep(rng.random() * 0.003)
                told.extend(batch)
                if batch:
                    await inbox.forget_told(ledger, batch)

        async with asyncio.timeout(40), asyncio.TaskGroup() as tasks:
            for seed in range(6):
                tasks.create_task(handler(seed))
        for person in range(people):
            mine = [event for event in told if event.contact_key.endswith(f":U{person}")]
            assert order(mine) == sorted(order(mine))
            assert [event.turn for event in mine] == list(range(1, len(mine) + 1))


async def test_turn_window_and_version_of_a_conversation_rise_and_the_window_never_goes_back(database_url):
    async with a_ledger(database_url) as ledger:
        await see(ledger, an_arrival(1, at_s=NOW_S - 60))
        await drain(ledger)
        await see(ledger, an_arrival(2, at_s=NOW_S - 3600), an_arrival(3, at_s=NOW_S, opens=False))
        late, reaction = await drain(ledger)
        assert late.closes_at_s == NOW_S - 60 + 86_400
        assert reaction.closes_at_s is None
        found = await inbox.conversation(ledger, phone_number_id=NUMBER, contact_id=late.contact_id)
        assert found == inbox.Conversation(
            turn=3, version=3, last_inbound_at_s=NOW_S - 60, window_closes_at_s=NOW_S - 60 + 86_400
        )
        assert (
            await inbox.conversation(ledger, phone_number_id=OTHER_NUMBER, contact_id=late.contact_id) is None
        )


async def test_an_event_that_nobody_told_is_taken_over_once_its_owner_had_its_time(database_url):
    async with a_ledger(database_url) as ledger:
        await see(ledger, an_arrival(1), an_arrival(2, position=1))
        lost = await handled(ledger)
        assert await inbox.take_untold(ledger, older_s=60, lanes_max=10) == ()
        taken = await inbox.take_untold(ledger, older_s=0, lanes_max=10)
        assert list(taken) == lost
        assert await inbox.take_untold(ledger, older_s=60, lanes_max=10) == ()
        assert (await inbox.backlog(ledger)).untold_count == 2
        await inbox.forget_told(ledger, taken)
        assert await inbox.take_untold(ledger, older_s=0, lanes_max=10) == ()


async def test_a_message_that_cannot_be_handled_is_set_aside_and_holds_up_nobody(database_url):
    async with a_ledger(database_url) as ledger:
        await see(
            ledger,
            an_arrival(1),
            an_arrival(2, position=1),
            an_arrival(3, key="U2", identities=[("phone", "3")]),
        )
        await ledger.run("spoil", "UPDATE inbox SET identity_kinds = '{telepathy}' WHERE wamid = 'wamid.1'")
        found = await inbox.handle(ledger, lanes_max=10, per_lane_max=10)
        assert found.faults_count == 1
        assert sorted(order(found.events)) == [2, 3]
        assert await ledger.value("fault", "SELECT fault FROM inbox WHERE wamid = 'wamid.1'") == "23514"


# --- contacts


async def test_messages_of_a_new_contact_that_come_at_once_make_one_contact(database_url):
    async with a_ledger(database_url) as ledger:
        both = [("bsuid", "GB.QA1"), PHONE]
        async with asyncio.TaskGroup() as tasks:
            for n in range(7):  # to two numbers, with keys of their own, so that lanes don't help
                tasks.create_task(
                    see(
                        ledger,
                        an_arrival(n, number=(NUMBER, OTHER_NUMBER)[n % 2], key=f"K{n}", identities=both),
                    )
                )
        async with asyncio.TaskGroup() as tasks:
            found = [tasks.create_task(inbox.handle(ledger, lanes_max=1, per_lane_max=1)) for _ in range(7)]
        events = [event for batch in found for event in batch.result().events]
        events += await drain(ledger)
        assert sorted(order(events)) == list(range(7))
        assert len({event.contact_id for event in events}) == 1
        assert await ledger.value("count", "SELECT count(*) FROM contacts") == 1
        turns = await ledger.rows("turns", "SELECT turn FROM conversations ORDER BY turn")
        assert [row["turn"] for row in turns] == [3, 4]


async def test_concurrent_resolution_of_overlapping_identities_ends_in_one_contact(database_url):
    async with a_ledger(database_url) as ledger:
        chain = [
            ("phone", "1"),
            ("bsuid", "GB.1"),
            ("phone", "2"),
            ("bsuid", "GB.2"),
            ("parent_bsuid", "GB.ENT.1"),
        ]
        pairs = list(pairwise(chain))

        async def resolve(n: int) -> None:
            for _ in range(10):
                with suppress(LedgerUnavailable):  # two merges may meet; one of them is asked to come again
                    await contacts.resolve(
                        ledger, portfolio_id="p1", identities=sorted(pairs[n % len(pairs)])
                    )
                    return
            raise AssertionError("it does not settle")

        async with asyncio.TaskGroup() as tasks:
            for n in range(24):
                tasks.create_task(resolve(n))
        owners = await ledger.rows("owners", "SELECT DISTINCT contact_id FROM contact_identities")
        assert len(owners) == 1
        left = await ledger.rows("left", "SELECT contact_id FROM contacts WHERE merged_into IS NULL")
        assert left == owners


async def test_two_contacts_that_turn_out_to_be_one_person_merge_with_turns_and_windows(database_url):
    async with a_ledger(database_url) as ledger:
        await see(ledger, an_arrival(1, at_s=NOW_S - 10), an_arrival(2, at_s=NOW_S - 9))
        await see(ledger, an_arrival(3, key="GB.QA1", identities=[("bsuid", "GB.QA1")]))
        a, b, c = await drain(ledger)
        assert a.contact_id == b.contact_id != c.contact_id
        await see(ledger, an_arrival(4, key="GB.QA1", identities=[("bsuid", "GB.QA1"), PHONE], opens=False))
        (tied,) = await drain(ledger)
        assert tied.contact_id == min(a.contact_id, c.contact_id)
        assert tied.turn == 4
        assert await contacts.identities(ledger, contact_id=tied.contact_id) == [("bsuid", "GB.QA1"), PHONE]
        found = await inbox.conversation(ledger, phone_number_id=NUMBER, contact_id=tied.contact_id)
        assert found.window_closes_at_s == NOW_S + 86_400
        assert await ledger.value("count", "SELECT count(*) FROM conversations") == 1


async def test_a_merge_waits_for_whoever_works_for_the_contact_and_loses_nothing_of_that_work(database_url):
    async with a_ledger(database_url) as ledger:
        winner = await contacts.resolve(ledger, portfolio_id="p1", identities=[("bsuid", "GB.QA1")])
        loser = await contacts.resolve(ledger, portfolio_id="p1", identities=[PHONE])
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        both = [("bsuid", "GB.QA1"), PHONE]
        async with asyncio.TaskGroup() as tasks, ledger.transaction("work") as connection:
            leased = await connection.fetchval("SELECT contact_of('p1', '{phone}', $1)", [PHONE[1]])
            assert leased == loser
            merging = tasks.create_task(contacts.resolve(ledger, portfolio_id="p1", identities=both))
            async with asyncio.timeout(2.5):
                while not merging.done() and not await ledger.value("waiting", waiting):
                    await connection.execute("SELECT 1")  # an idle transaction would be ended
                    await asyncio.sleep(0.01)
            assert not merging.done()
            await connection.execute(
                "INSERT INTO conversations (contact_id, phone_number_id, turn, version) VALUES ($1, $2, 7, 1)",
                loser,
                NUMBER,
            )
        assert merging.result() == winner
        found = await inbox.conversation(ledger, phone_number_id=NUMBER, contact_id=winner)
        assert found is not None
        assert found.turn == 7


async def test_a_person_of_another_portfolio_is_another_contact(database_url):
    async with a_ledger(database_url) as ledger:
        ours = await contacts.resolve(ledger, portfolio_id="p1", identities=[PHONE])
        theirs = await contacts.resolve(ledger, portfolio_id="p2", identities=[PHONE])
        assert ours != theirs


async def test_messages_that_say_nothing_of_their_sender_make_no_contact(database_url):
    async with a_ledger(database_url) as ledger:
        await see(ledger, an_arrival(1, key="-", identities=(), consent=Consent.OPTED_OUT))
        (event,) = await drain(ledger)
        assert event.contact_id == contacts.NOBODY
        assert await ledger.value("count", "SELECT count(*) FROM contacts") == 0
        assert await ledger.value("count", "SELECT count(*) FROM suppressions") == 0


# --- opt-outs


async def test_an_opt_out_is_there_before_its_event_can_be_told_and_an_opt_in_lifts_it(database_url):
    async with a_ledger(database_url) as ledger:
        await see(ledger, an_arrival(1, at_s=NOW_S - 10, consent=Consent.OPTED_OUT))
        (event,) = await handled(ledger)
        found = await suppressions.find(ledger, contact_id=event.contact_id)
        assert found == suppressions.Suppression(reason="opted_out", source="message", since_s=NOW_S - 10)
        await inbox.forget_told(ledger, [event])
        await see(ledger, an_arrival(2, at_s=NOW_S - 5, consent=Consent.OPTED_IN))
        await drain(ledger)
        assert await suppressions.find(ledger, contact_id=event.contact_id) is None


async def test_of_two_words_the_later_one_counts_in_whichever_order_they_come(database_url):
    async with a_ledger(database_url) as ledger:
        who = await contacts.resolve(ledger, portfolio_id="p1", identities=[PHONE])

        async def say(consent: Consent, at_s: int) -> bool:
            return await suppressions.set_consent(
                ledger, contact_id=who, consent=consent, at_s=at_s, source="message"
            )

        assert await say(Consent.OPTED_OUT, NOW_S - 10)
        assert not await say(Consent.OPTED_IN, NOW_S - 20)
        assert await suppressions.find(ledger, contact_id=who) is not None
        assert await say(Consent.OPTED_IN, NOW_S - 5)
        assert not await say(Consent.OPTED_OUT, NOW_S - 6)
        assert await suppressions.find(ledger, contact_id=who) is None


async def test_a_word_lifts_no_block(database_url):
    async with a_ledger(database_url) as ledger:
        who = await contacts.resolve(ledger, portfolio_id="p1", identities=[PHONE])
        await ledger.run(
            "block",
            "INSERT INTO suppressions (contact_id, reason, source) VALUES ($1, 'blocked', 'admin')",
            who,
        )
        for consent in (Consent.OPTED_OUT, Consent.OPTED_IN):
            await suppressions.set_consent(
                ledger, contact_id=who, consent=consent, at_s=NOW_S, source="message"
            )
        assert (await suppressions.find(ledger, contact_id=who)).reason == "blocked"


async def test_any_opt_out_survives_a_merge_and_holds_for_the_ids_that_audiences_froze(database_url):
    async with a_ledger(database_url) as ledger:
        first = await contacts.resolve(ledger, portfolio_id="p1", identities=[PHONE])
        second = await contacts.resolve(ledger, portfolio_id="p1", identities=[("bsuid", "GB.QA1")])
        await suppressions.set_consent(
            ledger, contact_id=second, consent=Consent.OPTED_OUT, at_s=NOW_S - 50, source="message"
        )
        assert (
            await contacts.resolve(ledger, portfolio_id="p1", identities=[("bsuid", "GB.QA1"), PHONE])
            == first
        )
        for contact_id in (first, second):
            assert (await suppressions.find(ledger, contact_id=contact_id)).reason == "opted_out"
        await suppressions.set_consent(
            ledger, contact_id=first, consent=Consent.OPTED_IN, at_s=NOW_S - 5, source="message"
        )
        for contact_id in (first, second):
            assert await suppressions.find(ledger, contact_id=contact_id) is None
