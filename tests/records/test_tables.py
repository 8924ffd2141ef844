"""People's records from files: one reading for devices and simulations, one clear error else."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.client.errors import InvalidRecord
from askance.client.queries import Bit, Bits, Category, EncodedRecord, Integer, Label, Real, Schema
from askance.client.records import NOTHING, Table, read_csv, read_json, read_table

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
    columns = SCHEMA.encode_columns(
        {name: table.column(name, kind) for name, kind in SCHEMA.fields.items()}
    )
    for row, record in enumerate(records(table)):
        assert same(record, columns.record(row))


def test_missing_is_a_label_where_the_schema_has_one_and_not_present_elsewhere(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "p.csv", "age,height,work,smokes,answers,income\n?,NA,,nan,?,\n")
    (record,) = records(read_table(path))
    assert record.values["work"] == 0
    assert {name for name, there in record.present.items() if there} == {"work"}


def test_json_and_csv_give_the_same_records(tmp_path: Path) -> None:
    people = [
        {"age": 30, "height": 1.7, "work": " office", "smokes": True, "answers": [0, 1, 1]},
        {"age": None, "height": "1.7", "smokes": 0, "answers": "010", "income": ">50K", "x": {}},
    ]
    text = "age,height,work,smokes,answers,income\n30,1.7,office,1,011,\n,1.7,,0,010,>50K\n"
    from_json = records(read_table(written(tmp_path / "p.json", json.dumps(people))))
    from_csv = records(read_table(written(tmp_path / "p.csv", text)))
    assert all(same(one, other) for one, other in zip(from_json, from_csv, strict=True))


def test_one_object_is_one_person(tmp_path: Path) -> None:
    table = read_json(written(tmp_path / "p.json", '{"age": 20}'))
    assert len(table.rows) == 1


def test_a_number_in_json_is_exactly_as_written(tmp_path: Path) -> None:
    """This one is above half a step of the grid; the float nearest to it is not."""
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
    assert table.place("hours-per-week") == table.place("hours_per_week") == 0


BAD_CSV: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "expected a header line"),
    "nobody": ("a,b\n", "expected at least one row"),
    "one name twice": ("a-b,a b\n1,2\n", "expected distinct column names"),
    "not text": (b"\xffa\n1\n", "expected a CSV file"),
    "a header without an end": ('"a,b\nsecret,2\n', "expected a CSV file"),
}
BAD_JSON: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "expected JSON, found something else at line 1"),
    "cut off": ('[{"a": 1},\n {"secret"', "at line 2"),
    "nobody": ("[]", "expected at least one row"),
    "values alone": ('["secret"]', "expected objects with keys, got none"),
    "an object without a key": ("{}", "expected objects with keys, got none"),
    "a stray comma": ('[{"a": "secret"}, {"a": 2,}]', "found something else at line 1"),
    "one field twice": ('{"a-b": 1, "a b": 2}', "expected distinct column names"),
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
        read_table(written(tmp_path / name, content))
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["p.csv", "p.json"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRecord, match="cannot be read: No such file"):
        read_table(tmp_path / name)


def test_a_field_without_a_column_is_named(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path / "p.csv", "age,work\n1,x\n"))
    with pytest.raises(InvalidRecord, match="expected a column 'height', found age, work"):
        table.encoder(SCHEMA)
