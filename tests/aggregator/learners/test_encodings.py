"""Fields as cells and numbers: by the schema alone, and the same for a device and for a column."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import Document, JsonObject
from askance_aggregator.learners.encodings import binned, cells, joint, numbers
from askance_aggregator.learners.rows import encoded, some_fields
from askance_aggregator.queries import category, encode_columns, evaluate_columns, real
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Integer,
    Label,
    Real,
    Schema,
)

SCHEMA = Schema(
    "people",
    3,
    age=Integer(17, 90),
    height=Real("0.5", "2.5", 10),
    smokes=Bit(),
    answers=Bits(3),
    colour=Category(["red", "green", "blue"]),
    income=Label(["low", "high"]),
)
COLUMNS: dict[str, Any] = {
    "age": [17, 40, 90, None],
    "height": [0.5, 1.5, 2.5, 1.0],
    "smokes": [0, 1, 1, 0],
    "answers": [[0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 0]],
    "colour": ["red", "blue", "green", "violet"],
    "income": ["low", "high", "high", "low"],
}
ROWS = encode_columns(SCHEMA, COLUMNS)


def test_a_field_s_cells_are_what_the_schema_says() -> None:
    named = {part.name: part.labels for name in SCHEMA.fields for part in cells(SCHEMA, name, 4)}
    assert named["age"] == ("17..35", "36..53", "54..72", "73..90")
    assert named["height"] == ("[0.5, 1)", "[1, 1.5)", "[1.5, 2)", "[2, 2.5]")
    assert named["smokes"] == named["answers[2]"] == ("0", "1")
    assert named["colour"] == ("red", "green", "blue")
    assert {part.field for part in cells(SCHEMA, "answers")} == {"answers"}


def test_a_row_is_in_one_cell_and_one_that_lacks_the_field_in_none() -> None:
    found = {p.name: p.of(ROWS).tolist() for name in SCHEMA.fields for p in cells(SCHEMA, name, 4)}
    assert found["age"] == [0, 1, 3, -1]
    assert found["height"] == [0, 2, 3, 1]
    assert found["answers[1]"] == [1, 1, 0, 0]
    assert found["colour"] == [0, 2, 1, -1]


@pytest.mark.parametrize("bins", [2, 3, 7, 73, 74, 500])
def test_bins_of_whole_numbers_hold_as_many_values_each_but_for_one(bins: int) -> None:
    (part,) = cells(SCHEMA, "age", bins)
    ages = encode_columns(SCHEMA, {"age": np.arange(17, 91)})
    held = np.bincount(part.of(ages), minlength=len(part))
    assert len(part) == min(bins, 74)
    assert held.sum() == 74
    assert held.max() - held.min() <= 1


def test_edges_may_be_given() -> None:
    part = binned(SCHEMA, "age", [18, Fraction(131, 2)])
    assert part.labels == ("17", "18..65", "66..90")
    assert part.edges == (Fraction(18), Fraction(66))
    assert binned(SCHEMA, "height", [Fraction(3, 2)]).labels == ("[0.5, 1.5)", "[1.5, 2.5]")
    for edges in ([], [17], [30, 20], [30, 30], [91]):
        with pytest.raises(InvalidParameter, match="age: expected increasing edges"):
            binned(SCHEMA, "age", edges)
    with pytest.raises(InvalidParameter, match="smokes: expected a number"):
        binned(SCHEMA, "smokes", [1])


def test_numbers_go_from_minus_one_to_one_and_truths_are_one_or_zero() -> None:
    found = {p.name: p.of(ROWS).tolist() for name in SCHEMA.fields for p in numbers(SCHEMA, name)}
    assert found["age"][0] == -1
    assert found["age"][1] == pytest.approx(2 * (40 - 17) / 73 - 1, abs=2**-10)
    assert found["age"][2:] == [1, 0]
    assert found["height"] == [-1, 0, 1, -0.5]
    assert found["smokes"] == [0, 1, 1, 0]
    assert found["answers[0]"] == [0, 1, 0, 1]
    assert found["colour=green"] == [0, 0, 1, 0]
    assert "colour=red" not in found
    assert found["income=high"] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("low", "high", "frac"),
    [(0, 1, 16), (-5, 3, 8), (0, 10**9, 0), (0, 2**29, 16), ("0", "0.001", 30), (-(2**30), 0, 8)],
)
def test_a_scale_is_right_to_the_grid_whatever_the_bounds(low: Any, high: Any, frac: int) -> None:
    field = Real(low, high, frac)
    schema = Schema("s", 1, x=field)
    ends = (Fraction(field.low), Fraction(field.high))
    if ends[1] - ends[0] >= 2**30:
        with pytest.raises(InvalidParameter, match="x: expected bounds less than 2"):
            numbers(schema, "x")
        return
    (number,) = numbers(schema, "x")
    values = [ends[0] + (ends[1] - ends[0]) * share / 7 for share in range(8)]
    found = number.of(encode_columns(schema, {"x": [float(value) for value in values]}))
    assert found == pytest.approx([2 * share / 7 - 1 for share in range(8)], abs=2**-8)
    assert (found[0], found[-1]) == pytest.approx((-1, 1), abs=2**-9)
    steps = float(ends[1] - ends[0]) * 2**-8
    assert number.in_units(found) == pytest.approx(list(map(float, values)), abs=steps)


def test_a_device_computes_what_a_column_does() -> None:
    for name in SCHEMA.fields:
        for part in cells(SCHEMA, name, 5):
            query = category(part.expression)
            one_by_one = [query.evaluate(ROWS.record(row)) for row in range(3)]
            assert one_by_one == part.of(ROWS)[:3].tolist()
        for number in numbers(SCHEMA, name):
            asked = real(number.expression, default=0)
            devices = [asked.evaluate(ROWS.record(row)) / 2**asked.frac for row in range(4)]
            assert devices == number.of(ROWS).tolist()


def test_a_joint_cell_has_room_for_those_who_are_in_none() -> None:
    (colour,), (income,), (age,) = (cells(SCHEMA, name, 2) for name in ("colour", "income", "age"))
    query, shape = joint(income, colour, age)
    assert shape == (2, 3, 2)
    assert query.cells == 13
    expected = [np.ravel_multi_index(place, shape) for place in ((0, 0, 0), (1, 2, 0), (1, 1, 1))]
    assert evaluate_columns(query, ROWS).tolist() == [*expected, 12]
    (bit,) = cells(SCHEMA, "smokes")
    assert evaluate_columns(joint(bit)[0], ROWS).tolist() == [0, 1, 1, 0]


@dataclass(frozen=True)
class Clothes(JsonObject):
    schema: Schema


def test_a_hypothesis_s_schema_is_read_as_it_was_written() -> None:
    kept = some_fields(SCHEMA, ["height", "colour", "answers", "smokes", "age", "income"])
    assert list(kept.fields) == ["height", "colour", "answers", "smokes", "age", "income"]
    written = Clothes(kept).to_json()
    assert Clothes.from_json(written) == Clothes(kept)
    document = Document("tree", {"other": {"name": "s", "fields": []}})
    with pytest.raises(InvalidParameter, match=r"other: schema: expected 1\.\.4096 fields"):
        document.read("other", Schema)
    with pytest.raises(InvalidParameter, match="tree: expected schema, got none"):
        document.read("schema", Schema)


def test_rows_are_columns_a_table_or_encoded_already() -> None:
    kept = some_fields(SCHEMA, ["age", "answers"])
    expected = [17, 40, 90]
    first = {name: column[:3] for name, column in COLUMNS.items()}
    table = np.column_stack([np.array(first["age"]), np.array(first["answers"])])
    for rows in (first, table, encode_columns(SCHEMA, first)):
        assert np.asarray(encoded(kept, rows).values["age"]).tolist() == expected
    assert not encoded(kept, {"age": [20]}).present["answers"].any()
    with pytest.raises(InvalidParameter, match=r"shape \(n, 4\), found \(3, 2\)"):
        encoded(kept, table[:, :2])
    with pytest.raises(InvalidParameter, match="expected columns among age, answers"):
        encoded(kept, {"weight": [3]})
    with pytest.raises(InvalidParameter, match="expected a column age, got none"):
        encoded(kept, encode_columns(Schema("s", 1, x=Bit()), {"x": [1]}))


@pytest.mark.parametrize("make", [cells, numbers])
def test_a_field_that_says_nothing_is_refused(make: Any) -> None:
    schema = Schema("s", 1, only=Category(["one"]))
    with pytest.raises(InvalidParameter, match="only: expected two or more labels, found one"):
        make(schema, "only")
    with pytest.raises(InvalidParameter, match="expected one of the fields only, got 'other'"):
        make(schema, "other")
    with pytest.raises(InvalidParameter, match="each field once, got 'only' twice"):
        some_fields(schema, ["only", "only"])


@pytest.mark.parametrize("bins", [1, 0, 1025, True, 2.5])
def test_bins_are_a_whole_number_in_range(bins: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"bins: expected a whole number in 2\.\.1024"):
        cells(SCHEMA, "age", bins)
    with pytest.raises(InvalidParameter, match="wide enough for 100 bins"):
        cells(Schema("s", 1, x=Real("0", "0.001", 30)), "x", 100)


def test_an_encoding_says_where_it_is_from() -> None:
    assert str(cells(SCHEMA, "age", 2)[0]) == "age: 2 bins of the schema's bounds, 17..53, 54..90"
    assert str(cells(SCHEMA, "colour")[0]) == "colour: 3 cells, the schema's own"
    assert str(numbers(SCHEMA, "age")[0]) == "age: the schema's bounds 17 .. 90 as [-1, 1]"
    assert str(numbers(SCHEMA, "smokes")[0]) == "smokes: 0 or 1"
