"""People's records from files: one reading for devices and simulations, one clear error else."""

from __future__ import annotations

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.queries import encode_columns
from askance_client.errors import InvalidRecord
from askance_client.queries import Bit, Bits, Category, EncodedRecord, Integer, Label, Real, Schema
from askance_client.records import NOTHING, Table, read_csv
from askance_client.records.tables import (
    MAX_CELL_CHARACTERS,
    MAX_DIGITS,
    field_names,
    read_json,
)

SCHEMA = Schema(
    "people",
    1,
    age=Integer(17, 90),
    height=Real("0.5", "2.5", 10),
    work=Category((NOTHING, "none", "office")),
    smokes=Bit(),
    answers=Bits(3),
    income=Label(("<=50K", ">50K")),
)
TEXTS = (
    "", "?", "NA", "nan", "17", "400", "-3", "1.25", "1e3", "none", "office", "x", "0", "1", "011",
    "0111", "<=50K", ">50K", "1/3", "true", "1e999", "1_0", "é",
)  # fmt: skip
CELLS = st.sampled_from(TEXTS)


def same(one: EncodedRecord, other: EncodedRecord) -> bool:
    return (dict(one.values), dict(one.present)) == (dict(other.values), dict(other.present))


def records(table: Table, schema: Schema = SCHEMA) -> list[EncodedRecord]:
    encode = table.encoder(schema)
    return [encode(row) for row in range(len(table.rows))]


def read_file(path: Path) -> Table:
    return read_json(path) if path.suffix == ".json" else read_csv(path)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@settings(deadline=None)
@given(st.lists(st.tuples(*[CELLS] * len(SCHEMA.fields)), min_size=1, max_size=20))
def test_a_device_has_the_record_that_a_simulation_has(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]]
) -> None:
    path = tmp_path_factory.mktemp("people") / "people.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([tuple(SCHEMA.fields), *rows])
    table = read_csv(path)
    columns = encode_columns(
        SCHEMA, {name: table.column(name, kind) for name, kind in SCHEMA.fields.items()}
    )
    for row, record in enumerate(records(table)):
        assert same(record, columns.record(row))


def test_missing_is_a_label_where_the_schema_has_one_and_not_present_elsewhere(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "p.csv", "age,height,work,smokes,answers,income\n?,NA,,nan,?,\n")
    (record,) = records(read_file(path))
    assert record.values["work"] == 0
    assert {name for name, there in record.present.items() if there} == {"work"}


def test_json_and_csv_give_the_same_records(tmp_path: Path) -> None:
    people = [
        {"age": 30, "height": 1.7, "work": " office", "smokes": True, "answers": [0, 1, 1]},
        {"age": None, "height": "1.7", "smokes": 0, "answers": "010", "income": ">50K", "x": {}},
    ]
    text = "age,height,work,smokes,answers,income\n30,1.7,office,1,011,\n,1.7,,0,010,>50K\n"
    from_json = records(read_file(written(tmp_path / "p.json", json.dumps(people))))
    from_csv = records(read_file(written(tmp_path / "p.csv", text)))
    assert all(same(one, other) for one, other in zip(from_json, from_csv, strict=True))


@pytest.mark.parametrize(
    ("text", "length", "digest", "kept"),
    [
        ("Oslo", "011100", "01000011000101010010110011", "Oslo"),  # SHA-256 43152cc9...
        ("Ł" * 20, "000000", "10011011101110001110010101", "Ł" * 16),  # 9bb8e577...
    ],
)
def test_a_text_is_its_length_a_hash_and_its_first_bytes(
    text: str, length: str, digest: str, kept: str
) -> None:
    """The length is 32 less the bytes; 26 bits are of the hash of the whole text."""
    letters = "".join(f"{byte:08b}" for byte in kept.encode())
    bits = (length + digest + letters).ljust(288, "0")
    schema = Schema("s", 1, town=Bits(288))
    table = Table("t", ("town",), ("town",), [(text,), (bits,), (None,)])
    written_text, written_bits, nothing = records(table, schema)
    assert same(written_text, schema.encode({"town": bits}))
    assert same(written_bits, written_text)
    assert not nothing.present["town"]


@pytest.mark.parametrize(("cell", "text"), [(501, "501"), (True, "True"), (False, "False")])
def test_a_whole_number_or_truth_value_of_json_is_the_text_of_a_csv_file(
    cell: object, text: str
) -> None:
    schema = Schema("s", 1, town=Bits(288))
    one, other = records(Table("t", ("town",), ("town",), [(cell,), (text,)]), schema)
    assert one.present["town"]
    assert same(one, other)


def test_one_object_is_one_person(tmp_path: Path) -> None:
    table = read_json(written(tmp_path / "p.json", '{"age": 20}'))
    assert len(table.rows) == 1


def test_a_number_in_json_is_exactly_as_written(tmp_path: Path) -> None:
    """The number is above half a step of the grid; the float nearest to it is not."""
    schema = Schema("s", 1, x=Real("0", "1", 40))
    number = "4.547473508864641189575195312501e-13"
    (record,) = records(read_json(written(tmp_path / "p", f'{{"x": {number}}}')), schema)
    assert record.values["x"] == 1
    assert schema.encode({"x": 4.547473508864641189575195312501e-13}).values["x"] == 0


