"""Queries: what is asked of a value, the public default, digests, and the same question again."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from itertools import product
from typing import Any

import pytest

from askance_aggregator.queries import (
    as_query,
    bucketize,
    category,
    cross,
    dot,
    encode_columns,
    evaluate_columns,
    first,
    index_of,
    merge_disjoint,
    parity,
    predicate,
    real,
    round_to,
    signed,
    where,
)
from askance_client.errors import InvalidQuery, InvalidRecord
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    EncodedRecord,
    Expression,
    Integer,
    Kind,
    Op,
    Query,
    QueryKind,
    Real,
    Schema,
    constant,
)
from askance_client.queries.categories import cell_names, signed_cells
from askance_client.queries.expressions import build

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


def ask(query: Query, **record: object) -> int:
    return query.evaluate(S.encode(record))


def test_a_predicate_answers_0_or_1_and_its_default() -> None:
    query = predicate(S.i > 1, default=1)
    assert (query.kind, query.cells, cell_names(query)) == (QueryKind.PREDICATE, 2, ("0", "1"))
    assert [ask(query, i=i) for i in (1, 2)] == [0, 1]
    assert ask(query) == 1
    assert ask(predicate(S.i > 1)) == 0


def test_a_real_is_clamped_to_its_bounds_in_real_units() -> None:
    query = real(S.r * 2, low=-1, high="1.5")
    assert (query.frac, query.low, query.high) == (8, -256, 384)
    assert query.default == 64  # the middle
    assert [ask(query, r=r) for r in (-1, 0, 0.5, 2, None)] == [-256, 0, 256, 384, 64]


def test_a_real_has_its_own_bounds_and_the_middle_rounded_down() -> None:
    query = real(S.i)
    assert (query.low, query.high, query.default) == (-3, 4, 0)
    assert real(-S.i).default == -1
    assert real(S.b).high == 1
    assert real(S.i, default=4).default == 4
    assert real(S.r, low=Fraction(1, 3)).low == 85  # rounded to the expression's grid
    assert real(S.i, low=-10, high=10).low == -10  # public bounds may be wider


def test_a_category_answers_a_cell_and_names_its_cells() -> None:
    query = category(S.c, default=2)
    assert (query.cells, cell_names(query)) == (3, ("red", "green", "blue"))
    assert [ask(query, c=c) for c in ("red", "blue", "mauve", None)] == [0, 2, 2, 2]
    assert category(S.n).cells == 7
    assert cell_names(category(cross(S.c, S.b))) == ("0", "1", "2", "3", "4", "5")
    assert category(bucketize(S.i, [0, 2])).cells == 3


def test_signed_cells_are_pairs_and_none() -> None:
    query = signed(where(S.b, 2 * index_of(S.c) + (S.i < 0), 6))
    assert (signed_cells(query), query.cells, query.default) == (3, 7, 6)
    assert ask(query, b=1, c="green", i=2) == 2
    assert ask(query, b=1, c="green", i=-2) == 3
    assert ask(query, b=0, c="green", i=2) == 6
    assert ask(query, b=1, c="green") == 6


def test_disjoint_predicates_become_one_category() -> None:
    query = merge_disjoint([S.i == 0, S.i == 1, S.i > 2])
    assert (query.kind, query.cells, query.default) == (QueryKind.CATEGORY, 4, 3)
    assert [ask(query, i=i) for i in (0, 1, 2, 3, None)] == [0, 1, 3, 2, 3]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        (S.b, QueryKind.PREDICATE),
        (S.c, QueryKind.CATEGORY),
        (first([S.b]), QueryKind.CATEGORY),
        (S.i, QueryKind.REAL),
    ],
)
def test_a_bare_expression_is_asked_by_its_kind(expression: Expression, kind: QueryKind) -> None:
    query = as_query(expression)
    assert query.kind == kind
    assert as_query(query) is query


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: predicate(S.i), "expects a BOOLEAN in 0..1, found NUMBER"),
        (lambda: predicate(S.b, 2), "default within its bounds"),
        (lambda: predicate(S.b, 0.5), "default expects an integer"),  # type: ignore[arg-type]  # refused
        (lambda: Query(QueryKind.PREDICATE, S.b, 0, 2, 0), "BOOLEAN in 0..1"),
        (lambda: real(S.c), "expects a number, found CATEGORY"),
        (lambda: real(S.v), "expects a number, found BITS"),
        (lambda: real(S.i, low=4), "0 < high - low"),
        (lambda: real(S.i, low=5), "0 < high - low"),
        (lambda: real(constant(2)), "0 < high - low"),
        (lambda: real(S.wide), r"2\^31 grid units, found 2147483648 .*round_to"),
        (lambda: real(S.i, default=5), "default within its bounds"),
        (lambda: real(S.i, low="a"), "low expects a finite number"),
        (lambda: real(S.i, high=float("inf")), "high expects a finite number"),
        (lambda: real(S.i, low=-(1 << 62), high=-(1 << 62) + 1), r"below 2\^62 as low"),
        (lambda: category(S.i), "integers from 0, found NUMBER from -3"),
        (lambda: category(S.r), "on a grid of 2"),
        (lambda: category(S.v), "found BITS"),
        (lambda: category(S.single), r"2\.\.1048576 cells, found 1"),
        (lambda: category(S.wide), r"2\.\.1048576 cells, found 2147483649"),
        (lambda: category(S.c, 3), "default within its bounds"),
        (lambda: Query(QueryKind.CATEGORY, S.c, 0, 3, 0), r"cells 0\.\.2"),
        (lambda: Query(QueryKind.CATEGORY, S.c, 1, 2, 1), r"cells 0\.\.2"),
        (lambda: signed(S.b), "2d [+] 1 cells, found 2"),
        (lambda: signed(constant(0)), r"2\.\.1048576 cells, found 1"),
        (lambda: Query(0, S.b, 0, 1, 0), "QueryKind, found int"),  # type: ignore[arg-type]  # refused
        (lambda: Query(QueryKind.REAL, S.i, 0, 1, True), "as default"),
        (lambda: Query.rebuilt(9, (), S, low=0, high=1, default=0), "a known kind"),
        (lambda: Query.rebuilt(1, (), S, low=0, high=1, default=0), "found 0"),
        (lambda: as_query(3), "expected an expression, found int"),  # type: ignore[arg-type]  # refused
        (lambda: real(S.r).cells, "has no cells"),
        (lambda: signed_cells(category(S.c)), "expects a SIGNED query, found CATEGORY"),
        (lambda: predicate((S.i > 0) & (Schema("t", 1, i=Integer(0, 1)).i > 0)), "schemas mixed"),
    ],
)
def test_parts_that_do_not_fit_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        make()


QUERIES: list[Callable[[], Query]] = [
    lambda: predicate(parity(S.v, "101") == S.b, 1),
    lambda: predicate(constant(1)),
    lambda: real(dot([1, -0.5, 2], S.v) + S.i),
    lambda: real(round_to(S.r * S.i, 2), default=-1),
    lambda: real(S.i, low=-1, high=2),
    lambda: category(cross(S.c, S.b), 5),
    lambda: signed(where(S.b, S.n, 6)),
]


def test_only_the_fields_that_are_used_need_be_present() -> None:
    query = predicate((S.i > 0) | S.b)
    assert query.fields_used == {"i", "b"}
    assert ask(query, i=1, b=0, c="mauve") == 1
    assert ask(query, i=1) == 0  # although b could not have mattered: the rule is public


def test_a_record_of_another_schema_is_refused() -> None:
    other = Schema("t", 1, z=Bit())
    with pytest.raises(InvalidRecord, match="uses field b"):
        predicate(S.b).evaluate(other.encode({}))
    with pytest.raises(InvalidRecord, match="uses field b"):
        evaluate_columns(predicate(S.b), encode_columns(other, {"z": [1]}))


def test_a_handmade_record_cannot_leave_the_bounds() -> None:
    assert real(S.i).evaluate(EncodedRecord({"i": 10**9}, {"i": True})) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: predicate(S.i > 1, default=1),
        lambda: predicate(S.i > 2),
        lambda: predicate(S.i >= 1),
        lambda: predicate(S.n > 1),
        lambda: real(S.i > 1),
        lambda: category(S.i > 1),
    ],
    ids=range(6),
)
def test_every_part_of_a_query_is_in_its_canonical_bytes(make: Callable[[], Query]) -> None:
    query, other = predicate(S.i > 1), make()
    assert query == predicate(S.i > 1)
    assert hash(query) == hash(predicate(S.i > 1))
    assert query != other
    assert query.canonical != other.canonical
    assert query.digest(S) != other.digest(S)


def test_the_digest_is_of_the_question_over_its_schema() -> None:
    query = predicate(S.b)
    assert query.digest(S) == sha256(S.digest + query.canonical).digest()
    assert query.digest(S) != query.digest(Schema("s", 2, **S.fields))
    assert (
        query.digest(S).hex() == "b520b5d058bf1a3ab90d3aad1edfec97a692db313ee1badf80ebe6b444403850"
    )


def test_kinds_have_frozen_numbers() -> None:
    assert {kind.name: int(kind) for kind in QueryKind} == {
        "PREDICATE": 1,
        "REAL": 2,
        "CATEGORY": 3,
        "SIGNED": 4,
        "VECTOR": 5,
    }


@pytest.mark.parametrize("make", QUERIES, ids=range(7))
def test_a_query_travels(make: Callable[[], Query]) -> None:
    query = make()
    record = S.encode({"b": 1, "v": "110", "c": "blue", "i": 2, "n": 3, "r": 1})
    rebuilt = Query.rebuilt(
        query.kind, query.nodes, S, low=query.low, high=query.high, default=query.default
    )
    for other in (pickle.loads(pickle.dumps(query)), copy.deepcopy(query), rebuilt):
        assert other == query
        assert other.evaluate(record) == query.evaluate(record)


def test_the_kind_of_an_expression_is_not_its_query_s() -> None:
    assert real(S.b).expression.kind == Kind.BOOLEAN


def test_a_query_s_bounds_are_accepted_at_their_limits_and_refused_one_past() -> None:
    top = (1 << 62) - 1
    wide = Schema("wide", 1, x=Integer(-top, top), b=Bit())
    for low in (-top, top - (1 << 31) + 1):
        assert Query(QueryKind.REAL, wide.x, low, low + (1 << 31) - 1, low).low == low
    for low, high in ((-top - 1, -top), (top, top + 1), (-top - 2, -top), (top, top + 2)):
        with pytest.raises(InvalidQuery, match=r"expects an integer below 2\^62 as"):
            Query(QueryKind.REAL, wide.x, low, high, low)
    assert Query(QueryKind.REAL, wide.x, 5, 6, 6).high == 6
    for low, high in ((5, 5), (5, 4), (0, 1 << 31), (0, (1 << 31) + 1)):
        with pytest.raises(InvalidQuery, match=r"0 < high - low < 2\^31 grid units"):
            Query(QueryKind.REAL, wide.x, low, high, low)
    for default in (3, 4, 7, 8):
        with pytest.raises(InvalidQuery, match="its default within its bounds"):
            Query(QueryKind.REAL, wide.x, 5, 6, default)
    for high in (1, (1 << 20) - 1):
        cells = Schema("cells", 1, x=Integer(0, high)).x
        assert Query(QueryKind.CATEGORY, cells, 0, high, high).cells == high + 1
    for high in (1 << 20, (1 << 20) + 1):
        cells = Schema("cells", 1, x=Integer(0, high)).x
        with pytest.raises(InvalidQuery, match=rf"2..1048576 cells, found {high + 1}"):
            Query(QueryKind.CATEGORY, cells, 0, high, 0)
    with pytest.raises(InvalidQuery, match=r"2..1048576 cells, found 1"):
        Query(QueryKind.CATEGORY, Schema("cells", 1, c=Category(["one"])).c, 0, 0, 0)


def test_each_component_of_a_vector_answers_the_default_for_its_own_fields_only() -> None:
    schema = Schema("v", 1, x=Integer(-9, 9), y=Integer(-9, 9), z=Integer(-9, 9))
    vector = build(Op.VECTOR, (schema.x, schema.y + schema.z, schema.z, schema.x * schema.x))
    query = Query(QueryKind.VECTOR, vector, -7, 8, 3)
    assert query.components == 4
    for absent in product([False, True], repeat=3):
        x, y, z = absent
        record = {"x": -8, "y": 5, "z": 6}
        kept = {
            k: value for (k, value), gone in zip(record.items(), absent, strict=True) if not gone
        }
        expected = (3 if x else -7, 3 if y or z else 8, 3 if z else 6, 3 if x else 8)
        assert query.evaluate_vector(schema.encode(kept)) == expected


@pytest.mark.parametrize(
    ("low", "high"), [(-1, 1), (0, 0), (0, 2), (1, 1), (1, 2), (-1, 0), (0, 3), (-2, 1)]
)
def test_a_predicate_s_bounds_are_0_and_1(low: int, high: int) -> None:
    with pytest.raises(InvalidQuery, match=r"expects a BOOLEAN in 0\.\.1"):
        Query(QueryKind.PREDICATE, S.b, low, high, low)
    assert Query(QueryKind.PREDICATE, S.b, 0, 1, 0).cells == 2


@pytest.mark.parametrize(("low", "high"), [(-2, 2), (-1, 2), (1, 2), (0, 1), (0, 3), (0, 4)])
def test_the_bounds_of_cells_are_those_of_the_expression(low: int, high: int) -> None:
    for kind in (QueryKind.CATEGORY, QueryKind.SIGNED):
        with pytest.raises(InvalidQuery, match=r"expects the cells 0\.\.2 as its bounds"):
            Query(kind, S.c, low, high, 1)
        assert Query(kind, S.c, 0, 2, 1).cells == 3
    with pytest.raises(InvalidQuery, match=r"2d \+ 1 cells, found 2"):
        Query(QueryKind.SIGNED, S.b, 0, 1, 0)


def test_a_query_reads_as_its_parts() -> None:
    expected = "Query(kind=<QueryKind.REAL: 2>, expression=i, low=-3, high=4, default=0)"
    assert repr(Query(QueryKind.REAL, S.i, -3, 4, 0)) == expected


def test_each_kind_of_query_has_its_own_values_only() -> None:
    vector = Query(QueryKind.VECTOR, build(Op.VECTOR, (S.i, S.n)), -3, 6, 0)
    number = Query(QueryKind.REAL, S.i, -3, 4, 0)
    signs = Query(QueryKind.SIGNED, S.c, 0, 2, 0)
    cells = Query(QueryKind.CATEGORY, S.c, 0, 2, 0)
    record = S.encode({})
    with pytest.raises(InvalidQuery, match="a VECTOR query has several values"):
        vector.evaluate(record)
    for query in (vector, number):
        with pytest.raises(InvalidQuery, match=f"a {query.kind.name} query has no cells"):
            _ = query.cells
    for query in (number, signs, cells):
        with pytest.raises(InvalidQuery, match=f"expects a VECTOR query, found {query.kind.name}"):
            query.evaluate_vector(record)
        with pytest.raises(InvalidQuery, match=f"components expects a VECTOR .*{query.kind.name}"):
            _ = query.components
    for query in (vector, number, cells):
        with pytest.raises(InvalidQuery, match=f"expects a SIGNED query, found {query.kind.name}"):
            _ = signed_cells(query)
    assert (vector.components, signed_cells(signs), signs.cells, cells.cells) == (2, 1, 3, 3)
    assert (cell_names(cells), cell_names(signs)) == (("red", "green", "blue"), ("0", "1", "2"))
