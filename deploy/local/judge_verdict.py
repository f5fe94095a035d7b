"""What the judge found: broken promises with examples, and figures; and how both read on a screen.

Invariant: an example is a place (seq, line, text, offset), never a phone number, a name or a text.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

EXAMPLES_MAX = 10
FATES_MAX = 12
NUMBERS_MAX = 6

PROMISES = {
    1: "What was answered 200 is never lost.",
    2: "One contact's messages are handled one at a time, in order, each once.",
    3: "No sliding second has more of our sends from a number than its setting.",
    4: "No recipient gets two messages of one campaign.",
    5: "A row says what the provider's events say, in whatever order and however often they came.",
    6: "Counters equal the rows.",
    11: "Whatever was not sent has a reason.",
}

_TOTALS = (
    ("lost recipients", "lost_recipients"),
    ("lost texts", "lost_texts"),
    ("rows off", "rows_behind"),
    ("doubled", "doubled"),
    ("resent after silence", "resent"),
    ("sent after a failure", "after_failure"),
    ("failed, yet arrived", "failed_yet_arrived"),
)
_SENTENCES = (
    "explained unknowns: {unknown_accepted} had been accepted, {unknown_not_accepted} had not",
    "compared: {rows} rows, {statuses} statuses ({uncertain} of uncertain arrival), {contents} contents",
    "conversations: {texts} texts of {contacts} contacts handled, {repeats} repeated, {foreign} of others",
    "order: {pairs} pairs as written, {pairs_by_arrival} by arrival",
)


@dataclass
class Breach:
    """One way in which a promise was broken: how often, and where first."""

    promise: int
    what: str
    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass
class Pace:
    """How one number sent. Largest windows slide and are half-open; the mean leaves interruptions out."""

    phone_number_id: str
    limit: float
    setting: float
    starts_largest_second: float | None
    arrivals: int
    accepted: int
    throttled: int
    arrivals_largest_second: int
    arrivals_largest: tuple[tuple[float, int], ...]
    """(seconds, most arrivals in any window of that length)."""
    arrivals_largest_100ms: int
    mean_per_s: float
    interruptions: int
    interrupted_s: float


@dataclass
class Verdict:
    """Filled by the checks; `figures` holds what isn't a breach."""

    fates: Counter[tuple[str, str]] = field(default_factory=Counter)
    paces: list[Pace] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    _breaches: dict[tuple[int, str], Breach] = field(default_factory=dict)

    def breach(self, promise: int, what: str, place: str) -> None:
        """Note that a promise was broken at a place."""
        found = self._breaches.setdefault((promise, what), Breach(promise, what))
        found.count += 1
        if len(found.examples) < EXAMPLES_MAX:
            found.examples.append(place)

    @property
    def breaches(self) -> list[Breach]:
        """By promise, the most frequent first."""
        return sorted(self._breaches.values(), key=lambda each: (each.promise, -each.count))

    @property
    def broken(self) -> list[int]:
        """The promises that were broken."""
        return sorted({promise for promise, _ in self._breaches})

    def to_json(self) -> dict[str, Any]:
        """The same as an object."""
        return {
            "holds": not self.broken,
            "broken": [{"promise": each, "sentence": PROMISES[each]} for each in self.broken],
            "breaches": [asdict(each) for each in self.breaches],
            "audience": [
                {"state": state, "reason": reason or None, "count": count}
                for (state, reason), count in self.fates.most_common()
            ],
            "numbers": [asdict(each) for each in self.paces],
            "figures": dict(self.figures),
        }


def breach_lines(verdict: Verdict) -> list[str]:
    """Each broken promise by number and sentence, and under it what broke it, with examples."""
    lines: list[str] = []
    for promise in verdict.broken:
        lines.append(f"BROKEN promise {promise}: {PROMISES[promise]}")
        for each in verdict.breaches:
            if each.promise == promise:
                more = ", …" if each.count > len(each.examples) else ""
                lines.append(f"  {each.count:,} × {each.what}: {', '.join(each.examples)}{more}")
    return lines


def table_lines(verdict: Verdict) -> list[str]:
    """The run on one screen: the audience, the numbers, the counts that matter."""
    figures = verdict.figures
    return [
        *_aligned(("state", "reason", "recipients"), _fates(verdict)),
        "",
        *_aligned(
            (
                *("number", "limit", "setting", "starts/s", "arrivals/s", "in 100 ms", "mean/s"),
                *("accepted", "refused 130429", "interruptions"),
            ),
            _paces(verdict),
        ),
        "",
        *_aligned(
            [title for title, _ in _TOTALS],
            [[_n(figures[name]) for _, name in _TOTALS]],
        ),
        "",
        *(template.format_map(_Figures(figures)) for template in _SENTENCES),
    ]


def _fates(verdict: Verdict) -> list[list[str]]:
    fates = verdict.fates.most_common()
    shown = [[state, reason or "-", _n(count)] for (state, reason), count in fates[:FATES_MAX]]
    rest = sum(count for _, count in fates[FATES_MAX:])
    return [
        *shown,
        *([["others", "-", _n(rest)]] if rest else []),
        ["all", "", _n(sum(verdict.fates.values()))],
    ]


def _paces(verdict: Verdict) -> list[list[str]]:
    shown = [
        [
            each.phone_number_id,
            f"{each.limit:g}",
            f"{each.setting:g}",
            "-" if each.starts_largest_second is None else f"{each.starts_largest_second:g}",
            _n(each.arrivals_largest_second),
            _n(each.arrivals_largest_100ms),
            f"{each.mean_per_s:.2f}",
            _n(each.accepted),
            _n(each.throttled),
            f"{each.interruptions} ({each.interrupted_s:.1f} s)" if each.interruptions else "0",
        ]
        for each in verdict.paces[:NUMBERS_MAX]
    ]
    hidden = len(verdict.paces) - len(shown)
    return [*shown, *([[f"and {hidden} more", *[""] * 9]] if hidden else [])]


class _Figures(dict[str, int]):
    """Figures as text; one that nobody counted is 0."""

    def __getitem__(self, name: str) -> Any:
        return _n(self.get(name, 0))


def _n(count: int) -> str:
    return f"{count:,}"


def _aligned(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    table = [header, *rows]
    widths = [max(len(line[at]) for line in table) for at in range(len(header))]
    return [
        "  ".join(cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in pairs).rstrip()
        for line in table
        for pairs in [list(enumerate(zip(line, widths, strict=True)))]
    ]
