"""Users from a Parquet file: the same users as from a CSV file of the same cells."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import askance as ask
from askance.cli.main import main
from askance_client.errors import InvalidRecord
from askance_client.queries import Bit, Category, Integer, Label, Real, Schema
from askance_client.records import read_csv
from askance_simulation.populations import Population, people_of, read_file
from askance_simulation.populations.sources import read_parquet
from askance_simulation.randomness import Seed

SEED = Seed.of(3)
PEOPLE: Mapping[str, Sequence[object]] = {
    "age": [17, 40, None, 23, 61, 35],
    "pay": [1.5, 2.25, 0.1, None, 1e-05, 3.0],
    "hours-per-week": [40.0, None, 38.0, 20.0, 40.0, 0.0],
    "work": ["none", None, " office ", "none", "?", "office"],
    "income": ["low", "high", "low", "high", "low", "low"],
}


def written(folder: Path, columns: Mapping[str, Any]) -> Path:
    path = folder / "people.parquet"
    parquet.write_table(pa.table(columns), path)
    return path


def comma_separated(folder: Path, columns: Mapping[str, Sequence[object]]) -> Path:
    path = folder / "people.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            lines.writerow(int(x) if isinstance(x, float) and x.is_integer() else x for x in row)
    return path


def values(people: Population, name: str) -> list[int | None]:
    """Return all users' values on the grid, None where missing."""
    columns = people.columns(0, people.size)
    found = columns.values[name]
    assert not isinstance(found, tuple)
    pairs = zip(found.tolist(), columns.present[name].tolist(), strict=True)
    return [value if present else None for value, present in pairs]


class TestTheSameAsCsv:
    @pytest.mark.parametrize("label", [None, "income", "age"])
    @pytest.mark.parametrize("size", [None, 4, 50])
    def test_fields_notes_and_everybody(
        self, tmp_path: Path, label: str | None, size: int | None
    ) -> None:
        found, expected = (
            people_of(read_file(path), SEED, label=label, size=size, held_out=Fraction(1, 6))
            for path in (written(tmp_path, PEOPLE), comma_separated(tmp_path, PEOPLE))
        )
        assert found.schema == expected.schema
        assert found.notes == expected.notes
        assert found.size == expected.size
        assert found.unseen is not None
        assert expected.unseen is not None
        ours, theirs = found.unseen(5), expected.unseen(5)
        assert len(ours) == 1
        for name in found.schema.fields:
            assert values(found, name) == values(expected, name)
            assert np.array_equal(np.asarray(ours.values[name]), np.asarray(theirs.values[name]))

    def test_its_cells_are_the_texts(self, tmp_path: Path) -> None:
        found = read_parquet(written(tmp_path, PEOPLE))
        expected = read_csv(comma_separated(tmp_path, PEOPLE))
        assert (found.written, found.names) == (expected.written, expected.names)
        for ours, theirs in zip(found.rows, expected.rows, strict=True):
            for mine, text in zip(ours, theirs, strict=True):
                assert (mine or "") == text or float(str(mine)) == float(str(text))

    def test_a_schema_may_be_given(self, tmp_path: Path) -> None:
        schema = Schema("known", 1, age=Integer(0, 99), work=Category(["office"]))
        people = Population.from_parquet(written(tmp_path, PEOPLE), schema)
        assert people.notes == ()
        assert values(people, "age") == [17, 40, None, 23, 61, 35]
        assert values(people, "work") == [None, None, 0, None, None, 0]

    def test_bounds_that_are_inferred_are_said_to_be(self, tmp_path: Path) -> None:
        people = Population.from_parquet(written(tmp_path, PEOPLE), label="income", users=100)
        assert people.notes == (
            "bounds and labels were inferred from the data file",
            "6 rows were resampled with replacement to 100 users",
        )
        assert people.schema.fields["income"] == Label(["high", "low"])
        assert people.name == "people"


