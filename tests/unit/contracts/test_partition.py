"""The partitioner against pinned vectors and against aiokafka's; the order of slots."""

from itertools import pairwise

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from contracts.partition import murmur2, partition_for, slot_order

# Signed, as Kafka's Java client gives them; checked against aiokafka 0.14.0 when they were written down.
VECTORS = {
    b"": 275646681,
    b"21": -973932308,
    b"abc": 479470107,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"300000000000001": 1834384107,
    b"300000000000001:15550100042": 513131381,
    b"300000000000001:GB.QA1abc": -1094333854,
    bytes(range(128, 140)): -1655041056,
}
# Key to its partition of 12, 32 and 64. These must never change: ordering per key rests on them.
PARTITIONS = {
    b"21": (0, 12, 44),
    b"300000000000001": (3, 11, 43),
    b"300000000000001:15550100042": (5, 21, 53),
    b"300000000000001:GB.QA1abc": (10, 2, 34),
    "é".encode(): (3, 7, 7),
}


@pytest.mark.parametrize("key", list(VECTORS))
def test_the_hash_is_the_pinned_one(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key] & 0xFFFFFFFF


@pytest.mark.parametrize("key", list(PARTITIONS))
def test_a_key_stays_in_its_pinned_partition(key: bytes) -> None:
    assert tuple(partition_for(key, count) for count in (12, 32, 64)) == PARTITIONS[key]


@given(st.binary(max_size=200), st.integers(min_value=1, max_value=1_000))
def test_hash_and_partition_agree_with_aiokafka(key: bytes, partitions_count: int) -> None:
    theirs = aiokafka_murmur2(key)
    assert murmur2(key) == theirs & 0xFFFFFFFF
    assert partition_for(key, partitions_count) == (theirs & 0x7FFFFFFF) % partitions_count


@pytest.mark.parametrize("partitions_count", [1, 2, 3, 7, 8, 12, 32, 100])
def test_each_slot_comes_once(partitions_count: int) -> None:
    assert sorted(slot_order(partitions_count)) == list(range(partitions_count))


@pytest.mark.parametrize("partitions_count", [2, 8, 32, 64])
def test_numbers_connected_one_after_the_other_load_each_consumer_once(partitions_count: int) -> None:
    order = slot_order(partitions_count)
    consumers_count = 2
    while consumers_count <= partitions_count:
        width = partitions_count // consumers_count
        owners = [slot // width for slot in order]
        for start in range(0, partitions_count, consumers_count):
            assert len(set(owners[start : start + consumers_count])) == consumers_count
        assert all(a != b for a, b in pairwise(owners))
        consumers_count *= 2
