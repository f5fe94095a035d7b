"""Meta's side of the lab: signed webhooks at an even rate, and again later whatever was not answered 200."""

import asyncio
import hashlib
import hmac
import json
from collections import deque

from deploy.local.fleet import APP_SECRET

TICK_S = 0.02
UNDER_WAY_MAX = 500
"""More than that Meta keeps for later as well."""
ANSWER_S = 15.0
TEXT = "Backpressure is the art of saying not yet. " * 20


def a_request(number: int) -> bytes:
    """A text message from one of 99 fictional people, as Meta would post it."""
    person = f"155501001{number % 99 + 1:02d}"
    message = {
        "from": person,
        "id": f"wamid.lab{number:07d}",
        "timestamp": "1796040000",
        "type": "text",
        "text": {"body": TEXT},
    }
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15550100000", "phone_number_id": "100000000000001"},
        "contacts": [{"profile": {"name": "Ada"}, "wa_id": person}],
        "messages": [message],
    }
    entry = [{"id": "200000000000001", "changes": [{"field": "messages", "value": value}]}]
    body = json.dumps({"object": "whatsapp_business_account", "entry": entry}).encode()
    signature = hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()
    head = (
        "POST /webhook HTTP/1.1\r\nHost: lab\r\nContent-Type: application/json\r\n"
        f"X-Hub-Signature-256: sha256={signature}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Webhooks:
    """Makes `rate_per_s` a second while `is_making`, and delivers all that was made until each is answered 200."""

    def __init__(self, port: int, rate_per_s: int) -> None:
        self._port = port
        self._rate_per_s = rate_per_s
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._again: deque[int] = deque()  # Meta's queue, not ours
        self._under_way = 0
        self.is_making = True
        self.made = 0
        self.accepted = 0
        self.refused = 0

    @property
    def is_done(self) -> bool:
        return not self.is_making and self.accepted == self.made

    async def run(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        due = 0.0
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(TICK_S)
                last, gone_s = loop.time(), loop.time() - last
                due += gone_s * self._rate_per_s
                while due >= 1.0:
                    due -= 1.0
                    self._make()
                    for _ in range(2):  # the new one, and an old one again
                        if self._again and self._under_way < UNDER_WAY_MAX:
                            self._under_way += 1
                            tasks.create_task(self._deliver(self._again.popleft()))

    def _make(self) -> None:
        if self.is_making:
            self._again.append(self.made)
            self.made += 1

    async def _deliver(self, number: int) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                status = await self._post(a_request(number))
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            status = 0
        self._under_way -= 1
        if status == 200:
            self.accepted += 1
        else:
            self.refused += 1
            self._again.append(number)

    async def _post(self, request: bytes) -> int:
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        answered = False
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            answered = b"connection: close" not in head.lower()
            return int(head.split(b" ", 2)[1])
        finally:
            if answered:
                self._idle.append((reader, writer))
            else:
                writer.close()