class TestTypes:
    @pytest.mark.parametrize(
        ("column", "kind", "found"),
        [
            (pa.array([1, None, 3], pa.uint8()), Integer(1, 3), [1, None, 3]),
            (pa.array([-(2**40), 0, 5]), Integer(-(2**40), 5), [-(2**40), 0, 5]),
            (pa.array([0.0, nan, 4.0]), Integer(0, 4), [0, None, 4]),
            (pa.array([-inf, 0.5, 4.5], pa.float32()), Real("0.5", "4.5"), None),
            (pa.array([0.1, 0.2, None], pa.float32()), Real("0.1", "0.2", 20), None),
            (pa.array([0.5, 2.0, 1.0], pa.float16()), Real("0.5", 2), None),
            (pa.array([Decimal("0.50"), Decimal("2.50"), None]), Real("0.5", "2.5"), None),
            (pa.array([True, None, False]), Bit(), [1, None, 0]),
            (pa.array(["b", "a", "b"]).dictionary_encode(), Category(["a", "b"]), [1, 0, 1]),
            (pa.array([7, 9, 7]).dictionary_encode(), Integer(7, 9), [7, 9, 7]),
            (pa.array(["b", "a", "NA"], pa.large_string()), None, [2, 1, 0]),
            (
                pa.array([datetime.date(2020, 1, 2), datetime.date(2021, 3, 4), None]),
                Category(["(missing)", "2020-01-02", "2021-03-04"]),
                [1, 2, 0],
            ),
        ],
    )
    def test_each_is_what_it_looks_like(
        self, tmp_path: Path, column: Any, kind: Any, found: list[int | None] | None
    ) -> None:
        people = Population.from_parquet(written(tmp_path, {"a": column}))
        if kind is not None:
            assert people.schema.fields["a"] == kind
        if found is not None:
            assert values(people, "a") == found

    def test_an_infinite_number_is_missing(self, tmp_path: Path) -> None:
        people = Population.from_parquet(written(tmp_path, {"a": [inf, 0.5, 4.5, -inf]}))
        assert values(people, "a") == [None, 1 << 15, 9 << 15, None]
        assert people.notes[1:] == (
            "1 value inf of a was read as missing",
            "1 value -inf of a was read as missing",
        )

    def test_truth_values_to_be_predicted_are_two_labels(self, tmp_path: Path) -> None:
        path = written(tmp_path, {"a": [1, 2, 3], "y": [True, False, None]})
        people = Population.from_parquet(path, label="y")
        assert people.schema.fields["y"] == Label(["False", "True"])
        assert values(people, "y") == [1, 0, None]

    def test_columns_that_do_not_vary_are_left_out(self, tmp_path: Path) -> None:
        path = written(
            tmp_path, {"a": [1, 2], "b": [True, True], "c": pa.nulls(2), "d": [None, False]}
        )
        assert list(Population.from_parquet(path).schema.fields) == ["a"]

    @pytest.mark.parametrize(
        ("column", "name"),
        [
            (pa.array([[1], [2, 3]]), "list"),
            (pa.array([{"b": 1}, {"b": 2}]), "struct"),
            (pa.array([b"x", b"y"]), "binary"),
            (pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())), "map"),
            (pa.array([datetime.timedelta(1), None]), "duration"),
        ],
    )
    def test_what_is_none_of_these_is_left_out_by_its_type(
        self, tmp_path: Path, column: Any, name: str
    ) -> None:
        people = Population.from_parquet(written(tmp_path, {"a": [1, 2], "nested": column}))
        assert list(people.schema.fields) == ["a"]
        assert any(name in note for note in people.notes if "nested is left out" in note)


class TestDefects:
    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRecord, match="cannot be read: No such file"):
            Population.from_parquet(tmp_path / "none.parquet")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRecord, match="cannot be read: Is a directory"):
            Population.from_parquet(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1" + bytes(40) + b"PAR1"])
    def test_another_kind_of_file(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "people.parquet"
        path.write_bytes(content)
        with pytest.raises(InvalidRecord) as caught:
            Population.from_parquet(path)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500

    @pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
    def test_a_file_that_breaks_off(self, tmp_path: Path, share: float) -> None:
        path = written(tmp_path, PEOPLE)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(InvalidRecord):
            Population.from_parquet(path)

    def test_nobody(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRecord, match="expected at least one row, got none"):
            Population.from_parquet(written(tmp_path, {"a": pa.array([], pa.int64())}))

    def test_two_columns_of_one_name(self, tmp_path: Path) -> None:
        twice = pa.table([pa.array([1, 2])] * 2, names=["a b", "a b"])
        with pytest.raises(InvalidRecord, match="expected distinct column names, got 'a b' twice"):
            Population.from_arrow(twice)

    def test_text_that_is_none(self, tmp_path: Path) -> None:
        """Parquet's text is whatever bytes who wrote it put there."""
        ends = np.array([0, 1, 2], np.int32).tobytes()
        broken = pa.Array.from_buffers(
            pa.string(), 2, [None, pa.py_buffer(ends), pa.py_buffer(b"a\xff")]
        )
        with pytest.raises(InvalidRecord, match=r"can be read in 'work', got others$"):
            read_parquet(written(tmp_path, {"work": broken}))

    def test_nothing_to_ask_about(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRecord, match="expected a column of numbers"):
            Population.from_parquet(written(tmp_path, {"a": [1, 1]}))


def test_the_command_line_reads_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for path in (written(tmp_path, PEOPLE), comma_separated(tmp_path, PEOPLE)):
        command = ["simulate", "mean", "--set", "column=age", "--epsilon", "4", "--users", "2000"]
        assert main([*command, "--data", str(path), "--fleet", "columns", "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["transcript"] == results[1]["transcript"]
    assert results[0]["notes"] == results[1]["notes"]


def test_plans_and_curators_read_it_too(tmp_path: Path) -> None:
    path = written(tmp_path, {"a": [1, 2, 3, 4] * 50, "y": [True, False] * 100})
    assert ask.plan("mean", epsilon=4, data=path, settings={"column": "a"}).n_users == 200
    told = ask.curate("mean", path, 1, settings={"columns": "a", "bounds": "a:0:5"}, seed=1)
    assert told.n == 200
