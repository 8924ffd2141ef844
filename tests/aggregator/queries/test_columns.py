"""Columns are encoded to exactly the integers that their records are."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from askance_aggregator.queries import encode_columns
from askance_client.errors import InvalidRecord
from askance_client.queries import Bit, Bits, Category, Field, Integer, Real, Schema

FIELDS: list[Field] = [
    Bit(),
    Category(["a", "b", "0", "1", "-1", "True"]),
    Integer(-3, 4),
    Integer(-(1 << 62) + 1, (1 << 62) - 1),
    Integer(5, 1 << 55),
    Real(-2, 2, 0),
    Real("-1.3", "2.7", 16),
    Real(-1, 1, 40),
    Real.of_mantissas(-(1 << 62) + 1, (1 << 62) - 1, 40),
    Real.of_mantissas(-(1 << 62) + 1, (1 << 62) - 1, 0),
]

fields = st.sampled_from(FIELDS)
floats = st.one_of(
    st.floats(),
    st.floats(-4, 4),
    st.integers(-(1 << 20), 1 << 20).map(lambda half: half / 2),  # ties on the coarse grids
    st.integers(-(1 << 20), 1 << 20).map(lambda tie: tie / 2**17),
    st.sampled_from([2.0**62, -(2.0**62), 2.0**22, 5e-324, -0.0, 1.0, 0.0]),
)
texts = st.one_of(
    st.sampled_from(["a", "0", "1", "-1", "", "?", "1e3", "-.5", "1/3", "inf", "nan", "1e400"]),
    st.floats().map(repr),
    st.text(max_size=5),
)
anything = st.one_of(
    st.none(), st.booleans(), st.integers(), floats, texts, st.fractions(), st.decimals()
)


def agree(field: Field, column: Any, items: Sequence[object] | NDArray[Any]) -> None:
    """The encoded column is, row by row, the encoded records."""
    schema = Schema("s", 1, z=field)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an overflow on the way would be a wrong integer
        columns = encode_columns(schema, {"z": column})
    assert columns.rows == len(items)
    for row, item in enumerate(items):
        expected, found = schema.encode({"z": item}), columns.record(row)
        assert (found.values, found.present) == (expected.values, expected.present)


@settings(deadline=None)  # a busy machine is no failure
@given(fields, st.lists(anything, max_size=8))
def test_lists_of_anything(field: Field, items: list[object]) -> None:
    agree(field, items, items)
    column = np.empty(len(items), dtype=object)
    column[:] = items
    agree(field, column, items)


@settings(deadline=None)  # a busy machine is no failure
@given(fields, st.lists(floats, max_size=8))
def test_float_columns(field: Field, items: list[float]) -> None:
    agree(field, items, items)
    agree(field, np.array(items, dtype=np.float64), items)
    with np.errstate(over="ignore"):
        for dtype in (np.float16, np.float32, np.longdouble):
            narrow = np.array(items, dtype=np.float64).astype(dtype)
            agree(field, narrow, list(narrow))


INTEGERS = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]


@settings(deadline=None)  # a busy machine is no failure
@given(fields, st.sampled_from(INTEGERS), st.data())
def test_integer_columns(field: Field, dtype: Any, data: st.DataObject) -> None:
    info = np.iinfo(dtype)
    numbers = st.integers(int(info.min), int(info.max)) | st.sampled_from([0, 1, int(info.max)])
    items = data.draw(st.lists(numbers, max_size=8))
    agree(field, np.array(items, dtype=dtype), items)
    agree(field, items, items)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_ends_of_integer_columns(field: Field, dtype: Any) -> None:
    ends = [int(np.iinfo(dtype).min), 0, int(np.iinfo(dtype).max)]
    agree(field, np.array(ends, dtype=dtype), ends)


@settings(deadline=None)  # a busy machine is no failure
@given(fields, st.lists(st.booleans(), max_size=8))
def test_truth_columns(field: Field, items: list[bool]) -> None:
    agree(field, np.array(items, dtype=np.bool_), items)
    agree(field, items, items)


@settings(deadline=None)  # a busy machine is no failure
@given(fields, st.lists(texts.filter(lambda text: "\0" not in text), min_size=1, max_size=8))
def test_text_columns(field: Field, items: list[str]) -> None:
    agree(field, np.array(items), items)


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from([1, 5, 31, 32, 33, 64, 70]), st.data())
def test_bit_columns(width: int, data: st.DataObject) -> None:
    row = st.lists(st.sampled_from([0, 1]), min_size=width, max_size=width)
    spoiled = st.lists(st.sampled_from([0, 1, 1, 2, -1]), min_size=width, max_size=width)
    items = data.draw(st.lists(row | spoiled, min_size=1, max_size=6))
    for dtype in (np.int64, np.uint8, np.int8, np.float64, object):
        agree(Bits(width), np.array(items).astype(np.int8).astype(dtype), np.array(items, np.int8))
    agree(Bits(width), items, items)
    texts = ["".join(str(abs(bit)) for bit in item) for item in items]
    agree(Bits(width), texts, texts)
    agree(Bits(width), np.array(texts), texts)


def test_bits_with_nan_or_nothing_are_not_present() -> None:
    schema = Schema("s", 1, z=Bits(2))
    columns = encode_columns(schema, {"z": np.array([[0, 1], [np.nan, 1], [1, 1]])})
    assert columns.present["z"].tolist() == [True, False, True]
    assert [word.tolist() for word in columns.values["z"]] == [[2, 0, 3]]
    ragged: list[object] = [[0, 1], None, [1], "11"]
    agree(Bits(2), ragged, ragged)


def test_masked_values_are_missing() -> None:
    column = np.ma.MaskedArray([1, 2, 3], mask=[False, True, False])
    columns = encode_columns(Schema("s", 1, z=Integer(0, 9)), {"z": column})
    assert columns.present["z"].tolist() == [True, False, True]


def test_a_column_left_out_is_present_nowhere() -> None:
    schema = Schema("s", 1, a=Integer(3, 9), b=Bits(40), c=Bit())
    columns = encode_columns(schema, {"c": [0, 1]})
    assert len(columns) == 2
    assert columns.record(1) != columns.record(1)  # compared by identity: they hold a user's data
    assert columns.record(1).values == schema.encode({"c": 1}).values
    assert columns.record(1).present == {"a": False, "b": False, "c": True}


def test_columns_are_read_only_and_leave_their_source_alone() -> None:
    source = np.array([1, 2, 3])
    columns = encode_columns(Schema("s", 1, z=Integer(0, 9)), {"z": source})
    column = columns.values["z"]
    assert isinstance(column, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 7
    source[0] = 7
    assert column.tolist() == [1, 2, 3]


def test_take_selects_records() -> None:
    schema = Schema("s", 1, z=Integer(0, 9), v=Bits(2))
    columns = encode_columns(schema, {"z": [1, 2, None, 4], "v": ["00", "01", "10", "11"]})
    for rows in (slice(1, 3), np.array([1, 2]), np.array([False, True, True, False])):
        part = columns.take(rows)
        assert part.rows == 2
        assert part.record(0).values == {"z": 2, "v": (2,)}
        assert part.record(1).present == {"z": False, "v": True}


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"z": [1], "v": ["00", "01"]},
        {"z": 1},
        {"z": "12"},
        {"z": np.array(1)},
        {"z": np.array([[1], [2]])},
        {"z": np.array(["2020-01-01"], dtype="datetime64[ns]")},
        {"z": np.array([1j])},
        {"v": np.zeros((3, 3), dtype=np.int64)},
        {"v": np.zeros(3, dtype=np.int64)},
    ],
)
def test_columns_without_the_schema_s_shape_are_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord):
        encode_columns(Schema("s", 1, z=Integer(0, 9), v=Bits(2)), columns)
