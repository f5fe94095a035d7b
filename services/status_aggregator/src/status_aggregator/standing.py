"""Where the consumer stands, under the names that every consumer of ours reports.

Invariant: it only looks, at what faust keeps of its own consumer; nothing here touches a record or an offset.
"""

from typing import Any, Final, NoReturn

from contracts.topics import MESSAGE_STATUSES
from kafkaio import metrics
from runtime.clock import Clock
from status_aggregator.flush import GROUP

TOPIC: Final = MESSAGE_STATUSES.name
EVERY_S: Final = 0.5


class Standing:
    """Lag, age, commits and rebalances of one faust app."""

    def __init__(self, app: Any, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._committed: dict[Any, int | None] = {}
        self._committed_at = clock.boottime()
        self._assignment: frozenset[Any] = frozenset()
        metrics.precreate(GROUP, (TOPIC,))

    async def watch(self) -> NoReturn:
        """Report until cancelled."""
        while True:
            self.report()
            await self._clock.sleep(EVERY_S)

    def report(self) -> None:
        """Set the gauges to what is so now; what isn't known yet counts as no lag."""
        consumer = self._app.consumer
        assignment = frozenset(consumer.assignment()) if _is_started(consumer) else frozenset()
        if assignment != self._assignment:
            metrics.REBALANCES.labels(GROUP).inc()
            self._assignment = assignment
        unacked = [message for message in consumer.unacked if not message.acked]
        lag = len(unacked) + sum(_unread_count(consumer, at) for at in assignment)
        oldest_s = min((message.timestamp for message in unacked if message.timestamp), default=None)
        metrics.IN_FLIGHT.labels(GROUP).set(len(unacked))
        metrics.LAG_RECORDS.labels(GROUP, TOPIC).set(lag)
        metrics.LAG_SECONDS.labels(GROUP, TOPIC).set(
            0.0 if oldest_s is None else max(0.0, self._clock.wall() - oldest_s)
        )
        metrics.PAUSED.labels(GROUP).set(0 if consumer.flow_active else len(assignment))
        metrics.COMMIT_AGE.labels(GROUP).set(self._commit_age_s(consumer, is_behind=lag > 0))

    def _commit_age_s(self, consumer: Any, *, is_behind: bool) -> float:
        committed = dict(consumer._committed_offset)
        if committed != self._committed or not is_behind:
            self._committed = committed
            self._committed_at = self._clock.boottime()
        return self._clock.boottime() - self._committed_at


def _is_started(consumer: Any) -> bool:
    return consumer._thread is not None and consumer._thread._consumer is not None


def _unread_count(consumer: Any, at: Any) -> int:
    """Records of a partition that no stream has been given yet; 0 while its end, or what was read, isn't known."""
    read = consumer._read_offset.get(at)
    try:
        end = consumer.highwater(at)
    except AssertionError:  # taken away meanwhile
        return 0
    return 0 if end is None or read is None else max(0, end - read - 1)
