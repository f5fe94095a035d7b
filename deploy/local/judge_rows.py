"""Promises 5, 6 and 11: each row says what the provider told, the counters say what the rows say, and reasons are there.

What a row must be follows from the simulator's records and the row's current attempt. A status that was told but never
answered 200, or that nobody could place for lack of callback data, may or may not have counted: either is right.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations

from deploy.local.judge_records import Evidence, Person, Post, Row, Told
from deploy.local.judge_sends import folded
from deploy.local.judge_verdict import Verdict

PROGRESS = frozenset({"accepted", "sent", "delivered", "read"})
OPEN = frozenset({"pending", "sending", "unknown", "deferred"})
LOST_ANSWER = frozenset({"given_up", "unknown", "sending"})
NEVER_SENT = frozenset({"cancelled", "expired", "suppressed", "failed", "pending", "deferred"}) | LOST_ANSWER
# Meta's error page, 2026-09-11: passing faults, and people to be asked again later.
PASSING_CODES = frozenset({1, 2, 131000, 131016, 131049, 131056, 131057, 130429, 133004})
UNCERTAIN_MAX = 6
_BEHIND = "a row is"

Fact = tuple[Post, Told]


def check_rows(evidence: Evidence, verdict: Verdict) -> None:
    """Compare the export with the records, row by row."""
    by_seq: dict[int, list[Post]] = defaultdict(list)
    for post in evidence.campaign_posts():
        assert post.seq is not None
        by_seq[post.seq].append(post)
    for row in evidence.rows:
        posts = by_seq[row.seq]
        verdict.fates[row.state, row.reason] += 1
        verdict.figures["rows"] += 1
        _check_told(row, posts, verdict)
        _check_reason(row, evidence, verdict)
        if row.state == "given_up" and row.reason:
            accepted = any(post.accepted and not _has_failed(post) for post in posts)
            verdict.figures["unknown_accepted" if accepted else "unknown_not_accepted"] += 1


def _has_failed(post: Post) -> bool:
    """Whether it is known what became of it: the row is then given up for a later attempt."""
    return any(told.status == "failed" and told.acked for told in post.statuses)


def check_counts(evidence: Evidence, verdict: Verdict) -> None:
    """Compare the counters with the export's states."""
    counted = Counter(row.state for row in evidence.rows)
    for state in sorted(counted.keys() | evidence.counts.keys()):
        told = evidence.counts.get(state, 0)
        if told != counted[state]:
            verdict.breach(
                6, "a counter differs from its rows", f"{state} ({told} told, {counted[state]} rows)"
            )


def check_audience(evidence: Evidence, verdict: Verdict) -> None:
    """Each usable line of the file is one row, and there are no others."""
    lines: dict[int, list[Row]] = defaultdict(list)
    for row in evidence.rows:
        lines[row.line].append(row)
    for person in evidence.people:
        rows = lines.pop(person.line, [])
        if person.expected == "ok":
            _check_person(person, rows, verdict)
        elif rows:
            what = f"a line that is no recipient ({person.expected}) became one"
            verdict.breach(11, what, f"line {person.line}")
    for line in lines:
        verdict.breach(4, "a row that no line of the file explains", f"line {line}")
    for seq, count in Counter(row.seq for row in evidence.rows).items():
        if count > 1:
            verdict.breach(4, "a recipient stands twice in the export", f"seq {seq}")


def _check_person(person: Person, rows: Sequence[Row], verdict: Verdict) -> None:
    where = f"line {person.line}"
    if not rows:
        verdict.figures["lost_recipients"] += 1
        verdict.breach(11, "a recipient is missing from the export", where)
    elif len(rows) > 1:
        verdict.breach(4, "one line became several rows", where)
    elif not _is_same(person.phone, rows[0].address):
        verdict.breach(4, "a row has another address than its line", where)


def _is_same(phone: str, address: str) -> bool:
    """Whether a number as the file has it, perhaps in national form, can be this address."""
    mine, theirs = folded(phone), folded(address)
    return mine == theirs or (bool(mine.lstrip("0")) and theirs.endswith(mine.lstrip("0")))


def _check_reason(row: Row, evidence: Evidence, verdict: Verdict) -> None:
    if row.state in OPEN:
        if row.state not in evidence.allowed_open:
            verdict.figures["lost_recipients"] += 1
            verdict.breach(11, f"a row is still {row.state}", f"seq {row.seq}")
    elif row.state not in PROGRESS and not row.reason:
        verdict.figures["lost_recipients"] += 1
        verdict.breach(11, f"a row is {row.state} without a reason", f"seq {row.seq}")


