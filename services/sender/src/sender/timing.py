"""The times that one owner per number rests on: one record, and the inequalities that must hold between them.

Invariant: without a stall, every send ends before its lease does, and a new owner starts after the old one's last byte.
"""

from msgspec import Struct, structs


class Timing(Struct, frozen=True, kw_only=True):
    """Seconds. `scaled` shrinks all of them together, for tests."""

    session_s: float = 12.0
    """A silent member is out of the group after this."""
    heartbeat_s: float = 1.0
    rebalance_s: float = 30.0
    lease_s: float = 12.0
    renew_s: float = 2.0
    http_s: float = 4.0
    """A POST, from its call to its last byte."""
    connect_s: float = 2.0
    margin_s: float = 1.0
    """Clock drift and scheduling: our deadline is this much before the lease's."""
    grace_s: float = 2.0
    """How long after its end an expired lease is still left alone: bytes may linger on the way."""
    fence_s: float = 2.0
    """A loop that stood still for this long starts nothing until its leases are renewed."""
    statement_s: float = 1.5
    """One statement of the database."""
    wire_s: float = 1.0
    """Bytes between us and the provider."""
    claim_life_s: float = 1.0
    """A claimed row starts within this, counted from before its claim, or goes back."""
    claim_cover_s: float = 0.5
    """A claim covers at most this many seconds of tokens."""
    takeover_s: float = 1.0
    """After a planned hand-over: a sliding second of the old owner's starts."""
    results_s: float = 1.5

    def __post_init__(self) -> None:
        assert self.heartbeat_s <= self.session_s / 3, "two heartbeats may be lost"
        assert self.renew_s + 2 * self.statement_s < self.lease_s - self.margin_s - self.http_s, (
            "one missed renewal is survivable"
        )
        assert self.lease_s <= self.session_s, "a crash costs no wait beyond Kafka's own detection"
        assert self.http_s + self.results_s < self.rebalance_s / 2, "a hand-over fits into a rebalance"
        assert self.grace_s >= self.margin_s + self.wire_s, "the old owner's bytes have arrived"
        assert self.fence_s < self.lease_s - self.http_s, "a stalled loop is fenced before its lease ends"
        assert self.margin_s + self.http_s + self.grace_s >= self.takeover_s, (
            "the last start under a lease that ran out is over a second old"
        )
        assert self.connect_s < self.http_s, "a connection is part of the POST"
        assert self.claim_cover_s < self.claim_life_s, "what is claimed can start in time"

    @property
    def finish_s(self) -> float:
        """After a stop: the POSTs under way, and their results; what isn't written by then is left."""
        return self.http_s + 2 * self.results_s

    @property
    def claim_ends_s(self) -> float:
        """Every POST of a claim has ended this long after it: a row still being sent is nobody's."""
        return self.claim_life_s + self.http_s + self.grace_s

    def scaled(self, scale: float) -> "Timing":
        """Return the same times multiplied by `scale`, except those that the claim and the sliding second fix."""
        fixed = {"claim_life_s", "claim_cover_s", "takeover_s"}
        return Timing(
            **{
                name: value if name in fixed else value * scale
                for name, value in structs.asdict(self).items()
            }
        )
