import asyncio

import pytest

from runtime.background import Background


async def test_an_exception_of_the_block_leaves_as_it_is_and_tasks_end_in_their_own_time():
    ended = asyncio.Event()

    async def work(stop):
        await stop.wait()
        await asyncio.sleep(0)
        ended.set()

    async def block():
        stop = asyncio.Event()
        async with Background() as tasks:
            tasks.create_task(work(stop))
            try:
                raise KeyError("of the block")
            finally:
                stop.set()

    with pytest.raises(KeyError):
        await block()
    assert ended.is_set()


async def test_a_task_that_fails_ends_the_block():
    async def fails():
        raise ValueError

    async def block():
        async with Background() as tasks:
            tasks.create_task(fails())
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup):
        await block()
