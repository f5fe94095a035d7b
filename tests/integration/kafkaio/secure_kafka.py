"""A real Kafka that listens in every way that a provider's may."""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from deploy.local.kafka_server import Kafka
from deploy.local.process import Host, free_port
from kafkaio.access import KafkaAccess
from runtime.secret import Pem, Secret
from tests.certificates import Authority

USER = "sluice"
PASSWORD = "qa-password-1"
LISTENERS = ("TLS", "MTLS", "SASL", "CLEAR")
_LOGIN = "org.apache.kafka.common.security"
SCRAM = f"{_LOGIN}.scram.ScramLoginModule required;"
PLAIN = f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


class SecureKafka:
    """The broker's addresses, and what to bring to each."""

    def __init__(self, kafka: Kafka, ports: dict[str, int], authority: Authority) -> None:
        self._kafka = kafka
        self._ports = ports
        self._client = authority.leaf("client")
        self.ca = authority.ca

    def bootstrap(self, mode: str, host: str = "localhost") -> str:
        listener = {"SSL": "TLS", "mTLS": "MTLS", "SASL_PLAINTEXT": "CLEAR"}.get(mode.split("/")[0], "SASL")
        return f"{host}:{self._ports[listener]}"

    def access(self, mode: str, **changes) -> KafkaAccess:
        """`SSL`, `mTLS`, `SASL_SSL/<mechanism>` or `SASL_PLAINTEXT/<mechanism>`."""
        protocol, _, mechanism = mode.partition("/")
        given = {"security_protocol": "SSL" if protocol == "mTLS" else protocol}
        if protocol != "SASL_PLAINTEXT":
            given["ca"] = Pem(self.ca)
        if protocol == "mTLS":
            given["certificate"], given["key"] = map(Pem, self._client)
        if mechanism:
            given |= {"sasl_mechanism": mechanism, "username": USER, "password": Secret(PASSWORD)}
        return KafkaAccess(**{**given, **changes})

    def change_password(self, password: str) -> None:
        """Change the user's SCRAM-SHA-512 password at the broker."""
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})
        changes = [
            UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
            )
        ]
        for done in admin.alter_user_scram_credentials(changes).values():
            done.result(60)


@contextmanager
def a_secure_kafka(folder: Path) -> Iterator[SecureKafka]:
    authority = Authority(folder / "ca")
    store = folder / "server.pem"
    store.write_text("\n".join(reversed(authority.leaf("server"))))
    rng = random.Random()
    ports: dict[str, int] = {}
    for name in LISTENERS:
        ports[name] = free_port(rng, but=list(ports.values()))
    own = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    advertised = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())

    class Listening(Kafka):
        more_settings: ClassVar[str] = f"""
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},{own}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},{advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MTLS:SSL,SASL:SASL_SSL,CLEAR:SASL_PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={store}
ssl.truststore.type=PEM
ssl.truststore.location={authority.folder / "ca.pem"}
listener.name.mtls.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
""" + "".join(
            f"listener.name.{name}.{mechanism}.sasl.jaas.config={login}\n".replace("{", "{{").replace(
                "}", "}}"
            )
            for name in ("sasl", "clear")
            for mechanism, login in (("scram-sha-256", SCRAM), ("scram-sha-512", SCRAM), ("plain", PLAIN))
        )
        format_arguments = tuple(
            part
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for part in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
        )

    with Host(lambda _line: None) as host:
        kafka = Listening(folder / "kafka", host, rng)
        try:
            kafka.start()
            yield SecureKafka(kafka, ports, authority)
        finally:
            kafka.ask_to_stop()
            kafka.stop()
            shutil.rmtree(folder, ignore_errors=True)
