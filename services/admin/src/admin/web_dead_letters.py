"""Dead letters over HTTP: counted and told, shown, replayed step by step.

Invariant: a request ends within seconds, however many letters there are; a replay takes only letters that were written
before its `until`, so that one that fails again is not taken up by the replay that made it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admin.answers import ApiError, ReplayStep
from admin.dead_letters import DEAD_LETTER_TOPICS, DeadLetters, LetterFilter
from admin.request import ACTOR, json_body
from admin.web_json import json_answer
from contracts.topics import dead_letter_name
from kafkaio.admin import BrokerAway
from kafkaio.deadletter import Place
from kafkaio.producer import NotPublished
from runtime.clock import Clock
from runtime.logs import get_logger

RETRY_AFTER_S = 2
RATE_MAX_PER_S = 1_000
_DIGITS_MAX = 18
Moment = Annotated[datetime, Meta(tz=True)]

log = get_logger()


class _Wanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which letters; absent means any, and `until` means now."""

    topic: str | None = None
    group: str | None = None
    reason: str | None = None
    since: Moment | None = None
    until: Moment | None = None


class _Survey(_Wanted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=0, le=1_000)] = 50


class ReplayOfOne(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to replay one letter; `again` even if it was replayed before."""

    again: bool = False


class ReplayOrder(_Wanted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to replay and how fast; `until` is a must, and best the one of the survey that showed what there is."""

    until: Moment
    again: bool = False
    after: str | None = None
    rate_per_s: Annotated[float, Meta(ge=1, le=RATE_MAX_PER_S)] = 50.0


class DeadLetterRoutes:
    """The routes of this area."""

    def __init__(self, letters: DeadLetters, clock: Clock) -> None:
        self._letters = letters
        self._clock = clock

    def routes(self) -> list[Route]:
        one = "/v1/dead-letters/{topic}/{partition}/{offset}"
        return [
            Route("/v1/dead-letters", self.survey, methods=["GET"], name="dead_letters"),
            Route("/v1/dead-letters/replay", self.replay, methods=["POST"], name="dead_letters_replay"),
            Route(one, self.show, methods=["GET"], name="dead_letter"),
            Route(f"{one}/replay", self.replay_one, methods=["POST"], name="dead_letter_replay"),
        ]

    async def survey(self, request: Request) -> Response:
        """Count what is there by topic, group and reason, and tell the newest."""
        try:
            asked = msgspec.convert(dict(request.query_params), type=_Survey, strict=False)
        except msgspec.ValidationError as error:
            raise ApiError(400, "malformed", f"The query is not as it must be: {error}.") from None
        wanted = self._filter(asked)
        async with _answered():
            return json_answer(await self._letters.survey(wanted, lines_max=asked.limit))

    async def show(self, request: Request) -> Response:
        """Tell one letter; what it holds only for `body=true`."""
        place = _place_in_path(request)
        async with _answered():
            found = await self._letters.show(place, body=request.query_params.get("body") == "true")
        if found is None:
            raise _absent(place)
        answer = json_answer(found)
        answer.headers["cache-control"] = "no-store"
        return answer

    async def replay(self, request: Request) -> Response:
        """Replay the next of the letters that are meant."""
        order = await json_body(request, ReplayOrder)
        wanted = self._filter(order)
        after = None if order.after is None else _place(order.after)
        async with _answered():
            step = await self._letters.replay(
                wanted, after=after, again=order.again, rate_per_s=order.rate_per_s, actor=ACTOR
            )
        return _told(step)

    async def replay_one(self, request: Request) -> Response:
        """Replay the letter at a place."""
        order = await json_body(request, ReplayOfOne, default=ReplayOfOne())
        place = _place_in_path(request)
        async with _answered():
            step = await self._letters.replay(
                place, again=order.again, rate_per_s=RATE_MAX_PER_S, actor=ACTOR
            )
        if not (step.replayed or step.already or step.refused):
            raise _absent(place)
        return _told(step)

    def _filter(self, asked: _Wanted) -> LetterFilter:
        return LetterFilter(
            topics=DEAD_LETTER_TOPICS if asked.topic is None else (_topic(asked.topic),),
            group=asked.group,
            reason=asked.reason,
            since=asked.since,
            until=asked.until or datetime.fromtimestamp(self._clock.wall(), UTC),
        )


def _told(step: ReplayStep) -> Response:
    log.warning("dead_letters.replayed", count=step.replayed, refused_count=sum(step.refused.values()))
    return json_answer(step)


@asynccontextmanager
async def _answered() -> AsyncIterator[None]:
    try:
        yield
    except (BrokerAway, NotPublished) as error:
        log.warning("broker.unavailable", error=error)
        raise ApiError(
            503,
            "broker_away",
            "Kafka doesn't answer: try again; what was replayed is marked.",
            retry_after_s=RETRY_AFTER_S,
        ) from None


def _topic(text: str) -> str:
    """Return the dead-letter topic that is meant, by its own name or by that of the topic beside it."""
    for name in (text, dead_letter_name(text)):
        if name in DEAD_LETTER_TOPICS:
            return name
    raise ApiError(422, "no_topic", f"The topic must be one of {', '.join(DEAD_LETTER_TOPICS)}.")


def _place(text: str) -> Place:
    topic, _, rest = text.partition("/")
    partition, _, offset = rest.partition("/")
    if not all(
        digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX
        for digits in (partition, offset)
    ):
        raise ApiError(422, "bad_place", "A place is topic/partition/offset.")
    return Place(_topic(topic), int(partition), int(offset))


def _place_in_path(request: Request) -> Place:
    path = request.path_params
    return _place(f"{path['topic']}/{path['partition']}/{path['offset']}")


def _absent(place: Place) -> ApiError:
    return ApiError(404, "no_letter", f"There is no dead letter at {place} (any more).")
