"""Finds what must never be in logs, metrics or error answers: given words, fictional phone numbers, message ids."""

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

# Of our fictional ranges, +1 555 … and +44 770 …, ten digits or more, with or without what people put between them. No
# dot: neither a fraction nor a version is a phone number.
_PHONE = re.compile(r"(?<![\d.])(?:1[ ()-]*555(?:[ ()-]*\d){6,}|44[ ()-]*7[ ()-]*7[ ()-]*0(?:[ ()-]*\d){5,})")
_WAMID = re.compile(r"wamid\.[\w+/=-]*", re.IGNORECASE)


def scan(text: str, *, forbidden: Iterable[str]) -> list[str]:
    """Return each offence as `line N: what was found`; empty when there is none.

    A forbidden word counts whatever its case, and also as JSON, a URL or Python's `repr` would write it.
    """
    spellings = {spelt.casefold(): word for word in forbidden for spelt in _spellings(word)}
    assert "" not in spellings, "an empty word is everywhere"
    offences: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        folded = line.casefold()
        found = {word for spelt, word in spellings.items() if spelt in folded}
        found |= {match[0] for pattern in (_PHONE, _WAMID) for match in pattern.finditer(line)}
        offences += [f"line {number}: {word}" for word in sorted(found)]
    return offences


def _spellings(word: str) -> set[str]:
    escaped = {json.dumps(word)[1:-1], ascii(word)[1:-1], repr(word)[1:-1], repr(word.encode())[2:-1]}
    return {word, quote(word, safe=""), *escaped}
