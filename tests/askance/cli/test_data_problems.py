"""Data that cannot be used: one line that names the caller's value and says what helps.

The messages are whole, so that a reader of this file reads what a user reads. No message has a
record's value.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from askance.cli import main

USERS = 2_000
SCHEMA = 'name = "people"\nversion = 1\n\n[fields]\n'
CONVERT = (
    "convert it, from Windows-1252 for example by iconv -f WINDOWS-1252 -t UTF-8 FILE > new.csv"
)

PROBLEMS: dict[str, str] = {
    # names and files
    "frequency --data cenus": (
        "data: expected a file, or the name of a data set (census), got 'cenus'"
        " (did you mean census?)"
    ),
    "frequency --data none.csv": "none.csv: cannot be read: No such file or directory",
    "frequency --data folder.csv": "folder.csv: cannot be read: Is a directory",
    "frequency --data empty.csv": "empty.csv: expected a header line, got none",
    "frequency --data header.csv": "header.csv: expected at least one row, got none",
    "frequency --data census --population categories": (
        "argument --population: not allowed with argument --data (see askance simulate --help)"
    ),
    # formats and encodings
    "mean --data utf16.csv": (
        "utf16.csv: expected text in UTF-8, got a file that looks like UTF-16: convert it by"
        " iconv -f UTF-16 -t UTF-8 utf16.csv > new.csv"
    ),
    "mean --data utf16le.csv": (
        "utf16le.csv: expected text in UTF-8, got a file that looks like UTF-16: convert it by"
        " iconv -f UTF-16 -t UTF-8 utf16le.csv > new.csv"
    ),
    "mean --data latin1.csv": (
        f"latin1.csv: line 2: expected UTF-8, got other bytes: {CONVERT}; 999 more rows are"
        " malformed"
    ),
    "mean --data latin1head.csv": (
        f"latin1head.csv: expected text in UTF-8, got other bytes in the header line: {CONVERT}"
    ),
    "mean --data book.csv": (
        "book.csv: expected CSV, got a file that looks like a workbook or a zip archive: save its"
        " table as CSV in UTF-8"
    ),
    "mean --data packed.csv": (
        "packed.csv: expected CSV, got a file that looks like gzip: decompress it with gunzip"
    ),
    "mean --data people.json": (
        "people.json: expected CSV with a header line, got a file that looks like JSON: convert it"
        " to CSV"
    ),
    "mean --data base.csv": (
        "base.csv: expected CSV, got a file that looks like an SQLite database: export its table as"
        " CSV"
    ),
    "mean --data columns.csv": (
        "columns.csv: expected CSV, got a file that looks like Parquet: give it a name that ends in"
        " .parquet"
    ),
    "mean --data text.parquet": "text.parquet: expected a Parquet file, got another format",
    # cells and delimiters
    "mean --data semicolons.csv": (
        "semicolons.csv: expected commas between columns, got one column and 4 semicolons in the"
        " header line: looks like semicolons, try --delimiter ';'"
    ),
    "mean --data tabs.csv": (
        "tabs.csv: expected commas between columns, got one column and 4 tabs in the header line:"
        " looks like tabs, try --delimiter tab"
    ),
    "mean --data people.csv --delimiter ;": (
        "people.csv: expected semicolons between columns, got one column and 4 commas in the header"
        " line: looks like commas, try --delimiter ','"
    ),
    "mean --data people.csv --delimiter x": ("delimiter: expected one of , ; | or a tab, got 'x'"),
    "mean --users 9 --delimiter ;": "--delimiter: expected --data with it, got none",
    "mean --data unquoted.csv": (
        "unquoted.csv: line 2: expected 5 cells, got 6: write quotes around a cell that has ',' in"
        " it, as a decimal comma or a list has; 1,999 more rows are malformed"
    ),
    "mean --data quotes.csv": (
        "quotes.csv: line 2: expected quotes that close at the end of a cell, got others: inside a"
        " cell in quotes write each quote twice"
    ),
    "mean --data twice.csv": "twice.csv: expected distinct column names, got 'a' twice",
    "mean --data numbers.csv": (
        "numbers.csv: expected distinct column names, got '1' twice; the first line looks like"
        " values, and was read as the columns' names: write a line of names above it"
    ),
    # columns
    "mean --data nameless.csv --set column=age": (
        "mean: column: expected one of the fields '22', got 'age'; the first line of nameless.csv"
        " looks like values, and was read as the columns' names: write a line of names above it"
    ),
    "mean --data decimals.csv --delimiter ; --set column=income": (
        "mean: column: expected one of the fields age, got 'income'; in the file, income: numbers"
        " with decimal commas in 2,000 of 2,000 values, row 1 the first: write 2.5 for 2,5;"
        " 2,000 different texts, at most 1,024"
    ),
    "mean --data unknowns.csv --delimiter ; --set column=income": (
        "mean: column: expected one of the fields age, got 'income'; in the file, income: numbers"
        " with decimal commas in 1,800 of 2,000 values, row 2 the first: write 2.5 for 2,5;"
        " no number in 200 of 2,000 values, row 1 the first: leave a cell empty where there is"
        " none; 1,801 different texts, at most 1,024"
    ),
    "mean --data thousands.csv --set column=income": (
        "mean: column: expected one of the fields age, got 'income'; in the file, income: numbers"
        " with commas between thousands in 2,000 of 2,000 values, row 1 the first: write 1234 for"
        " 1,234; 2,000 different texts, at most 1,024"
    ),
    "mean --data odd.csv --set column=pay($)": (
        "mean: column: expected one of the fields age, got 'pay($)'; in the file, pay($): numbers"
        " with commas between thousands in 2,000 of 2,000 values, row 1 the first: write 1234 for"
        " 1,234; 2,000 different texts, at most 1,024"
    ),
    "mean --data units.csv --set column=income": (
        "mean: column: expected one of the fields age, got 'income'; in the file, income: numbers"
        " with a unit in 2,000 of 2,000 values, row 1 the first: write the number alone; 2,000"
        " different texts, at most 1,024"
    ),
    "mean --data kilograms.csv --set column=age": (
        "mean: column: expected a number or a bit, got 'age', a category (try income); in the file,"
        " age: numbers with a unit in 2,000 of 2,000 values, row 1 the first: write the number"
        " alone"
    ),
    "mean --data classes.csv --set column=age": (
        "mean: column: expected a number or a bit, got 'age', a category (try income); in the file,"
        " age: 4 different texts, no numbers"
    ),
    "mean --data spans.csv --set column=age": (
        "mean: column: expected a number or a bit, got 'age', a category (try income); in the file,"
        " age: 4 different texts, no numbers"
    ),
    "mean --data dashes.csv --set column=age": (
        "mean: column: expected a number or a bit, got 'age', a category (try income); in the file,"
        " age: 5 different texts, 1 of them no numbers, the first in row 1: leave a cell empty"
        " where there is none"
    ),
    "mean --data titled.csv --set column=age": (
        "titled.csv: line 2: expected 1 cell, got 5: name each column, and delete lines above the"
        " names, such as a title; 2,000 more rows are malformed"
    ),
    "mean --data cells.csv --set column=age": (
        "cells.csv: expected a name of each column in the first line, got 4 columns without one:"
        " name each column, and delete lines above the names, such as a title"
    ),
    "mean --data second.csv --set column=age": (
        "mean: column: expected a number or a bit, got 'age', a category, and no field is one; in"
        " the file, age: no number in 1 of 2,001 values, row 1 the first: leave a cell empty where"
        " there is none, and delete the row if it is a second line of names"
    ),
    "mean --data infinite.csv --set column=income": (
        "mean: column: expected one of the fields age, got 'income'; in the file, income: no number"
        " in 1 of 2,000 values, row 17 the first: leave a cell empty where there is none; 2,000"
        " different texts, at most 1,024"
    ),
    "mean --data unknown.csv --set column=age": (
        "mean: column: expected a number or a bit, got 'age', a category (try income); in the file,"
        " age: no number in 2 of 2,000 values, row 17 the first: leave a cell empty where there is"
        " none"
    ),
    "frequency --data people.csv --set column=mail": (
        "frequency: column: expected one of the fields school, got 'mail'; in the file, mail: 2,000"
        " different texts, at most 1,024"
    ),
    "frequency --data people.csv --set column=income": (
        "frequency: column: expected a category, got 'income', a whole number (try school); in the"
        " file, income: numbers; --categories makes them labels, or a schema (--schema FILE.toml)"
    ),
    "mean --data people.csv --set column=school": (
        "mean: column: expected a number or a bit, got 'school', a category (try age, income); in"
        " the file, school: 2 different texts, no numbers"
    ),
    "mean --data people.csv --set column=incom": (
        "mean: column: expected one of the fields age, income, got 'incom' (did you mean income?)"
    ),
    "frequency --data people.csv --label shool": (
        "label: expected one of the fields id, mail, age, school, income, got 'shool'"
        " (did you mean school?)"
    ),
    "mean --data texts.csv": (
        "mean: expected a field of the type bit or integer or real, got none; in the file, school:"
        " 2 different texts, no numbers; mail: nearly all of its values differ, as of an"
        " identifier; same: the same value in all rows; nothing: no value in any row"
    ),
    "mean --data unusable.csv": (
        "unusable.csv: expected a column of numbers, or of 2 to 1,024 different texts, got none:"
        " same: the same value in all rows; nothing: no value in any row; long: a text of more than"
        " 1,024 bytes in row 3; large: numbers that are too large: write them in a larger unit"
    ),
    # values and the schema
    "frequency --data people.csv --schema labels.toml": (
        "people.csv: school: expected one of HS-grad, Bachelors by the schema, got values outside"
        " it in 2,000 of 2,000 rows: correct the schema, or accept them by --most-outside 1"
    ),
    "mean --data people.csv --schema ages.toml": (
        "people.csv: age: expected numbers from 60 to 90 by the schema, got values outside it in"
        " 1,600 of 2,000 rows: correct the schema, or accept them by --most-outside 1"
    ),
    "mean --data people.csv --schema ages.toml --most-outside 0.79": (
        "people.csv: age: expected numbers from 60 to 90 by the schema, got values outside it in"
        " 1,600 of 2,000 rows: correct the schema, or accept them by --most-outside 1"
    ),
    "mean --data people.csv --most-outside 80": (
        "most_outside: expected a share from 0 to 1, got 80"
    ),
    "mean --data people.csv --most-outside most": (
        "--most-outside expects a finite number, got 'most'"
    ),
    "mean --data people.csv --schema shoes.toml": (
        "people.csv: expected a column 'shoe', got id, mail, age, school, income"
    ),
    # files of results
    "mean --data people.csv --set column=age --out there.jsonl": (
        "--out: expected a new file, got there.jsonl, which exists: give another name, or --force"
        " to replace it"
    ),
    "mean --data people.csv --set column=age --out no/rows.jsonl": (
        "expected a folder for no/rows.jsonl, got none at 'no'"
    ),
}


def _rows(written: Callable[[int, str, int, str, int], str]) -> str:
    people = (
        (
            user,
            f"u{user}@example.org",
            20 + user % 50,
            ("low", "high")[user % 2],
            10**6 + 7 * user**2,
        )
        for user in range(USERS)
    )
    return "".join(f"{written(*person)}\n" for person in people)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file for each problem."""
    path = tmp_path_factory.mktemp("data")
    head = "id,mail,age,school,income\n"
    plain = head + _rows(lambda i, m, a, s, x: f"{i},{m},{a},{s},{x}")
    accented = plain.replace("low", "\u00e9lev\u00e9")
    texts = {
        "people.csv": plain,
        "empty.csv": "",
        "header.csv": head,
        "people.json": '[{"age": 1},\n {"age": 2}]\n',
        "text.parquet": plain,
        "semicolons.csv": plain.replace(",", ";"),
        "tabs.csv": plain.replace(",", "\t"),
        "unquoted.csv": head + _rows(lambda i, m, a, s, x: f"{i},{m},{a},{s},{x // 10},5"),
        "quotes.csv": 'a,b\n"one "two" three",4\n5,6\n',
        "twice.csv": "a,b,a\n1,2,3\n",
        "numbers.csv": "1, 0,1\n0,1,1\n",
        "nameless.csv": _rows(lambda i, m, a, s, x: f"{a},{s}").removeprefix("20,low\n21,high\n"),
        "decimals.csv": head.replace(",", ";")
        + _rows(lambda i, m, a, s, x: f"{i};{m};{a};{s};{x},25"),
        "unknowns.csv": head.replace(",", ";")
        + _rows(lambda i, m, a, s, x: f"{i};{m};{a};{s};{f'{x},25' if i % 10 else 'k. A.'}"),
        "thousands.csv": head + _rows(lambda i, m, a, s, x: f'{i},{m},{a},{s},"{x:,}"'),
        "odd.csv": head.replace("income", "pay($)")
        + _rows(lambda i, m, a, s, x: f'{i},{m},{a},{s},"{x:,}"'),
        "units.csv": head + _rows(lambda i, m, a, s, x: f"{i},{m},{a},{s},{x} €"),
        "kilograms.csv": head + _rows(lambda i, m, a, s, x: f"{i},{m},{a} kg,{s},{x}"),
        "classes.csv": head
        + _rows(lambda i, m, a, s, x: f"{i},{m},{('1st', '2nd', '3rd', '4th')[i % 4]},{s},{x}"),
        "spans.csv": head
        + _rows(lambda i, m, a, s, x: f"{i},{m},{('12y', '16y', '13-15y', '14y')[i % 4]},{s},{x}"),
        "dashes.csv": head
        + _rows(lambda i, m, a, s, x: f"{i},{m},{('-', 1, 2, 3, 4)[i % 5]},{s},{x}"),
        "titled.csv": "People\n" + plain,
        "cells.csv": "People,,,,\n" + plain,
        "second.csv": head + ",,years,,\n" + _rows(lambda i, m, a, s, x: f"{i},{m},{a},{s},"),
        "infinite.csv": head
        + _rows(lambda i, m, a, s, x: f"{i},{m},{a},{s},{'infinity' if i == 16 else x}"),
        "unknown.csv": head
        + _rows(lambda i, m, a, s, x: f"{i},{m},{'n/a' if i in (16, 99) else a},{s},{x}"),
        "texts.csv": "school,mail,same,nothing\n" + _rows(lambda i, m, a, s, x: f"{s},{m},a,?"),
        "unusable.csv": "same,nothing,long,large\n"
        + "".join(f"a,,{'z' * 1025 if row == 2 else row % 2},{row}e30\n" for row in range(9)),
        "labels.toml": SCHEMA
        + 'school = { type = "category", labels = ["HS-grad", "Bachelors"] }\n',
        "ages.toml": SCHEMA + 'age = { type = "integer", low = 60, high = 90 }\n',
        "shoes.toml": SCHEMA + 'shoe = { type = "integer", low = 30, high = 50 }\n',
        "there.jsonl": "kept\n",
    }
    for name, text in texts.items():
        (path / name).write_text(text, encoding="utf-8")
    (path / "folder.csv").mkdir()
    (path / "utf16.csv").write_bytes(plain.encode("utf-16"))
    (path / "utf16le.csv").write_bytes(plain.encode("utf-16-le"))
    (path / "latin1.csv").write_bytes(accented.encode("latin-1"))
    (path / "latin1head.csv").write_bytes(plain.replace("school", "\u00e9cole").encode("latin-1"))
    (path / "book.csv").write_bytes(b"PK\x03\x04 and more")
    (path / "packed.csv").write_bytes(b"\x1f\x8b\x08 and more")
    (path / "columns.csv").write_bytes(b"PAR1 and more")
    base = sqlite3.connect(path / "base.csv")
    base.execute("create table people (age)")
    base.close()
    return path


