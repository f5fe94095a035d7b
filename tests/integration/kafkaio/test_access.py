"""TLS and SASL on a real broker: every way in works for every client, and a wrong one is refused soon, with a reason."""

import asyncio
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.codec import encode
from contracts.status import StatusBatch
from contracts.topics import MESSAGE_STATUSES
from deploy.local.stack import DATA_DIR
from kafkaio.access import KafkaAccess
from kafkaio.admin import topics_fault, verify_topics
from kafkaio.disposition import Done
from kafkaio.producer import NotPublished, Producer
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings
from runtime.clock import SYSTEM_CLOCK
from runtime.health import Health
from runtime.secret import Pem, Secret
from status_aggregator import stream
from status_aggregator.config import Config
from tests.certificates import Authority
from tests.integration.admin.shell import Shell
from tests.integration.kafkaio.reading import eventually, running
from tests.integration.kafkaio.secure_kafka import PASSWORD, USER, SecureKafka, a_secure_kafka
from tests.integration.status_aggregator.driving import make_topics

MODES = [
    "SSL", "mTLS", "SASL_SSL/SCRAM-SHA-512", "SASL_SSL/SCRAM-SHA-256", "SASL_SSL/PLAIN",
    "SASL_PLAINTEXT/SCRAM-SHA-512",
]  # fmt: skip
STATUSES = MESSAGE_STATUSES.name
REFUSED_WITHIN_S = 10.0


@pytest.fixture(scope="module")
def secure_kafka() -> Iterator[SecureKafka]:
    DATA_DIR.mkdir(parents=True, exist_ok=True)
    with a_secure_kafka(Path(tempfile.mkdtemp(prefix=f"test-{os.getpid()}-", dir=DATA_DIR))) as kafka:
        yield kafka


def settings_for(kafka: SecureKafka, mode: str, access: KafkaAccess, *, host: str = "localhost"):
    return KafkaSettings(
        bootstrap=kafka.bootstrap(mode, host), client_id="test", access=access,
        topic_prefix=f"t{secrets.token_hex(3)}.", session_s=6.0, heartbeat_s=0.3, rebalance_s=6.0,
    )  # fmt: skip


async def published(producer: Producer, value: bytes) -> None:
    await producer.send(STATUSES, value=value, key=b"k")


@pytest.mark.parametrize("mode", MODES)
async def test_topics_are_made_and_checked_and_records_go_in_and_come_out(secure_kafka, mode):
    settings = settings_for(secure_kafka, mode, secure_kafka.access(mode))
    await make_topics(settings)
    of_ours = await verify_topics(settings, topics=[MESSAGE_STATUSES])
    assert [found for found in of_ours if found.setting == "exists"] == []
    seen = []

    async def handle(record):
        seen.append(record.value)
        return Done()

    async with Producer.open(settings, deadline_s=5.0) as producer:
        await published(producer, b"one")
        runner = Runner(
            settings, group="g", topics=[STATUSES], handle=handle, key_of=lambda _: "k", producer=None
        )
        async with running(runner):
            await eventually(lambda: seen == [b"one"])


@pytest.mark.parametrize("mode", ["mTLS", "SASL_SSL/SCRAM-SHA-512", "SASL_SSL/PLAIN"])
async def test_fausts_stream_comes_in_by_the_same_door(secure_kafka, mode):
    settings = settings_for(secure_kafka, mode, secure_kafka.access(mode))
    await make_topics(settings)
    config = Config(
        kafka_bootstrap=settings.bootstrap, kafka=settings.access, database_url=Secret("postgresql:///unused"),
        installation="test", topic_prefix=settings.topic_prefix,
    )  # fmt: skip
    seen, stop = [], asyncio.Event()

    async def flush(records):
        seen.extend(record.value for record in records)
        return True

    value = encode(StatusBatch(statuses=()))
    async with Producer.open(settings, deadline_s=5.0) as producer, asyncio.TaskGroup() as tasks:
        await published(producer, value)
        tasks.create_task(stream.run(config, flush, Health(), stop, SYSTEM_CLOCK))
        await eventually(lambda: seen == [value])
        stop.set()


def another_ca(folder: Path) -> Pem:
    return Pem(Authority(folder / "another").ca)


REFUSALS = {
    "an unknown CA": ("SSL", "localhost", "SLUICE_KAFKA_CA"),
    "the system's CAs": ("SSL", "localhost", "SLUICE_KAFKA_CA"),
    "another host name": ("SSL", "127.0.0.1", "host name"),
    "no client certificate": ("mTLS", "localhost", "SLUICE_KAFKA_CERTIFICATE"),
    "a wrong password": ("SASL_SSL/SCRAM-SHA-512", "localhost", "SLUICE_KAFKA_PASSWORD"),
    "a wrong plain password": ("SASL_SSL/PLAIN", "localhost", "SLUICE_KAFKA_PASSWORD"),
    "no TLS where TLS is": ("SSL", "localhost", "SLUICE_KAFKA_SECURITY_PROTOCOL"),
}


