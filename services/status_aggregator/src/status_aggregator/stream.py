"""The topic as batches of records, by faust; the only file that knows it.

Invariant: what faust acknowledges is durable. It acknowledges a batch whose body raised or was cancelled, so whatever
keeps a flush from its end ends the process before that. A stop ends it too: faust's own waits for the batch under way
and for the broker without a limit, and what is cut off comes again.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import faust
from faust import streams

from contracts.codec import from_headers
from contracts.topics import MESSAGE_STATUSES
from kafkaio.access import KafkaAccess
from kafkaio.consumer import Record
from kafkaio.metrics import observe_batch
from runtime.clock import Clock
from runtime.health import Health
from runtime.logs import get_logger
from status_aggregator.config import Config
from status_aggregator.flush import GROUP
from status_aggregator.standing import Standing

EXIT_OK: Final = 0
EXIT_UNACKNOWLEDGED: Final = 75  # EX_TEMPFAIL: start me again
RECORDS_MAX: Final = 100
WITHIN_S: Final = 0.2
BUFFERED_MAX: Final = 256
FETCH_BYTES_MAX: Final = 1024 * 1024
LOOK_EVERY_S: Final = 0.25

Flush = Callable[[Sequence[Record]], Awaitable[bool]]
EndProcess = Callable[[int], object]

log = get_logger()


def build_app(config: Config, flush: Flush, datadir: Path, end_process: EndProcess = os._exit) -> faust.App:
    """Return an app that isn't started; its id, and so its group, is exactly the prefix and `GROUP`."""
    # The interpreted iterator acknowledges what it skips after a rebalance; the compiled one doesn't.
    assert vars(streams)["_CStreamIterator"] is not None, "faust's compiled iterator is missing"
    app = faust.App(
        config.topic_prefix + GROUP,
        broker=";".join(f"kafka://{host.strip()}" for host in config.kafka_bootstrap.split(",")),
        broker_credentials=_credentials(config.kafka),
        datadir=str(datadir),
        store="memory://",
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=FETCH_BYTES_MAX,
        broker_session_timeout=config.session_s,
        broker_heartbeat_interval=min(3.0, config.session_s / 10),
        broker_rebalance_timeout=config.rebalance_s,
        # A join is answered when the rebalance ends, so its request must be more patient.
        broker_request_timeout=max(config.session_s, config.rebalance_s) + 10.0,
        broker_commit_interval=config.commit_every_s,
        stream_buffer_maxsize=BUFFERED_MAX,
        stream_wait_empty=True,
    )
    topic = app.topic(
        config.topic_prefix + MESSAGE_STATUSES.name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
    )

    # `take` and not `noack_take`: an event that is never acknowledged dead-locks every rebalance and stop, and faust
    # doesn't seek back to it. One actor: with more, acknowledgements pass unfinished events.
    async def sink(stream: Any) -> None:
        async for events in stream.take_events(RECORDS_MAX, within=WITHIN_S):
            observe_batch(GROUP, len(events), RECORDS_MAX)
            done = False
            try:
                done = await flush([_record(config.topic_prefix, event.message) for event in events])
            finally:  # cancelled or not done: leaving this body in any way would acknowledge the batch
                if not done:
                    end_process(EXIT_UNACKNOWLEDGED)

    app.agent(topic, concurrency=1, name="sink")(sink)
    return app


def _credentials(access: KafkaAccess) -> Any:
    """Return the same in faust's words. It hands the parts on to aiokafka, where they stand for those of the moment."""
    given = access.arguments()
    if access.is_sasl:
        return faust.SASLCredentials(
            mechanism=access.sasl_mechanism,
            username=access.username,
            password=given["sasl_plain_password"],
            ssl_context=given["ssl_context"],
        )
    return faust.SSLCredentials(given["ssl_context"]) if access.is_tls else None


async def run(config: Config, flush: Flush, health: Health, stop: asyncio.Event, clock: Clock) -> None:
    """Consume until `stop`, then finish the batch under way and commit; a crash of faust ends the process."""
    with TemporaryDirectory(prefix="status-aggregator-") as datadir:
        # Cut off or failed, a batch under way at a stop comes again: the stop is as orderly as it can be.
        def end_process(code: int) -> None:
            os._exit(EXIT_OK if stop.is_set() else code)

        app = build_app(config, flush, Path(datadir), end_process)
        async with asyncio.TaskGroup() as tasks:
            starting = tasks.create_task(app.start())  # returns only after the first assignment
            watching = tasks.create_task(Standing(app, clock).watch())
            while not stop.is_set():
                if app.should_stop:
                    _end("stream.crashed", EXIT_UNACKNOWLEDGED)
                ready = starting.done() and not app.rebalancing
                health.set_ready("assignment", ready, "" if ready else "waiting for partitions")
                await _look_again(stop)
            starting.cancel()
            watching.cancel()
            stopping = tasks.create_task(app.stop())
            _, late = await asyncio.wait((starting, stopping), timeout=config.last_batch_s)
            if late:  # faust swallows cancellations: nothing less ends it
                _end("stream.cut_off", EXIT_OK)


async def _look_again(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_EVERY_S):
            await stop.wait()


def _end(event: str, code: int) -> None:
    log.error(event)
    os._exit(code)


def _record(prefix: str, message: Any) -> Record:
    headers = tuple((name, content or b"") for name, content in _pairs(message.headers))
    return Record(
        topic=message.topic.removeprefix(prefix),
        partition=message.partition,
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=headers,
        envelope=from_headers(headers),
        timestamp_s=message.timestamp or 0.0,
    )


def _pairs(headers: Any) -> Any:
    return headers.items() if hasattr(headers, "items") else headers or ()