@pytest.mark.parametrize("command", PROBLEMS)
def test_a_problem_of_the_data_is_one_line_that_says_what_helps(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert main(["simulate", *command.split(), "--epsilon", "1"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"askance: {PROBLEMS[command]}\n"
    assert sorted(folder.iterdir()) == before


def test_no_message_has_a_record_s_value(folder: Path) -> None:
    values = {f"u{user}@example.org" for user in range(USERS)}
    assert not any(value in message for message in PROBLEMS.values() for value in values)


def test_there_are_forty_of_them() -> None:
    assert len(PROBLEMS) >= 40


class TestUsable:
    """Files that were refused above are read once the caller has done what the message says."""

    def result(
        self, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> dict[str, object]:  # fmt: skip
        monkeypatch.chdir(folder)
        assert main(["simulate", *words.split(), "--epsilon", "1", "--json"]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    @pytest.mark.parametrize(
        "words",
        ["--data semicolons.csv --delimiter ;", "--data tabs.csv --delimiter tab"],
    )
    def test_a_delimiter_changes_no_answer(
        self, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        """The schema is named after the file, so two files differ in their transcripts."""
        learner = "mean --set column=age"
        plain = self.result(f"{learner} --data people.csv", folder, monkeypatch, capsys)
        other = self.result(f"{learner} {words}", folder, monkeypatch, capsys)
        assert other["truth"] == plain["truth"]
        assert other["notes"] == plain["notes"]

    def test_values_outside_the_schema_are_accepted_if_asked_for_and_warned_of(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = "mean --data people.csv --schema ages.toml --most-outside 0.8"
        found = self.result(words, folder, monkeypatch, capsys)
        warning = (
            "1,600 of 2,000 values of age are outside the schema (numbers from 60 to 90); they"
            " count as the nearest bound"
        )
        assert found["warnings"] == [warning]
        assert str(found["verdict"]).endswith(f" But {warning}.")
        monkeypatch.chdir(folder)
        assert main(["simulate", *words.split(), "--epsilon", "1", "--fleet", "columns"]) == 0
        assert f"But {warning}." in " ".join(capsys.readouterr().out.split())

    def test_a_column_that_is_of_texts_for_a_few_values_is_noted(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        note = (
            "the column age is of texts: no number in 2 of 2,000 values, row 17 the first: leave a"
            " cell empty where there is none"
        )
        for question, noted in (
            ("mean --set column=income", False),
            ("frequency --column age", True),
        ):
            words = f"{question} --data unknown.csv"
            found = self.result(words, folder, monkeypatch, capsys)
            assert (note in str(found["notes"])) == noted  # of the column that is asked about
            assert note in str(found["column_notes"])