@pytest.mark.parametrize("wrong", REFUSALS)
async def test_a_wrong_one_is_refused_soon_and_readiness_says_why(secure_kafka, wrong, tmp_path):
    mode, host, told = REFUSALS[wrong]
    changes = {
        "an unknown CA": lambda: {"ca": another_ca(tmp_path)},
        "the system's CAs": lambda: {"ca": None},
        "no client certificate": lambda: {"certificate": None, "key": None},
        "a wrong password": lambda: {"password": Secret("qa-wrong")},
        "a wrong plain password": lambda: {"password": Secret("qa-wrong")},
        "no TLS where TLS is": lambda: {"security_protocol": "PLAINTEXT", "ca": None},
    }.get(wrong, dict)()
    settings = settings_for(secure_kafka, mode, secure_kafka.access(mode, **changes), host=host)
    async with asyncio.timeout(REFUSED_WITHIN_S):
        fault = await topics_fault(settings, [MESSAGE_STATUSES])
        assert told in fault, fault
        assert "qa-" not in fault
        async with Producer.open(settings, deadline_s=1.0) as producer:
            with pytest.raises(NotPublished):
                await published(producer, b"never")


@pytest.mark.parametrize("mode", ["SASL_SSL/SCRAM-SHA-512", "SASL_SSL/PLAIN"])
async def test_a_renewed_password_lets_a_waiting_producer_in(secure_kafka, mode):
    password = Secret("qa-not-yet")
    good = settings_for(secure_kafka, mode, secure_kafka.access(mode))
    await make_topics(good)
    settings = KafkaSettings(
        bootstrap=good.bootstrap, client_id="test", topic_prefix=good.topic_prefix,
        access=secure_kafka.access(mode, password=password),
    )  # fmt: skip
    async with Producer.open(settings, deadline_s=2.0) as producer:
        with pytest.raises(NotPublished):
            await published(producer, b"early")
        password.renew(good.access.password.reveal())
        await eventually(lambda: producer.is_live)
        await published(producer, b"now")


async def test_a_client_that_lives_reconnects_with_the_password_of_that_moment(secure_kafka):
    mode = "SASL_SSL/SCRAM-SHA-512"
    access = secure_kafka.access(mode)
    settings = settings_for(secure_kafka, mode, access)
    await make_topics(settings)
    first = access.password.reveal()
    async with Producer.open(settings, deadline_s=5.0) as producer:
        await published(producer, b"before")
        kafka = producer._live
        try:
            secure_kafka.change_password("qa-password-2")
            access.password.renew("qa-password-2")
            for connection in list(kafka.client._conns.values()):
                connection.close()
            await published(producer, b"after")
            assert producer._live is kafka
        finally:
            secure_kafka.change_password(first)


async def test_a_renewed_certificate_is_shown_to_the_broker_from_then_on(secure_kafka):
    stranger = Authority(Path(tempfile.mkdtemp()))
    certificate, key = map(Pem, stranger.leaf("stranger"))
    good = secure_kafka.access("mTLS")
    settings = settings_for(
        secure_kafka, "mTLS", secure_kafka.access("mTLS", certificate=certificate, key=key)
    )
    assert "SLUICE_KAFKA_CERTIFICATE" in await topics_fault(settings, [MESSAGE_STATUSES])
    certificate.renew(good.certificate.reveal())
    key.renew(good.key.reveal())
    await make_topics(settings)


async def test_the_command_line_takes_the_same_settings_and_says_what_is_wrong(
    secure_kafka, tmp_path, monkeypatch, capsys
):
    (tmp_path / "ca.pem").write_text(secure_kafka.ca)
    (tmp_path / "password").write_text(PASSWORD)
    for name, value in {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_MECHANISM": "PLAIN",
        "USERNAME": USER,
        "PASSWORD_FILE": str(tmp_path / "password"),
        "CA_FILE": str(tmp_path / "ca.pem"),
    }.items():
        monkeypatch.setenv(f"SLUICE_KAFKA_{name}", value)
    shell = Shell(capsys, "topics")
    copies = ["--partitions", "1", "--replication", "1", "--min-insync", "1", "--topic-prefix", "cli."]
    bootstrap = ["--bootstrap", secure_kafka.bootstrap("SASL_SSL")]
    assert await shell("apply", *bootstrap, *copies) == 0
    assert await shell("verify", *bootstrap, *copies) == 0
    (tmp_path / "password").write_text("qa-wrong")
    assert await shell("verify", *bootstrap, *copies) != 0
    assert "the broker refuses SLUICE_KAFKA_USERNAME or SLUICE_KAFKA_PASSWORD" in shell.err
    (tmp_path / "password").write_text("")
    assert await shell("verify", *bootstrap, *copies) != 0
    assert "SLUICE_KAFKA_PASSWORD_FILE names an empty file" in shell.err
