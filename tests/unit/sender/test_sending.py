"""One number's pipeline in virtual time: what is claimed is handed on once, whatever is answered and whenever it stops."""

import asyncio
from collections import Counter
from random import Random
from uuid import uuid4

from hypothesis import event, given, settings
from hypothesis import strategies as st

from contracts.contact import Wamid
from contracts.outcome import (
    Accepted,
    Outcome,
    Rejected,
    Scope,
    Throttled,
    Unknown,
    UnknownReason,
    Unsent,
    UnsentReason,
)
from ledger.numbers import PartWork, Work
from runtime.testing import LoopClock, run_virtual
from sender.claiming import Ready
from sender.sending import NumberSender, Slots
from sender.settling import ClaimBatch, Result
from sender.tenure import Tenure
from sender.timing import Timing
from sender.verdict import Post

TIMING = Timing()
NUMBER = "100000000000001"
OUTCOMES: list[Outcome] = [
    *[Accepted(Wamid("wamid.1"))] * 12,
    Rejected(131009),
    Throttled(Scope.NUMBER, 1.0, 130429),
    Throttled(Scope.TEMPLATE, 6.0, 132015),
    Throttled(Scope.APP, 60.0, 4),
    Throttled(Scope.PAIR, 6.0, 131056),
    Unsent(UnsentReason.NOT_CONNECTED),
    Unsent(UnsentReason.RETRY_CODE, 2),
    Unknown(UnknownReason.TIMEOUT),
]


class Claims:
    """Gives rows without end, after a while; remembers them all."""

    def __init__(self, clock: LoopClock, rng: Random) -> None:
        self.given_back: list[tuple[Post, ClaimBatch]] = []
        self.rows: list[Ready] = []
        self.limits: list[int] = []
        self.outcome = "claimed"
        self.lost_share = 0.0
        self._lost: list[tuple[Post, ClaimBatch]] = []
        self._clock = clock
        self._rng = rng

    async def claim(self, part: PartWork, limit: int) -> tuple[str, list[Ready]]:
        self.limits.append(limit)
        claimed_at = self._clock.boottime()
        await asyncio.sleep(self._rng.choice([0.001, 0.01, 0.2]))
        if self.outcome != "claimed":
            return self.outcome, []
        batch = ClaimBatch(uuid4(), limit)
        rows = [
            Ready(
                post=Post(campaign_id=part.campaign_id, seq=len(self.rows) + n, attempt=1),
                address="+447700900000", params=(), part=part, claim=batch, claimed_at=claimed_at,
            )
            for n in range(limit)
        ]  # fmt: skip
        self.rows += rows
        if self._rng.random() < self.lost_share:
            self._lost += [(row.post, batch) for row in rows]
            return "unsure", []
        return "claimed", rows

    async def look_up_lost(self) -> bool:
        if self._lost:
            await asyncio.sleep(self._rng.choice([0.01, 1.5]))
            self.given_back, self._lost = self.given_back + self._lost, []
        return True


class Meta:
    """Answers after a while with whatever comes up."""

    def __init__(self, clock: LoopClock, rng: Random, outcomes: list[Outcome]) -> None:
        self.starts: list[float] = []
        self._clock = clock
        self._rng = rng
        self._outcomes = outcomes

    async def send_template(self, number: str, **message: object) -> Outcome:
        self.starts.append(self._clock.boottime())
        await asyncio.sleep(self._rng.choice([0.02, 0.1, 1.0]))
        return self._rng.choice(self._outcomes)


class Results:
    """Takes results, now and then slowly."""

    def __init__(self, rng: Random) -> None:
        self.results: list[Result] = []
        self._rng = rng

    async def put(self, result: Result) -> None:
        await asyncio.sleep(self._rng.choice([0, 0, 0, 0.01]))
        self.results.append(result)


class Flag:
    fenced = False

    def unfence(self) -> None:
        self.fenced = False


def work(setting: int, *campaigns: int) -> Work:
    return Work(
        phone_number_id=NUMBER,
        setting_per_s=setting,
        parts=tuple(
            PartWork(
                campaign_id=c, template_name="hello", template_language="en", fresh_count=10_000,
                due_in_s=None, throttled_s=0.0,
            )
            for c in campaigns
        ),
    )  # fmt: skip


