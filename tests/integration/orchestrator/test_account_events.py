"""Account events on their way into the ledger: noted once, repeated while the database is away, never fatal."""

import msgspec
import pytest

from contracts.account import AccountChanged
from contracts.codec import Envelope, encode
from kafkaio.consumer import Record
from kafkaio.disposition import DeadLetter, DeadLetterReason, Done, Retry, RetryReason
from ledger.pool import Ledger
from orchestrator.kafka import noted

NOW_S = 1_796_040_000.0


def a_record(value: bytes) -> Record:
    envelope = Envelope(event_id="e", event_type="account.changed", produced_at_s=NOW_S)
    return Record(
        topic="account-events", partition=0, offset=0, key=b"2", value=value, headers=(), envelope=envelope,
        timestamp_s=NOW_S,
    )  # fmt: skip


def an_event(word: str, at_s: int) -> Record:
    said = {
        "event": word,
        "message_template_name": "qa_promo",
        "message_template_language": "en",
        "reason": "NONE",
    }
    event = AccountChanged(
        event_id=f"e{at_s}", waba_id="2", field="message_template_status_update", timestamp_s=at_s,
        raw=msgspec.Raw(msgspec.json.encode(said)),
    )  # fmt: skip
    return a_record(encode(event))


async def states(ledger: Ledger) -> list[tuple[str, str]]:
    return [
        (row["name"], row["state"])
        for row in await ledger.rows("states", "SELECT name, state FROM templates")
    ]


async def test_the_newest_news_stays_however_events_come(database_url: str) -> None:
    paused, approved = an_event("PAUSED", 100), an_event("APPROVED", 200)
    async with Ledger.open(database_url, shard=0) as ledger:
        for record in (approved, paused, paused, approved, an_event("FLAGGED", 300)):
            assert await noted(record, ledger, now_s=NOW_S) == Done()
        assert await states(ledger) == [("qa_promo", "APPROVED")]
        assert await noted(an_event("DISABLED", 400), ledger, now_s=NOW_S) == Done()
        assert await states(ledger) == [("qa_promo", "DISABLED")]


@pytest.mark.parametrize("value", [b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"event_id":1}', b"[" * 100_000])
async def test_what_can_not_be_read_is_set_aside(value: bytes, database_url: str) -> None:
    async with Ledger.open(database_url, shard=0) as ledger:
        assert await noted(a_record(value), ledger, now_s=NOW_S) == DeadLetter(DeadLetterReason.UNDECODABLE)


@pytest.mark.production_times
async def test_while_the_database_is_away_an_event_is_tried_again() -> None:
    away = "postgresql://127.0.0.1:1/sluice"
    async with Ledger.open(away, shard=0, acquire_s=0.5) as ledger:
        found = await noted(an_event("PAUSED", 100), ledger, now_s=NOW_S)
    assert isinstance(found, Retry)
    assert found.reason is RetryReason.LEDGER_AWAY
