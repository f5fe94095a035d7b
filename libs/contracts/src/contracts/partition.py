"""Which partition a key belongs to: the same answer as Kafka's default partitioner, so that every producer agrees.

Invariant: for a given key and partition count the answer never changes; ordering per key rests on it.
"""

import struct

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(key: bytes) -> int:
    """Return the unsigned 32-bit murmur2 hash of `key`, with the seed that Kafka's clients use."""
    length = len(key)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for word in struct.unpack_from(f"<{length >> 2}I", key):
        k = (word * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    rest = length - whole
    if rest:
        h ^= int.from_bytes(key[whole:], "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


def partition_for(key: bytes, partitions_count: int) -> int:
    """Return the partition (0-based) of a non-null key; librdkafka calls this partitioner `murmur2_random`."""
    assert partitions_count > 0
    return (murmur2(key) & 0x7FFFFFFF) % partitions_count


def slot_order(partitions_count: int) -> list[int]:
    """Return all slots in bit-reversed order, so that numbers connected one after the other land far apart.

    Consumers get contiguous ranges of partitions. Where both counts are powers of two, neighbours in this order never
    share a range while there is another one, and any run of as many numbers as consumers loads each of them once if it
    starts at a multiple of that count; with other counts this holds nearly.
    """
    bits = max(1, (partitions_count - 1).bit_length())
    order = (int(format(i, f"0{bits}b")[::-1], 2) for i in range(1 << bits))
    return [slot for slot in order if slot < partitions_count]
