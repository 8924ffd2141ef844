"""Odd CSV files by content and answer: pyarrow and the device's code read the same records.

Answers are written by hand. `fast` says that pyarrow reads the file; where it cannot know that its
records are those of the device's code, that code reads the file, so that errors are the same too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from askance_client.errors import InvalidRecord
from askance_client.queries import Category, Field, Integer
from askance_simulation.populations import Population, sources
from askance_simulation.populations.tables import TextColumns

LONG = "x" * 131_072
MISSING = "(missing)"


@dataclass(frozen=True)
class Odd:
    """A file, its records or its error, and the fields that are inferred of it.

    Args:
      name: of the case.
      content: the file's bytes.
      rows: the header's cells, and those of every record.
      error: text that the one line of the error has after the file's name; empty: none.
      fast: pyarrow reads it.
      fields: fields of the inferred schema; None: not looked at.
      notes: texts of the population's notes.
    """

    name: str
    content: bytes | str
    rows: tuple[str, ...] = ()
    error: str = ""
    fast: bool = True
    delimiter: str = ","
    fields: Mapping[str, Field] | None = None
    notes: tuple[str, ...] = field(default=())


def fails(name: str, content: bytes | str, error: str, delimiter: str = ",") -> Odd:
    return Odd(name, content, error=error, fast=False, delimiter=delimiter)


def slow(name: str, content: bytes | str, *rows: str) -> Odd:
    return Odd(name, content, rows, fast=False)


def plain(name: str, content: bytes | str, *rows: str) -> Odd:
    return Odd(name, content, rows)


NAME_ALL = "name each column, and delete lines above the names, such as a title"

# A record is written with "|" between its cells.
FILES = (
    plain("plain", "a,b\n1,2\n3,4\n", "a|b", "1|2", "3|4"),
    plain("no line end at the end", "a,b\n1,2", "a|b", "1|2"),
    plain("one column", "a\n1\n2\n", "a", "1", "2"),
    plain("BOM", "\ufeffa,b\n1,2\n", "a|b", "1|2"),
    plain("BOM and quotes", '\ufeff"a",b\n"1",2\n', "a|b", "1|2"),
    slow("BOM at a record", "a,b\n\ufeff1,2\n", "a|b", "\ufeff1|2"),
    plain("BOM at a later record", "a\n1\n\ufeff2\n", "a", "1", "\ufeff2"),
    plain("CRLF", "a,b\r\n1,2\r\n3,4\r\n", "a|b", "1|2", "3|4"),
    plain("CRLF and LF", "a,b\r\n1,2\n3,4\r\n", "a|b", "1|2", "3|4"),
    slow("CR alone", "a,b\r1,2\r3,4\r", "a|b", "1|2", "3|4"),
    slow("CR CR LF", "a,b\r\r\n1,2\r\r\n", "a|b", "1|2"),
    fails(
        "a letter after an earlier quote", 'a,b\n"1"x,"2"\n', "line 2: expected quotes that close"
    ),
    slow("a space before a later quote", 'a,b\n"1", "2"\n', "a|b", "1|2"),
    plain("empty lines", "a,b\n\n1,2\n\n\n3,4\n\n", "a|b", "1|2", "3|4"),
    plain("empty lines of one column", "a\n\n1\n\n2\n", "a", "1", "2"),
    plain("empty lines with CRLF", "a,b\r\n\r\n1,2\r\n", "a|b", "1|2"),
    plain("a quoted empty cell is no empty line", 'a\n""\n1\n', "a", "", "1"),
    plain("spaces in one column", "a\n   \n1\n", "a", "", "1"),
    plain("spaces around cells", "a , b\n 1 ,2 \n\t3, 4\n", "a|b", "1|2", "3|4"),
    plain("odd spaces", "a,b\n\u00a01\u2003,\x1c2\x85\n", "a|b", "1|2"),
    plain("lines of Unicode in a cell", "a,b\nx\u2028y,z\x0bw\n", "a|b", "x\u2028y|z\x0bw"),
    plain("quotes", 'a,b\n"1","x, y"\n', "a|b", "1|x, y"),
    plain("all quoted", '"a","b"\n"1","2"\n"","4"\n', "a|b", "1|2", "|4"),
    plain("doubled quotes", 'a,b\n"say ""hi""",2\n', "a|b", 'say "hi"|2'),
    plain("a quote alone", 'a,b\n"""",2\n', "a|b", '"|2'),
    plain("quotes at both ends", 'a,b\n"""x""",""""""\n', "a|b", '"x"|""'),
    plain("a line in quotes", 'a,b\n"1\n2",3\n', "a|b", "1\n2|3"),
    plain("CRLF in quotes", 'a,b\r\n"1\r\n2",3\r\n', "a|b", "1\r\n2|3"),
    plain("spaces in quotes", 'a,b\n"  1 ",2\n', "a|b", "1|2"),
    slow("a line in a quoted name", '"a\nb",c\n1,2\n', "a\nb|c", "1|2"),
    slow("space before a quote", 'a,b\n1, "x, y"\n', "a|b", "1|x, y"),
    slow("quote inside a cell", 'a,b\n5" pipe,2\n', "a|b", '5" pipe|2'),
    slow("NUL", b"a,b\n1\0,2\n", "a|b", "1\0|2"),
    slow("one row in CR of a quoted cell", 'a,b\n"1\r2",3\n', "a|b", "1\r2|3"),
    plain("UTF-8", "stra\u00dfe,b\n\u00e4,\u20ac\n", "stra\u00dfe|b", "\u00e4|\u20ac"),
    plain("a name of spaces", "a, \n1,2\n", "a|", "1|2"),
    plain("trailing commas", "a,b,\n1,2,\n", "a|b|", "1|2|"),
    plain("a longest cell", f"a,b\n{LONG},1\n", "a|b", f"{LONG}|1"),
    plain("leading zeros", "zip,n\n00501,1\n90210,2\n", "zip|n", "00501|1", "90210|2"),
    plain("huge integers", f"a,b\n{10**30},1\n", "a|b", f"{10**30}|1"),
    plain("digits are kept", "a,b\n0.10,1e400\n-0,+1.\n", "a|b", "0.10|1e400", "-0|+1."),
    Odd("semicolons", "a;b\n1,5;2\n", ("a|b", "1,5|2"), delimiter=";"),
    Odd("tabs", "a\tb\n1\t2, 3\n", ("a|b", "1|2, 3"), delimiter="\t"),
    Odd("vertical bars", "a|b\n1|2\n", ("a|b", "1|2"), delimiter="|"),
    Odd(
        "missing texts of a category",
        "c,n\nAS,1\nNA,2\nNaN,3\nnan,4\ninf,5\n-inf,6\n?,7\n,8\nEU,9\nNA,9\n",
        ("c|n", "AS|1", "NA|2", "NaN|3", "nan|4", "inf|5", "-inf|6", "?|7", "|8", "EU|9", "NA|9"),
        fields={"c": Category([MISSING, "AS", "EU"]), "n": Integer(1, 9)},
        notes=("2 values NA of c were read as missing", "1 value inf of c was read as missing"),
    ),
    Odd(
        "missing texts of a number",
        "n,m\n1,1\nNA,2\ninf,3\n-inf,4\nnan,5\n7,6\n",
        ("n|m", "1|1", "NA|2", "inf|3", "-inf|4", "nan|5", "7|6"),
        fields={"n": Integer(1, 7), "m": Integer(1, 6)},
        notes=("1 value inf of n was read as missing", "1 value NA of n was read as missing"),
    ),
    Odd(
        "other texts of infinity are labels",
        "n\n1\nInf\n-Infinity\n2\n",
        ("n", "1", "Inf", "-Infinity", "2"),
        fields={"n": Category(["-Infinity", "1", "2", "Inf"])},
    ),
    Odd(
        "numbers as they are written",
        "n,m\n007,1e2\n+5,2.50e1\n-0,.5e1\n",
        ("n|m", "007|1e2", "+5|2.50e1", "-0|.5e1"),
        fields={"n": Integer(0, 7), "m": Integer(5, 100)},
    ),
    fails("empty file", "", "expected a header line, got none"),
    fails("empty first line", "\na,b\n1,2\n", "expected a header line, got none"),
    fails("header only", "a,b\n", "expected at least one row, got none"),
    fails("header without a line end", "a,b", "expected at least one row, got none"),
    fails("duplicate headers", "a,b,a\n1,2,3\n", "expected distinct column names"),
    plain("names that would be one field", "a-b,a b\n1,2\n", "a-b|a b", "1|2"),
    fails("two empty names", ",,x\n1,2,3\n", f"got 2 columns without one: {NAME_ALL}"),
    fails("two names of spaces", 'x, ,""\n1,2,3\n', f"got 2 columns without one: {NAME_ALL}"),
    fails("a title in a cell", "Sales,,\na,b,c\n1,2,3\n", f"got 2 columns without one: {NAME_ALL}"),
    fails("a title alone", "Sales\na,b\n1,2\n", f"line 2: expected 1 cell, got 2: {NAME_ALL}"),
    fails(
        "a short title", "Sales,2023\na,b,c,d\n1,2,3,4\n", f"expected 2 cells, got 4: {NAME_ALL}"
    ),
    fails("decimal commas", "a,b\n1,5,2,5\n", f"got 4: {NAME_ALL}; or write quotes around a cell"),
    fails("a column of them", "a\n1,5\n2,5\n", f"got 2: {NAME_ALL}; or write quotes around a cell"),
    fails(
        "too long a title", "Sales\na,b,c\n1,2,3\n", f"got 3: {NAME_ALL}; 1 more row is malformed"
    ),
    fails("one decimal comma", "a,b\n1,5,2\n1,5,2\n", "got 3: write quotes around a cell"),
    fails("a decimal comma in one column", "a\n1,5\n2\n3\n", "got 2: write quotes around a cell"),
    fails("quoted numbers", '"22","5","22"\n"1","2","3"\n', "got '22' twice; the first line looks"),
    slow("an open quote in the names", '22,"22\nx"\n1,2\n', "22|22\nx", "1|2"),
    fails("a short row", "a,b\n1,2\n3\n", "line 3: expected 2 cells, got 1"),
    fails("a long row", "a,b\n1,2\n3,4,5\n", "line 3: expected 2 cells, got 3"),
    fails("a decimal comma", "a,b\n1,5,2\n", "line 2: expected 2 cells, got 3"),
    fails("a line of spaces", "a,b\n  \n1,2\n", "line 2: expected 2 cells, got 1"),
    fails("two ragged rows", "a,b\n1\n2\n", "line 2: expected 2 cells, got 1"),
    fails("ragged after a quoted line", 'a,b\n"1\n2",3\n4\n', "line 4: expected 2 cells, got 1"),
    fails("latin-1", "a,b\n\u00e4,2\n".encode("latin-1"), "line 2: expected UTF-8, got other"),
    fails("latin-1 in the header", "\u00e4,b\n1,2\n".encode("latin-1"), "got other bytes in the"),
    fails("half of a character", b"a,b\n\xc3,2\n", "line 2: expected UTF-8, got other bytes"),
    fails("a surrogate", b"a,b\n\xed\xa0\x80,2\n", "line 2: expected UTF-8, got other bytes"),
    fails("UTF-16", "a,b\n1,2\n".encode("utf-16"), "looks like UTF-16"),
    fails("an open quote", 'a,b\n"1,2\n3,4\n', "line 2: expected quotes that close at the end"),
    fails("text after a quote", 'a,b\n"1"x,2\n', "line 2: expected quotes that close at the end"),
    fails("space after a quote", 'a,b\n"1" ,2\n', "line 2: expected quotes that close at the end"),
    fails("a cell that is too long", f"a,b\n{LONG}x,1\n", "line 2: expected cells of at most"),
    Odd("semicolons read as commas", "a;b\n1;2\n", error="looks like semicolons"),
    fails("JSON", '[{"a": 1}]', "looks like JSON"),
    fails("gzip", b"\x1f\x8b\x08\0", "looks like gzip"),
)


