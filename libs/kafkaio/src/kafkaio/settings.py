"""How a process reaches the broker and how long it may be silent there.

Invariant: no request is given up before the longest rebalance can have ended.
"""

from msgspec import Struct

from kafkaio.access import KafkaAccess


class KafkaSettings(Struct, frozen=True, kw_only=True):
    """Where the broker is and how this process takes part; times in seconds."""

    bootstrap: str
    client_id: str
    access: KafkaAccess = KafkaAccess()
    topic_prefix: str = ""
    """Stands before each topic and group name, so that tests share one broker."""
    session_s: float = 30.0
    """A silent member is out of its group after this; the broker's own minimum is 6 s."""
    heartbeat_s: float = 3.0
    rebalance_s: float = 45.0
    """How long the group waits for a member to let go of its partitions and join again."""

    def __post_init__(self) -> None:
        assert 0 < self.heartbeat_s <= self.session_s / 3, "two heartbeats may be lost"
        assert self.rebalance_s > 0

    @property
    def request_s(self) -> float:
        """Patience for one request. A join is answered only when the rebalance ends, so it must be longer than that."""
        return self.rebalance_s + 5.0

    @property
    def drain_s(self) -> float:
        """How long running work is waited for when partitions go; with two commits it leaves a third of the rebalance."""
        return self.rebalance_s / 3

    @property
    def commit_s(self) -> float:
        """Patience for one commit."""
        return min(5.0, self.rebalance_s / 6)

    def topic(self, name: str) -> str:
        """Return the topic's name on the broker."""
        return self.topic_prefix + name

    def group(self, name: str) -> str:
        """Return the consumer group's name on the broker."""
        return self.topic_prefix + name

    def name_of(self, topic: str) -> str:
        """Return the declared name of a topic on the broker."""
        return topic.removeprefix(self.topic_prefix)
