"""Journeys: fixed by the seed, possible in the real world, and as frequent as the odds say."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from simulator.journey import Status, StatusStep, TextStep, hastened, journey, scripted
from simulator.scenario import Journeys
from simulator.script import rng_for

SEEDS = st.integers(min_value=0, max_value=2**32)
POSSIBLE = {
    (),
    ("sent",),
    ("failed",),
    ("sent", "failed"),
    ("sent", "delivered"),
    ("delivered",),
    ("sent", "read"),
    ("read",),
    ("sent", "delivered", "read"),
    ("delivered", "read"),
}


def course(steps) -> tuple[str, ...]:
    """The statuses in the order in which they happen."""
    statuses = [step for step in steps if isinstance(step, StatusStep)]
    return tuple(step.status.value for step in sorted(statuses, key=lambda step: step.happens_s))


def texts(steps) -> list[TextStep]:
    return [step for step in steps if isinstance(step, TextStep)]


@given(SEEDS)
def test_the_same_seed_gives_the_same_journey(seed):
    odds = Journeys(answers=0.5, late=0.5)
    assert journey(odds, rng_for(seed, "15550100042", 1)) == journey(odds, rng_for(seed, "15550100042", 1))


def test_another_person_another_occurrence_or_another_seed_gives_another_journey():
    odds = Journeys()
    journeys = {
        journey(odds, rng_for(*key))
        for key in [
            (1, "15550100042", 1),
            (2, "15550100042", 1),
            (1, "15550100043", 1),
            (1, "15550100042", 2),
        ]
    }
    assert len(journeys) == 4


@given(SEEDS)
def test_a_journey_is_one_that_meta_could_tell(seed):
    steps = journey(Journeys(answers=0.5, failed=0.3, late=0.3), rng_for(seed, "15550100042", 1))
    assert course(steps) in POSSIBLE
    assert [step.told_s for step in steps] == sorted(step.told_s for step in steps)
    for step in steps:
        assert 0 <= step.happens_s <= step.told_s
        if isinstance(step, StatusStep):
            assert (step.code != 0) == (step.status is Status.FAILED)
    if texts(steps):
        assert {"delivered", "read"} & set(course(steps))


@given(SEEDS)
def test_texts_are_numbered_and_their_times_rise(seed):
    odds = Journeys(answers=1, silent=0, failed=0, stays_sent=0, answers_max=5)
    row = texts(journey(odds, rng_for(seed, "15550100042", 1)))
    assert [step.order for step in row] == list(range(1, len(row) + 1))
    assert [step.happens_s for step in row] == sorted(step.happens_s for step in row)
    assert 1 <= len(row) <= 5
    assert not any(step.stop for step in row[:-1])


@given(SEEDS)
def test_pricing_sits_on_sent_and_on_one_of_delivered_and_read(seed):
    odds = Journeys(silent=0, failed=0, stays_sent=0, sent_skipped=0)
    steps = [step for step in journey(odds, rng_for(seed, "1", 1)) if isinstance(step, StatusStep)]
    priced = [step.status for step in sorted(steps, key=lambda step: step.happens_s) if step.carries_pricing]
    assert priced[0] is Status.SENT
    assert len(priced) == 2


def sample(odds: Journeys, count: int = 4_000) -> Counter[tuple[str, ...]]:
    return Counter(course(journey(odds, rng_for(7, str(n), 1))) for n in range(count))


def test_each_course_is_as_frequent_as_its_odds():
    found = sample(
        Journeys(silent=0.1, failed=0.2, stays_sent=0.1, read=0.5, delivered_skipped=0, sent_skipped=0)
    )
    assert 0.08 < found[()] / 4_000 < 0.12
    assert 0.17 < (found[("failed",)] + found[("sent", "failed")]) / 4_000 < 0.23
    assert 0.08 < found[("sent",)] / 4_000 < 0.12
    assert 0.26 < found[("sent", "delivered", "read")] / 4_000 < 0.34


def test_one_status_in_so_many_lacks_callback_data():
    odds = Journeys(silent=0, callback_data_missing=10)
    steps = [
        step
        for n in range(2_000)
        for step in journey(odds, rng_for(7, str(n), 1))
        if isinstance(step, StatusStep)
    ]
    missing = sum(not step.carries_callback_data for step in steps)
    assert 0.08 < missing / len(steps) < 0.12


def test_stop_comes_in_three_spellings_and_last():
    odds = Journeys(silent=0, failed=0, stays_sent=0, answers=1, answers_stop=1)
    lasts = {texts(journey(odds, rng_for(7, str(n), 1)))[-1] for n in range(60)}
    assert {step.text for step in lasts} == {"STOP", "Stop", "stop"}
    assert all(step.stop for step in lasts)


def test_an_answer_may_be_told_before_delivered():
    odds = Journeys(silent=0, failed=0, stays_sent=0, answers=1, answers_before_delivered=1, read=0, late=0)
    steps = journey(odds, rng_for(7, "1", 1))
    first_text = next(place for place, step in enumerate(steps) if isinstance(step, TextStep))
    delivered = next(
        place
        for place, step in enumerate(steps)
        if isinstance(step, StatusStep) and step.status is Status.DELIVERED
    )
    assert first_text < delivered


def test_time_scale_zero_tells_everything_at_once():
    steps = journey(Journeys(time_scale=0, answers=1), rng_for(7, "1", 1))
    assert all(step.told_s == 0 for step in steps)


def test_a_scripted_journey_is_exactly_what_was_asked_for():
    steps = scripted(
        Journeys(late=1), (Status.SENT, Status.FAILED), 131047, ("one", "Stop"), rng_for(1, "1", 1)
    )
    assert course(steps) == ("sent", "failed")
    assert [step.code for step in steps if isinstance(step, StatusStep)] == [0, 131047]
    assert [(step.order, step.stop) for step in texts(steps)] == [(1, False), (2, True)]


def test_a_hastened_journey_tells_a_status_at_once_even_if_it_was_silent():
    odds = Journeys()
    loud = scripted(odds, (Status.SENT, Status.READ), 0, (), rng_for(1, "1", 1))
    assert hastened(loud)[0].told_s == 0
    assert course(hastened(loud)) == course(loud)
    assert course(hastened(())) == ("sent",)
