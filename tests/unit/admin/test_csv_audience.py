"""Audience files as people have them: every row is a recipient, rejected with its line, or blank."""

import codecs
import gzip
import random
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admin.csv_audience import PROBLEMS_TOLD_MAX, AudienceFile, Recipient
from admin.csv_text import LINE_CHARS_MAX, FileRefused
from admin.row_fault import RowFault

ANA = "+447700900001"


def taken(
    content: bytes, parameters: tuple[str, ...] = ("name",), *, piece_bytes: int = 1 << 20, **asked: str
) -> tuple[AudienceFile, list[Recipient]]:
    file = AudienceFile(parameters, **asked)
    found: list[Recipient] = []
    for start in range(0, len(content), piece_bytes):
        found += file.feed(content[start : start + piece_bytes])
    found += file.finish()
    return file, found


def problems_of(file: AudienceFile) -> list[tuple[int, RowFault, str | None]]:
    return [(problem.line, problem.reason, problem.column) for problem in file.problems]


def refusal_of(content: bytes, parameters: tuple[str, ...] = ("name",), **asked: str) -> FileRefused:
    with pytest.raises(FileRefused) as refused:
        taken(content, parameters, **asked)
    return refused.value


def test_a_plain_file_gives_its_rows_with_their_lines() -> None:
    file, found = taken(b"phone,name\n+447700900001,Ana\n+447700900002,Ben\n")
    assert [(r.line, r.address, r.params) for r in found] == [
        (2, "+447700900001", ("Ana",)),
        (3, "+447700900002", ("Ben",)),
    ]
    assert (file.encoding, file.delimiter, file.problems) == ("utf-8", ",", [])


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 1 << 20])
def test_it_does_not_matter_how_the_file_is_cut(piece_bytes: int) -> None:
    content = 'phone;name\r\n+447700900001;"Silva;\r\nAna"\r\n\r\n+447700900002;José שלום 😀'.encode()
    _, found = taken(content, ("phone",), piece_bytes=piece_bytes)
    assert [(r.line, r.address) for r in found] == [(2, "+447700900001"), (5, "+447700900002")]


@pytest.mark.parametrize("cell", ["Ana", "0", "NULL", "None", "nan", "{{1}}", "שלום 😀", "Ana   Lee"])
def test_words_are_words(cell: str) -> None:
    _, found = taken(f"phone,name\n{ANA},{cell}\n".encode())
    assert found[0].params == (cell,)


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("", RowFault.EMPTY_PARAMETER),
        (" ", RowFault.EMPTY_PARAMETER),
        ('""', RowFault.EMPTY_PARAMETER),
        ("\u00a0\u00a0", RowFault.EMPTY_PARAMETER),
        ('"a\nb"', RowFault.PARAMETER_NEWLINE),
        ('"a\r\nb"', RowFault.PARAMETER_NEWLINE),
        ("a\u2028b", RowFault.PARAMETER_NEWLINE),
        ("a\tb", RowFault.PARAMETER_TAB),
        ("a     b", RowFault.PARAMETER_SPACES),
        ("a\u00a0\u00a0\u00a0\u00a0\u00a0b", RowFault.PARAMETER_SPACES),
        ("a\x07b", RowFault.PARAMETER_CONTROL),
        ("x" * 1025, RowFault.TOO_LONG),
    ],
)
def test_what_meta_refuses_is_refused_with_line_and_column(cell: str, fault: RowFault) -> None:
    file, found = taken(f"phone,name\n{ANA},{cell}\n+447700900002,Ben\n".encode())
    assert [r.address for r in found] == ["+447700900002"]
    assert problems_of(file) == [(2, fault, "name")]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfphone,name\r\n+447700900001,Ana\r\n",
        b'\xef\xbb\xbf"phone",name\r\n+447700900001,\xef\xbb\xbfAna\r\n',
        codecs.BOM_UTF16_LE + "phone,name\r\n+447700900001,Ana\r\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "phone,name\r\n+447700900001,Ana".encode("utf-16-be"),
        b"phone;name\n+447700900001;Ana\n",
        b"phone\tname\n+447700900001\tAna\n",
        b"phone|name\r+447700900001|Ana\r",
        b"sep=;\nphone;name\n447700900001;Ana\n",
        b"\n ,\n" + b"PHONE,Name\n\n+447700900001,Ana" + b"\n,,,\n" * 50 + b"\n \xc2\xa0,\n",
        b'phone,name\n"""+447700900001""",Ana\n',
        b'phone,name\n="447700900001",Ana\n',
    ],
)
def test_files_of_all_kinds_of_spreadsheets_are_read(content: bytes) -> None:
    for piece_bytes in (1, 1 << 20):
        file, found = taken(content, piece_bytes=piece_bytes)
        assert [(r.address, r.params) for r in found] == [(ANA, ("Ana",))]
        assert not file.problems


