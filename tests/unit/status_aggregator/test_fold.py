"""The fold gives one answer whatever the order, repetition and batching of the statuses."""

from collections import Counter

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from contracts.campaign import Rank
from contracts.status import CampaignRow, StatusReported, callback_data
from status_aggregator.fold import CODE_MAX, Proof, RowKey, WamidKey, add, chunks, merged, proof_of, sort_out

NUMBER = "100000000000001"


def a_status(
    word: str, at_s: int, *, seq: int = 1, data: str | None = "", code: int | None = None
) -> StatusReported:
    return StatusReported(
        event_id="", phone_number_id=NUMBER, waba_id="", wamid=f"wamid.{seq}", status=word, timestamp_s=at_s, code=code,
        callback_data=callback_data("test", CampaignRow(1, seq, 1)) if data == "" else data,
    )  # fmt: skip


words = st.sampled_from(["sent", "delivered", "read", "played", "failed", "failed", "deleted", "warning"])
some_statuses = st.builds(
    lambda word, at_s, seq, known, code: a_status(word, at_s, seq=seq, data="" if known else None, code=code),
    words, st.integers(0, 5), st.integers(1, 3), st.booleans(), st.sampled_from([None, 1, 131026, 131049]),
)  # fmt: skip


def expected(statuses: list[StatusReported]) -> dict[tuple[bool, int], Proof]:
    """The same by definition: minima over all statuses of a message, no folding."""
    found = {}
    for known, seq in {(s.callback_data is not None, int(s.wamid[6:])) for s in statuses}:
        of_one = [s for s in statuses if (s.callback_data is not None, int(s.wamid[6:])) == (known, seq)]
        times = {
            rank: min((s.timestamp_s for s in of_one if s.status in names), default=None)
            for rank, names in {
                "sent": {"sent"},
                "delivered": {"delivered"},
                "read": {"read", "played"},
            }.items()
        }
        failures = sorted(
            (s.timestamp_s, s.code is None, s.code or 0) for s in of_one if s.status == "failed"
        )
        failed_s, nameless, code = failures[0] if failures else (None, True, 0)
        proof = Proof(
            sent_s=times["sent"], delivered_s=times["delivered"], read_s=times["read"], failed_s=failed_s,
            code=None if nameless else code,
        )  # fmt: skip
        if proof != Proof():
            found[known, seq] = proof
    return found


def folded(batches: list[list[StatusReported]]) -> dict[tuple[bool, int], Proof]:
    """What the batches prove when each is folded on its own and their proofs are merged after."""
    total: dict[tuple[bool, int], Proof] = {}
    for batch in batches:
        out = sort_out("test", batch)
        for key, proof in out.rows.items():
            add(total, (True, key.row.seq), proof)
        for key, proof in out.wamids.items():
            add(total, (False, int(key.wamid[6:])), proof)
    return total


@given(st.data(), st.lists(some_statuses, max_size=25))
def test_shuffled_doubled_and_rebatched_statuses_fold_to_the_same(data, statuses):
    again = data.draw(st.lists(st.sampled_from(statuses), max_size=10)) if statuses else []
    shuffled = data.draw(st.permutations(statuses + again))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=4)))
    batches = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(shuffled)], strict=True)]
    event(f"batches that hold something: {sum(map(bool, batches))}")
    event(
        f"failures of one message: {max(Counter(s.wamid for s in statuses if s.status == 'failed').values(), default=0)}"
    )
    assert folded(batches) == expected(statuses)


proofs = st.builds(
    lambda times, failed_s, code: Proof(
        sent_s=times[0], delivered_s=times[1], read_s=times[2], failed_s=failed_s, code=code if failed_s else None
    ),
    st.tuples(*[st.none() | st.integers(1, 4)] * 3), st.none() | st.integers(1, 4), st.none() | st.integers(0, 3),
)  # fmt: skip


@given(proofs, proofs, proofs)
def test_merging_is_associative_commutative_and_idempotent_and_never_lowers_the_rank(a, b, c):
    assert merged(merged(a, b), c) == merged(a, merged(b, c))
    assert merged(a, b) == merged(b, a)
    assert merged(a, a) == a
    assert merged(a, b).rank == max(a.rank, b.rank)


@pytest.mark.parametrize(
    ("word", "rank"),
    [
        ("sent", Rank.SENT),
        ("failed", Rank.FAILED),
        ("delivered", Rank.DELIVERED),
        ("read", Rank.READ),
        ("played", Rank.READ),
    ],
)
def test_each_word_proves_its_rank(word, rank):
    assert proof_of(a_status(word, 7)).rank is rank


@pytest.mark.parametrize("word", ["deleted", "warning", "", "READ", "seen_by_satellite"])
def test_a_word_nobody_knows_proves_nothing_and_is_counted(word):
    assert proof_of(a_status(word, 7)) is None
    out = sort_out("test", [a_status(word, 7)])
    assert (out.rows, out.wamids, out.unknown_word) == ({}, {}, 1)


@pytest.mark.bco("F05")
def test_bco_f05_a_failure_without_a_code_does_not_erase_one_with():
    with_code, without = a_status("failed", 5, code=131049), a_status("failed", 5)
    for order in ([with_code, without], [without, with_code]):
        (proof,) = sort_out("test", order).rows.values()
        assert (proof.failed_s, proof.code) == (5, 131049)


@pytest.mark.parametrize("code", [-1, CODE_MAX + 1, 2**63])
def test_a_code_that_no_table_could_hold_counts_as_none(code):
    assert proof_of(a_status("failed", 5, code=code)) == Proof(failed_s=5)


def test_callback_data_decides_whose_status_it_is():
    out = sort_out(
        "test",
        [
            a_status("sent", 1, data="sl1:test:c:7:8:9"),
            a_status("sent", 1, data="sl1:test:r:7:8"),
            a_status("sent", 1, data="sl1:other:c:7:8:9"),
            a_status("sent", 1, data="theirs"),
            a_status("sent", 1, data=None),
        ],
    )
    assert set(out.rows) == {RowKey(CampaignRow(7, 8, 9), NUMBER)}
    assert set(out.wamids) == {WamidKey("wamid.1", NUMBER)}
    assert (out.foreign, out.unsupported_target, out.unknown_word) == (2, 1, 0)


@given(st.lists(st.integers(0, 9)).map(sorted), st.integers(1, 5))
def test_chunks_keep_all_within_the_size_and_never_hold_a_key_twice(items, size_max):
    found = list(chunks(items, size_max, lambda item: item))
    assert [item for chunk in found for item in chunk] == items
    assert all(0 < len(chunk) <= size_max and len(set(chunk)) == len(chunk) for chunk in found)
