"""Records of an audience file become recipients, or problems with their line.

Invariant: each record is counted exactly once, as a recipient, rejected or blank; whatever Meta would refuse for its
form is refused here, row by row, before anything is sent. Memory doesn't grow with the file.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from admin.csv_text import Broken, CsvText, FileRefused, Record
from admin.phone import REGIONS, address_of
from admin.row_fault import OF_PARAMETER, RowFault
from cloudapi.template import parameter_fault

PROBLEMS_TOLD_MAX = 1_000
COLUMNS_TOLD_MAX = 50

# By likelihood; names of one tier exclude each other, an earlier tier wins. Compared without case, spaces, `_` and `-`.
PHONE_COLUMNS = (
    frozenset(
        {
            "phone",
            "phonenumber",
            "telephone",
            "telephonenumber",
            "mobile",
            "mobilenumber",
            "cellphone",
            "msisdn",
        }
    ),
    frozenset({"waid", "whatsapp", "whatsappnumber", "tel", "cell"}),
    frozenset({"to", "number", "recipient"}),
    frozenset({"address"}),  # as our own export names it
)


class Recipient(Struct, frozen=True, kw_only=True):
    """One row that can be sent to; `params` in the template's order."""

    line: int
    address: str
    params: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Recipient(line={self.line})"


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row that was refused: the line where it starts, why, and the column to blame."""

    line: int
    reason: RowFault
    column: str | None = None
    lines_count: int = 1


class AudienceFile:
    """Push the file in, take recipients out."""

    def __init__(
        self,
        parameters: Sequence[str],
        *,
        phone_column: str | None = None,
        region: str | None = None,
        encoding: str | None = None,
    ) -> None:
        """`parameters` names the template's columns. Raises `FileRefused` for an unknown region or encoding."""
        if region is not None and region not in REGIONS:
            raise FileRefused("unknown_region", "the region must be two capital letters, like GB")
        self._text = CsvText(encoding)
        self._parameters = tuple(parameters)
        self._phone_name = phone_column
        self._region = region
        self._columns: list[str] = []
        self._phone = -1
        self._picked: tuple[int, ...] = ()
        self.recipients_count = 0
        self.blank_count = 0
        self.rejected: Counter[RowFault] = Counter()
        self.problems: list[Problem] = []
        """The first thousand."""

    @property
    def encoding(self) -> str | None:
        """What it was decoded as; None until that is decided."""
        return self._text.encoding

    @property
    def delimiter(self) -> str | None:
        """What stands between fields; None until the header was seen."""
        return self._text.delimiter

    def feed(self, piece: bytes) -> list[Recipient]:
        """Return the recipients that `piece` completes. Raises `FileRefused`: then none of the file counts."""
        return list(self._taken(self._text.feed(piece)))

    def finish(self) -> list[Recipient]:
        """Return the last recipients. Raises `FileRefused` also for a file without any row."""
        last = list(self._taken(self._text.finish()))
        if not self._columns:
            raise FileRefused("no_rows", "the file has no rows")
        if not self.recipients_count and not self.rejected:
            raise FileRefused("no_recipients", "the file has a header and no recipients")
        return last

    def _taken(self, records: Iterable[Record | Broken]) -> Iterator[Recipient]:
        for record in records:
            if isinstance(record, Broken):
                self._take_broken(record)
            elif not self._columns:
                self._take_header(record)
            elif (recipient := self._recipient(record)) is not None:
                self.recipients_count += 1
                yield recipient

    def _take_broken(self, record: Broken) -> None:
        if not self._columns:
            raise FileRefused("no_header", f"the header (line {record.line}) can't be read: {record.fault}")
        self._reject(record.line, record.fault, lines_count=record.lines_count)

    def _reject(self, line: int, fault: RowFault, column: str | None = None, *, lines_count: int = 1) -> None:
        self.rejected[fault] += 1
        if len(self.problems) < PROBLEMS_TOLD_MAX:
            self.problems.append(Problem(line=line, reason=fault, column=column, lines_count=lines_count))

    def _recipient(self, record: Record) -> Recipient | None:
        line, cells = record
        surplus = len(cells) - len(self._columns)
        if surplus or not cells[self._phone].strip():
            if not any(cell.strip() for cell in cells):
                self.blank_count += 1
                return None
            if surplus < 0 or any(cell.strip() for cell in cells[len(self._columns) :]):
                self._reject(line, RowFault.WRONG_FIELD_COUNT)
                return None
        address = address_of(cells[self._phone], self._region)
        if isinstance(address, RowFault):
            self._reject(line, address, self._columns[self._phone])
            return None
        params = tuple([cells[at].strip() for at in self._picked])
        for at, value in zip(self._picked, params, strict=True):
            if (fault := _fault_of(value)) is not None:
                self._reject(line, fault, self._columns[at])
                return None
        return Recipient(line=line, address=address, params=params)

    def _take_header(self, record: Record) -> None:
        names = [cell.strip() for cell in record.cells]
        if not any(names):
            self.blank_count += 1
            return
        if not all(isinstance(address_of(name, self._region), RowFault) for name in names):
            raise FileRefused(
                "no_header", f"line {record.line} must name the columns: it holds a phone number"
            )
        self._phone = self._phone_among(names)
        self._picked = tuple(_place(names, name, "the template needs") for name in self._parameters)
        self._columns = names

    def _phone_among(self, names: Sequence[str]) -> int:
        if self._phone_name is not None:
            return _place(names, self._phone_name, "the phone number was said to be in")
        bare = [name.casefold().translate(_NO_GAPS) for name in names]
        for tier in PHONE_COLUMNS:
            places = [at for at, name in enumerate(bare) if name in tier]
            if len(places) > 1:
                raise FileRefused(
                    "ambiguous_phone_column",
                    f"several columns may hold the phone number ({_listed([names[at] for at in places])}):"
                    " say which (phone_column)",
                )
            if places:
                return places[0]
        raise FileRefused(
            "no_phone_column",
            f"no column is named phone, mobile, msisdn, wa_id or alike: say which it is (phone_column);"
            f" the file has {_listed(names)}",
        )


_NO_GAPS = str.maketrans("", "", " _-")


def _place(names: Sequence[str], wanted: str, why: str) -> int:
    """Return where a column stands, by its exact name, else by one that differs in case alone."""
    for form in (str, str.casefold):
        places = [at for at, name in enumerate(names) if form(name) == form(wanted.strip())]
        if len(places) > 1:
            raise FileRefused("ambiguous_column", f"{why} the column {wanted!r}, and the file has it twice")
        if places:
            return places[0]
    raise FileRefused("missing_column", f"{why} a column {wanted!r}; the file has {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    told = ", ".join(repr(name[:60]) for name in names[:COLUMNS_TOLD_MAX])
    return told + (f" and {len(names) - COLUMNS_TOLD_MAX} more" if len(names) > COLUMNS_TOLD_MAX else "")


def _fault_of(value: str) -> RowFault | None:
    if value and len(value) <= 64 and value.isascii() and value.isprintable() and "    " not in value:
        return None  # what most values are, told without five searches
    fault = parameter_fault(value)
    return None if fault is None else OF_PARAMETER[fault]
