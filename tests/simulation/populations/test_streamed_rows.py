"""Rows of a Parquet file that are read row group by row group are those of the whole table."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

import askance as ask
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidRecord
from askance_client.queries import Category, Integer, Label, Real, Schema
from askance_simulation.populations import Population, cells, people_of
from askance_simulation.populations import arrow_records as records
from askance_simulation.populations.arrow_records import parquet_records
from askance_simulation.populations.sources import read_parquet
from askance_simulation.populations.tables import RowSet
from askance_simulation.randomness import Seed

ROWS = 1_000
SEED = Seed.of(4)
RNG = np.random.default_rng(11)
WHOLE = RNG.integers(-300, 70_000, ROWS)
COLUMNS: Mapping[str, Any] = {
    "whole": pa.array(WHOLE),
    "gaps": pa.array(np.abs(WHOLE) % 90, pa.uint8(), mask=WHOLE % 7 == 0),
    "tenths": pa.array(np.round(WHOLE / 10, 1)),
    "single": pa.array((WHOLE / 7).astype(np.float32)),
    "holes": pa.array(np.where(WHOLE % 5 == 0, np.nan, WHOLE / 8)),
    "town": pa.array([("Graz", " Linz", "", None, "Wien ")[row % 5] for row in WHOLE.tolist()]),
    "coded": pa.array([f"c{row % 9}" for row in WHOLE.tolist()]).dictionary_encode(),
    "truth": pa.array([(True, False, None)[row % 3] for row in WHOLE.tolist()]),
    "y": pa.array([("no", "yes")[row % 2] for row in WHOLE.tolist()]),
}


def written(folder: Path, columns: Mapping[str, Any], group: int = 64) -> Path:
    path = folder / "rows.parquet"
    parquet.write_table(pa.table(dict(columns)), path, row_group_size=group)
    return path


def assert_same(found: EncodedColumns, expected: EncodedColumns) -> None:
    assert len(found) == len(expected)
    assert list(found.values) == list(expected.values)
    for name, column in expected.values.items():
        assert np.array_equal(np.asarray(found.values[name]), np.asarray(column)), name
        assert np.array_equal(found.present[name], expected.present[name]), name


@pytest.mark.parametrize("held_out", [Fraction(0), Fraction(1, 5)])
@pytest.mark.parametrize("size", [None, 1, 130, 5_000])
def test_users_are_those_of_the_table_of_texts(
    tmp_path: Path, size: int | None, held_out: Fraction
) -> None:
    """The table's rows are in memory, as texts: another reader, another encoder."""
    path = written(tmp_path, COLUMNS)
    found, expected = (
        people_of(source, SEED, label="y", size=size, held_out=held_out)
        for source in (parquet_records(path), read_parquet(path))
    )
    assert found.schema == expected.schema
    assert found.notes == expected.notes
    assert found.column_types == expected.column_types
    size = expected.size
    for start, stop in ((0, size), (size // 3, size // 2 + 1), (size - 1, size)):
        assert_same(found.columns(start, stop), expected.columns(start, stop))
    if held_out:
        assert found.unseen is not None
        assert expected.unseen is not None
        assert_same(found.unseen(70), expected.unseen(70))


@pytest.mark.parametrize("learner", ["frequency", "naive-bayes"])
def test_a_study_has_one_digest_streamed_or_in_memory(tmp_path: Path, learner: str) -> None:
    path = written(tmp_path, {name: COLUMNS[name] for name in ("gaps", "coded", "y")})
    settings = {"column": "coded"} if learner == "frequency" else {}
    made = ask.named(learner, epsilon=4, data=path, label="y", settings=settings)
    people = made.people(SEED)
    streamed = ask.simulate(made.study(people), people, fleet="columns", seed=2)
    rows = people.columns(0, people.size)
    there = EncodedColumns(dict(rows.values), dict(rows.present), len(rows))
    kept = Population(people.name, people.schema, people.size, lambda a, b: there.take(slice(a, b)))
    for fleet in ("columns", "objects"):
        held = ask.simulate(made.study(kept), kept, fleet=fleet, seed=2)
        assert held.transcript.digest == streamed.transcript.digest


def test_a_given_schema_counts_what_is_outside_as_the_table_does(tmp_path: Path) -> None:
    path = written(tmp_path, COLUMNS)
    schema = Schema(
        "known",
        1,
        whole=Integer(0, 60_000),
        gaps=Category([str(one) for one in range(80)]),
        tenths=Real(0, 6_000, 3),
        single=Real("-40.5", 9_000, 20),
        town=Category(["Graz", "Linz"]),
        y=Label(["no", "yes"]),
    )
    found, expected = (
        people_of(source, SEED, schema=schema)
        for source in (parquet_records(path), read_parquet(path))
    )
    assert found.warnings == expected.warnings
    assert set(found.warnings) == {"whole", "gaps", "tenths", "town", "single"}
    assert_same(found.columns(0, ROWS), expected.columns(0, ROWS))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("frac", [0, 3, 16, 24])
def test_floats_are_rounded_as_their_texts(tmp_path: Path, kind: Any, frac: int) -> None:
    ties = (np.arange(-40, 40) + 0.5) / (1 << frac)
    near = np.nextafter(ties.astype(kind), kind(9)).astype(np.float64)
    drawn = RNG.normal(size=300) * 30
    numbers = np.concatenate([ties, near, drawn, drawn * 1e7, [0.0, -0.0, 0.1, 59999.5]])
    with np.errstate(over="ignore"):
        column = pa.array(numbers.astype(kind))
    schema = Schema("floats", 1, a=Real(-60, 60, frac))
    path = written(tmp_path, {"a": column})
    found, expected = (
        people_of(source, SEED, schema=schema, most_outside=Fraction(1))
        for source in (parquet_records(path), read_parquet(path))
    )
    assert_same(found.columns(0, found.size), expected.columns(0, expected.size))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("field", [Integer(-100, 90), Real(-3, 300, 4), Integer(300, 400)])
def test_whole_numbers_of_each_width_are_clamped(tmp_path: Path, kind: str, field: Any) -> None:
    ends = np.iinfo(kind)
    numbers = np.array([ends.min, ends.max, 0, 5, 127, ends.max // 2], kind)
    path = written(tmp_path, {"a": pa.array(numbers)}, group=4)
    schema = Schema("whole", 1, a=field)
    found, expected = (
        people_of(source, SEED, schema=schema, most_outside=Fraction(1))
        for source in (parquet_records(path), read_parquet(path))
    )
    assert found.warnings == expected.warnings
    assert_same(found.columns(0, len(numbers)), expected.columns(0, len(numbers)))


def test_more_numbers_than_are_kept_have_the_same_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identifiers are told by a sample of their values, by hash; amounts by theirs."""
    monkeypatch.setattr(cells, "MOST_NUMBERS", 64)
    columns = {
        "id": pa.array(np.arange(ROWS)),
        "amount": pa.array(RNG.integers(0, 400, ROWS)),
        "skewed": pa.array(np.unique((2 ** RNG.uniform(0, 40, 3 * ROWS)).astype(np.int64))[:ROWS]),
    }
    path = written(tmp_path, {name: column[:900] for name, column in columns.items()})
    found, expected = (
        people_of(source, SEED) for source in (parquet_records(path), read_parquet(path))
    )
    assert found.schema == expected.schema
    assert found.notes == expected.notes
    assert "id" not in found.schema.fields


def test_more_texts_than_are_kept_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "MOST_TEXTS", 1_500)
    names = pa.array([f"name {row}" for row in range(2_000)])
    path = written(tmp_path, {"name": names, "a": pa.array(np.arange(2_000) % 5)})
    people = Population.from_parquet(path)
    assert list(people.schema.fields) == ["a"]
    assert any("more than 1,500 different texts" in note for note in people.notes)
    kept = Population.from_parquet(path, keep=["name"]).column_notes.lines["name"]
    assert kept.startswith("the column name has more than 1,500 different values in 2,000 rows")


def test_only_the_fields_that_are_used_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    before = records.StreamedRows._block

    def _block(self: records.StreamedRows, block: int, name: str) -> Any:
        read.append(name)
        return before(self, block, name)

    monkeypatch.setattr(records.StreamedRows, "_block", _block)
    people = Population.from_parquet(written(tmp_path, COLUMNS), label="y")
    study = ask.Study(ask.learners.frequency(people.schema["coded"]), people.schema, epsilon=4)
    ask.simulate(study, people, fleet="columns", seed=2)
    assert set(read) == {"coded"}


def test_a_file_that_was_written_again_is_refused(tmp_path: Path) -> None:
    people = Population.from_parquet(written(tmp_path, COLUMNS), label="y")
    sent = pickle.dumps(parquet_records(tmp_path / "rows.parquet")._blocks)
    assert pickle.loads(sent).starts[-1] == ROWS
    written(tmp_path, {**COLUMNS, "more": pa.array(np.arange(ROWS) % 3)})
    with pytest.raises(InvalidRecord, match="expected the file as it was, got another one"):
        pickle.loads(sent)
    with pytest.raises(InvalidRecord, match="expected the file as it was, got another one"):
        people.columns(0, ROWS).values["town"]


def every(rows: RowSet) -> NDArray[np.int64]:
    found = rows.rows(0, len(rows))
    assert not isinstance(found, slice)
    return found


class TestRowSets:
    @pytest.mark.parametrize("rows", [1, 8, 9, 70_000, 200_001])
    def test_a_set_and_the_others_are_all(self, rows: int) -> None:
        from askance_aggregator.studies import Permutation

        count = rows // 3
        permutation = Permutation(b"seed", rows)
        drawn = RowSet(rows).drawn(permutation, count)
        expected = permutation.ordinals(0, count)
        assert np.array_equal(every(drawn), expected)
        others = drawn.others()
        assert np.array_equal(every(others), np.setdiff1d(np.arange(rows), expected))
        assert (len(drawn), len(others)) == (count, rows - count)
        middle = len(others) // 2
        assert np.array_equal(np.asarray(others.rows(middle, len(others))), every(others)[middle:])
        within = Permutation(b"other", len(others))
        places = within.ordinals(0, len(others) // 2)
        again = others.drawn(within, len(others) // 2)
        assert np.array_equal(every(again), every(others)[places])


def test_a_row_in_a_later_group_has_its_number_in_the_file(tmp_path: Path) -> None:
    texts = [str(row % 40) for row in range(200)]
    texts[130] = "forty"
    people = ask.read(written(tmp_path, {"n": pa.array(texts)}))
    assert people.notes[1].startswith(
        "the column n is of texts: no number in 1 of 200 values, row 131 the first"
    )