class Bench:
    """A sender with its collaborators; made within a loop."""

    def __init__(
        self, seed: int, *, outcomes: list[Outcome] = OUTCOMES, slots: int = 50, planned: bool = False
    ):
        clock, rng = LoopClock(), Random(seed)
        now = clock.boottime()
        self.clock = clock
        self.tenure = Tenure(NUMBER, 1, asked_at=now, answered_at=now, planned=planned, timing=TIMING)
        self.claims = Claims(clock, rng)
        self.meta = Meta(clock, rng, outcomes)
        self.results = Results(rng)
        self.slots = Slots(slots)
        self.fence = Flag()
        self.sender = NumberSender(
            self.tenure, claimer=self.claims, graph=self.meta, settler=self.results, slots=self.slots,
            fence=self.fence, timing=TIMING, clock=clock, rng=rng,
        )  # fmt: skip

    def leave(self) -> None:
        self.tenure.leaving = True
        self.sender.wake()

    def assert_each_row_was_handed_on_once(self) -> None:
        claimed = Counter((row.post.campaign_id, row.post.seq) for row in self.claims.rows)
        settled = Counter((r.settlement.campaign_id, r.settlement.seq) for r in self.results.results)
        assert settled == claimed

    def most_in_a_second(self) -> int:
        starts = self.meta.starts
        return max((sum(1 for s in starts if 0 <= at - s <= 1.0) for at in starts), default=0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "none", "zero", "slow", "fence", "renew", "cut off"]),
        st.floats(0.01, 1.2),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 2**32), st.sampled_from([2, 7, 50]))
def test_every_claimed_row_is_handed_on_once_whatever_happens(
    steps: list[tuple[str, float]], seed: int, slots: int
) -> None:
    async def main() -> None:
        bench = Bench(seed, slots=slots)
        bench.claims.lost_share = 0.1
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bench.sender.run())
            bench.sender.tell(work(40, 1))
            for step, seconds in steps:
                event(step)
                if step == "fence":
                    bench.fence.fenced = True
                elif step == "renew":
                    bench.fence.unfence()
                    bench.tenure.renewed(bench.clock.boottime())
                elif step == "cut off":
                    await asyncio.sleep(TIMING.lease_s)
                else:
                    bench.sender.tell(
                        {
                            "one": work(40, 1), "two": work(40, 1, 2), "none": work(40), "zero": work(0, 1),
                            "slow": work(3, 1, 2),
                        }[step]
                    )  # fmt: skip
                await asyncio.sleep(seconds)
            bench.leave()
            for _ in range(3):  # work is read on until the tenure's last task has ended
                await asyncio.sleep(0.01)
                bench.sender.tell(work(40))
        bench.assert_each_row_was_handed_on_once()
        assert bench.slots.free == slots, "a slot leaked"
        assert bench.most_in_a_second() <= 40

    run_virtual(main())


def test_after_a_planned_hand_over_nothing_is_claimed_or_sent_for_a_second_and_nothing_goes_back() -> None:
    async def main() -> None:
        bench = Bench(1, outcomes=[Accepted(Wamid("wamid.1"))], planned=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bench.sender.run())
            bench.sender.tell(work(40, 1))
            await asyncio.sleep(0.99)
            assert not bench.claims.rows
            await asyncio.sleep(2.0)
            sent = len(bench.meta.starts)
            bench.leave()
        assert bench.meta.starts[0] >= TIMING.takeover_s
        assert sent >= 0.8 * 2.0 * 40, "the first seconds were wasted"
        bench.assert_each_row_was_handed_on_once()

    run_virtual(main())


def test_a_claim_covers_half_a_second_of_tokens_and_no_more_than_the_free_slots() -> None:
    async def main(slots: int) -> int:
        bench = Bench(1, outcomes=[Accepted(Wamid("wamid.1"))], slots=slots)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bench.sender.run())
            bench.sender.tell(work(40, 1))
            await asyncio.sleep(3.0)
            bench.leave()
        return max(bench.claims.limits)

    assert run_virtual(main(100)) == 20
    assert run_virtual(main(6)) == 6


def test_a_fenced_claim_ends_the_tenure() -> None:
    async def main() -> None:
        bench = Bench(1)
        bench.claims.outcome = "fenced"
        bench.sender.tell(work(40, 1))
        async with asyncio.timeout(2.0):
            await bench.sender.run()
        assert bench.tenure.lost
        assert not bench.meta.starts

    run_virtual(main())


def test_a_fault_of_our_own_while_sending_is_unknown_and_stops_nobody() -> None:
    async def main() -> None:
        bench = Bench(1)

        async def broken(number: str, **message: object) -> Outcome:
            raise KeyError("a bug")

        bench.meta.send_template = broken
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bench.sender.run())
            bench.sender.tell(work(40, 1))
            await asyncio.sleep(0.5)
            bench.leave()
        kinds = Counter(r.settlement.kind for r in bench.results.results)
        assert kinds["unknown"] > 5
        bench.assert_each_row_was_handed_on_once()

    run_virtual(main())


def test_an_idle_number_looks_up_only_a_few_times_a_second() -> None:
    class Counting(LoopClock):
        looks = 0

        def boottime(self) -> float:
            Counting.looks += 1
            return super().boottime()

    async def main() -> None:
        bench = Bench(1)
        bench.sender._clock = Counting()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bench.sender.run())
            bench.sender.tell(work(40))
            await asyncio.sleep(10.0)
            bench.leave()
        assert Counting.looks < 400

    run_virtual(main())
