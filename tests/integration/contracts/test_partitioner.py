"""Our partitioner against strangers' on the real broker: whoever writes a key, it lands on the same partition."""

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from contracts.partition import partition_for

PARTITIONS = 12
KEYS = [
    b"a",
    b"100000000000001:15550100042",
    b"100000000000001:US.90000000000000000001",
    b"100000000000001:-",
    *[f"10000000000000{n % 7}:1555010{n:04}".encode() for n in range(200)],
    *[bytes([n]) * (n % 9 + 1) for n in range(1, 255)],
]


def test_librdkafkas_murmur2_random_partitioner_agrees_with_ours(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}partitioner"
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    chosen: dict[bytes, int] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None
        chosen[message.key()] = message.partition()

    producer = Producer({"bootstrap.servers": kafka_bootstrap, "partitioner": "murmur2_random"})
    for key in KEYS:
        producer.produce(topic, key=key, value=b"x", on_delivery=delivered)
    assert producer.flush(30) == 0
    assert chosen == {key: partition_for(key, PARTITIONS) for key in KEYS}
    assert len(set(chosen.values())) == PARTITIONS
