"""Queries on columns answer the integers of their records."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from askance_aggregator.queries import (
    EncodedColumns,
    category,
    cross,
    dot,
    encode_columns,
    evaluate_columns,
    parity,
    predicate,
    real,
    round_to,
    signed,
    where,
)
from askance_client.queries import Bit, Bits, Category, Integer, Query, Real, Schema, constant

S = Schema(
    "s",
    1,
    b=Bit(),
    v=Bits(3),
    c=Category(["red", "green", "blue"]),
    single=Category(["only"]),
    i=Integer(-3, 4),
    n=Integer(0, 6),
    r=Real(-1, 2, 8),
    wide=Integer(0, 1 << 31),
)


QUERIES = [
    predicate(parity(S.v, "101") == S.b, 1),
    predicate(constant(1)),
    real(dot([1, -0.5, 2], S.v) + S.i),
    real(round_to(S.r * S.i, 2), default=-1),
    real(S.i, low=-1, high=2),
    category(cross(S.c, S.b), 5),
    signed(where(S.b, S.n, 6)),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: repr(query.expression))
def test_columns_answer_as_their_records_do_whatever_is_missing(query: Query) -> None:
    values: dict[str, list[object]] = {
        "b": [0, 1, None],
        "v": ["101", "011", "2"],
        "c": ["red", "blue", "?"],
        "i": [-3, 4, float("nan")],
        "n": [0, 5, "six"],
        "r": [-0.7, 2, float("inf")],
    }
    rows = [dict(zip(values, row, strict=True)) for row in product(*values.values())]
    columns = encode_columns(S, {name: [row[name] for row in rows] for name in values})
    answers = evaluate_columns(query, columns)
    assert answers.dtype == np.int64
    assert answers.tolist() == [query.evaluate(S.encode(row)) for row in rows]
    for row, answer in zip(rows, answers.tolist(), strict=True):
        present = S.encode(row).present
        if not all(present[name] for name in query.fields_used):
            assert answer == query.default
    assert evaluate_columns(query, columns.take(slice(0, 0))).shape == (0,)


def test_many_rows_are_answered_as_few_are() -> None:
    """Rows are evaluated by chunks of 2^14; neither their size nor their borders show."""
    rows = (1 << 14) * 2 + 5
    rng = np.random.default_rng(1)
    columns = encode_columns(S, {"i": rng.integers(-3, 5, rows), "r": rng.normal(size=rows)})
    query = real(round_to(S.r * S.i, 2))
    answers = evaluate_columns(query, columns)
    pieces = [
        evaluate_columns(query, columns.take(slice(k, k + 1000))) for k in range(0, rows, 1000)
    ]
    assert answers.tolist() == np.concatenate(pieces).tolist()
    assert query.evaluate(columns.record(rows - 1)) == answers[-1]


def test_narrow_columns_of_two_grids_are_compared_as_wide_ones() -> None:
    """A comparison on one grid needs no wider integers; on two grids a value is shifted."""
    wide = encode_columns(S, {"i": [-3, 0, 1, 4], "n": [0, 3, 1, 6], "r": [-1, 0.5, 1, 2]})
    kept = {name: column for name, column in wide.values.items() if not isinstance(column, tuple)}
    narrow = EncodedColumns(
        kept | {"i": kept["i"].astype(np.int8), "r": kept["r"].astype(np.int16)},
        wide.present,
        wide.rows,
    )
    for query in (predicate(S.i < S.r), predicate(S.r <= S.i), predicate(S.i < S.n)):
        expected = [query.evaluate(wide.record(row)) for row in range(4)]
        assert evaluate_columns(query, wide).tolist() == expected
        assert evaluate_columns(query, narrow).tolist() == expected
