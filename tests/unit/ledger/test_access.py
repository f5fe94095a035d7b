"""What may be said about the way to the database, and when it is told that nobody knows who answers."""

import pytest

from ledger.access import DatabaseAccess
from runtime.secret import Pem


@pytest.mark.parametrize("sslmode", [None, "disable", "prefer", "require"])
def test_a_ca_that_would_not_be_looked_at_is_refused(sslmode):
    with pytest.raises(AssertionError, match="SLUICE_DATABASE_CA needs"):
        DatabaseAccess(sslmode=sslmode, ca=Pem("-----BEGIN CERTIFICATE-----"))


def test_a_ca_that_cannot_be_read_is_refused():
    with pytest.raises(AssertionError, match="SLUICE_DATABASE_CA: "):
        DatabaseAccess(sslmode="verify-full", ca=Pem("-----BEGIN CERTIFICATE-----\nAAAA\n"))


@pytest.mark.parametrize(
    ("url", "sslmode", "is_verified"),
    [
        ("postgresql://db.example/x", None, False),
        ("postgresql://db.example/x?sslmode=require", None, False),
        ("postgresql://db.example/x?sslmode=verify-full", None, True),
        ("postgresql://db.example/x?sslmode=verify-full", "require", False),
        ("postgresql://db.example/x", "verify-full", True),
        ("postgresql://127.0.0.1/x", None, True),
        ("postgresql:///x?host=/run/postgresql", None, True),
    ],
)
def test_beyond_this_machine_only_verify_full_counts(url, sslmode, is_verified):
    assert DatabaseAccess(sslmode=sslmode).is_verified(url) is is_verified
