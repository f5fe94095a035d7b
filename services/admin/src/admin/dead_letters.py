"""Dead letters, surveyed, shown and handed to their group once more; between Kafka, which holds them, and the ledger,
which knows what was replayed.

Invariant: a letter is marked only after its record stands on its topic again, so that whatever is cut can be repeated.
Keys and bodies are a person's data: they leave through `show` alone, and only when they are asked for by name.
"""

import asyncio
import base64
import heapq
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from admin.answers import (
    DeadLetter,
    DeadLetterCount,
    DeadLetterLine,
    DeadLetterReport,
    HeaderLine,
    ReplayStep,
)
from admin.letters import masked, moment_of, refusal_words, text_of
from contracts.codec import Envelope, to_headers
from contracts.topics import TOPICS, dead_letter_name
from kafkaio import deadletter
from kafkaio.browse import Browser
from kafkaio.consumer import Record
from kafkaio.deadletter import Place, Replay, ReplayRefusal, Story, replay_of, story_of
from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from ledger import dead_letters
from ledger.dead_letters import LetterName
from ledger.pool import Ledger
from runtime.clock import Clock

SURVEY_S: Final = 20.0
STEP_S: Final = 5.0
SEND_S: Final = 10.0
COUNTS_MAX: Final = 200
UNNAMED: Final = "-"
"""The group or the reason of a letter that names none."""
REST: Final = "others"
_INT64_MAX: Final = 2**63 - 1
_TOLD_HEADERS: Final = deadletter.OURS | {
    name for name, _ in to_headers(Envelope(event_id="", event_type="", replay_for=""))
}

_ORIGINS: Final = {dead_letter_name(topic.name): topic.name for topic in TOPICS}
DEAD_LETTER_TOPICS: Final = tuple(topic.name for topic in TOPICS if topic.name.endswith(".dlq"))


class LetterFilter(Struct, frozen=True, kw_only=True):
    """Which dead letters are meant; None means any. `topics` are dead-letter topics."""

    topics: tuple[str, ...]
    until: datetime
    since: datetime | None = None
    group: str | None = None
    reason: str | None = None

    def holds(self, letter: Record) -> bool:
        """Whether the letter is among them."""
        at, story = moment_of(letter.timestamp_s), story_of(letter)
        return (
            at < self.until
            and (self.since is None or at >= self.since)
            and self.group in (None, story.group or UNNAMED)
            and self.reason in (None, story.reason or UNNAMED)
        )


class _Judged(Struct, frozen=True):
    """A letter, and what is to be known before it is replayed."""

    record: Record
    story: Story
    name: LetterName
    replayed_at: datetime | None
    once_more: Replay | ReplayRefusal

    @property
    def place(self) -> Place:
        return Place(self.record.topic, self.record.partition, self.record.offset)

    @property
    def refusal(self) -> ReplayRefusal | None:
        return self.once_more if isinstance(self.once_more, ReplayRefusal) else None


