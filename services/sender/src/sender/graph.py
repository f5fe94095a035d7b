"""The Graph API as the sender sees it: one recipient, one POST, one outcome."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from cloudapi.messages import template_message
from cloudapi.wire import Wire, send
from contracts.outcome import Outcome
from contracts.status import CampaignRow, callback_data
from runtime.config import Secret
from sender.timing import Timing


class GraphApi:
    """Sends template messages; every answer, or lack of one, is an outcome."""

    def __init__(self, wire: Wire, *, installation: str) -> None:
        self._wire = wire
        self._installation = installation

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, version: str, token: Secret, *, installation: str, timing: Timing, connections_max: int
    ) -> AsyncIterator[Self]:
        async with Wire.open(
            url,
            version,
            token.reveal,
            connections_max=connections_max,
            timeout_s=timing.http_s,
            connect_s=timing.connect_s,
        ) as wire:
            yield cls(wire, installation=installation)

    async def send_template(
        self,
        phone_number_id: str,
        *,
        to: str,
        template: str,
        language: str,
        body: Sequence[str],
        row: CampaignRow,
    ) -> Outcome:
        """POST one template message, once, within the time-out."""
        payload = template_message(
            to=to,
            template_name=template,
            language=language,
            body_parameters=body,
            callback_data=callback_data(self._installation, row),
        )
        return await send(self._wire, phone_number_id, payload)
