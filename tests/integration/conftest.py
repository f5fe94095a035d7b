"""What all integration tests share: ledgers that don't mind a machine that stands still for seconds."""

import pytest

from ledger import pool
from ledger.pool import Ledger

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def patient_ledgers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers of this process wait half a minute where they would wait a second or two.

    A test's process, its Kafka and its Postgres share few cores with others and may all stand still for a while, which
    would end a statement, or a transaction that idles, in a test about something else. Those that are about these
    time-outs have the marker `production_times`; services that are processes of their own have theirs anyway.
    """
    if request.node.get_closest_marker("production_times"):
        return
    as_in_production = Ledger.open

    def patient(*args: object, statement_s: float = 0.0, acquire_s: float = 0.0, **more: object) -> object:
        times = {"statement_s": max(statement_s, PATIENCE_S), "acquire_s": max(acquire_s, PATIENCE_S)}
        return as_in_production(*args, **more, **times)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "open", staticmethod(patient))
    monkeypatch.setattr(pool, "LOCK_S_MAX", PATIENCE_S)
    monkeypatch.setattr(pool, "IDLE_IN_TRANSACTION_S", PATIENCE_S)
