"""What becomes of a consumed record: done, tried again, dead-lettered or dropped.

Invariant: reasons come from closed sets, since they become metric labels and headers.
"""

from enum import StrEnum

from msgspec import Struct


class RetryReason(StrEnum):
    LEDGER_AWAY = "ledger_away"
    BROKER_AWAY = "broker_away"
    PEER_AWAY = "peer_away"
    BUSY = "busy"
    HELD = "held"


class DeadLetterReason(StrEnum):
    UNDECODABLE = "undecodable"
    BUG = "bug"
    STALE = "stale"
    POISON = "poison"
    TOO_MANY_ATTEMPTS = "too_many_attempts"
    FOREIGN_NUMBER = "foreign_number"


class DropReason(StrEnum):
    REPLAY_FOR_OTHER_GROUP = "replay_for_other_group"
    NOT_OURS = "not_ours"
    DUPLICATE = "duplicate"
    STALE = "stale"


class Done(Struct, frozen=True):
    """The record's effects are durable."""


class Retry(Struct, frozen=True):
    """Hand the same record over again after `after_s` seconds; those of its key wait behind it."""

    after_s: float
    reason: RetryReason


class DeadLetter(Struct, frozen=True):
    """Set the record aside in the topic's dead letters, for people to look at and perhaps replay."""

    reason: DeadLetterReason


class Drop(Struct, frozen=True):
    """Nothing is to be done about the record, and nobody needs to look at it."""

    reason: DropReason


Disposition = Done | Retry | DeadLetter | Drop
