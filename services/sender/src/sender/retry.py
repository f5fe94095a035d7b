"""When a row that was surely not sent is tried again: full jitter, in the table and never in a sleeping slot."""

from random import Random

from backpressure.backoff import backoff_s

BASE_S = 1.0
CAP_S = 300.0
CONNECT_BASE_S = 0.25
CONNECT_CAP_S = 5.0


def next_delay_s(tries: int, rng: Random) -> float:
    """Seconds until the next try of a row that has spent `tries` (from 1) of its budget on passing faults."""
    return backoff_s(max(0, tries - 1), base_s=BASE_S, cap_s=CAP_S, rng=rng)


def reconnect_delay_s(failures: int, rng: Random) -> float:
    """Seconds for which a number holds still after `failures` connects in a row failed."""
    return CONNECT_BASE_S + backoff_s(failures, base_s=CONNECT_BASE_S, cap_s=CONNECT_CAP_S, rng=rng)
