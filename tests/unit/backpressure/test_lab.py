"""The laboratory's facts, in virtual time: exact, and the same on every machine."""

import asyncio
import mmap
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backpressure.lab.bench import TICK_S, Bench, Link, Message, SlowConsumer
from backpressure.lab.facts import facts
from backpressure.lab.load import Load, faults
from backpressure.lab.meter import Meter, Sample, percentile, resident_bytes, summarise
from backpressure.lab.strategies import STRATEGIES, measure
from runtime.testing import run_virtual

LOAD = Load(
    producer_per_s=1_000, consumer_per_s=250, payload_bytes=8_192, seconds=8, capacity=60, late_share=0.0
)
MEMORY_MAX_BYTES = LOAD.credit * (LOAD.payload_bytes + 1_024) + 256 * 1024
"""What a bounded strategy may come to hold: its messages, and what the measuring itself remembers."""
KEEP_ALL = ("unbounded", "stop-and-wait", "credit window")
SHED = ("reject", "drop newest", "drop oldest")


def samples_of(name: str, load: Load = LOAD) -> list[Sample]:
    strategy = next(one for one in STRATEGIES if one.name == name)
    samples: list[Sample] = []
    run_virtual(measure(strategy, load, traced_bytes, samples.append))
    return samples


def traced_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]  # 0 unless the test has it `traced`


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start(1)
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_an_unbounded_mailbox_grows_for_as_long_as_the_overload_lasts() -> None:
    samples = samples_of("unbounded")
    per_tick = LOAD.producer_per_s * TICK_S
    for sample in samples[1:]:
        overload = (LOAD.producer_per_s - LOAD.consumer_per_s) * sample.at_s
        assert sample.waiting == pytest.approx(overload, abs=2 * per_tick)
        assert sample.memory_bytes - samples[0].memory_bytes > sample.waiting * LOAD.payload_bytes
    assert all(a.latencies_s[-1] < b.latencies_s[0] for a, b in pairwise(samples[1:])), (
        "nothing ever gets better"
    )
    assert summarise(samples).memory_growth_bytes > 5 * MEMORY_MAX_BYTES


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("name", [name for name in (*KEEP_ALL, *SHED) if name != "unbounded"])
def test_whatever_is_bounded_stays_within_the_stated_memory(name: str) -> None:
    assert 0 < summarise(samples_of(name)).memory_growth_bytes <= MEMORY_MAX_BYTES


def test_stop_and_wait_reaches_what_the_round_trip_allows() -> None:
    summary = summarise(samples_of("stop-and-wait"))
    assert summary.handled_per_s == pytest.approx(1 / (LOAD.round_trip_s + LOAD.service_s), rel=0.01)
    assert summary.waiting_max == 1


def test_late_answers_cost_their_time_outs_and_are_taken_for_no_other() -> None:
    load = replace(LOAD, seconds=60, late_share=0.2)
    summary = summarise(samples_of("stop-and-wait", load))
    assert summary.last.repeated > 200
    assert summary.last.repeated - summary.last.late_answers in (0, 1), "one may still be on its way"
    assert summary.handled_per_s == pytest.approx(load.stop_and_wait_per_s, rel=0.1)
    assert summary.last.offered - summary.last.handled in (0, 1), "a repeat is handled once"


def test_a_credit_window_keeps_the_consumer_busy_with_no_more_in_flight_than_it_asked_for() -> None:
    summary = summarise(samples_of("credit window"))
    assert summary.handled_per_s >= 0.99 * LOAD.consumer_per_s
    assert 0.8 * LOAD.credit <= summary.waiting_max <= LOAD.credit
    assert summary.max_s <= LOAD.credit / LOAD.consumer_per_s + LOAD.round_trip_s