def test_a_number_of_a_billion_digits_is_not_written_out(tmp_path: Path) -> None:
    schema = Schema("s", 1, x=Real("0", "1"))
    (record,) = records(read_json(written(tmp_path / "p", '{"x": 1e999999999}')), schema)
    assert record.values["x"] == 1 << 16


def test_a_column_is_found_as_written_and_as_a_field(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path / "p.csv", "hours-per-week,1st\n1,2\n"))
    assert table.names == ("hours_per_week", "_1st")
    assert table.column_index("hours-per-week") == table.column_index("hours_per_week") == 0


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (("größe", "größe (cm)"), ("gr__e", "gr__e__cm_")),
        (("0", "1"), ("_0", "_1")),
        (("a_b", "a b"), ("a_b", "a_b_c8687a08")),
        (("a b", "a_b"), ("a_b_c8687a08", "a_b")),
        (("年龄", "性别"), ("___9ee831fc", "___a752a7d8")),
        (("x" * 70 + "1", "x" * 70 + "2"), ("x" * 55 + "_5d023c85", "x" * 55 + "_4b2c4f3b")),
    ],
)
def test_columns_that_would_be_one_field_get_a_digest_of_their_own_names(
    header: tuple[str, ...], fields: tuple[str, ...]
) -> None:
    assert field_names("p.csv", header) == fields


@pytest.mark.parametrize(
    ("cell", "bit"), [("yes", 1), ("No", 0), ("TRUE", 1), ("n", 0), ("1", 1), ("maybe", None)]
)
def test_yes_and_no_are_bits(tmp_path: Path, cell: str, bit: int | None) -> None:
    table = read_csv(written(tmp_path / "p.csv", f"smokes\n{cell}\n"))
    record = table.encoder(Schema("people", smokes=Bit()))(0)
    assert record.present["smokes"] == (bit is not None)
    assert record.values["smokes"] == (bit or 0)


BAD_CSV: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "expected a header line"),
    "nobody": ("a,b\n", "expected at least one row"),
    "one name twice": ("a,b,a\n1,2,3\n", "expected distinct column names, got 'a' twice"),
    "not text": (b"\xffa\n1\n", "expected a CSV file"),
    "a header without an end": ('"a,b\nsecret,2\n', "expected a CSV file"),
}
BAD_JSON: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "expected JSON, got other text at line 1"),
    "cut off": ('[{"a": 1},\n {"secret"', "at line 2"),
    "nobody": ("[]", "expected at least one row"),
    "values alone": ('["secret"]', "expected objects with keys, got none"),
    "an object without a key": ("{}", "expected objects with keys, got none"),
    "a stray comma": ('[{"a": "secret"}, {"a": 2,}]', "got other text at line 1"),
    "not text": (b"\xff", "expected JSON in UTF-8"),
    "too deep": ("[" * 100_000, "expected JSON"),
    "numbers alone": ("[" + "9" * 10_000 + "]", "expected objects with keys, got none"),
}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("p.csv", *BAD_CSV[key]) for key in sorted(BAD_CSV)]
    + [("p.json", *BAD_JSON[key]) for key in sorted(BAD_JSON)],
)
def test_a_bad_file_is_one_clear_error(
    tmp_path: Path, name: str, content: Any, message: str
) -> None:
    with pytest.raises(InvalidRecord, match=message) as caught:
        read_file(written(tmp_path / name, content))
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["p.csv", "p.json"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRecord, match="cannot be read: No such file"):
        read_file(tmp_path / name)


def test_a_field_without_a_column_is_named(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path / "p.csv", "age,work\n1,x\n"))
    with pytest.raises(InvalidRecord, match="expected a column 'height', got age, work"):
        table.encoder(SCHEMA)


LONG = "x" * (MAX_CELL_CHARACTERS + 1)
# A row between two others; what is warned of; whether its cells are assigned to columns.
MALFORMED_CSV: dict[str, tuple[str | bytes, str, bool]] = {
    "a stray comma": ("secret,2,3", "expected 2 cells, got 3", False),
    "a short row": ("secret", "expected 2 cells, got 1", False),
    "a long cell": (f"secret,{LONG}", "expected cells of at most 131072 characters", True),
    "a long cell in quotes": (f'secret,"{LONG}"', "expected cells of at most 131072", True),
    "bytes that are not UTF-8": (b"secret,\xff", "expected UTF-8, got other bytes", True),
    "text after a quote": ('"secret"x,2', "expected quotes that close", False),
    "a quote that never closes": ('secret,"2', "expected quotes that close", False),
}
MALFORMED_JSON: dict[str, tuple[str, str, bool]] = {
    "a long whole number": ('{"name": "secret", "x": ' + "9" * 5000 + "}", "640 digits", True),
    "a long decimal": ('{"name": "secret", "x": 0.' + "9" * 5000 + "}", "640 digits", True),
    "a long number in a list": ('{"name": "secret", "x": [' + "9" * 5000 + "]}", "digits", True),
    "a long text": ('{"name": "secret", "x": "' + LONG + '"}', "131072 characters", True),
    "no object": ('"secret"', "expected an object, got a str", False),
    "nothing": ("null", "expected an object, got a NoneType", False),
}
NAMED = Schema("named", 1, x=Integer(0, 9))


