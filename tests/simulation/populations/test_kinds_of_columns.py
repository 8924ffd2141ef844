"""Kinds of columns that data sets have, with the field that each becomes, by question.

Small columns of the kinds of well-known data sets, made anew: measurements (iris, wine, cancer),
pixels (digits), scaled numbers (diabetes), times (flights), codes (surveys), postal codes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # has no stubs here
import polars as pl
import pytest

import askance as ask
from askance import Bit, Category, Integer, Label, Real, Schema
from askance_client.queries import Field
from askance_client.records import NOTHING, read_csv

ROWS = 120
LEFT_OUT = None

KINDS: dict[str, tuple[list[str], Field | None]] = {
    "a measurement": (["4.5", "5.25", "6.5"], Real("4.5", "6.5")),
    "a pixel": (["0", "7", "16"], Integer(0, 16)),
    "a scaled number": (["-0.5", "0.25", "0.5"], Real("-0.5", "0.5")),
    "a time of the day": (["517", "2359", "1"], Integer(1, 2359)),
    "a year": (["2012", "2013"], Integer(2012, 2013)),
    "a survey's codes": (["1", "2", "9"], Integer(1, 9)),
    "codes with a missing one": (["1", "2", ""], Integer(1, 2)),
    "an indicator": (["0", "1"], Integer(0, 1)),
    "yes and no": (["yes", "no"], Category(["no", "yes"])),
    "truth values as text": (["True", "False"], Category(["False", "True"])),
    "a name": (["ann", "bob", "eve"], Category(["ann", "bob", "eve"])),
    "postal codes": (["01234", "94110", "00501"], Category(["00501", "01234", "94110"])),
    "codes of one length, few with a zero": (
        ["01234", *["94110"] * (ROWS - 1)],
        Category(["01234", "94110"]),
    ),
    "months": (["01", "11", "12"], Category(["01", "11", "12"])),
    "codes of several lengths": (["030", "1", "22"], Category(["030", "1", "22"])),
    "postal codes without a zero": (["94110", "10115"], Integer(10115, 94110)),
    "a decimal below one": (["0.5", "0.25"], Real("0.25", "0.5", 18)),
    "signed numbers": (["-1", "0", "1"], Integer(-1, 1)),
    "the same in all rows": (["x"], LEFT_OUT),
    "nothing": ([""], LEFT_OUT),
}


def file(folder: Path, **columns: list[str]) -> Path:
    """Write a CSV file of 120 rows, in which each column repeats its values."""
    cells = {name: (values * ROWS)[:ROWS] for name, values in columns.items()}
    path = folder / "people.csv"
    lines = [",".join(row) for row in zip(*cells.values(), strict=True)]
    path.write_text("\n".join([",".join(cells), *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_becomes_a_field(tmp_path: Path, kind: str) -> None:
    values, field = KINDS[kind]
    people = ask.read(file(tmp_path, column=values, other=["1", "2", "3"]))
    assert people.schema.fields.get("column") == field


ASKED: dict[str, tuple[str, dict[str, str], list[str], Field]] = {
    "codes, as shares": (
        "frequency",
        {"column": "c"},
        ["9", "10", "1"],
        Category(["1", "9", "10"]),
    ),
    "codes, as numbers": ("mean", {"column": "c"}, ["9", "10", "1"], Integer(1, 10)),
    "codes, as groups": (
        "difference",
        {"column": "number", "group": "c"},
        ["0", "1"],
        Category(["0", "1"]),
    ),
    "codes and none": (
        "frequency",
        {"column": "c"},
        ["1", "", "2"],
        Category([NOTHING, "1", "2"]),
    ),
    "64 codes": (
        "frequency",
        {"column": "c"},
        [str(code) for code in range(64)],
        Category([str(code) for code in range(64)]),
    ),
    "yes and no, as shares": ("frequency", {"column": "c"}, ["yes", "no"], Category(["no", "yes"])),
    "yes and no, as a number": ("mean", {"column": "c"}, ["Yes", "No"], Bit()),
    "y and n, as a number": ("mean", {"column": "c"}, ["y", "n", ""], Bit()),
}


@pytest.mark.parametrize("case", ASKED)
def test_a_question_chooses(tmp_path: Path, case: str) -> None:
    learner, settings, values, field = ASKED[case]
    path = file(tmp_path, c=values, number=["1.5", "2.5"], name=["a", "b"])
    made = ask.named(learner, epsilon=4, data=path, settings=settings)
    people = made.people(ask.Seed.of(0))
    assert people.schema.fields["c"] == field
    made.study(people)
    default = ask.read(path).schema.fields["c"]
    chosen = [note for note in people.notes if "because the question needs" in note]
    assert len(chosen) == (default != field)


MONTHS = {
    "week 1": ["1.5", "7"],
    "week 2": ["0", "9"],
    "week 3": ["2", "8.25"],
    "may": ["yes", "no"],
    "june": ["no", "", "yes"],
    "mood 1": ["good", "bad", ""],
    "mood 2": ["good", "ill"],
    **{f"day {day}": ["yes", "no"] for day in range(8)},
}
DAYS = [f"day {day}" for day in range(8)]
PATHS: dict[str, tuple[list[str], dict[str, str], Field, list[str]]] = {
    "numbers of several ranges": (
        ["week 1", "week 2"],
        {},
        Real(0, 9),
        ["the columns week 1 and week 2 are read as numbers from 0 to 9, as the question needs"],
    ),
    "eight columns of yes and no": (
        DAYS,
        {},
        Bit(),
        [f"the columns {', '.join(DAYS[:7])} and day 7 are read as 1 for yes and 0 for no"],
    ),
    "a value that one of two columns has": (
        ["mood 1", "mood 2"],
        {"value": "ill"},
        Category([NOTHING, "bad", "good", "ill"]),
        ["the columns mood 1 and mood 2 are read as categories with the labels of all columns of"],
    ),
    "a value that both have": (
        ["mood 1", "mood 2"],
        {"value": "good"},
        Category([NOTHING, "bad", "good"]),
        [],
    ),
    "yes": (["may", "june"], {"value": "yes"}, Category(["no", "yes"]), []),
}


@pytest.mark.parametrize("case", PATHS)
def test_columns_of_one_question_are_read_alike_where_it_needs_that(
    tmp_path: Path, case: str
) -> None:
    columns, settings, field, notes = PATHS[case]
    path = file(tmp_path, **MONTHS, plan=["a", "b"])
    settings = {"columns": ",".join(columns), **settings}
    made = ask.named("trend", epsilon=4, data=path, settings=settings)
    people = made.people(ask.Seed.of(0))
    made.study(people)
    assert people.schema.fields[columns[0].replace(" ", "_")] == field
    shown = [note for note in people.notes if "read as" in note]
    assert len(shown) == len(notes)
    for note, start in zip(shown, notes, strict=True):
        assert note.startswith(start)
    by_name = ask.learners.trend(columns, value=settings.get("value"))
    assert ask.Study(by_name, ask.read(path).schema, epsilon=4).learner.parameters


def test_the_columns_of_a_path_are_named_where_several_ranges_suit(tmp_path: Path) -> None:
    made = ask.named("trend", epsilon=4, data=file(tmp_path, **MONTHS))
    with pytest.raises(
        ask.InvalidParameter,
        match=r"^trend: columns: expected the epochs' columns by name, oldest first \(--columns\),"
        r" as those that suit have several ranges: week 1 1\.5\.\.7, week 2 0\.\.9, week 3 2",
    ):
        made.study(made.people(ask.Seed.of(0)))


def test_65_codes_stay_numbers_and_the_error_says_what_helps(tmp_path: Path) -> None:
    path = file(tmp_path, c=[str(code) for code in range(65)], name=["a", "b"])
    made = ask.named("frequency", epsilon=4, data=path, settings={"column": "c"})
    with pytest.raises(ask.InvalidParameter, match="--categories makes them labels"):
        made.study(made.people(ask.Seed.of(0)))
    made = ask.named("frequency", epsilon=4, data=path, settings={"column": "c"}, categories=["c"])
    assert made.people(ask.Seed.of(0)).schema.fields["c"] == Category(map(str, range(65)))


def test_categories_may_be_named(tmp_path: Path) -> None:
    path = file(tmp_path, **{"my rating": ["1.5", "2.0"], "code": ["2", "10"], "n": ["1", "2"]})
    people = ask.read(path, categories=["my rating", "code"])
    assert dict(people.schema.fields) == {
        "my_rating": Category(["1.5", "2.0"]),
        "code": Category(["2", "10"]),
        "n": Integer(1, 2),
    }
    with pytest.raises(ask.InvalidRecord, match="categories: expected one of the fields my rating"):
        ask.read(path, categories=["rating"])
    with pytest.raises(ask.InvalidParameter, match="categories: expected no schema with it"):
        ask.read(path, people.schema, categories=["code"])


def test_a_device_reads_the_same_yes_and_no(tmp_path: Path) -> None:
    path = file(tmp_path, c=["yes", "no", "", "No"], n=["1", "2"])
    made = ask.named("mean", epsilon=4, data=path, settings={"column": "c"})
    people = made.people(ask.Seed.of(0))
    device = read_csv(path).encoder(people.schema)
    columns = people.columns(0, ROWS)
    for row in range(4):
        record = device(row)
        assert columns.record(row).values["c"] == record.values["c"]
        assert columns.record(row).present["c"] == record.present["c"]
    assert [device(row).present["c"] for row in range(4)] == [True, True, False, True]


GRADES = ["low", "middle", "high"]
DECLARED: dict[str, tuple[Any, Field]] = {
    "pandas' labels, in their order, used or not": (
        pd.DataFrame({"c": pd.Categorical(["high", "low"] * 30, categories=GRADES)}),
        Category(GRADES),
    ),
    "pandas' numbers": (
        pd.DataFrame({"c": pd.Categorical([3, 1] * 30, categories=[3, 2, 1])}),
        Category(["3", "2", "1"]),
    ),
    "pandas' labels with missing ones": (
        pd.DataFrame({"c": pd.Categorical(["high", None] * 30, categories=GRADES)}),
        Category([NOTHING, *GRADES]),
    ),
    "pandas' label NA, which is no missing value": (
        pd.DataFrame({"c": pd.Categorical(["high", "NA"] * 30, categories=["NA", *GRADES])}),
        Category(["NA", *GRADES]),
    ),
    "pandas' labels that differ in spaces": (
        pd.DataFrame(
            {"c": pd.Categorical(["high", " low"] * 30, categories=[" low", "low", "high"])}
        ),
        Category(["low", "high"]),
    ),
    "pandas' labels of numbers and texts": (
        pd.DataFrame({"c": pd.Categorical(["high", 1] * 30, categories=["high", 1])}),
        Category(["1", "high"]),
    ),
    "an Enum of polars": (
        pl.DataFrame({"c": pl.Series(["high", "low"] * 30, dtype=pl.Enum(GRADES))}),
        Category(GRADES),
    ),
    "a Categorical of polars, which declares none": (
        pl.DataFrame({"c": pl.Series(["high", "low"] * 30, dtype=pl.Categorical)}),
        Category(["high", "low"]),
    ),
}


@pytest.mark.parametrize("case", DECLARED)
def test_declared_categories_keep_their_labels(case: str) -> None:
    frame, field = DECLARED[case]
    people = ask.read(frame)
    assert people.schema.fields["c"] == field
    assert isinstance(field, Category)
    given = ask.read(frame, label="c").schema.fields["c"]
    assert given == Label(field.labels[field.labels[0] == NOTHING :])
    first = np.asarray(people.columns(0, 1).values["c"])[0]
    assert field.labels[first] == ("3" if case == "pandas' numbers" else "high")
    assert not any("missing" in note for note in people.notes)


def test_a_declared_label_that_is_too_long_leaves_the_column_out() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["x" * 2000, "y"] * 30), "n": [1, 2] * 30})
    people = ask.read(frame)
    assert list(people.schema.fields) == ["n"]
    assert any("a text of more than 1,024 bytes in row 1" in note for note in people.notes)


@pytest.mark.parametrize("width", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("zeros", [[0.0, -0.0], [-0.0, 0.0]])
@pytest.mark.parametrize("way", ["frame", "file"])
def test_minus_zero_is_the_label_0(tmp_path: Path, width: Any, zeros: Any, way: str) -> None:
    frame = pd.DataFrame({"c": np.array([*zeros, 1.0] * 20, width), "name": ["a", "b", "b"] * 20})
    frame.to_parquet(tmp_path / "c.parquet")
    data = frame if way == "frame" else tmp_path / "c.parquet"
    people = ask.read(data, categories=["c"])
    assert people.schema.fields["c"] == Category(["0", "1"])
    columns = people.columns(0, 60)
    assert columns.present["c"].all()
    assert np.asarray(columns.values["c"])[:3].tolist() == [0, 0, 1]


@pytest.mark.parametrize("way", ["frame", "file"])
def test_a_label_of_a_short_float_is_its_exact_value(tmp_path: Path, way: str) -> None:
    """float16 has no .1: the number next to it is 1638 / 2^14."""
    frame = pd.DataFrame(
        {"c": np.array([0.1, 1, 2] * 20, np.float16), "name": ["a", "b", "b"] * 20}
    )
    frame.to_parquet(tmp_path / "c.parquet")
    data = frame if way == "frame" else tmp_path / "c.parquet"
    people = ask.read(data, categories=["c"])
    assert people.schema.fields["c"] == Category(["0.0999755859375", "1", "2"])
    columns = people.columns(0, 60)
    assert columns.present["c"].all()
    assert np.asarray(columns.values["c"])[:3].tolist() == [0, 1, 2]


def test_a_column_that_a_field_may_be_mistaken_for_is_noted(tmp_path: Path) -> None:
    path = file(tmp_path, **{"a b": ["1", "2"], "a_b": ["8", "9"]})
    people = ask.read(path, Schema("people", a_b=Integer(0, 9)))
    assert np.asarray(people.columns(0, 2).values["a_b"]).tolist() == [8, 9]
    assert people.notes == ("the field a_b is the column 'a_b', and not the column 'a b'",)
    assert not any("and not" in note for note in ask.read(path).notes)


@pytest.mark.parametrize("numbers", [[1.0, 2.0, None], [1, 2, 2]])
def test_codes_of_a_frame_are_labels_without_a_point(numbers: list[Any]) -> None:
    """Whole numbers with missing ones are floats in pandas."""
    frame = pd.DataFrame({"c": numbers * 40, "name": ["a", "b", "b"] * 40})
    missing = [NOTHING] if None in numbers else []
    assert ask.read(frame, categories=["c"]).schema.fields["c"] == Category([*missing, "1", "2"])
