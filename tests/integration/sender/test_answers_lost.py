"""Answers that are late, lost or unreadable leave their rows unknown; what surely did not arrive goes again."""

import asyncio
import socket

import pytest

from cloudapi.testing import Answer, Misdeed, Received, accepted, accepts, scripted_transport
from contracts.campaign import Reason, RecipientState
from ledger import campaigns
from sender.timing import Timing
from tests.integration.sender.conftest import SettingsFor
from tests.integration.sender.driving import (
    a_campaign,
    a_sender,
    all_are,
    claims_left,
    posts_of,
    row_of,
    until,
)

LATE_S = Timing().http_s + 3.0  # so much that an answer is late even where the machine stood still meanwhile
ACCEPTED, UNKNOWN = RecipientState.ACCEPTED, RecipientState.UNKNOWN


@pytest.mark.bco("H03")
async def test_bco_h03_a_late_answer_is_unknown_and_never_sent_again(
    database_url: str, settings_for: SettingsFor
) -> None:
    def meta(request: Received):
        seq = row_of(request)[1]
        if seq <= 30:
            return accepted(f"wamid.LATE{seq}", after_s=LATE_S)
        if seq <= 40:
            return Misdeed.HANG
        return accepts(request)

    async with (
        a_campaign(database_url, 100) as (ledger, campaign_id),
        scripted_transport(meta) as far_side,
    ):
        async with a_sender(settings_for(far_side.url)):
            await all_are(ledger, campaign_id, {ACCEPTED: 60, UNKNOWN: 40})
            answered_at = max(request.at_s for request in far_side.requests) + LATE_S
            await asyncio.sleep(
                answered_at + 0.5 - asyncio.get_running_loop().time()
            )  # what is late has come by now
        assert posts_of(far_side.requests) == {(campaign_id, seq): 1 for seq in range(1, 101)}
        reasons = await campaigns.reasons(ledger, campaign_id)
        assert (UNKNOWN, Reason.NO_ANSWER.value, None, 40) in reasons
        unknown = await ledger.rows("unknown", "SELECT seq FROM unknown_rows ORDER BY 1")
        assert [row["seq"] for row in unknown] == list(range(1, 41))
        assert await claims_left(ledger) == 0


async def test_resets_and_answers_that_nobody_can_read_are_unknown(
    database_url: str, settings_for: SettingsFor
) -> None:
    plays = {
        1: Misdeed.CLOSE,
        2: Misdeed.RESET,
        3: Misdeed.HALF_HEAD,
        4: Misdeed.CUT_BODY,
        5: Misdeed.GARBAGE,
        6: Answer(500, b"<html>Bad Gateway</html>"),
        7: Answer(200, b"[]"),
        8: Answer(200, b'{"messages": "none"}'),
        9: Answer(302, b"", {"Location": "http://127.0.0.1:1/"}),
        10: Answer(200, b"\xff\xfe\x00"),
    }

    def meta(request: Received):
        return plays.get(row_of(request)[1]) or accepts(request)

    async with (
        a_campaign(database_url, 40) as (ledger, campaign_id),
        scripted_transport(meta) as far_side,
        a_sender(settings_for(far_side.url)),
    ):
        await all_are(ledger, campaign_id, {ACCEPTED: 30, UNKNOWN: 10})
        unknown = await ledger.rows("unknown", "SELECT seq FROM unknown_rows ORDER BY 1")
        assert [row["seq"] for row in unknown] == list(plays)
        assert set(posts_of(far_side.requests).values()) == {1}


async def test_a_server_that_is_down_costs_no_try(database_url: str, settings_for: SettingsFor) -> None:
    bound = socket.socket()  # nobody else gets its port, and until it listens it refuses connections
    bound.bind(("127.0.0.1", 0))
    port = bound.getsockname()[1]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on to the scripted server, so that this one's port is known before it listens."""
        far_reader, far_writer = await asyncio.open_connection(
            "127.0.0.1", int(far_side.url.rpartition(":")[2])
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(copy(reader, far_writer))
            tasks.create_task(copy(far_reader, writer))

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65536):
                writer.write(piece)
        except ConnectionError:
            pass
        writer.close()

    async with (
        a_campaign(database_url, 100) as (ledger, campaign_id),
        scripted_transport() as far_side,
        a_sender(settings_for(f"http://127.0.0.1:{port}")),
    ):

        async def refused_often() -> bool:
            return await ledger.value("refused", "SELECT max(attempt_last) FROM recipient_states") >= 3

        await until(refused_often, "some refused connections")
        assert not far_side.requests
        server = await asyncio.start_server(serve, sock=bound)
        try:
            await all_are(ledger, campaign_id, {ACCEPTED: 100})
        finally:
            server.close()
        assert set(posts_of(far_side.requests).values()) == {1}
        assert await ledger.value("tries", "SELECT max(tries) FROM recipient_states") == 1
