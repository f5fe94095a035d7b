"""Bytes of a CSV file, in pieces of any size, become records: encoding, lines, delimiter, quotes.

Invariant: memory doesn't grow with the file, no bytes raise anything but `FileRefused`, and every physical line
belongs to exactly one record, sound or broken. Nothing is decoded by guess: a file that isn't Unicode is refused with
the likely encoding, for the operator to confirm.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import charset_normalizer

from admin.row_fault import RowFault

HEAD_BYTES = 64 * 1024
LINE_CHARS_MAX = 64 * 1024
RECORD_LINES_MAX = 100  # a quote that stays open for longer is a typing error, and swallows good rows
DELIMITERS = (",", ";", "\t", "|")
ENCODINGS = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be"),
    *(f"cp125{n}" for n in range(9)),
    *("iso-8859-1", "iso-8859-2", "iso-8859-9", "iso-8859-15", "koi8-r", "mac-roman"),
    *("cp437", "cp850", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr"),
)

_SEPARATOR_LINE = re.compile(r"sep=([,;|\t:~^])\Z", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*(?:"|\Z)')
_SPREADSHEETS = ((b"PK\x03\x04", "a workbook or zip archive"), (b"\xd0\xcf\x11\xe0", "an old workbook"))
_ARCHIVES = ((b"\x1f\x8b", "compressed (gzip)"), (b"%PDF", "a PDF"))


class FileRefused(Exception):
    """The file as a whole can't be read; `code` is for programs, the text for the one who sent it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Record(NamedTuple):
    """The cells of one record; `line` is the physical line where it starts, from 1."""

    line: int
    cells: list[str]


class Broken(NamedTuple):
    """A record that can't be read; it covers `lines_count` physical lines."""

    line: int
    lines_count: int
    fault: RowFault


