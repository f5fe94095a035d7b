"""Statuses as a group commit: one record a partition under way, the next one takes what came meanwhile."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.codec import decode, encode
from contracts.partition import partition_for
from contracts.status import StatusBatch, StatusReported
from ingress.gather import StatusGather, Ticket, batch_value
from ingress.routing import Status


def a_status(wamid: str, size_bytes: int = 0) -> Status:
    reported = StatusReported(
        event_id=f"e-{wamid}",
        phone_number_id="100000000000001",
        waba_id="200000000000001",
        wamid=wamid,
        status="sent",
        timestamp_s=1,
        raw=msgspec.Raw(encode("x" * size_bytes)),
    )
    return Status(wamid=wamid.encode(), event_id=reported.event_id, value=encode(reported))


class Broker:
    """Takes records and acknowledges them when told to."""

    def __init__(self) -> None:
        self.records: list[tuple[int, list[str]]] = []
        self.sizes: list[int] = []
        self.unanswered: list[asyncio.Future[bool]] = []
        self.under_way: dict[int, int] = {}

    async def publish(self, partition: int, statuses: Sequence[Status]) -> bool:
        assert not self.under_way.get(partition), "two records of one partition are under way"
        self.under_way[partition] = 1
        self.records.append((partition, [one.wamid.decode() for one in statuses]))
        self.sizes.append(len(batch_value(statuses)))
        answer = asyncio.get_running_loop().create_future()
        self.unanswered.append(answer)
        try:
            return await answer
        finally:
            self.under_way[partition] = 0

    def answer(self, *, published: bool = True) -> None:
        self.unanswered.pop(0).set_result(published)


def a_ticket(count: int) -> Ticket:
    return Ticket(count, asyncio.get_running_loop().create_future())


async def settled() -> None:
    """Let every task run until it waits for the broker."""
    for _ in range(6):
        await asyncio.sleep(0)


async def test_what_comes_while_a_record_is_under_way_goes_together_in_the_next() -> None:
    broker = Broker()
    async with asyncio.TaskGroup() as tasks:
        gather = StatusGather(broker.publish, tasks=tasks, partitions_count=1, record_bytes_max=65_536)
        tickets = [a_ticket(1) for _ in range(5)]
        gather.put(a_status("w0"), tickets[0])
        await settled()
        for index in range(1, 5):
            gather.put(a_status(f"w{index}"), tickets[index])
            await settled()
        assert broker.records == [(0, ["w0"])]
        assert not any(ticket.answer.done() for ticket in tickets)
        broker.answer()
        await settled()
        assert broker.records[1:] == [(0, ["w1", "w2", "w3", "w4"])]
        assert [ticket.answer.done() for ticket in tickets] == [True, False, False, False, False]
        broker.answer()
        await settled()
        assert all(ticket.answer.result() for ticket in tickets)


async def test_the_statuses_of_one_body_go_together_at_once() -> None:
    broker = Broker()
    async with asyncio.TaskGroup() as tasks:
        gather = StatusGather(broker.publish, tasks=tasks, partitions_count=4, record_bytes_max=65_536)
        ticket = a_ticket(100)
        for index in range(100):
            gather.put(a_status(f"w{index}"), ticket)
        await settled()
        assert sorted(partition for partition, _ in broker.records) == [0, 1, 2, 3]
        for partition, wamids in broker.records:
            assert all(partition_for(wamid.encode(), 4) == partition for wamid in wamids)
        assert sum(len(wamids) for _, wamids in broker.records) == 100
        for _ in range(3):
            broker.answer()
        await settled()
        assert not ticket.answer.done()
        broker.answer()
        await settled()
        assert ticket.answer.result()


@pytest.mark.parametrize("sizes", [[20_000] * 10, [70_000, 10, 10], [10, 70_000, 10], [65_000, 600]])
async def test_no_record_is_above_the_limit_unless_it_is_one_status(sizes: list[int]) -> None:
    broker = Broker()
    async with asyncio.TaskGroup() as tasks:
        gather = StatusGather(broker.publish, tasks=tasks, partitions_count=1, record_bytes_max=65_536)
        ticket = a_ticket(len(sizes))
        for index, size_bytes in enumerate(sizes):
            gather.put(a_status(f"w{index}", size_bytes), ticket)
        await settled()
        while broker.unanswered:
            broker.answer()
            await settled()
    assert [wamid for _, wamids in broker.records for wamid in wamids] == [f"w{i}" for i in range(len(sizes))]
    for size_bytes, (_, wamids) in zip(broker.sizes, broker.records, strict=True):
        assert size_bytes <= 65_536 or len(wamids) == 1


async def test_a_failed_record_fails_its_tickets_and_no_others() -> None:
    broker = Broker()
    async with asyncio.TaskGroup() as tasks:
        gather = StatusGather(broker.publish, tasks=tasks, partitions_count=1, record_bytes_max=65_536)
        first, second = a_ticket(1), a_ticket(1)
        gather.put(a_status("w0"), first)
        await settled()
        gather.put(a_status("w1"), second)
        broker.answer(published=False)
        await settled()
        broker.answer()
        await settled()
        assert (first.answer.result(), second.answer.result()) == (False, True)


async def test_what_nobody_waits_for_any_more_does_not_leave() -> None:
    broker = Broker()
    async with asyncio.TaskGroup() as tasks:
        gather = StatusGather(broker.publish, tasks=tasks, partitions_count=1, record_bytes_max=65_536)
        first, left, last = a_ticket(1), a_ticket(1), a_ticket(1)
        for wamid, ticket in (("w0", first), ("w1", left), ("w2", last)):
            gather.put(a_status(wamid), ticket)
            await settled()
        left.abandon()
        broker.answer()
        await settled()
        broker.answer()
        await settled()
        assert [wamids for _, wamids in broker.records] == [["w0"], ["w2"]]
        assert left.answer.result() is False


async def test_credit_returns_when_all_is_settled_and_not_with_an_early_answer() -> None:
    returned: list[str] = []
    ticket = a_ticket(2)
    ticket.when_settled(lambda: returned.append("credit"))
    ticket.settle(published=True)
    ticket.abandon()
    assert ticket.answer.result() is False
    assert not returned
    ticket.settle(published=True)
    assert returned == ["credit"]
    a_ticket(0).when_settled(lambda: returned.append("at once"))
    assert returned == ["credit", "at once"]


async def test_a_ticket_for_nothing_is_settled() -> None:
    assert a_ticket(0).answer.result() is True


async def test_a_ticket_is_good_only_if_all_of_it_is() -> None:
    ticket = a_ticket(3)
    ticket.settle(2, published=False)
    assert not ticket.answer.done()
    ticket.settle(published=True)
    assert ticket.answer.result() is False


@given(sizes=st.lists(st.integers(0, 200), min_size=1, max_size=20))
def test_the_joined_value_is_the_encoded_batch(sizes: list[int]) -> None:
    statuses = [a_status(f"w{index}", size_bytes) for index, size_bytes in enumerate(sizes)]
    value = batch_value(statuses)
    batch = decode(StatusBatch, value)
    assert [one.wamid for one in batch.statuses] == [one.wamid.decode() for one in statuses]
    assert encode(batch) == value