def _check_told(row: Row, posts: Sequence[Post], verdict: Verdict) -> None:
    certain, uncertain = _facts(row, posts)
    verdict.figures["statuses"] += len(certain) + len(uncertain)
    verdict.figures["uncertain"] += len(uncertain)
    fault: str | None = None
    for some in _subsets(uncertain):
        found = fault_of(row, posts, [*certain, *some])
        if found is None:
            return
        fault = fault or found
    assert fault is not None
    verdict.figures["rows_behind"] += fault.startswith(_BEHIND)
    verdict.breach(5, fault, f"seq {row.seq}")


def _facts(row: Row, posts: Sequence[Post]) -> tuple[list[Fact], list[Fact]]:
    """The statuses that surely counted, and those that may have."""
    certain: list[Fact] = []
    uncertain: list[Fact] = []
    for post in posts:
        named = row.wamid == post.wamid or any(told.acked and told.has_callback for told in post.statuses)
        for told in post.statuses:
            if told.acked and (told.has_callback or named):
                certain.append((post, told))
            elif told.posted:
                uncertain.append((post, told))
    return certain, uncertain


def _subsets(facts: Sequence[Fact]) -> Iterator[tuple[Fact, ...]]:
    sizes = range(len(facts) + 1) if len(facts) <= UNCERTAIN_MAX else (0, len(facts))
    return chain.from_iterable(combinations(facts, size) for size in sizes)


def fault_of(row: Row, posts: Sequence[Post], facts: Sequence[Fact]) -> str | None:
    """Return in what a row contradicts its POSTs and these statuses of theirs; None if in nothing."""
    if any(post.accepted and (post.attempt or 0) > row.attempt for post in posts):
        return "an accepted attempt was taken back"
    if row.wamid and row.wamid not in {post.wamid for post in posts if post.accepted}:
        return "a wamid that this recipient's messages don't have"
    current = next((post for post in posts if post.attempt == row.attempt), None)
    mine = [told for post, told in facts if post.attempt == row.attempt]
    arrived = {
        word: min((told.timestamp for _, told in facts if told.status == word), default=None)
        for word in ("delivered", "read")
    }
    states = _states(arrived, mine, current)
    if row.state not in states:
        return f"{_BEHIND} {row.state}, the provider's word is {_word(arrived, mine, current)}"
    if row.state == "accepted" and current is not None and row.wamid != current.wamid:
        return "an accepted row lacks its wamid"
    return _wrong_code(row, mine, current) or _wrong_times(row, arrived, mine)


def _states(arrived: Mapping[str, int | None], mine: Sequence[Told], current: Post | None) -> frozenset[str]:
    word = _word(arrived, mine, current)
    if word in ("read", "delivered", "sent"):
        return frozenset({word})
    if word == "accepted":
        return LOST_ANSWER | {"accepted"}
    if word == "failed":
        code = _failure(mine)[1]
        return frozenset({"failed", "pending", "deferred"} if code in PASSING_CODES else {"failed"})
    if word == "refused":
        return LOST_ANSWER | {"failed"}
    return NEVER_SENT


def _word(arrived: Mapping[str, int | None], mine: Sequence[Told], current: Post | None) -> str:
    """The provider's last word: the best arrival of any attempt, else the highest of the current one."""
    words = {told.status for told in mine}
    if found := next((word for word in ("read", "delivered") if arrived[word] is not None), None):
        return found
    if found := next((word for word in ("failed", "sent") if word in words), None):
        return found
    if current is not None and current.accepted:
        return "accepted"
    return "refused" if current is not None and current.code else "nothing"


def _failure(mine: Sequence[Told]) -> tuple[int | None, int | None]:
    """Time and code of the failure that counts: the earliest, of equals the lowest code."""
    return min(
        ((told.timestamp, told.code) for told in mine if told.status == "failed"), default=(None, None)
    )


def _wrong_code(row: Row, mine: Sequence[Told], current: Post | None) -> str | None:
    if row.state in PROGRESS:
        return None if row.code is None else "a code on a row that is on its way"
    if row.state != "failed":
        return None
    code = _failure(mine)[1]
    if code is None and current is not None and current.code:
        code = current.code
    return None if code is None or row.code == code else "a failed row has another code than the provider's"


def _wrong_times(row: Row, arrived: Mapping[str, int | None], mine: Sequence[Told]) -> str | None:
    sent_at = min((told.timestamp for told in mine if told.status == "sent"), default=None)
    expected: dict[str, float | None] = {"sent_at": sent_at}
    expected.update({f"{word}_at": at for word, at in arrived.items()})
    if row.state in PROGRESS:
        expected["failed_at"] = None
    elif (failed_at := _failure(mine)[0]) is not None:
        expected["failed_at"] = failed_at
    for name, at in expected.items():
        if getattr(row, name) != at:
            return f"{name} isn't the provider's"
    return None
