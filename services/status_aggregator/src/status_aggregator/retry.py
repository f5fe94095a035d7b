"""When a message that Meta reported as failed is tried again, by the table of error codes.

Invariant: a refusal, an unlisted code and a failure without a code are final.
"""

from random import Random
from typing import assert_never

from backpressure.backoff import backoff_s
from contracts.codes import Verdict, code_row


def retry_in_s(code: int | None, *, base_s: float, rng: Random) -> float | None:
    """Return the seconds until the next try, or None for a failure that is final.

    A passing fault waits up to `base_s`; a throttle, stop or reschedule waits out its row's time (131049: 24 h, as an
    earlier try is punished: Meta's error page, 2026-09-11) and up to `base_s` more, so that those held together part.
    """
    if code is None:
        return None
    row = code_row(code)
    spread_s = backoff_s(0, base_s=base_s, cap_s=base_s, rng=rng)
    match row.verdict:
        case Verdict.REFUSE:
            return None
        case Verdict.RETRY:
            return spread_s
        case Verdict.THROTTLE | Verdict.STOP | Verdict.RESCHEDULE:
            return row.wait_s + spread_s
        case _:
            assert_never(row.verdict)
