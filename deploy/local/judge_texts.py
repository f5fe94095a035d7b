"""Promises 1 and 2: each text that was answered 200 was handled, once, in its contact's order.

Order means: by timestamp among what arrives within the hold, else by arrival. The simulator knows when a text was posted
for the first time and when it was answered 200, not when it reached its topic in between: of two texts that were on
their way at the same time, either may have arrived first.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from deploy.local.judge_records import Event, Evidence, Text
from deploy.local.judge_verdict import Verdict


def check_texts(evidence: Evidence, verdict: Verdict) -> None:
    """Compare what people wrote with `conversation-events`."""
    handled = _handled(evidence.events, verdict)
    texts = {text.wamid: text for text in evidence.texts}
    place = {event.wamid: (key, at) for key, row in handled.items() for at, event in enumerate(row)}
    for text in evidence.texts:
        if text.acked and text.wamid not in place:
            verdict.figures["lost_texts"] += 1
            verdict.breach(1, "a text answered 200 was never handled", f"text {text.n}")
    verdict.figures["texts"] += sum(wamid in texts for wamid in place)
    verdict.figures["foreign"] += sum(wamid not in texts for wamid in place)
    verdict.figures["contacts"] += len(handled)
    for first, second in _written_pairs(evidence.texts):
        if first.wamid in place and second.wamid in place:
            _compare(first, second, place[first.wamid] > place[second.wamid], verdict)
    _check_times(handled, texts, verdict)


def _handled(events: Iterable[Event], verdict: Verdict) -> dict[str, list[Event]]:
    """The handled messages by key in topic order, each once."""
    handled: dict[str, list[Event]] = defaultdict(list)
    partitions: dict[str, int] = {}
    seen: dict[str, Event] = {}
    wamids: set[str] = set()
    for event in sorted(events, key=lambda each: (each.partition, each.offset)):
        where = f"partition {event.partition} offset {event.offset}"
        if event.key is None:
            verdict.breach(2, "an event without a key", where)
            continue
        if partitions.setdefault(event.key, event.partition) != event.partition:
            verdict.breach(2, "a contact's events are in two partitions", where)
        known = seen.setdefault(event.event_id, event)
        if known is not event:
            _check_repeat(known, event, where, verdict)
            continue
        due = handled[event.key][-1].turn + 1 if handled[event.key] else 1
        if event.turn != due:
            verdict.breach(2, "a turn is missing or out of order", f"{where} (turn {event.turn}, not {due})")
        if event.wamid in wamids:
            verdict.breach(2, "a text was handled twice", where)
        wamids.add(event.wamid)
        handled[event.key].append(event)
    return handled


def _check_repeat(known: Event, event: Event, where: str, verdict: Verdict) -> None:
    verdict.figures["repeats"] += 1
    if (known.key, known.turn, known.wamid) != (event.key, event.turn, event.wamid):
        verdict.breach(2, "one event id, two events", where)


def _written_pairs(texts: Iterable[Text]) -> Iterator[tuple[Text, Text]]:
    """Neighbours of each row that a person wrote, in the order of writing."""
    rows: dict[tuple[str, str, str | None], list[Text]] = defaultdict(list)
    for text in texts:
        if text.acked:
            rows[text.number, text.sender, text.answers].append(text)
    for row in rows.values():
        # A row that answers nothing may be several: each begins again with a lower number.
        ordered = sorted(row, key=lambda text: text.n)
        yield from (pair for pair in pairwise(ordered) if pair[0].order < pair[1].order)


def _compare(first: Text, second: Text, swapped: bool, verdict: Verdict) -> None:
    if not swapped:
        verdict.figures["pairs"] += 1
    elif _surely_arrived_before(first, second):
        verdict.breach(
            2, "a contact's texts were handled in the wrong order", f"texts {first.n} and {second.n}"
        )
    else:
        verdict.figures["pairs_by_arrival"] += 1


def _check_times(handled: dict[str, list[Event]], texts: dict[str, Text], verdict: Verdict) -> None:
    for row in handled.values():
        known = [texts[event.wamid] for event in row if event.wamid in texts]
        for earlier, later in pairwise(known):
            if later.timestamp < earlier.timestamp:
                if _surely_arrived_before(later, earlier):
                    places = f"texts {earlier.n} and {later.n}"
                    verdict.breach(2, "an older text that had arrived was handled later", places)
                else:
                    verdict.figures["pairs_by_arrival"] += 1


def _surely_arrived_before(first: Text, second: Text) -> bool:
    """Whether `first` was there before `second`, or came with it."""
    if first.acked_at is None or second.posted_at is None:
        return False
    return first.acked_at == second.acked_at or first.acked_at <= second.posted_at
