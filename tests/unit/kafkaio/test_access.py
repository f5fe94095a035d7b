"""What may be said about the way to the broker, and what is refused by name."""

import importlib
import ssl

import pytest

from kafkaio.access import KafkaAccess
from runtime.config import ConfigError, explain, load
from tests.certificates import Authority

SASL = {
    "SLUICE_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "SLUICE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
    "SLUICE_KAFKA_USERNAME": "sluice",
    "SLUICE_KAFKA_PASSWORD": "qa-password",
}
NEEDED = {
    "SLUICE_KAFKA_BOOTSTRAP": "localhost:9092",
    "SLUICE_DATABASE_URL": "postgresql://localhost/sluice",
    "SLUICE_ACCESS_TOKEN": "qa-token",
    "SLUICE_INSTALLATION": "test",
    "SLUICE_APP_SECRETS": "qa-secret",
    "SLUICE_VERIFY_TOKEN": "qa-verify",
}
SERVICES = ["conversations", "ingress", "orchestrator", "sender", "status_aggregator"]


def loaded(service: str, **env: str):
    config = importlib.import_module(f"{service}.config").Config
    return load(config, prefix=service.upper(), env={**NEEDED, **env})


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_takes_them_and_refuses_what_contradicts(service):
    access = loaded(service, **SASL).kafka
    assert (access.is_sasl, access.is_tls) == (True, True)
    with pytest.raises(ConfigError, match="needs SLUICE_KAFKA_PASSWORD"):
        loaded(service, **{**SASL, "SLUICE_KAFKA_PASSWORD": ""})
    assert "SLUICE_KAFKA_PASSWORD " in explain(
        importlib.import_module(f"{service}.config").Config, service.upper()
    )


@pytest.fixture(scope="module")
def pems(tmp_path_factory) -> dict[str, str]:
    """Variable → a file that is right for it."""
    folder = tmp_path_factory.mktemp("pems")
    authority = Authority(folder)
    authority.leaf("client")
    authority.leaf("other")
    (folder / "words.pem").write_text("no certificate")
    (folder / "cut.pem").write_text(authority.ca[:200])
    return {path.name: str(path) for path in folder.iterdir()}


TLS = {"SLUICE_KAFKA_SECURITY_PROTOCOL": "SSL"}


@pytest.mark.parametrize(
    ("given", "files", "told"),
    [
        ({**SASL, "SLUICE_KAFKA_USERNAME": ""}, {}, "needs SLUICE_KAFKA_USERNAME"),
        ({k: v for k, v in SASL.items() if "MECHANISM" not in k}, {}, "needs SLUICE_KAFKA_SASL_MECHANISM"),
        ({"SLUICE_KAFKA_PASSWORD": "qa-password"}, {}, "PLAINTEXT has no use for SLUICE_KAFKA_PASSWORD"),
        ({}, {"CA": "ca.pem"}, "PLAINTEXT has no use for SLUICE_KAFKA_CA"),
        (TLS, {"KEY": "client.key"}, "CERTIFICATE and SLUICE_KAFKA_KEY need each other"),
        (TLS, {"CERTIFICATE": "client.pem"}, "CERTIFICATE and SLUICE_KAFKA_KEY need each other"),
        (TLS, {"CERTIFICATE": "client.pem", "KEY": "other.key"}, "not a pair"),
        (TLS, {"CA": "words.pem"}, "SLUICE_KAFKA_CA_FILE must be PEM"),
        (TLS, {"CA": "cut.pem"}, "CA holds no certificate"),
        ({"SLUICE_KAFKA_SECURITY_PROTOCOL": "TLS"}, {}, "one of PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start_by_name(pems, given, files, told):
    env = {**given, **{f"SLUICE_KAFKA_{name}_FILE": pems[file] for name, file in files.items()}}
    with pytest.raises(ConfigError, match=told) as caught:
        loaded("sender", **env)
    assert "qa-password" not in str(caught.value)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tls_always_verifies_certificate_and_host_name(protocol):
    env = {**(SASL if protocol == "SASL_SSL" else {}), "SLUICE_KAFKA_SECURITY_PROTOCOL": protocol}
    context = loaded("sender", **env).kafka.context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_plain_text_needs_nothing():
    assert KafkaAccess().arguments()["security_protocol"] == "PLAINTEXT"