def test_a_low_mark_below_the_round_trip_lets_the_consumer_run_dry() -> None:
    far = replace(LOAD, round_trip_s=0.4, timeout_s=1.0)
    dry, busy = (
        summarise(samples_of("credit window", replace(far, credit=n, low_water=n // 2))) for n in (20, 300)
    )
    assert dry.handled_per_s < 0.5 * far.consumer_per_s
    assert busy.handled_per_s > 0.9 * far.consumer_per_s
    assert dry.handled_per_s <= replace(far, credit=20, low_water=10).credit_window_per_s


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("credit", [100, 4])
def test_every_fact_holds_in_a_run_and_none_in_a_run_that_shows_the_opposite(credit: int) -> None:
    load = replace(LOAD, credit=credit, low_water=credit // 2, seconds=4)
    summaries = {strategy.name: summarise(samples_of(strategy.name, load)) for strategy in STRATEGIES}
    assert [fact.text for fact in facts(load, summaries) if not fact.holds] == []
    names = list(summaries)
    swapped = dict(zip(names, [summaries[name] for name in reversed(names)], strict=True))
    lost = replace(summaries["reject"].last, kept=0)
    swapped["reject"] = replace(summaries["unbounded"], last=lost, memory_growth_bytes=2**30)
    swapped["stop-and-wait"] = swapped["credit window"] = replace(summaries["unbounded"], waiting_max=10**6)
    assert [fact.text for fact in facts(load, swapped) if fact.holds] == []


@pytest.mark.parametrize("name", [strategy.name for strategy in STRATEGIES])
def test_what_was_offered_was_kept_rejected_or_dropped(name: str) -> None:
    samples = samples_of(name)
    for sample in samples:
        assert sample.offered == sample.kept + sample.rejected + sample.dropped
    last = samples[-1]
    if name in KEEP_ALL:
        assert (last.rejected, last.dropped) == (0, 0)
    else:
        lost = last.rejected if name == "reject" else last.dropped
        assert lost == last.rejected + last.dropped
        assert last.offered == pytest.approx(LOAD.producer_per_s * LOAD.seconds, rel=0.01)
        assert lost == pytest.approx((LOAD.producer_per_s - LOAD.consumer_per_s) * LOAD.seconds, rel=0.02)
        assert last.waiting in (LOAD.capacity, LOAD.capacity + 1), "full, and one in hand"


def test_what_drop_oldest_keeps_is_younger_than_what_drop_newest_keeps() -> None:
    newest, oldest = summarise(samples_of("drop newest")), summarise(samples_of("drop oldest"))
    assert newest.p50_s == pytest.approx(LOAD.capacity / LOAD.consumer_per_s, rel=0.1)
    assert oldest.p50_s == pytest.approx(LOAD.capacity / LOAD.producer_per_s, rel=0.25)


@pytest.mark.parametrize("name", [strategy.name for strategy in STRATEGIES])
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    load = replace(LOAD, seconds=2, late_share=0.1)
    a, b = ([replace(sample, memory_bytes=0) for sample in samples_of(name, load)] for _ in range(2))
    assert a == b


def test_the_default_load_has_no_faults() -> None:
    assert faults(Load()) == []


def test_all_faults_of_a_load_are_named_at_once() -> None:
    broken = Load(
        producer_per_s=0,
        consumer_per_s=float("nan"),
        seconds=0,
        capacity=0,
        credit=5,
        low_water=5,
        late_share=2,
    )
    named = " ".join(faults(broken))
    for flag in ("producer-rate", "consumer-rate", "seconds", "capacity", "low-water", "late-share"):
        assert f"--{flag} must" in named
    assert "--credit must" not in named
    assert "--payload-bytes must" not in named


def test_an_unbounded_mailbox_that_would_take_the_machine_down_is_refused() -> None:
    (fault,) = faults(Load(seconds=600, payload_bytes=65_536))
    assert "56,250 MiB, at most 1,024" in fault


@given(values=st.lists(st.floats(0, 10), min_size=1, max_size=50), share=st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_covers_its_share(values: list[float], share: float) -> None:
    values.sort()
    value = percentile(values, share)
    assert sum(v <= value for v in values) >= share * len(values) - 1e-9
    assert sum(v < value for v in values) < share * len(values) + 1e-9


@settings(deadline=None)
@given(lates=st.lists(st.booleans(), max_size=30))
def test_a_link_keeps_the_order_of_all_that_is_not_late(lates: list[bool]) -> None:
    arrived: list[int] = []

    async def scenario() -> None:
        link = Link[int](0.01, arrived.append)
        for number, late in enumerate(lates):
            link.send(number, late_s=0.5 if late else 0.0)
        await asyncio.sleep(1.0)

    run_virtual(scenario())
    in_time = [n for n, late in enumerate(lates) if not late]
    assert arrived[: len(in_time)] == in_time
    assert sorted(arrived) == list(range(len(lates)))


def test_a_slow_consumer_catches_up_when_it_woke_late() -> None:
    async def scenario() -> list[float]:
        bench = Bench(replace(LOAD, consumer_per_s=10), Meter(lambda: 0), Random(1))
        consumer = SlowConsumer(bench)
        loop = asyncio.get_running_loop()
        done = []
        for number in range(3):
            await consumer.handle(Message(number, 0.0, b"", arrived_at=0.0))
            done.append(loop.time())
            await asyncio.sleep(0.05)  # a stall of the loop
        return done

    assert run_virtual(scenario()) == pytest.approx([0.1, 0.2, 0.3])


def test_resident_memory_moves_with_what_the_process_holds() -> None:
    """Pages of their own: what the interpreter has to spare would hide them."""
    size = 32 * 2**20
    before = resident_bytes()
    with mmap.mmap(-1, size) as held:
        held.write(b"x" * size)
        assert resident_bytes() - before > 0.8 * size