class CsvText:
    """Push bytes in, take records out; the first record is the header. Blank lines are records, too."""

    def __init__(self, encoding: str | None = None) -> None:
        """`encoding` is one of `ENCODINGS`, when the operator says so. Raises `FileRefused` for another."""
        if encoding is not None and encoding not in ENCODINGS:
            raise FileRefused("unknown_encoding", f"the encoding must be one of {', '.join(ENCODINGS)}")
        self.encoding = encoding
        self.delimiter: str | None = None
        self._head = b""
        self._decoder: io.IncrementalNewlineDecoder | None = None
        self._tail = ""
        self._is_overlong = False
        self._line = 0
        self._open: list[str] = []  # lines of a record within quotes
        self._open_chars = 0

    def feed(self, piece: bytes) -> Iterator[Record | Broken]:
        """Yield the records that `piece` completes. Raises `FileRefused`."""
        if self._decoder is None:
            self._head += piece
            if len(self._head) < HEAD_BYTES:
                return iter(())
            return self._begin(is_all=False)
        return self._decoded(self._decoder.decode(piece))

    def finish(self) -> Iterator[Record | Broken]:
        """Yield what is left. Raises `FileRefused`."""
        if self._decoder is None:
            yield from self._begin(is_all=True)
        assert self._decoder is not None
        yield from self._decoded(self._decoder.decode(b"", final=True))
        if self._tail or self._is_overlong:
            yield from self._records([self._tail])
        if self._open:
            yield self._broken_open(RowFault.UNCLOSED_QUOTE, self._line)

    def _begin(self, *, is_all: bool) -> Iterator[Record | Broken]:
        if self.encoding is None:
            self.encoding = encoding_of(self._head, is_all=is_all)
        decoder = codecs.getincrementaldecoder(self.encoding)(errors="replace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        head, self._head = self._head, b""
        return self._decoded(self._decoder.decode(head))

    def _decoded(self, text: str) -> Iterator[Record | Broken]:
        if "\ufeff" in text:
            text = text.replace("\ufeff", "")
        lines = (self._tail + text).split("\n")
        self._tail = lines.pop()
        yield from self._records(lines)
        if len(self._tail) > LINE_CHARS_MAX:
            self._tail, self._is_overlong = "", True

    def _records(self, lines: Iterable[str]) -> Iterator[Record | Broken]:
        for text in lines:
            self._line += 1
            if self._is_overlong or len(text) > LINE_CHARS_MAX:
                self._is_overlong = False
                yield self._broken_open(RowFault.TOO_LONG, self._line)
            elif self._open:
                yield from self._continued(text)
            elif self.delimiter is None and not self._decide_delimiter(text):
                yield Record(self._line, [""])
            elif '"' in text:
                yield from self._continued(text)
            elif "\ufffd" in text:
                yield Broken(self._line, 1, RowFault.UNDECODABLE)
            else:
                assert self.delimiter is not None
                yield Record(self._line, text.split(self.delimiter))

    def _continued(self, text: str) -> Iterator[Record | Broken]:
        """Take a line with quotes, or within them; yield the record once its quotes are closed."""
        is_within = bool(self._open)
        self._open.append(text + "\n")
        self._open_chars += len(text) + 1
        if self._open_chars > LINE_CHARS_MAX or len(self._open) > RECORD_LINES_MAX:
            yield self._broken_open(RowFault.UNCLOSED_QUOTE, self._line)
            return
        if is_within and '"' not in text:
            return
        reader = csv.reader([*self._open, ""], delimiter=self.delimiter or ",")
        cells = next(reader)
        if reader.line_num > len(self._open):  # it wanted more
            return
        start = self._line - len(self._open) + 1
        if any("\ufffd" in line for line in self._open):
            yield self._broken_open(RowFault.UNDECODABLE, self._line)
            return
        self._forget_open()
        yield Record(start, cells)

    def _broken_open(self, fault: RowFault, last_line: int) -> Broken:
        """Give up the record at hand, up to and with `last_line`."""
        lines_count = max(1, len(self._open))
        if fault is RowFault.TOO_LONG:
            lines_count = len(self._open) + 1
        self._forget_open()
        return Broken(last_line - lines_count + 1, lines_count, fault)

    def _forget_open(self) -> None:
        self._open = []
        self._open_chars = 0

    def _decide_delimiter(self, text: str) -> bool:
        """Decide by the first line that isn't blank; False for a blank one and for Excel's `sep=;`."""
        if separator := _SEPARATOR_LINE.match(text):
            self.delimiter = separator[1]
            return False
        if not text.strip():
            return False
        if "\ufffd" in text:
            raise FileRefused("encoding_unclear", f"the header has characters that are not {self.encoding}")
        bare = _QUOTED.sub("", text)
        self.delimiter = max(DELIMITERS, key=bare.count)
        return True


def encoding_of(head: bytes, *, is_all: bool) -> str:
    """Return the encoding of a file that begins with `head`: UTF-8, or UTF-16 by its mark. Raises `FileRefused`.

    A few broken bytes in what is otherwise UTF-8 are left to the rows that have them.
    """
    for mark, kind in (*_SPREADSHEETS, *_ARCHIVES):
        if head.startswith(mark):
            raise FileRefused("not_csv", f"the file is {kind}, not CSV: export it as CSV (UTF-8)")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and head[2:4] != b"\0\0":
        return "utf-16"
    if b"\0" in head:
        raise FileRefused(
            "not_csv",
            "the file holds NUL bytes, so it is no text, or UTF-16 without its mark: export it as CSV (UTF-8)",
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=is_all)
    except UnicodeDecodeError as error:
        text = head.decode("utf-8", "replace")
        wide_count = sum(char > "\x7f" for char in text)
        broken_count = text.count("\ufffd")
        if wide_count - broken_count > broken_count:
            return "utf-8"
        line = head.count(b"\n", 0, error.start) + 1
        raise FileRefused("encoding_unclear", _question(head, line)) from None
    return "utf-8"


def _question(head: bytes, line: int) -> str:
    lines = [part for part in head.splitlines() if not part.isascii()][:200]
    best = charset_normalizer.from_bytes(b"\n".join(lines), cp_isolation=list(ENCODINGS[4:])).best()
    guess = best.encoding.replace("_", "-") if best is not None else "cp1252"
    named = next((name for name in ENCODINGS if name.replace("_", "-") == guess), "cp1252")
    return (
        f"the file is not UTF-8 (see line {line}), perhaps {named}: export it as UTF-8, or name its encoding"
        f" if you are sure (encoding={named})"
    )
