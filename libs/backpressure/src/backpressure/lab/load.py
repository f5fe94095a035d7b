"""What every strategy is put under: the same fast producer, slow consumer and distance between them.

Invariant: a load that can't be run is refused before anything starts, with all that is wrong with it.
"""

from dataclasses import dataclass

SECONDS_MAX = 600.0
RATE_MAX = 10_000.0
UNBOUNDED_BYTES_MAX = 1024 * 1024 * 1024
"""What the unbounded mailbox may come to hold: it is to be seen growing, not to take the machine down."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """Rates in messages a second, times in seconds."""

    producer_per_s: float = 2_000.0
    consumer_per_s: float = 500.0
    payload_bytes: int = 4_096
    seconds: float = 12.0
    round_trip_s: float = 0.02
    """There and back between producer and consumer, without the handling."""
    capacity: int = 100
    """Of the bounded channels."""
    credit: int = 100
    """The most a consumer asks for and has not handled: its high mark."""
    low_water: int = 50
    """It asks again when so many are left."""
    timeout_s: float = 0.2
    """How long stop-and-wait waits for an answer."""
    late_share: float = 0.01
    """The share of answers that come after that time-out."""
    seed: int = 7

    @property
    def service_s(self) -> float:
        """What one message costs the consumer."""
        return 1.0 / self.consumer_per_s

    @property
    def stop_and_wait_per_s(self) -> float:
        """The most that one message at a time allows: there, handled, back, and the time-outs in between."""
        time_outs = self.late_share / (1.0 - self.late_share)
        return 1.0 / (self.round_trip_s + self.service_s + time_outs * self.timeout_s)

    @property
    def credit_window_per_s(self) -> float:
        """The most that the credits allow: none is used twice in a round trip."""
        return min(self.consumer_per_s, self.credit / (self.round_trip_s + self.service_s))


def faults(load: Load) -> list[str]:
    """Return all that is wrong with a load, each by the flag that sets it; empty when it can be run."""
    grows_bytes = (load.producer_per_s - load.consumer_per_s) * load.seconds * load.payload_bytes
    too_much = (
        f"the unbounded mailbox would grow to {max(0.0, grows_bytes) / 2**20:,.0f} MiB, at most"
        f" {UNBOUNDED_BYTES_MAX // 2**20:,} are allowed: lower --seconds, --payload-bytes or --producer-rate"
    )
    checks = [
        (0 < load.consumer_per_s <= RATE_MAX, f"--consumer-rate must be above 0, at most {RATE_MAX:,.0f}"),
        (0 < load.producer_per_s <= RATE_MAX, f"--producer-rate must be above 0, at most {RATE_MAX:,.0f}"),
        (
            load.producer_per_s > load.consumer_per_s,
            "--producer-rate must be above --consumer-rate: without an overload there is nothing to see",
        ),
        (1 <= load.payload_bytes <= 1024 * 1024, "--payload-bytes must be between 1 and 1,048,576"),
        (1 <= load.seconds <= SECONDS_MAX, f"--seconds must be between 1 and {SECONDS_MAX:.0f}"),
        (0 < load.round_trip_s <= 1, "--round-trip-ms must be above 0, at most 1,000"),
        (1 <= load.capacity <= 1_000_000, "--capacity must be between 1 and 1,000,000"),
        (2 <= load.credit <= 1_000_000, "--credit must be between 2 and 1,000,000"),
        (0 <= load.low_water < load.credit, "--low-water must be at least 0 and below --credit"),
        (
            load.consumer_per_s <= 0 or load.timeout_s > load.round_trip_s + load.service_s,
            "--timeout-ms must be longer than a round trip and the handling of one message, else every answer is late",
        ),
        (0 <= load.late_share <= 0.5, "--late-share must be between 0 and 0.5"),
        (grows_bytes <= UNBOUNDED_BYTES_MAX, too_much),
    ]
    return [text for holds, text in checks if not holds]
