"""Vector queries: several numbers of one record on one grid, with one range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from askance_aggregator.encoding import encode_query
from askance_aggregator.queries import (
    as_query,
    block_of,
    category,
    cross,
    dot,
    encode_columns,
    evaluate_vectors,
    predicate,
    real,
    signed,
    vector,
    where,
    within_a_step,
)
from askance_aggregator.queries.functions import vector as vector_of
from askance_client.codec import decode_query
from askance_client.errors import InvalidQuery, InvalidRecord
from askance_client.queries import (
    MAX_COMPONENTS,
    Bit,
    Bits,
    Category,
    Integer,
    Kind,
    Op,
    Query,
    QueryKind,
    Real,
    Schema,
)
from askance_client.queries.program import Node, rebuild

S = Schema(
    "s", 1, b=Bit(), v=Bits(3), i=Integer(-3, 4), r=Real(-1, 1, 8), q=Real(-1, 1, 4),
    c=Category(["x", "y"]),
)  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"b": 1, "v": "101", "i": 2, "r": 0.5, "q": -0.25, "c": "x"},
    {"b": 0, "v": "010", "i": -3, "r": -1, "q": 1, "c": "y"},
    {"b": 1, "v": "111", "i": 4, "r": None, "q": 0.5, "c": "x"},
    {"b": None, "v": "111", "i": 0, "r": 0.25, "c": "x"},
]
QUERY = vector([S.r, S.q, S.r * S.b, 1, S.v[0]], -1, 1)


def test_components_stand_on_the_finest_grid_and_a_missing_field_defaults_its_own() -> None:
    assert (QUERY.kind, QUERY.components, QUERY.frac) == (QueryKind.VECTOR, 5, 8)
    assert (QUERY.low, QUERY.high, QUERY.default) == (-256, 256, 0)
    found = [QUERY.evaluate_vector(S.encode(row)) for row in ROWS]
    assert found == [
        (128, -64, 128, 256, 256),
        (-256, 256, 0, 256, 0),
        (0, 128, 0, 256, 256),  # r is missing: it and what is made of it
        (64, 0, 0, 256, 256),
    ]


def test_columns_are_the_same_integers() -> None:
    columns = {name: [row.get(name) for row in ROWS] for name in ("b", "v", "i", "r", "q", "c")}
    many = {name: column * 9 for name, column in columns.items()}
    values = evaluate_vectors(QUERY, encode_columns(S, many))
    assert values.dtype == np.int64
    assert values.shape == (36, 5)
    assert values.tolist() == [list(QUERY.evaluate_vector(S.encode(row))) for row in ROWS] * 9


def test_values_are_clamped_to_the_one_range() -> None:
    query = vector([S.i, S.r], -1, 2, default=1)
    assert (query.low, query.high, query.default) == (-256, 512, 256)
    record = S.encode({**ROWS[1], "r": None})
    assert query.evaluate_vector(record) == (-256, 256)
    assert vector([S.i, S.r]).high == 4 * 256


def test_a_block_has_the_values_of_its_place() -> None:
    for start, stop in ((0, 1), (1, 3), (3, 5), (0, 5)):
        part = block_of(QUERY, start, stop)
        assert (part.frac, part.low, part.high) == (QUERY.frac, QUERY.low, QUERY.high)
        for row in ROWS:
            record = S.encode(row)
            assert part.evaluate_vector(record) == QUERY.evaluate_vector(record)[start:stop]
    for start, stop in ((0, 0), (2, 6), (-1, 2)):
        with pytest.raises(InvalidQuery, match=r"within 0\.\.5"):
            block_of(QUERY, start, stop)


def test_it_travels_and_is_rebuilt_as_the_same() -> None:
    again = decode_query(encode_query(QUERY), S)
    assert again == QUERY
    assert again.digest(S) == QUERY.digest(S)
    assert within_a_step(QUERY, again)
    assert repr(QUERY.expression) == "vector(r, q, (r * b), 1, v[0])"
    assert as_query(vector_of([S.r, S.q])) == vector([S.r, S.q])


def test_a_finer_grid_may_be_asked_for_and_no_coarser_one() -> None:
    assert vector([S.q, S.i], frac_bits=10).frac == 10
    with pytest.raises(InvalidQuery, match="at least its components' 8 bits, found 4"):
        vector([S.q, S.r], frac_bits=4)


@pytest.mark.parametrize(
    ("components", "says"),
    [
        ([], r"1\.\.1024 arguments, found 0"),
        ([S.r] * (MAX_COMPONENTS + 1), r"1\.\.1024 arguments, found 1025"),
        ([S.c], "found CATEGORY"),
        ([S.r, S.v], "found BITS"),
        ([vector_of([S.r])], "found VECTOR"),
    ],
)
def test_what_is_no_vector_is_refused(components: list[object], says: str) -> None:
    with pytest.raises(InvalidQuery, match=says):
        vector(components, -1, 1)


def test_a_vector_is_only_asked_never_computed_with() -> None:
    v = vector_of([S.i, S.b])
    assert v.kind == Kind.VECTOR
    for use in (
        lambda: v + 1, lambda: v == 1, lambda: v[0], lambda: where(S.b, v, v),
        lambda: dot([1], [v]), lambda: real(v), lambda: predicate(v), lambda: category(v),
        lambda: signed(v), lambda: category(cross(v)), lambda: vector_of([v]), lambda: abs(v),
    ):  # fmt: skip
        with pytest.raises(InvalidQuery):
            use()
    with pytest.raises(InvalidQuery, match="VECTOR query expects a vector"):
        Query(QueryKind.VECTOR, S.r, -1, 1, 0)


@pytest.mark.parametrize(
    ("low", "high", "default"), [(1, 1, None), (2, 1, None), (-1, 1, 2), ("x", 1, None)]
)
def test_bounds_that_do_not_fit_are_refused(low: object, high: object, default: object) -> None:
    with pytest.raises(InvalidQuery):
        vector([S.r], low, high, default)


def test_kinds_are_not_mixed_up() -> None:
    with pytest.raises(InvalidQuery, match="evaluate_vector gives them"):
        QUERY.evaluate(S.encode(ROWS[0]))
    with pytest.raises(InvalidQuery, match="expects a VECTOR query"):
        real(S.r).evaluate_vector(S.encode(ROWS[0]))
    with pytest.raises(InvalidQuery, match="has no cells"):
        _ = QUERY.cells
    with pytest.raises(InvalidQuery, match="components expects a VECTOR query"):
        _ = real(S.r).components
    with pytest.raises(InvalidRecord, match="lacks"):
        QUERY.evaluate_vector(Schema("t", 1, r=Real(-1, 1, 8)).encode({"r": 0}))


R = Node(Op.FIELD, name="r")


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([R, Node(Op.VECTOR, (0,) * 1025, frac=8)], r"1\.\.1024 arguments, found 1025"),
        ([R, Node(Op.VECTOR, (0,))], "at least its components' 8 bits, found 0"),
        ([R, Node(Op.VECTOR, (0,), frac=41)], r"a grid of 0\.\.40 bits"),
        ([R, Node(Op.VECTOR, (0,), constants=(1,), frac=8)], "0 constants, found 1"),
        ([R, Node(Op.VECTOR, (0,), frac=8), Node(Op.NEGATE, (1,))], "found VECTOR"),
        ([R, Node(Op.VECTOR, (1,), frac=8)], "positions of earlier nodes"),
        (
            [Node(Op.CONSTANT, constants=(1 << 60,)), Node(Op.VECTOR, (0,), frac=8)],
            r"could reach 2\^62",
        ),
    ],
)
def test_hostile_vectors_are_refused(nodes: list[Node], says: str) -> None:
    with pytest.raises(InvalidQuery, match=says):
        rebuild(nodes, S)


def test_one_component_a_thousand_times_is_one_node() -> None:
    query = vector([S.r] * MAX_COMPONENTS)
    assert len(query.nodes) == 2
    assert query.evaluate_vector(S.encode(ROWS[0])) == (128,) * MAX_COMPONENTS
