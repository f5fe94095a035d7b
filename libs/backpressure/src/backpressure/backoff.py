"""How long to wait before trying again: full jitter, so that those who failed together don't return together.

Invariant: never below 0 and never above the cap, whatever the attempt.
"""

from random import Random

# Doubling more often than this changes nothing below any sensible cap, and a float overflows at 1,024.
DOUBLINGS_MAX = 64


def backoff_s(attempt: int, *, base_s: float, cap_s: float, rng: Random) -> float:
    """Seconds, uniform between 0 and `min(cap_s, base_s × 2^attempt)`; the first retry is attempt 0."""
    assert attempt >= 0
    assert base_s > 0
    assert cap_s > 0
    return rng.uniform(0.0, min(cap_s, base_s * 2.0 ** min(attempt, DOUBLINGS_MAX)))
