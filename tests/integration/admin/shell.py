"""The `sluice` command in this process, and orders that several tests give it."""

import asyncio

import pytest

from admin.cli import run

NUMBER_ID = "100000000000001"
NUMBER_ADD = ["number", "add", NUMBER_ID, "--waba", "200000000000001", "--portfolio", "300000000000001"]
CREATE = [
    *("campaign", "create", "--name", "Spring sale", "--template", "spring_sale", "--param", "name"),
    *("--number", NUMBER_ID, "--on-unknown", "resend", "--unknown-wait", "15m", "--valid-for", "3d"),
]


class Shell:
    """Runs the command in a thread, with what it wrote since the last look."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *given: str) -> None:
        self._capsys = capsys
        self._given = given
        self.out = ""
        self.err = ""

    async def __call__(self, *arguments: str) -> int:
        self._capsys.readouterr()
        code = await asyncio.to_thread(run, [*self._given, *arguments])
        self.out, self.err = self._capsys.readouterr()
        self.out = "".join(
            line for line in self.out.splitlines(keepends=True) if not line.startswith('{"ts"')
        )
        return code
