"""How a process proves itself to the broker and the broker to it: TLS and SASL, in Kafka's own words.

Invariant: each connection is made with the password and the certificates of that moment, and TLS always verifies the
broker's certificate and host name.
"""

import asyncio
import ssl
from typing import Annotated, Any, Final, Literal

import aiokafka.client
import aiokafka.conn
from aiokafka.conn import AIOKafkaConnection, CloseReason, collect_hosts, create_conn
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from msgspec import Meta, Struct

from runtime.secret import Pem, Secret
from runtime.tls import client_context

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

PROBE_S: Final = 5.0
AWAY: Final = "the broker doesn't answer"


class KafkaAccess(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`SLUICE_KAFKA_*`: what stands beside the bootstrap servers on the page of a Kafka's provider."""

    security_protocol: Annotated[Protocol, Meta(description="As the brokers' listener has it.")] = "PLAINTEXT"
    sasl_mechanism: Annotated[Mechanism, Meta(description="With SASL_*: how the user is proven.")] | None = (
        None
    )
    username: Annotated[str, Meta(description="With SASL_*.")] = ""
    password: Annotated[Secret, Meta(description="With SASL_*.")] | None = None
    ca: (
        Annotated[Pem, Meta(description="With *SSL: who may vouch for the brokers; none: the system's.")]
        | None
    ) = None
    certificate: (
        Annotated[Pem, Meta(description="With *SSL: ours, and its chain, if the brokers ask.")] | None
    ) = None
    key: Annotated[Pem, Meta(description="The certificate's key, without a passphrase.")] | None = None

    def __post_init__(self) -> None:
        protocol = f"SLUICE_KAFKA_SECURITY_PROTOCOL={self.security_protocol}"
        for name, value in (
            ("SASL_MECHANISM", self.sasl_mechanism),
            ("USERNAME", self.username),
            ("PASSWORD", self.password),
        ):
            assert bool(value) == self.is_sasl, (
                f"{protocol} {'needs' if self.is_sasl else 'has no use for'} SLUICE_KAFKA_{name}"
            )
        for name, pem in (("CA", self.ca), ("CERTIFICATE", self.certificate), ("KEY", self.key)):
            assert pem is None or self.is_tls, f"{protocol} has no use for SLUICE_KAFKA_{name}"
        assert (self.certificate is None) == (self.key is None), (
            "SLUICE_KAFKA_CERTIFICATE and SLUICE_KAFKA_KEY need each other"
        )
        try:
            if self.is_tls:
                self.context()
        except ValueError as error:
            raise AssertionError(f"SLUICE_KAFKA_CA, _CERTIFICATE, _KEY: {error}") from None

    @property
    def is_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def is_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    def context(self) -> ssl.SSLContext:
        """The context of the moment, without a network's help; raises `ValueError`."""
        return client_context(ca=self.ca, certificate=self.certificate, key=self.key)

    def arguments(self) -> dict[str, Any]:
        """Return what aiokafka's clients take. Context and password stand for those of each connection's moment."""
        return {
            "security_protocol": self.security_protocol,
            "ssl_context": self if self.is_tls else None,
            "sasl_mechanism": self.sasl_mechanism or "PLAIN",
            "sasl_plain_username": self.username or None,
            "sasl_plain_password": self if self.is_sasl else None,
        }


class Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no types
    """A connection that is lost says so as aiokafka expects, whatever the loop calls it."""

    def send(self, *args: Any, **rest: Any) -> Any:
        try:
            return super().send(*args, **rest)
        except RuntimeError as error:
            # uvloop's word for a write to what was closed a moment ago; aiokafka expects an OSError, and its group
            # membership would end for good.
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(f"the connection to {self.host}:{self.port} was closed") from error


async def _connect(
    *args: Any, ssl_context: Any = None, sasl_plain_password: Any = None, **rest: Any
) -> AIOKafkaConnection:
    if isinstance(ssl_context, KafkaAccess):
        ssl_context = ssl_context.context()
    if isinstance(sasl_plain_password, KafkaAccess):
        assert sasl_plain_password.password is not None
        sasl_plain_password = sasl_plain_password.password.reveal()
    return await create_conn(*args, ssl_context=ssl_context, sasl_plain_password=sasl_plain_password, **rest)


# aiokafka keeps the password and the context that a client was built with and has no way to ask for others. This is the
# one function by which its clients, faust's too, make a connection.
assert aiokafka.client.create_conn is create_conn
aiokafka.client.create_conn = _connect
aiokafka.conn.AIOKafkaConnection = Connection  # what create_conn makes


async def fault_of(bootstrap: str, access: KafkaAccess) -> str:
    """Return why no broker lets us in, for people; never a secret.

    The clients themselves only say that they couldn't connect, so this connects once more and looks.
    """
    for host, port, _ in collect_hosts(bootstrap):
        try:
            async with asyncio.timeout(PROBE_S):
                connection = await _connect(
                    host, port, request_timeout_ms=int(PROBE_S * 1000), **access.arguments()
                )
            connection.close()
        except (KafkaError, OSError, TimeoutError) as error:
            if (fault := _words(error)) != AWAY:
                return fault
    return AWAY


def _words(error: BaseException) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return (
                "the broker's certificate is not for the host name in SLUICE_KAFKA_BOOTSTRAP"
                if "match" in error.verify_message
                else "the broker's certificate is not vouched for: is SLUICE_KAFKA_CA the right one?"
            )
        case SaslAuthenticationFailed():
            return "the broker refuses SLUICE_KAFKA_USERNAME or SLUICE_KAFKA_PASSWORD"
        case UnsupportedSaslMechanismError():
            return "the broker doesn't take SLUICE_KAFKA_SASL_MECHANISM"
        case ssl.SSLError():
            return "no TLS with the broker: is SLUICE_KAFKA_SECURITY_PROTOCOL that of its listener?"
        case KafkaError():
            return (
                "the broker ends the connection: does it ask for SLUICE_KAFKA_CERTIFICATE, or speak another"
                " SLUICE_KAFKA_SECURITY_PROTOCOL?"
            )
        case _:
            return AWAY
