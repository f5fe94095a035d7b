"""Tasks that live beside a block.

Invariant: they have ended when the block is left, and an exception of the block leaves it as it is, in no group.
"""

import asyncio
from types import TracebackType


class Background:
    """A TaskGroup for an open context: the block ends its tasks itself, whether it fails or not.

    A task that fails still cancels the block and raises an ExceptionGroup.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> asyncio.TaskGroup:
        return await self._group.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            await self._group.__aexit__(None, None, None)
        else:
            await self._group.__aexit__(kind, error, trace)
