"""A seeded audience for the simulator: fictional numbers, a name and an order each, and some rows that are wrong.

Invariant: every number lies in the North American area code 555, which nobody has; the same seed gives the same file.
"""

import csv
import io
import random
from dataclasses import dataclass, replace

NAMES = ("Ada", "Bo", "Chidi", "Dora", "Eino", "Fatima", "Göran", "Hana", "Iñaki", "Jun", "Kofi", "Léa")
HEADER = ("phone", "name", "order")
FIRST_LINE = 2  # the header is line 1


@dataclass(frozen=True)
class Person:
    """One record of the file: what it says, and what an import must make of it (`ok`, or why not)."""

    line: int
    phone: str
    name: str
    order: str
    expected: str
    raw: bytes


def people(count: int, *, seed: int, bad_every: int = 400) -> list[Person]:
    """Return `count` usable people, with a bad row after each `bad_every` of them."""
    rng = random.Random(seed)
    numbers = rng.sample(range(10_000_000), count)
    found: list[Person] = []
    for index, number in enumerate(numbers):
        line = FIRST_LINE + len(found)
        phone = f"+1555{number:07}"
        found.append(_person(line, phone, rng.choice(NAMES), f"A-{rng.randrange(10**6):06}", "ok"))
        if (index + 1) % bad_every == 0:
            found.append(_bad(line + 1, index // bad_every, found[0]))
    return found


def _bad(line: int, number: int, first: Person) -> Person:
    """Return the `number`-th wrong row; each kind comes in turn."""
    fresh = f"+1556{number:07}"
    twin = f"+1 ({first.phone[2:5]}) {first.phone[5:8]}-{first.phone[8:]}"
    wrong = [
        ("", "Nobody", "A-1", "no_phone"),
        ("not a number", "Word", "A-2", "bad_phone"),
        (twin, "Twin", "A-3", "duplicate"),
        (fresh, "", "A-4", "empty_parameter"),
        (fresh, "Tab\tbed", "A-5", "parameter_tab"),
        ("+1555", "Short", "A-6", "impossible_phone"),
        (fresh, "Broken", "A-7", "undecodable"),
    ]
    phone, name, order, expected = wrong[number % len(wrong)]
    person = _person(line, phone, name, order, expected)
    if expected == "undecodable":
        return replace(person, raw=person.raw.replace(b"Broken", b"Br\xf6ken"))
    return person


def _person(line: int, phone: str, name: str, order: str, expected: str) -> Person:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([phone, name, order])
    return Person(line, phone, name, order, expected, text.getvalue().encode())


def csv_bytes(found: list[Person]) -> bytes:
    """Return the file that is imported."""
    return b",".join(column.encode() for column in HEADER) + b"\n" + b"".join(person.raw for person in found)


def truth_csv(found: list[Person]) -> str:
    """Return what the judge is told of the file: line, phone, what the import must do, and the two parameters."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["line", "phone", "expected", "p1", "p2"])
    for person in found:
        writer.writerow([person.line, person.phone, person.expected, person.name, person.order])
    return text.getvalue()
