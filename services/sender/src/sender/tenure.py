"""One number held under one epoch of its lease, and until when a send may start.

Invariant: no send starts unless it must end before the lease does; each take of a lease is a new tenure.
"""

from sender.timing import Timing


class Tenure:
    """Mutable: the deadline moves with each renewal; `leaving` and `lost` never go back."""

    def __init__(
        self,
        phone_number_id: str,
        epoch: int,
        *,
        asked_at: float,
        answered_at: float,
        planned: bool,
        timing: Timing,
    ) -> None:
        """Boot times read before the lease was asked for and after it was given.

        The deadline counts from the first, a hand-over from the second: until then the old owner may have sent.
        """
        self.phone_number_id = phone_number_id
        self.epoch = epoch
        self.leaving = False
        self.lost = False
        self._timing = timing
        self._starts_from = answered_at + timing.takeover_s if planned else asked_at
        self._deadline = 0.0
        self.renewed(asked_at)

    def renewed(self, asked_at: float) -> None:
        """The lease was prolonged by a statement sent at `asked_at` or later."""
        self._deadline = asked_at + self._timing.lease_s - self._timing.margin_s

    @property
    def is_over(self) -> bool:
        return self.leaving or self.lost

    def may_claim(self, now: float) -> bool:
        """Whether rows claimed now could be sent, the last as well as the first."""
        return self.may_start(now) and self.may_start(now + self._timing.claim_cover_s)

    def may_start(self, now: float) -> bool:
        """Whether a POST that starts now must end before the lease does."""
        return not self.is_over and self._starts_from <= now and now + self._timing.http_s <= self._deadline
