"""Promise 3: starts as the sender measured them, and arrivals as the witness saw them, against the setting.

A stall on the way, of either side, presses arrivals together: what it held back comes at once. So arrivals are judged
with room for a stall, over windows of several lengths; the longer one is, the less a stall can hide.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise

from deploy.local.judge_records import Evidence, Number, Post
from deploy.local.judge_verdict import Pace, Verdict

INTERRUPTION_S = 2.0
STALL_S = 0.5
WINDOWS_S = (1.0, 5.0, 20.0)
THROUGHPUT_REACHED = 130429


def check_pace(evidence: Evidence, verdict: Verdict) -> None:
    """Compare each number's fastest second with its setting and its limit."""
    arrived: dict[str, list[Post]] = defaultdict(list)
    for post in evidence.posts:
        arrived[post.number].append(post)
    for number in evidence.numbers:
        posts = arrived.pop(number.phone_number_id, [])
        pace = _pace(number, posts, evidence.starts.get(number.phone_number_id))
        verdict.paces.append(pace)
        _check(pace, number.phone_number_id in evidence.starts, verdict)
    for name, posts in arrived.items():
        if any(post.accepted for post in posts):
            verdict.breach(3, "a number that nobody set sent messages", f"number {name}")


def _check(pace: Pace, is_measured: bool, verdict: Verdict) -> None:
    where = f"number {pace.phone_number_id}"
    starts = pace.starts_largest_second
    if starts is not None and starts > pace.setting:
        verdict.breach(3, "a second of starts above the setting", f"{where} ({starts:g} > {pace.setting:g})")
    if pace.arrivals and not is_measured:
        verdict.breach(3, "nobody measured the starts", where)
    for width_s, most in pace.arrivals_largest:
        allowed = pace.setting * (width_s + STALL_S) + 1
        if most > allowed:
            verdict.breach(
                3,
                "more arrivals than the setting explains",
                f"{where} ({most} > {allowed:g} in {width_s:g} s)",
            )


def _pace(number: Number, posts: Sequence[Post], starts: float | None) -> Pace:
    times = sorted(post.arrived_at for post in posts)
    accepted = sorted(post.arrived_at for post in posts if post.accepted)
    gaps = [later - earlier for earlier, later in pairwise(times) if later - earlier > INTERRUPTION_S]
    return Pace(
        phone_number_id=number.phone_number_id,
        limit=number.limit,
        setting=number.setting,
        starts_largest_second=starts,
        arrivals=len(times),
        accepted=len(accepted),
        throttled=sum(post.code == THROUGHPUT_REACHED for post in posts),
        arrivals_largest_second=largest_window(times, 1.0),
        arrivals_largest=tuple((width_s, largest_window(times, width_s)) for width_s in WINDOWS_S),
        arrivals_largest_100ms=largest_window(times, 0.1),
        mean_per_s=_mean(times, len(accepted), sum(gaps)),
        interruptions=len(gaps),
        interrupted_s=round(sum(gaps), 3),
    )


def _mean(times: Sequence[float], accepted: int, interrupted_s: float) -> float:
    span_s = times[-1] - times[0] - interrupted_s if times else 0.0
    return round(accepted / span_s, 3) if span_s > 0 else 0.0


def largest_window(times: Sequence[float], width_s: float) -> int:
    """Return the most of the sorted `times` that any half-open `[t, t + width_s)` holds."""
    window: deque[float] = deque()
    largest = 0
    for at in times:
        window.append(at)
        while at - window[0] >= width_s:
            window.popleft()
        largest = max(largest, len(window))
    return largest
