"""Claims for one number: only as many rows as there will be tokens for, each within the life of its claim.

Invariant: a claim whose answer was lost is looked up by its name and given back, before the next claim is made.
"""

from uuid import UUID, uuid4

from msgspec import Struct

from ledger import recipients
from ledger.numbers import PartWork
from ledger.pool import Ledger, LedgerUnavailable
from runtime.clock import Clock
from runtime.logs import get_logger
from sender import metrics
from sender.settling import ClaimBatch
from sender.tenure import Tenure
from sender.timing import Timing
from sender.verdict import Post

log = get_logger()


class Ready(Struct, frozen=True, kw_only=True):
    """A claimed recipient, waiting for its token."""

    post: Post
    address: str
    params: tuple[str, ...]
    part: PartWork
    claim: ClaimBatch
    claimed_at: float
    """Boot time read before the claim was sent."""

    def __repr__(self) -> str:
        return f"Ready({self.post!r})"


class Claimer:
    """Claims under one tenure."""

    def __init__(self, ledger: Ledger, tenure: Tenure, *, timing: Timing, clock: Clock) -> None:
        self._ledger = ledger
        self._tenure = tenure
        self._timing = timing
        self._clock = clock
        self._unsure: list[tuple[UUID, float]] = []
        self.given_back: list[tuple[Post, ClaimBatch]] = []
        """Rows of claims whose answer was lost: the caller settles them as released."""

    async def claim(self, part: PartWork, limit: int) -> tuple[str, list[Ready]]:
        """Claim up to `limit` rows; return the outcome (`claimed`, `empty`, `closed`, `fenced`, `unsure`) and the rows."""
        name = uuid4()
        claimed_at = self._clock.boottime()
        try:
            answer = await recipients.claim(
                self._ledger,
                phone_number_id=self._tenure.phone_number_id,
                epoch=self._tenure.epoch,
                campaign_id=part.campaign_id,
                limit=limit,
                name=name,
                ends_in_s=self._timing.claim_ends_s,
            )
        except LedgerUnavailable:
            self._unsure.append((name, self._clock.boottime()))
            return "unsure", []
        if answer.outcome == "fenced":
            metrics.FENCED_CLAIMS.inc()
        if not answer.rows:
            return answer.outcome, []
        metrics.CLAIMED_ROWS.inc(len(answer.rows))
        batch = ClaimBatch(name, len(answer.rows))
        ready = [
            Ready(
                post=Post(campaign_id=part.campaign_id, seq=row.seq, attempt=row.attempt, tries=row.tries),
                address=row.address,
                params=row.params,
                part=part,
                claim=batch,
                claimed_at=claimed_at,
            )
            for row in answer.rows
        ]
        return answer.outcome, ready

    async def look_up_lost(self) -> bool:
        """Find what claims without an answer did; return whether none is left in doubt.

        A statement may run on for its time-out after its connection broke, so a name is looked up after that.
        """
        while self._unsure:
            name, lost_at = self._unsure[0]
            wait_s = lost_at + self._timing.statement_s - self._clock.boottime()
            if wait_s > 0:
                await self._clock.sleep(wait_s)
            try:
                rows = await recipients.claimed_under(self._ledger, name=name)
            except LedgerUnavailable:
                return False
            self._unsure.pop(0)
            batch = ClaimBatch(name, len(rows))
            for campaign_id, seq, attempt in rows:
                self.given_back.append((Post(campaign_id=campaign_id, seq=seq, attempt=attempt), batch))
            log.info("claim.found", rows_count=len(rows))
        return True