@pytest.mark.parametrize("case", FILES, ids=lambda case: case.name)
def test_both_readers_give_the_same(
    case: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "people.csv"
    content = case.content
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert (sources._by_pyarrow(path, case.delimiter) is not None) == case.fast
    for installed in (True, False):
        if not installed:
            monkeypatch.setitem(sys.modules, "pyarrow", None)
        if case.error:
            with pytest.raises(InvalidRecord) as caught:
                sources.read_csv_columns(path, case.delimiter)
            message = str(caught.value)
            assert case.error in message
            assert message.startswith(f"{path}: ")
            assert "\n" not in message
        else:
            assert records(sources.read_csv_columns(path, case.delimiter)) == case.rows
        if case.fields is not None:
            people = Population.from_csv(path)
            assert people.schema.fields == case.fields
            for note in case.notes:
                assert any(found.startswith(note) for found in people.column_notes.every)


@pytest.mark.parametrize("bytes_at_once", range(12, 30))
def test_a_line_end_in_a_cell_may_lie_between_two_blocks(
    bytes_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "people.csv"
    path.write_bytes(b'a,b\r\nxyz,2\r\n"1\r\n2",3\r\n"4\r\n5",6\r\n')
    monkeypatch.setattr(sources, "_AT_ONCE", bytes_at_once)
    found = sources._by_pyarrow(path, ",")
    assert found is not None
    assert records(found) == ("a|b", "xyz|2", "1\r\n2|3", "4\r\n5|6")


def records(found: TextColumns) -> tuple[str, ...]:
    columns = [found.column(place) for place in range(len(found.written))]
    cells = ([column.cells[place] for place in column.places] for column in columns)
    rows = zip(*cells, strict=True)
    return ("|".join(found.written), *("|".join(map(str, row)) for row in rows))


def test_there_are_enough_odd_files() -> None:
    assert len({case.name for case in FILES}) == len(FILES) >= 49
