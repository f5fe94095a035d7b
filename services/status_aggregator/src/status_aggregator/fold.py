"""What statuses prove of one message, whatever their order, repetition or batching.

Invariant: `merged` is associative, commutative and idempotent, so any way of putting the same statuses together gives
the same proof: the earliest time of each rank, and the least failure.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from contracts.campaign import RANK_OF_STATUS, Rank
from contracts.status import CampaignRow, RequestRow, StatusReported, parse_callback_data

CODE_MAX: Final = 2**31 - 1
_NO_CODE: Final = CODE_MAX + 1
"""Sorts behind every code: of two failures at one time the one that says why wins."""

T = TypeVar("T")


class Proof(Struct, frozen=True, kw_only=True):
    """The earliest time of each rank, Unix seconds, and the code of the earliest failure (of several the least)."""

    sent_s: int | None = None
    delivered_s: int | None = None
    read_s: int | None = None
    failed_s: int | None = None
    code: int | None = None

    @property
    def rank(self) -> Rank:
        """The highest rank proven."""
        for time_s, rank in (
            (self.read_s, Rank.READ),
            (self.delivered_s, Rank.DELIVERED),
            (self.failed_s, Rank.FAILED),
            (self.sent_s, Rank.SENT),
        ):
            if time_s is not None:
                return rank
        return Rank.NONE


class RowKey(Struct, frozen=True):
    """One attempt, as the statuses of one number name it; whether the attempt is that number's, the ledger checks."""

    row: CampaignRow
    phone_number_id: str


class WamidKey(Struct, frozen=True):
    """A message whose statuses came without callback data."""

    wamid: str
    phone_number_id: str


class Sorted(Struct, frozen=True):
    """A batch by what can be done about it; the last three are counts of statuses that are left alone."""

    rows: dict[RowKey, Proof]
    names: dict[RowKey, str]
    """The wamid of each row's message."""
    wamids: dict[WamidKey, Proof]
    recipients: dict[WamidKey, str]
    foreign: int
    unsupported_target: int
    unknown_word: int


def proof_of(status: StatusReported) -> Proof | None:
    """Return what one status proves, or None of a word that nobody knows yet (`deleted`, `warning`, …)."""
    match RANK_OF_STATUS.get(status.status):
        case Rank.SENT:
            return Proof(sent_s=status.timestamp_s)
        case Rank.DELIVERED:
            return Proof(delivered_s=status.timestamp_s)
        case Rank.READ:
            return Proof(read_s=status.timestamp_s)
        case Rank.FAILED:
            return Proof(failed_s=status.timestamp_s, code=_storable(status.code))
        case _:
            return None


def merged(one: Proof, other: Proof) -> Proof:
    """Return what two proofs of one message prove together."""
    failed_s, code = min(_failure(one), _failure(other))
    return Proof(
        sent_s=_earliest(one.sent_s, other.sent_s),
        delivered_s=_earliest(one.delivered_s, other.delivered_s),
        read_s=_earliest(one.read_s, other.read_s),
        failed_s=None if failed_s == float("inf") else int(failed_s),
        code=None if code == _NO_CODE else code,
    )


def sort_out(installation: str, statuses: Iterable[StatusReported]) -> Sorted:
    """Return the statuses folded to one proof a message, by callback data, else by wamid."""
    rows: dict[RowKey, Proof] = {}
    names: dict[RowKey, str] = {}
    wamids: dict[WamidKey, Proof] = {}
    recipients: dict[WamidKey, str] = {}
    foreign = unsupported_target = unknown_word = 0
    for status in statuses:
        proof = proof_of(status)
        if proof is None:
            unknown_word += 1
        elif not status.callback_data:
            key = WamidKey(status.wamid, status.phone_number_id)
            add(wamids, key, proof)
            recipients[key] = max(recipients.get(key, ""), status.recipient_id or "")
        else:
            match parse_callback_data(installation, status.callback_data):
                case CampaignRow() as row:
                    add(rows, RowKey(row, status.phone_number_id), proof)
                    names[RowKey(row, status.phone_number_id)] = status.wamid
                case RequestRow():
                    unsupported_target += 1
                case None:
                    foreign += 1
    return Sorted(rows, names, wamids, recipients, foreign, unsupported_target, unknown_word)


K = TypeVar("K", bound=Hashable)


def add(proofs: dict[K, Proof], key: K, proof: Proof) -> None:
    """Merge `proof` into what is known under `key`."""
    known = proofs.get(key)
    proofs[key] = proof if known is None else merged(known, proof)


def chunks(ordered: Sequence[T], size_max: int, key: Callable[[T], object]) -> Iterator[list[T]]:
    """Cut into lists of at most `size_max` in which no key occurs twice; equal keys must be neighbours."""
    chunk: list[T] = []
    for item in ordered:
        if chunk and (len(chunk) >= size_max or key(chunk[-1]) == key(item)):
            yield chunk
            chunk = []
        chunk.append(item)
    if chunk:
        yield chunk


def _earliest(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _failure(proof: Proof) -> tuple[float, int]:
    if proof.failed_s is None:
        return float("inf"), _NO_CODE
    return proof.failed_s, _NO_CODE if proof.code is None else proof.code


def _storable(code: int | None) -> int | None:
    """A code that no table could hold is none of Meta's."""
    return code if code is not None and 0 <= code <= CODE_MAX else None
