"""The local stack keeps its promises: it answers, names what is missing, comes back, and leaves no process."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg
import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.local.kafka_server import (
    MANIFEST,
    Kafka,
    cluster_id,
    copy_jars,
    first_answering,
    install,
    is_complete,
)
from deploy.local.postgres_server import Postgres
from deploy.local.process import AlreadyRunningError, Host, Server, end_leftover, free_port, write_record
from deploy.local.stack import DATA_DIR, ROOT, Endpoints, create_database, drop_database, open_stack

LIMIT_S = 60.0
MIB = 1024 * 1024


@pytest.fixture
def data_dir(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Inside the repository, not in pytest's own folder: that one is closed to the user who runs Postgres."""
    folder = DATA_DIR / f"test-{os.getpid()}-{random.randrange(10**6)}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def command(action: str, data_dir: Path) -> list[str]:
    return [sys.executable, str(ROOT / "deploy/local/stack.py"), action, "--data", str(data_dir)]


def run(action: str, data_dir: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(action, data_dir),
        env={**own_environ(), **env},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def own_environ() -> dict[str, str]:
    """The environment without what would replace our servers."""
    replaced = ("SLUICE_KAFKA_BOOTSTRAP", "SLUICE_DATABASE_URL")
    return {name: value for name, value in os.environ.items() if name not in replaced}


@contextmanager
def up(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """`stack.py up`, ready."""
    with subprocess.Popen(
        command("up", data_dir), env=own_environ(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            for line in process.stdout:
                if line.startswith("ready"):
                    break
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def processes_of(data_dir: Path) -> list[psutil.Process]:
    """Whatever names the folder in its command line; Postgres's own children share the session with their parent."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(data_dir) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found += [process, *process.children(recursive=True)]
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_running_stack_refuses_a_second_start_and_goes_down_from_another_terminal(data_dir: Path) -> None:
    with up(data_dir) as first:
        second = run("up", data_dir)
        assert second.returncode == 3
        assert second.stderr.count("\n") == 1
        assert f"already runs (pid {first.pid}" in second.stderr
        assert f"pid {first.pid}" in run("status", data_dir).stdout
        assert len(processes_of(data_dir)) > 2
        assert run("down", data_dir).returncode == 0
        assert first.wait(LIMIT_S) == 0
    assert processes_of(data_dir) == []
    assert run("status", data_dir).returncode == 1


def test_ctrl_c_leaves_no_process_and_sigkill_none_either(data_dir: Path) -> None:
    with up(data_dir) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
        assert processes_of(data_dir) == []
    with up(data_dir) as process:
        left = processes_of(data_dir)
        assert len(left) > 2
        process.kill()
        wait_until(lambda: processes_of(data_dir) == [])


def test_what_is_missing_is_named_with_its_remedy(data_dir: Path, tmp_path: Path) -> None:
    done = run("up", data_dir, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "`mvn`" in done.stderr
    assert "install Maven" in done.stderr
    assert processes_of(data_dir) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLUICE_DATABASE_URL", "postgresql://someone:hush@127.0.0.1:1/postgres"),
        ("SLUICE_DATABASE_URL", "not a url"),
    ],
)
def test_a_given_postgres_that_does_not_answer_is_named_without_its_password(
    data_dir: Path, name: str, value: str
) -> None:
    done = run("up", data_dir, **{name: value})
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert "hush" not in done.stderr + done.stdout


def test_a_given_kafka_that_does_not_answer_is_not_waited_for_longer_than_its_limit() -> None:
    assert first_answering("127.0.0.1:1, [::1]:1", limit_s=0.0, pause=lambda _: None) is None


def test_given_servers_replace_our_own(stack: Endpoints, data_dir: Path) -> None:
    given = {"SLUICE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap, "SLUICE_DATABASE_URL": stack.database_url}
    with open_stack(data_dir, environ=given) as other:
        assert other.endpoints == stack
        assert (other.kafka, other.postgres) == (None, None)
        assert processes_of(data_dir) == []
        with pytest.raises(AlreadyRunningError), open_stack(data_dir, environ=given):
            pass


async def test_either_server_comes_back_on_its_port_with_its_data_after_sigkill(data_dir: Path) -> None:
    with open_stack(data_dir) as own:
        assert own.kafka
        assert own.postgres
        bootstrap, url = (
            own.endpoints.kafka_bootstrap,
            await create_database(own.endpoints.database_url, "kept"),
        )
        create_topic(bootstrap, "kept")
        deliver(bootstrap, "kept", b"before")
        killed = (own.kafka.pid, own.postgres.pid)
        own.kafka.kill()
        own.postgres.kill()
        assert processes_of(data_dir) == []
        own.kafka.start()
        own.postgres.start()
        assert own.kafka.pid not in killed
        assert own.kafka.bootstrap == bootstrap
        assert read_all(bootstrap, "kept", count=1) == [b"before"]
        connection = await asyncpg.connect(url)
        assert await connection.fetchval("SHOW fsync") == "on"
        assert int(await connection.fetchval("SHOW max_connections")) >= 200
        await connection.close()


@pytest.mark.parametrize("kind", [Postgres, Kafka])
def test_a_port_that_is_taken_at_the_last_moment_is_given_up(kind: type[Server], data_dir: Path) -> None:
    thieves: list[socket.socket] = []

    class Robbed(kind):
        def launch(self) -> subprocess.Popen[bytes]:
            if not thieves:
                thieves.append(socket.create_server(("127.0.0.1", self.port)))
            return super().launch()

    with Host(print) as host:
        server = Robbed(data_dir, host, random.Random(1))
        try:
            server.start()
            assert server.port not in {0, thieves[0].getsockname()[1]}
            assert server.answers()
        finally:
            server.stop()
            thieves[0].close()


def test_a_foreign_process_with_a_recorded_pid_is_left_alone(tmp_path: Path) -> None:
    record = tmp_path / "kafka.json"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as foreign:
        write_record(record, foreign.pid, created=psutil.Process(foreign.pid).create_time() - 60)
        assert not end_leftover(record, signal.SIGTERM)
        assert foreign.poll() is None
        write_record(record, foreign.pid)
        assert end_leftover(record, signal.SIGTERM)
        assert foreign.wait(LIMIT_S) == -signal.SIGTERM


def test_a_port_is_below_the_ephemeral_range_and_not_one_that_is_in_use() -> None:
    rng = random.Random(7)
    port = free_port(rng)
    with socket.create_server(("127.0.0.1", port)):
        again = free_port(random.Random(7))
    assert again != port
    assert 20_000 <= port < 30_000


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    ids = {cluster_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert {len(one) for one in ids} == {22}
    assert not any(one.startswith("-") for one in ids)


def test_a_half_fetched_folder_of_jars_is_not_taken_for_complete(tmp_path: Path) -> None:
    source, place = tmp_path / "source", tmp_path / "libs"
    source.mkdir()
    for name in ("a.jar", "b.jar"):
        (source / name).write_bytes(b"jar")

    def fetch_half(target: Path) -> None:
        (target / "a.jar").write_bytes(b"ja")
        raise InterruptedError

    with suppress(InterruptedError):
        install(place, fetch_half)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]
    install(place, lambda target: copy_jars(source, target))
    assert is_complete(place)
    (place / "b.jar").unlink()
    assert not is_complete(place)
    install(place, lambda target: copy_jars(source, target))
    assert is_complete(place)
    (place / MANIFEST).unlink()
    assert not is_complete(place)


async def test_a_database_made_from_a_template_has_its_tables_and_is_dropped_under_its_clients(
    stack: Endpoints,
) -> None:
    template = await create_database(stack.database_url, "pattern")
    connection = await asyncpg.connect(template)
    await connection.execute("CREATE TABLE marks (id int)")
    await connection.close()
    began = time.perf_counter()
    copy = await create_database(stack.database_url, "copy_1", "pattern")
    print(f"create database from template: {(time.perf_counter() - began) * 1000:.0f} ms")
    connection = await asyncpg.connect(copy)
    assert await connection.fetchval("SELECT count(*) FROM marks") == 0
    await drop_database(stack.database_url, "copy_1")
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await connection.fetchval("SELECT 1")
    connection.terminate()
    await drop_database(stack.database_url, "pattern")
    await drop_database(stack.database_url, "pattern")


def test_a_database_name_that_is_not_plain_is_refused() -> None:
    coroutine = create_database("postgresql://127.0.0.1:1/postgres", 'x"; DROP DATABASE y')
    with pytest.raises(AssertionError):
        coroutine.send(None)


async def test_every_test_has_a_database_of_its_own(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    assert (await connection.fetchval("SELECT current_database()")).startswith("test_")
    await connection.close()


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"max.message.bytes": str(5 * MIB)}
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
        future.result(LIMIT_S)


def deliver(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.max.bytes": 5 * MIB})
    producer.produce(topic, value)
    assert producer.flush(LIMIT_S) == 0


def read_all(bootstrap: str, topic: str, *, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + LIMIT_S
    while len(values) < count and time.monotonic() < deadline:
        record = consumer.poll(0.2)
        if record is not None and record.error() is None:
            values.append(record.value())
    consumer.close()
    return values


def test_confluent_kafka_reads_what_it_wrote_up_to_five_mebibytes(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}confluent"
    create_topic(kafka_bootstrap, topic)
    large = random.Random(1).randbytes(5 * MIB - 1024)
    deliver(kafka_bootstrap, topic, b"small")
    deliver(kafka_bootstrap, topic, large)
    assert read_all(kafka_bootstrap, topic, count=2) == [b"small", large]


async def test_aiokafka_reads_as_a_group_what_it_wrote(kafka_bootstrap: str, topic_prefix: str) -> None:
    topic = f"{topic_prefix}aiokafka"
    create_topic(kafka_bootstrap, topic)
    async with AIOKafkaProducer(
        bootstrap_servers=kafka_bootstrap, acks="all", enable_idempotence=True
    ) as producer:
        sent = await producer.send_and_wait(topic, b"value", key=b"key")
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka_bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        session_timeout_ms=1500,  # below Kafka's usual minimum: the fault tests need it
        heartbeat_interval_ms=300,
        enable_auto_commit=False,
    )
    async with consumer:
        record = await consumer.getone()
        await consumer.commit()
    assert (record.key, record.value, record.offset) == (b"key", b"value", sent.offset)
