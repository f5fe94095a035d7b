"""Texts that nobody may see: secrets, lists of them, and PEM.

Invariant: none prints; what `reveal` gives is the present text, so whoever uses one asks for it at each use.
"""

import hmac
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from pathlib import Path

MASK = "****"


class SecretText:
    """What all of them share. `source` is the variable and the file that the text came from, if it came from one."""

    __slots__ = ("_text", "source")
    words: ClassVar[str]
    """What a value must be, for people."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self.source: tuple[str, Path] | None = None

    @classmethod
    def parsed(cls, found: Any) -> Self:
        """Raises `ValueError` for what can't be such a text."""
        if not isinstance(found, str):
            raise ValueError("a text is needed")
        cls.check(found)
        return cls(found)

    @classmethod
    def check(cls, text: str) -> None:
        """Raises `ValueError`: an empty one, or one of several lines, is a mistake in whatever wrote the file."""
        if not text.strip() or not text.isprintable():
            raise ValueError("one line of printable characters is needed")

    def reveal(self) -> str:
        """The text as of now."""
        return self._text

    def renew(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SecretText):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    __hash__ = None  # type: ignore[assignment]  # it changes


class Secret(SecretText):
    """One secret; `reveal()` at the place of use."""

    __slots__ = ()
    words = "a secret"


class Secrets(SecretText):
    """Several in one text, comma-separated: during a rotation the new one and the old one. Iterate at each use."""

    __slots__ = ("_each",)
    words = "a comma-separated list of: a secret"

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self._each = _split(text)

    @classmethod
    def check(cls, text: str) -> None:
        super().check(text)
        if not _split(text):
            raise ValueError("at least one is needed")

    def renew(self, text: str) -> None:
        super().renew(text)
        self._each = _split(text)

    def __iter__(self) -> Iterator[Secret]:
        return iter(self._each)

    def __len__(self) -> int:
        return len(self._each)


class Pem(SecretText):
    """A certificate, a chain or a key, as the text of a PEM file."""

    __slots__ = ()
    words = "PEM text; name its file"

    @classmethod
    def check(cls, text: str) -> None:
        if "-----BEGIN " not in text:
            raise ValueError("no PEM")


def _split(text: str) -> Sequence[Secret]:
    return tuple(Secret(part.strip()) for part in text.split(",") if part.strip())
