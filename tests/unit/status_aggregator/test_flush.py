"""Which errors are waited out and which are a status's own fault."""

import pytest

from ledger.pool import LedgerUnavailable
from status_aggregator.flush import is_data_error, passes


def a_database_error(sqlstate: str) -> Exception:
    error = Exception()
    error.sqlstate = sqlstate
    return error


@pytest.mark.parametrize("sqlstate", ["42883", "42501", "25006", "55000", "57P01", "XX000"])
def test_what_the_database_says_of_itself_is_waited_out(sqlstate):
    assert passes(a_database_error(sqlstate))
    assert not is_data_error(a_database_error(sqlstate))


@pytest.mark.parametrize("sqlstate", ["22021", "22003", "23514"])
def test_a_refused_value_is_the_status_own_fault(sqlstate):
    assert is_data_error(a_database_error(sqlstate))
    assert not passes(a_database_error(sqlstate))


@pytest.mark.parametrize(
    "error", [a_database_error("21000"), a_database_error("P0001"), AssertionError(), KeyError()]
)
def test_a_bug_is_neither_waited_out_nor_blamed_on_a_value(error):
    assert not passes(error)
    assert not is_data_error(error)


def test_a_database_that_is_away_is_waited_out_but_not_a_value_that_the_driver_cannot_encode():
    away, unfit = LedgerUnavailable("apply"), LedgerUnavailable("apply")
    away.__cause__, unfit.__cause__ = OSError(), ValueError()
    assert passes(away)
    assert not passes(unfit)