@pytest.mark.parametrize("case", MALFORMED_CSV)
def test_a_malformed_row_is_a_record_without_values_and_the_others_stand(
    tmp_path: Path, case: str
) -> None:
    row, problem, assigned = MALFORMED_CSV[case]
    line = row if isinstance(row, bytes) else row.encode()
    table = read_csv(written(tmp_path / "p.csv", b"name,x\na,1\n\n" + line + b"\nb,3\n"))
    check_the_middle_row_alone_is_malformed(table, f"line 4: {problem}", assigned)


@pytest.mark.parametrize("case", MALFORMED_JSON)
def test_a_malformed_item_is_a_record_without_values_and_the_others_stand(
    tmp_path: Path, case: str
) -> None:
    item, problem, assigned = MALFORMED_JSON[case]
    text = f'[{{"name": "a", "x": 1}}, {item}, {{"name": "b", "x": 3}}]'
    table = read_json(written(tmp_path / "p.json", text))
    check_the_middle_row_alone_is_malformed(table, "item 2: expected", assigned)
    assert problem in table.malformed[1]


def check_the_middle_row_alone_is_malformed(table: Table, problem: str, assigned: bool) -> None:
    assert list(table.malformed) == [1]
    assert table.malformed[1].startswith(problem)
    assert "secret" not in table.malformed[1]
    found = records(table, NAMED)
    assert [(one.values["x"], one.present["x"]) for one in found] == [
        (1, True),
        (0, False),
        (3, True),
    ]
    columns = encode_columns(NAMED, {"x": table.column("x", NAMED.fields["x"])})
    assert all(same(record, columns.record(row)) for row, record in enumerate(found))
    assert (table.rows[1][table.column_index("name")] == "secret") is assigned
    assert table.unfit(NAMED) == {}
    with pytest.raises(InvalidRecord, match=r"p.(csv|json): (line|item)"):
        table.checked()


def test_the_longest_cells_and_numbers_are_read(tmp_path: Path) -> None:
    cell = "x" * MAX_CELL_CHARACTERS
    assert read_csv(written(tmp_path / "p.csv", f'a,b\n{cell},"{cell}"\n')).malformed == {}
    number = "9" * MAX_DIGITS
    text = f'{{"a": {number}, "b": "{cell}", "c": 0.{"9" * 126}}}'
    assert read_json(written(tmp_path / "p.json", text)).malformed == {}
    for longer in (f'{{"a": {number}9}}', f'{{"a": "{cell}x"}}', f'{{"a": 0.{"9" * 127}}}'):
        assert list(read_json(written(tmp_path / "p.json", longer)).malformed) == [0]
    (row,) = read_csv(written(tmp_path / "p.csv", f"a\n{cell}x\n")).malformed
    assert row == 0


def test_a_quote_that_does_not_close_swallows_no_row_after_it(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path / "p.csv", 'a,b\n1,"2\n3,4\n5,"6\n7,"8\n9"\n'))
    assert list(table.malformed) == [0, 2]
    assert [list(row) for row in table.rows[1::2]] == [["3", "4"], ["7", "8\n9"]]
    assert table.numbered == 1, "rows after the quote may be parts of one"


@pytest.mark.parametrize("row", ['"a"x,1', "a,1,1", "a"])
def test_a_row_whose_end_is_certain_leaves_the_numbers_of_others(tmp_path: Path, row: str) -> None:
    table = read_csv(written(tmp_path / "p.csv", f"a,b\n{row}\n1,2\n"))
    assert (list(table.malformed), table.numbered) == ([0], None)


def test_the_process_keeps_its_limit_of_cells(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    read_csv(written(tmp_path / "p.csv", f"a,b\n{LONG},1\n"))
    assert csv.field_size_limit() == before


def test_files_that_are_read_at_the_same_time_leave_the_process_its_limit(tmp_path: Path) -> None:
    """A reader that sets the limit back must not do it while another one reads a long cell."""
    file, before = tmp_path / "people.csv", csv.field_size_limit()
    file.write_text(f"smokes,note\n1,short\n1,{LONG}\n" * 20)
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: read_csv(file), range(12)))
    assert csv.field_size_limit() == before
    assert all(table.malformed == tables[0].malformed for table in tables)
    assert "expected quotes" not in str(tables[0].malformed)


@settings(deadline=None)
@given(st.lists(st.text(alphabet='a1,"\n \r', max_size=12), max_size=8))
def test_no_content_of_rows_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    """Rows of any text are rows or malformed rows."""
    path = tmp_path_factory.mktemp("rows") / "p.csv"
    table = read_csv(written(path, "\n".join(["a,b", *lines, "7,8", ""])))
    assert all(len(row) == 2 for row in table.rows)
    assert set(table.malformed) <= set(range(len(table.rows)))
    records(table, Schema("any", 1, a=Integer(0, 9), b=Integer(0, 9)))