class _Tally:
    """Letters counted by topic, group and reason; foreign writers can't make it grow without end."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], Counter[str]] = {}

    def add(self, judged: _Judged) -> None:
        topic = judged.record.topic
        key = topic, judged.story.group or UNNAMED, judged.story.reason or UNNAMED
        if key not in self._counts and len(self._counts) >= COUNTS_MAX:
            key = topic, REST, REST
        what = judged.refusal or ("replayable" if judged.replayed_at is None else "replayed")
        self._counts.setdefault(key, Counter())[what] += 1

    def told(self) -> tuple[DeadLetterCount, ...]:
        return tuple(
            DeadLetterCount(
                topic=topic,
                group=group,
                reason=reason,
                replayable=counts["replayable"],
                replayed=counts["replayed"],
                refused={why.value: counts[why] for why in ReplayRefusal if counts[why]},
            )
            for (topic, group, reason), counts in sorted(self._counts.items())
        )


class DeadLetters:
    """All dead letters of the installation. One replay runs at a time, so that the rate is one for all who ask."""

    def __init__(self, settings: KafkaSettings, ledger: Ledger, clock: Clock) -> None:
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._replaying = asyncio.Lock()

    async def survey(self, wanted: LetterFilter, *, lines_max: int) -> DeadLetterReport:
        """Count what is there and tell the newest. Raises `BrokerAway`."""
        ends_at = self._clock.boottime() + SURVEY_S
        tally = _Tally()
        newest: list[tuple[float, Place, DeadLetterLine]] = []
        complete = True
        async with self._browser(wanted.topics) as browser:
            async for batch in _batches(browser, wanted, after=None):
                for judged in await self._judged(browser, wanted, batch):
                    tally.add(judged)
                    heapq.heappush(newest, (judged.record.timestamp_s, judged.place, _line(judged)))
                    if len(newest) > lines_max:
                        heapq.heappop(newest)
                if self._clock.boottime() > ends_at:
                    complete = False
                    break
        lines = tuple(line for _at, _place, line in sorted(newest, reverse=True))
        return DeadLetterReport(complete=complete, until=wanted.until, counts=tally.told(), letters=lines)

    async def show(self, place: Place, *, body: bool) -> DeadLetter | None:
        """Return one letter; None when there is none at this place (any more). Raises `BrokerAway`."""
        async with self._browser([place.topic]) as browser:
            found = await browser.record(place)
            if found is None:
                return None
            (judged,) = await self._judged(browser, place, [found])
        return _shown(judged, body=body)

    async def replay(
        self,
        wanted: LetterFilter | Place,
        *,
        after: Place | None = None,
        again: bool = False,
        rate_per_s: float,
        actor: str,
    ) -> ReplayStep:
        """Replay the next letters, for some seconds. Raises `BrokerAway`, `NotPublished` or `LedgerUnavailable`.

        Whatever ends it, what was replayed stays marked, but for the last one, perhaps.
        """
        topics = [wanted.topic] if isinstance(wanted, Place) else wanted.topics
        counts: Counter[str] = Counter()
        async with (
            self._replaying,
            Producer.open(self._settings, deadline_s=SEND_S) as producer,
            self._browser(topics) as browser,
        ):
            ends_at = self._clock.boottime() + STEP_S
            if after is None:
                await dead_letters.forget_old(self._ledger)
            async for batch in _batches(browser, wanted, after=after):
                for judged in await self._judged(browser, wanted, batch):
                    counts[await self._replay(producer, judged, again, rate_per_s, actor)] += 1
                    if self._clock.boottime() > ends_at:
                        return _step(counts, judged.place)
                if self._clock.boottime() > ends_at:
                    last = batch[-1]
                    return _step(counts, Place(last.topic, last.partition, last.offset))
        return _step(counts, None)

    async def _replay(
        self, producer: Producer, judged: _Judged, again: bool, rate_per_s: float, actor: str
    ) -> str:
        """Replay a letter, if it can and shall be; return what became of it."""
        if isinstance(judged.once_more, ReplayRefusal):
            return judged.once_more
        if judged.replayed_at is not None and not again:
            return "already"
        # One after the other, so that those of one key keep their order; never faster than asked for.
        await self._clock.sleep(1 / rate_per_s)
        await deadletter.replay(producer, judged.once_more)
        await dead_letters.mark_replayed(self._ledger, judged.name, actor=actor)
        return "replayed"

    def _browser(self, topics: Sequence[str]) -> AbstractAsyncContextManager[Browser]:
        # The topics of origin as well: how many partitions they have says where a letter can't have come from.
        origins = [_ORIGINS[topic] for topic in topics if topic in _ORIGINS]
        return Browser.open(self._settings, [*topics, *origins])

    async def _judged(
        self, browser: Browser, wanted: LetterFilter | Place, batch: Sequence[Record]
    ) -> list[_Judged]:
        letters = [one for one in batch if isinstance(wanted, Place) or wanted.holds(one)]
        names = [_name(letter) for letter in letters]
        marks = await dead_letters.replayed(self._ledger, names) if names else {}
        return [
            _Judged(
                record=letter,
                story=story_of(letter),
                name=name,
                replayed_at=marks.get(name),
                once_more=replay_of(
                    letter, partitions_count=browser.partitions_count(_ORIGINS.get(letter.topic, ""))
                ),
            )
            for letter, name in zip(letters, names, strict=True)
        ]


async def _batches(
    browser: Browser, wanted: LetterFilter | Place, *, after: Place | None
) -> AsyncIterator[list[Record]]:
    if isinstance(wanted, Place):
        found = await browser.record(wanted)
        if found is not None:
            yield [found]
        return
    since_s = None if wanted.since is None else max(0.0, wanted.since.timestamp())
    async for batch in browser.records(wanted.topics, since_s=since_s, after=after):
        yield batch


def _name(letter: Record) -> LetterName:
    written_at_ms = max(-_INT64_MAX, min(_INT64_MAX, round(letter.timestamp_s * 1000)))
    return LetterName(letter.topic, letter.partition, letter.offset, written_at_ms)


def _step(counts: Counter[str], following: Place | None) -> ReplayStep:
    return ReplayStep(
        replayed=counts["replayed"],
        already=counts["already"],
        refused={why.value: counts[why] for why in ReplayRefusal if counts[why]},
        next=None if following is None else str(following),
    )


def _line(judged: _Judged) -> DeadLetterLine:
    record, story = judged.record, judged.story
    return DeadLetterLine(
        place=str(judged.place),
        at=moment_of(record.timestamp_s).astimezone(UTC),
        group=story.group,
        reason=story.reason,
        attempts=story.attempts,
        origin=None if story.origin is None else str(story.origin),
        key=masked(record.key),
        event_id=record.envelope.event_id[:64],
        value_bytes=len(record.value or b""),
        replayed_at=judged.replayed_at,
        refused=None if judged.refusal is None else judged.refusal.value,
    )


def _shown(judged: _Judged, *, body: bool) -> DeadLetter:
    record, line = judged.record, _line(judged)
    value = record.value or b""
    text = text_of(value)
    words = None
    if judged.refusal is not None:
        words = refusal_words(
            judged.refusal,
            origin=line.origin,
            full_bytes=judged.story.value_bytes,
            value_bytes=line.value_bytes,
        )
    return DeadLetter(
        letter=line,
        refused_words=words,
        headers=tuple(
            HeaderLine(
                name=name,
                content=content.decode("utf-8", "backslashreplace")
                if body or name in _TOLD_HEADERS
                else None,
            )
            for name, content in record.headers
        ),
        key=record.key.decode("utf-8", "backslashreplace") if body and record.key is not None else None,
        body=text if body else None,
        body_base64=base64.b64encode(value).decode() if body and text is None else None,
    )
