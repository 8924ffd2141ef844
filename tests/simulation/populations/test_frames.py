"""The same data from each source is the same population, to the digest of a study's transcript."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import askance as ask
from askance_client.errors import InvalidParameter, InvalidRecord

pandas = pytest.importorskip("pandas")
arrow_csv = pytest.importorskip("pyarrow.csv")

ROWS = 3_000
NAME = "people"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file with whole numbers, numbers, texts and missing values of each."""
    folder = tmp_path_factory.mktemp("frames") / f"{NAME}.csv"
    towns = ("Graz", "Linz", "Wien", "")
    lines = ["age,height,town"]
    lines += [
        f"{'' if row % 40 == 3 else 18 + row * 7 % 70},"
        f"{'' if row % 50 == 7 else 150 + row * 13 % 400 / 10},{towns[row % 4]}"
        for row in range(ROWS)
    ]
    folder.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _parquet(path: Path) -> Any:
    from pyarrow import parquet

    target = path.with_suffix(".parquet")
    parquet.write_table(arrow_csv.read_csv(path), target)
    return target


def _polars(path: Path) -> Any:
    return pytest.importorskip("polars").read_csv(path)


def _duckdb(path: Path) -> Any:
    return pytest.importorskip("duckdb").read_csv(str(path))


SOURCES: dict[str, Callable[[Path], Any]] = {
    "Parquet": _parquet,
    "pandas": pandas.read_csv,
    "pyarrow": arrow_csv.read_csv,
    "polars": _polars,
    "DuckDB": _duckdb,
}


def digest(people: ask.Population, column: str) -> str:
    value = people.schema[column]
    learner = ask.learners.frequency(value) if column == "town" else ask.learners.mean(value)
    study = ask.Study(learner, people.schema, epsilon=1)
    return ask.simulate(study, people, fleet="columns", seed=3).transcript.digest


def read(source: Any) -> ask.Population:
    return ask.read(source) if isinstance(source, Path) else ask.read(source, name=NAME)


@pytest.mark.parametrize("make", list(SOURCES.values()), ids=list(SOURCES))
def test_a_study_has_one_digest_for_all_sources(make: Callable[[Path], Any], path: Path) -> None:
    from_file, other = ask.read(path), read(make(path))
    assert other.schema == from_file.schema
    for column in ("age", "height", "town"):
        assert digest(other, column) == digest(from_file, column)


def test_an_index_is_no_column(path: Path) -> None:
    frame = pandas.read_csv(path).set_index(pandas.Index(range(5, ROWS + 5), name="person"))
    assert list(ask.read(frame).schema.fields) == ["age", "height", "town"]


def test_a_frame_with_more_columns_than_its_schema_is_read_by_the_schema(path: Path) -> None:
    schema = ask.Schema("known", 1, age=ask.Integer(0, 120))
    people = ask.Population.from_pandas(pandas.read_csv(path), schema)
    assert people.schema == schema
    assert people.size == ROWS


def test_what_is_no_frame_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidParameter, match="a dict of columns or an array, got 'list'"):
        ask.read([1, 2, 3])


def test_a_frame_without_rows_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="at least one row"):
        ask.read(pandas.DataFrame({"age": []}))


def test_one_data_set_is_read_by_its_name() -> None:
    assert ask.read("census").size == 20_000
