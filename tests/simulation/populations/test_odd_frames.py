"""Frames as their owners have them: what is read of each, what is left out, and why.

Most frames have a column `odd` beside the whole numbers of `n`. The second member of a row is the
field that `odd` becomes, with its labels where they are few, or the reason for which it is left
out. No message has a value of a cell.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import askance as ask
from askance_client.errors import AskanceError
from askance_client.queries import Category, Field

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
dataset = pytest.importorskip("pyarrow.dataset")
compute = pytest.importorskip("pyarrow.compute")

ROWS = 60
N = [row % 7 for row in range(ROWS)]
TEXT = ["ab"[row % 2] for row in range(ROWS)]
TRUTH = [row % 2 == 0 for row in range(ROWS)]
PART = [number / 4 for number in N]
DAY = datetime.date(2024, 1, 1)
DURATIONS = "durations: write them as numbers, of days or seconds"
LIST = "values of the type list<item: int64>"
MISSING = "Category (missing) a b"
NO_TABLE = (
    "frame: expected a table of pandas, polars, pyarrow or DuckDB, a dict of columns or an array,"
    " got "
)


def gaps(values: list[Any], gap: Any = None) -> list[Any]:
    return [gap if row % 5 == 0 else value for row, value in enumerate(values)]


def name_of_uuids() -> str:
    """Return Arrow's type of UUIDs, or Python's in a version of Arrow that takes none."""
    try:
        return str(pa.array([uuid.UUID(int=0)]).type.extension_name)
    except pa.ArrowInvalid:
        return "UUID"


def days() -> Any:
    return pd.to_datetime([DAY + datetime.timedelta(days=number) for number in N])


PANDAS: dict[str, tuple[Callable[[], Any], str]] = {
    "float with NaN": (lambda: gaps(PART, np.nan), "Real"),
    "text with None": (lambda: gaps(TEXT), MISSING),
    "text with NA": (lambda: gaps(TEXT, pd.NA), MISSING),
    "string with NA": (lambda: pd.array(gaps(TEXT), dtype="string"), MISSING),
    "boolean with NA": (lambda: pd.array(gaps(TRUTH), dtype="boolean"), "Bit"),
    "truth values and None": (lambda: gaps(TRUTH), "Bit"),
    "Int64 with NA": (lambda: pd.array(gaps(N), dtype="Int64"), "Integer"),
    "Arrow's int64 with NA": (lambda: pd.array(gaps(N), dtype="int64[pyarrow]"), "Integer"),
    "float16": (lambda: np.array(PART, np.float16), "Real"),
    "sparse": (lambda: pd.arrays.SparseArray(N), "Integer"),
    "Decimal": (lambda: [Decimal(number) / 4 for number in N], "Real"),
    "Fraction": (lambda: [Fraction(number, 4) for number in N], "Real"),
    "category": (lambda: pd.Categorical(gaps(TEXT)), MISSING),
    "category of numbers": (lambda: pd.Categorical(N), "Category of 7"),
    "cut": (
        lambda: pd.cut(pd.Series(N), [-1, 2, 4, 6]),
        "Category (-1, 2] (2, 4] (4, 6]",
    ),
    "dates": (days, "Category of 7"),
    "datetimes with a zone": (lambda: days().tz_localize("UTC"), "Category of 7"),
    "numbers and a name": (lambda: gaps(N, "Jane Roe"), "Category of 8"),
    "numbers, names and None": (lambda: ["Jane Roe", None, *PART[2:]], "Category of 9"),
    "truth values and a name": (lambda: gaps(TRUTH, "Jane Roe"), "Category False Jane Roe True"),
    "complex": (lambda: np.array(N, complex), "complex numbers"),
    "intervals": (
        lambda: pd.arrays.IntervalArray(pd.cut(pd.Series(N), 3)),
        "values of the type pandas.interval",
    ),
    "periods": (
        lambda: pd.PeriodIndex([f"2024-0{n + 1}" for n in N], freq="M"),
        "values of the type pandas.period",
    ),
    "timedelta": (lambda: pd.to_timedelta(N, unit="s"), DURATIONS),
    "lists": (lambda: [[number] for number in N], LIST),
    "lists of names": (lambda: [[n, "Jane Roe"] for n in N], "values of the type list"),
    "dicts": (lambda: [{"a": number} for number in N], "values of the type struct<a: int64>"),
    "bytes": (lambda: [b"Jane Roe"] * ROWS, "values of the type binary"),
    "uuid": (lambda: [uuid.UUID(int=n) for n in N], f"values of the type {name_of_uuids()}"),
    "objects": (lambda: [object() for _ in N], "values of the type object"),
    "huge numbers": (
        lambda: [2**70 + number for number in N],
        "numbers that are too large: write them in a larger unit",
    ),
}
ARROW: dict[str, tuple[Callable[[], Any], str]] = {
    "list": (lambda: pa.array([[number] for number in N]), LIST),
    "map": (
        lambda: pa.array([[("a", n)] for n in N], pa.map_(pa.string(), pa.int64())),
        "values of the type map<string, int64>",
    ),
    "duration": (lambda: pa.array(N, pa.duration("s")), DURATIONS),
    "run-end encoded": (lambda: compute.run_end_encode(pa.array(N)), "Integer"),
    "bool8": (
        lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array(TRUTH).cast(pa.int8())),
        "Bit",
    ),
    "decimal256": (
        lambda: pa.array([Decimal(number) for number in N], pa.decimal256(40, 2)),
        "Integer",
    ),
    "string view": (lambda: pa.array(TEXT, pa.string_view()), "Category a b"),
    "dictionary of lists": (
        lambda: pa.DictionaryArray.from_arrays(pa.array(TRUTH).cast(pa.int8()), [[1], [2]]),
        LIST,
    ),
}
POLARS: dict[str, tuple[Callable[[], Any], str]] = {
    "list": (lambda: [[number] for number in N], "values of the type large_list<item: int64>"),
    "struct": (lambda: [{"a": number} for number in N], "values of the type struct<a: int64>"),
    "object": (
        lambda: pl.Series([object() for _ in N], dtype=pl.Object),
        "values of the type object",
    ),
    "duration": (lambda: [datetime.timedelta(number) for number in N], DURATIONS),
    "int128": (lambda: pl.Series(N, dtype=pl.Int128), "Integer"),
    "categorical": (lambda: pl.Series(gaps(TEXT), dtype=pl.Categorical), MISSING),
    "time": (lambda: [datetime.time(number) for number in N], "Category of 7"),
}
MAKERS: dict[str, tuple[Callable[..., Any], dict[str, tuple[Callable[[], Any], str]]]] = {
    "pandas": (pd.DataFrame, PANDAS),
    "pyarrow": (pa.table, ARROW),
    "polars": (pl.DataFrame, POLARS),
}
COLUMNS = {
    f"{library}: {name}": (frame, make, expected)
    for library, (frame, rows) in MAKERS.items()
    for name, (make, expected) in rows.items()
}
FRAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "a lazy frame": (lambda: pl.LazyFrame({"n": N}), "n=Integer"),
    "a series of pandas": (lambda: pd.Series(N, name="n"), "n=Integer"),
    "a series without a name": (lambda: pd.Series(N), "x0=Integer"),
    "a series of polars": (lambda: pl.Series("n", N), "n=Integer"),
    "an array of pyarrow": (lambda: pa.array(N), "x0=Integer"),
    "a chunked array": (lambda: pa.chunked_array([N]), "x0=Integer"),
    "a batch": (lambda: pa.RecordBatch.from_pydict({"n": N}), "n=Integer"),
    "a data set": (lambda: dataset.dataset(pa.table({"n": N})), "n=Integer"),
    "a relation": (lambda: duckdb.sql("select range % 7 as n from range(60)"), "n=Integer"),
    "a dict": (lambda: {"n": N, "t": TEXT}, "n=Integer, t=Category a b"),
    "a dict of arrays": (
        lambda: {"n": np.array(N), "t": pl.Series(TEXT)},
        "n=Integer, t=Category a b",
    ),
    "a dict of a generator": (lambda: {"n": (number for number in N)}, "n=Integer"),
    "an array": (lambda: np.array([N, PART]).T, "x0=Integer, x1=Real"),
    "an array of texts": (lambda: np.array([N, TEXT]).T, "x0=Integer, x1=Category a b"),
    "an array of one dimension": (lambda: np.array(N), "x0=Integer"),
    "a structured array": (
        lambda: np.array(list(zip(N, TEXT, strict=True)), [("n", int), ("t", "U1")]),
        "n=Integer, t=Category a b",
    ),
}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "equal names": (
        lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]),
        "frame: expected distinct column names, got 'a' twice",
    ),
    "only lists": (
        lambda: pd.DataFrame({"odd": [[number] for number in N]}),
        "frame: expected a column of numbers, or of 2 to 1,024 different texts, got none:"
        " odd: values of the type list<item: int64>",
    ),
    "a lazy frame that fails": (
        lambda: pl.LazyFrame({"n": ["Jane Roe"]}).select(pl.col("n").cast(pl.Int64)),
        "frame: expected one that can be read, got 'LazyFrame', which fails with"
        " InvalidOperationError",
    ),
    "a relation that fails": (
        lambda: duckdb.sql("select 'Jane Roe'::int as n from range(60)"),
        "frame: expected one that can be read, got 'DuckDBPyRelation', which fails with"
        " ConversionException",
    ),
    "unequal columns": (
        lambda: {"n": N, "t": TEXT[:3]},
        "frame: expected columns of one length, got 60 values in 'n' and 3 in 't'",
    ),
    "a dict of numbers": (
        lambda: {"n": 1},
        "frame: expected a list or an array in the column 'n', got 'int'",
    ),
    "groups": (lambda: pd.DataFrame({"n": N}).groupby("n"), NO_TABLE + "'DataFrameGroupBy'"),
    "three dimensions": (lambda: np.zeros((2, 2, 2)), NO_TABLE + "'ndarray'"),
    "rows": (lambda: [{"n": 1, "t": "Jane Roe"}], NO_TABLE + "'list'"),
    "nothing": (lambda: None, NO_TABLE + "'NoneType'"),
    "an empty dict": (dict, "frame: expected at least one row, got none"),
}


def described(field: Field) -> str:
    kind = type(field).__name__
    if not isinstance(field, Category):
        return kind
    few = len(field.labels) <= 3
    return f"{kind} {' '.join(field.labels)}" if few else f"{kind} of {len(field.labels)}"


@pytest.mark.parametrize(("frame", "make", "expected"), COLUMNS.values(), ids=COLUMNS)
def test_an_odd_column_is_read_or_left_out_with_a_reason(
    frame: Callable[..., Any], make: Callable[[], Any], expected: str
) -> None:
    people = ask.read(frame({"odd": make(), "n": N}))
    fields = people.schema.fields
    assert described(fields["n"]) == "Integer"
    left_out = f"the column odd is left out: {expected}" in people.notes
    assert left_out if "odd" not in fields else described(fields["odd"]) == expected
    assert not any("Jane" in note for note in people.notes)


@pytest.mark.parametrize(("make", "expected"), FRAMES.values(), ids=FRAMES)
def test_a_table_of_any_library_is_read(make: Callable[[], Any], expected: str) -> None:
    people = ask.read(make())
    fields = people.schema.fields.items()
    assert ", ".join(f"{name}={described(field)}" for name, field in fields) == expected
    assert people.size == ROWS


@pytest.mark.parametrize(("make", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_in_a_line(make: Callable[[], Any], expected: str) -> None:
    with pytest.raises(AskanceError) as refused:
        ask.read(make())
    assert str(refused.value) == expected


def test_a_masked_value_is_missing() -> None:
    numbers = np.array([N, PART]).T
    people = ask.read(np.ma.masked_equal(numbers, 3))
    assert people.columns(0, ROWS).present["x0"].sum() == sum(number != 3 for number in N)


def test_an_odd_column_that_is_asked_for_is_refused() -> None:
    frame = pd.DataFrame({"odd": [["Jane Roe"] for _ in N], "n": N})
    reason = "got values of the type list<item: string>"
    with pytest.raises(AskanceError, match=f"expected a column of labels, {reason}"):
        ask.read(frame, label="odd")
    schema = ask.Schema("people", odd=ask.Integer(0, 9), n=ask.Integer(0, 9))
    with pytest.raises(AskanceError, match=f"or times in 'odd', {reason}"):
        ask.read(frame, schema)
    assert ask.read(frame, ask.Schema("people", n=ask.Integer(0, 9))).size == ROWS


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict])
def test_columns_under_a_schema_come_from_a_table_of_any_library(make: Callable[..., Any]) -> None:
    schema = ask.Schema("people", t=ask.Category(["a", "b"]), n=ask.Integer(0, 9))
    people = ask.Population.from_columns(schema, make({"t": gaps(TEXT), "n": N}))
    found = people.columns(0, ROWS)
    assert np.asarray(found.values["n"]).tolist() == N
    assert found.present["t"].tolist() == [text is not None for text in gaps(TEXT)]


def test_what_has_no_columns_is_refused_in_a_line() -> None:
    with pytest.raises(AskanceError, match="a dict of columns or an array, got 'list'"):
        ask.Population.from_columns(ask.Schema("people", n=ask.Integer(0, 9)), [{"n": 1}])


@pytest.mark.parametrize(
    ("values", "label"),
    [
        (lambda: days(), "2024-01-01"),  # all at midnight: dates
        (lambda: days() + pd.Timedelta(hours=1), "2024-01-01 01:00:00"),
        (lambda: days().tz_localize("UTC"), "2024-01-01 00:00:00"),  # a time of some zone
    ],
)
def test_dates_have_no_time(values: Callable[[], Any], label: str) -> None:
    kind = ask.read(pd.DataFrame({"day": values()})).schema.fields["day"]
    assert isinstance(kind, ask.Category)
    assert kind.labels[0].startswith(label)
    assert len(kind.labels[0]) == len(label) or label != "2024-01-01"
