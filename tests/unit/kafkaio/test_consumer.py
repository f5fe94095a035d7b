import asyncio
from random import Random

import pytest

from kafkaio.consumer import Listener, Member
from kafkaio.settings import KafkaSettings


class _Client:
    def __init__(self):
        self.is_closed = False

    async def close(self):
        self.is_closed = True


class _Library:
    """Stops as the library does: while the broker is away it raises the cancellation of its own fetches."""

    def __init__(self, stopping):
        self._client = _Client()
        self.stop = stopping


async def _lost():
    pass


def a_member(library):
    member = Member(
        KafkaSettings(bootstrap="", client_id="test"),
        group="g",
        topics=("t",),
        listener=Listener(_lost, lambda _: None),
        assignor=None,
        rng=Random(1),
    )
    member._kafka = library
    return member


async def test_a_cancellation_inside_the_library_doesnt_cancel_who_closes_the_member():
    async def leaks():
        raise asyncio.CancelledError

    library = _Library(leaks)
    await a_member(library).close(timeout_s=5.0)
    assert library._client.is_closed


async def test_a_closing_that_is_cancelled_ends_as_cancelled():
    async def waits():
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        closing = tasks.create_task(a_member(_Library(waits)).close(timeout_s=5.0))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