def test_a_delimiter_within_values_splits_nothing() -> None:
    _, found = taken('phone;name;city\n447700900001;"Silva; Ana";São Paulo, SP\n'.encode(), ("name", "city"))
    assert found[0].params == ("Silva; Ana", "São Paulo, SP")
    _, found = taken(b"phone,name\n447700900001,a;b\n")
    assert found[0].params == ("a;b",)
    _, found = taken(b"phone\n447700900001\n", ())
    assert len(found) == 1


def test_a_broken_byte_costs_its_row_alone() -> None:
    rows = [b"+4477009%05d,Jos\xc3\xa9" % n for n in range(6000)]
    rows[5000] = b"+447700900999,Jos\xe9"
    file, found = taken(b"phone,name\n" + b"\n".join(rows))
    assert len(found) == 5999
    assert problems_of(file) == [(5002, RowFault.UNDECODABLE, None)]


def test_a_file_in_another_encoding_is_refused_by_name_until_the_operator_confirms() -> None:
    content = "phone,name\n447700900001,José\n".encode("cp1252")
    refused = refusal_of(content)
    assert refused.code == "encoding_unclear"
    assert "line 2" in str(refused)
    assert "cp125" in str(refused)
    _, found = taken(content, encoding="cp1252")
    assert found[0].params == ("José",)
    assert refusal_of(content, encoding="rot13").code == "unknown_encoding"


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04" + bytes(100),
        gzip.compress(b"phone,name\n447700900001,Ana\n", mtime=0),
        "phone,name\n447700900001,Ana\n".encode("utf-16-le"),
        random.Random(1).randbytes(1_000_000),
    ],
)
def test_what_is_no_csv_is_refused_and_says_so(content: bytes) -> None:
    assert refusal_of(content).code in {"not_csv", "encoding_unclear"}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "no_rows"),
        (b"\xef\xbb\xbf", "no_rows"),
        (b"\n\n , \n", "no_rows"),
        (b"phone,name\n", "no_recipients"),
        (b"phone,name\n\n,,\n", "no_recipients"),
        (b"phone,city\n447700900001,Lima\n", "missing_column"),
        (b"phone,name,name\n447700900001,a,b\n", "ambiguous_column"),
        (b"phone,mobile,name\n447700900001,447700900001,Ana\n", "ambiguous_phone_column"),
        (b"who,name\n447700900001,Ana\n", "no_phone_column"),
        (b"447700900001,Ana\n", "no_header"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused_as_a_whole(content: bytes, code: str) -> None:
    assert refusal_of(content).code == code


def test_a_missing_column_is_named_beside_those_there_are() -> None:
    refused = refusal_of(b"phone,city\n447700900001,Lima\n")
    assert "'name'" in str(refused)
    assert "'phone', 'city'" in str(refused)
    assert ANA[1:] not in str(refusal_of(b"447700900001,Ana\n"))


def test_the_phone_column_can_be_said() -> None:
    _, found = taken(b"who,name\n447700900001,Ana\n", phone_column="WHO")
    assert found[0].address == ANA
    assert refusal_of(b"phone,name\n1,2\n", phone_column="who").code == "missing_column"
    assert refusal_of(b"phone,name\n1,2\n", region="Britain").code == "unknown_region"


def test_rows_with_other_field_counts_are_rejected() -> None:
    file, found = taken(b"phone,name\n447700900001\n447700900002,Ben,x\n447700900003,Cyd,\n")
    assert [r.line for r in found] == [4]
    assert problems_of(file) == [
        (2, RowFault.WRONG_FIELD_COUNT, None),
        (3, RowFault.WRONG_FIELD_COUNT, None),
    ]


def test_an_overlong_line_costs_itself_alone_and_is_not_held() -> None:
    content = b"phone,name\n447700900001," + b"x" * (LINE_CHARS_MAX * 3) + b"\n447700900002,Ben\n"
    for piece_bytes in (10_000, 1 << 20):
        file, found = taken(content, piece_bytes=piece_bytes)
        assert [r.line for r in found] == [3]
        assert problems_of(file) == [(2, RowFault.TOO_LONG, None)]


@pytest.mark.parametrize("start", [b"447700900001,", b'447700900001,"a'])
def test_a_line_without_end_is_not_kept_in_memory(start: bytes) -> None:
    file = AudienceFile(("name",))
    file.feed(b"phone,name\n" + b"447700900002,Ben\n" * 5_000 + start)
    tracemalloc.start()
    for _ in range(100):
        file.feed(b"x" * 50_000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000


def test_an_open_quote_does_not_swallow_the_rest_of_the_file() -> None:
    rows = b"".join(b"+4477009%05d,Ben\n" % n for n in range(500))
    file, found = taken(b'phone,name\n+447700900999,"Ana\n' + rows)
    assert len(found) == 400
    assert [(p.line, p.reason, p.lines_count) for p in file.problems] == [(2, RowFault.UNCLOSED_QUOTE, 101)]
    file, found = taken(b'phone,name\n+447700900001,Ana\n+447700900999,"Ben')
    assert [r.line for r in found] == [2]
    assert problems_of(file) == [(3, RowFault.UNCLOSED_QUOTE, None)]


def test_an_inch_sign_is_no_quote() -> None:
    _, found = taken(b'phone,name\n447700900001,5" pipe\n447700900002,Ben\n')
    assert [r.params for r in found] == [('5" pipe',), ("Ben",)]


def test_only_the_first_thousand_problems_are_told_and_all_are_counted() -> None:
    file, _ = taken(b"phone,name\n" + b"x,Ana\n" * 2500)
    assert len(file.problems) == PROBLEMS_TOLD_MAX
    assert file.rejected == {RowFault.BAD_PHONE: 2500}


FRAGMENTS = st.sampled_from(
    [
        b"phone,name\n",
        b"+447700900001",
        b",",
        b"Ana",
        b'"',
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"\xff",
        b"\xc3\xa9",
        b";",
    ]
)


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=400), st.lists(FRAGMENTS, max_size=60).map(b"".join)), st.integers(1, 50))
def test_no_bytes_raise_anything_but_a_refusal(content: bytes, piece_bytes: int) -> None:
    with suppress(FileRefused):
        taken(content, piece_bytes=piece_bytes)


ROWS = st.sampled_from(
    [
        b"+447700900001,Ana",
        b"x,Ana",
        b"",
        b" , ",
        b"+447700900002",
        b"+447700900003,\xff",
        b"+447700900004,",
        b"a,b,c",
    ]
)


@given(st.lists(ROWS, max_size=40), st.integers(1, 50))
def test_every_line_is_a_recipient_rejected_or_blank(rows: list[bytes], piece_bytes: int) -> None:
    content = b"phone,name\n+447700900009,\xc3\xa9\xc3\xa9\xc3\xa9\n" + b"\n".join(
        [*rows, b"+447700900008,Eve"]
    )
    file, found = taken(content, piece_bytes=piece_bytes, encoding="utf-8")
    assert len(found) == file.recipients_count
    assert len(found) + file.rejected.total() + file.blank_count == len(rows) + 2
    assert len({r.line for r in found}) == len(found)
