"""What becomes of an accepted message: its statuses and the person's answers, with their times.

Invariant: scenario and random numbers decide all of it; the same two give the same journey.
"""

from enum import StrEnum
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from simulator.scenario import Journeys

STOP_WORDS = ("STOP", "Stop", "stop")


class Status(StrEnum):
    """The statuses that are told."""

    SENT = "sent"
    DELIVERED = "delivered"
    READ = "read"
    FAILED = "failed"


class StatusStep(Struct, frozen=True):
    """A status: it happens `happens_s` after acceptance and is told at `told_s`."""

    happens_s: float
    told_s: float
    status: Status
    code: int = 0
    carries_callback_data: bool = True
    carries_pricing: bool = False


class TextStep(Struct, frozen=True):
    """A text the person writes, the `order`-th of its row, from 1."""

    happens_s: float
    told_s: float
    order: int
    text: str
    stop: bool = False


Step = StatusStep | TextStep


def journey(odds: Journeys, rng: Random) -> tuple[Step, ...]:
    """The steps of one message, by the odds, in the order in which they are told."""
    statuses, code = _course(odds, rng)
    steps: list[Step] = list(_status_steps(odds, statuses, code, rng))
    arrived = Status.DELIVERED in statuses or Status.READ in statuses
    if arrived and rng.random() < odds.answers:
        steps += _answers(odds, steps, rng)
    return tuple(sorted(steps, key=lambda step: step.told_s))


def scripted(
    odds: Journeys, statuses: tuple[Status, ...], code: int, texts: tuple[str, ...], rng: Random
) -> tuple[Step, ...]:
    """The steps of a message whose course a rule has fixed: nothing late, nothing missing."""
    exact = replace(odds, late=0.0, callback_data_missing=0)
    steps: list[Step] = list(_status_steps(exact, statuses, code, rng))
    start = max((step.told_s for step in steps), default=0.0)
    steps += _row(start + odds.answer_after_s * odds.time_scale, odds, texts)
    return tuple(sorted(steps, key=lambda step: step.told_s))


def hastened(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same journey with a status told at once: the webhook that outruns the HTTP answer. A silent journey
    gets a `sent`."""
    for place, step in enumerate(steps):
        if isinstance(step, StatusStep):
            first = StatusStep(
                0.0, 0.0, step.status, step.code, step.carries_callback_data, step.carries_pricing
            )
            return (first, *steps[:place], *steps[place + 1 :])
    return (StatusStep(0.0, 0.0, Status.SENT, carries_pricing=True), *steps)


def _course(odds: Journeys, rng: Random) -> tuple[tuple[Status, ...], int]:
    point = rng.random()
    if point < odds.silent:
        return (), 0
    point -= odds.silent
    if point < odds.failed:
        codes = odds.retryable_codes if rng.random() < odds.failed_retryable else odds.failed_codes
        after_sent = rng.random() < odds.failed_after_sent
        course = (Status.SENT, Status.FAILED) if after_sent else (Status.FAILED,)
        return course, rng.choice(codes)
    point -= odds.failed
    if point < odds.stays_sent:
        return (Status.SENT,), 0
    sent = () if rng.random() < odds.sent_skipped else (Status.SENT,)
    if rng.random() >= odds.read:
        return (*sent, Status.DELIVERED), 0
    if rng.random() < odds.delivered_skipped:
        return (*sent, Status.READ), 0
    return (*sent, Status.DELIVERED, Status.READ), 0


def _status_steps(odds: Journeys, statuses: tuple[Status, ...], code: int, rng: Random) -> list[StatusStep]:
    means = {
        Status.SENT: odds.sent_after_s,
        Status.DELIVERED: odds.delivered_after_s,
        Status.READ: odds.read_after_s,
        Status.FAILED: odds.delivered_after_s,
    }
    steps: list[StatusStep] = []
    happens_s = 0.0
    priced: set[str] = set()
    for status in statuses:
        happens_s += means[status] * rng.uniform(0.5, 1.5) * odds.time_scale
        late_s = odds.late_s * rng.random() * odds.time_scale if rng.random() < odds.late else 0.0
        missing = odds.callback_data_missing and rng.random() * odds.callback_data_missing < 1
        steps.append(
            StatusStep(
                happens_s=happens_s,
                told_s=happens_s + late_s,
                status=status,
                code=code if status is Status.FAILED else 0,
                carries_callback_data=not missing,
                carries_pricing=_is_priced(status, priced),
            )
        )
    return steps


def _is_priced(status: Status, priced: set[str]) -> bool:
    """Pricing sits on `sent` and on one of `delivered` and `read`."""
    stage = "sent" if status is Status.SENT else "arrived"
    if status is Status.FAILED or stage in priced:
        return False
    priced.add(stage)
    return True


def _answers(odds: Journeys, steps: list[Step], rng: Random) -> list[TextStep]:
    told = [step.told_s for step in steps if isinstance(step, StatusStep)]
    arrives = [
        step.told_s
        for step in steps
        if isinstance(step, StatusStep) and step.status in (Status.DELIVERED, Status.READ)
    ]
    early = rng.random() < odds.answers_before_delivered
    pause_s = odds.answer_after_s * rng.uniform(0.5, 1.5) * odds.time_scale
    count = rng.randint(1, odds.answers_max)
    texts = tuple(f"answer {order} of {count}" for order in range(1, count + 1))
    if rng.random() < odds.answers_stop:
        texts = (*texts[:-1], rng.choice(STOP_WORDS))
    start = min(arrives) * rng.uniform(0.5, 0.99) if early else max(told) + pause_s
    return _row(start, odds, texts)


def _row(start_s: float, odds: Journeys, texts: tuple[str, ...]) -> list[TextStep]:
    gap_s = odds.answer_gap_s * odds.time_scale
    steps: list[TextStep] = []
    for place, text in enumerate(texts):
        at_s = start_s + place * gap_s
        steps.append(TextStep(at_s, at_s, place + 1, text, stop=text.strip().lower() == "stop"))
    return steps
