"""Operators and functions: which kinds they take, on which grid and between which bounds."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from askance_aggregator.queries import (
    absolute,
    bucketize,
    clip,
    cross,
    dot,
    first,
    index_of,
    maximum,
    minimum,
    parity,
    round_to,
    sigmoid,
    where,
)
from askance_client.errors import InvalidQuery
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Kind,
    Op,
    Real,
    Schema,
    constant,
    flatten,
)

S = Schema(
    "s",
    1,
    b=Bit(),
    p=Bit(),
    v=Bits(5),
    c=Category(["red", "green", "7"]),
    d=Category(["red", "green", "7"]),
    e=Category(["x", "y"]),
    i=Integer(-3, 4),
    n=Integer(0, 10),
    r=Real(-1, 2, 8),
    big=Integer(-(1 << 61), 1 << 61),
    fine=Real(-1, 1, 40),
)


@pytest.mark.parametrize(
    ("make", "kind", "frac", "low", "high"),  # made in the test, so that a defect shows there
    [
        (lambda: S.b, Kind.BOOLEAN, 0, 0, 1),
        (lambda: S.c, Kind.CATEGORY, 0, 0, 2),
        (lambda: S.v[4], Kind.BOOLEAN, 0, 0, 1),
        (lambda: S.r, Kind.NUMBER, 8, -256, 512),
        (lambda: S.i + S.n, Kind.NUMBER, 0, -3, 14),
        (lambda: S.i + S.r, Kind.NUMBER, 8, -1024, 1536),
        (lambda: 1 + S.i, Kind.NUMBER, 0, -2, 5),
        (lambda: S.i + 0.5, Kind.NUMBER, 16, -163840, 294912),
        (lambda: S.i - S.n, Kind.NUMBER, 0, -13, 4),
        (lambda: 3 - S.i, Kind.NUMBER, 0, -1, 6),
        (lambda: S.i * S.n, Kind.NUMBER, 0, -30, 40),
        (lambda: S.i * S.r, Kind.NUMBER, 8, -1536, 2048),
        (lambda: S.i * S.i, Kind.NUMBER, 0, 0, 16),
        (lambda: S.r * S.r, Kind.NUMBER, 16, 0, 1 << 18),
        (lambda: (S.n + 1) * (S.n + 1), Kind.NUMBER, 0, 1, 121),
        (lambda: -S.i, Kind.NUMBER, 0, -4, 3),
        (lambda: +S.i, Kind.NUMBER, 0, -3, 4),
        (lambda: -S.b, Kind.NUMBER, 0, -1, 0),
        (lambda: S.b + S.p, Kind.NUMBER, 0, 0, 2),
        (lambda: abs(S.i), Kind.NUMBER, 0, 0, 4),
        (lambda: absolute(S.n + 2), Kind.NUMBER, 0, 2, 12),
        (lambda: absolute(-S.n - 2), Kind.NUMBER, 0, 2, 12),
        (lambda: minimum(S.i, S.n), Kind.NUMBER, 0, -3, 4),
        (lambda: maximum(S.i, 2), Kind.NUMBER, 0, 2, 4),
        (lambda: S.i < S.r, Kind.BOOLEAN, 0, 0, 1),
        (lambda: S.c == "red", Kind.BOOLEAN, 0, 0, 1),
        (lambda: S.c != S.d, Kind.BOOLEAN, 0, 0, 1),
        (lambda: S.b & ~S.p | (S.i > 0), Kind.BOOLEAN, 0, 0, 1),
        (lambda: True & S.b, Kind.BOOLEAN, 0, 0, 1),
        (lambda: 0 | S.b, Kind.BOOLEAN, 0, 0, 1),
        (lambda: where(S.b, S.p, 0), Kind.BOOLEAN, 0, 0, 1),
        (lambda: where(S.b, S.i, 9), Kind.NUMBER, 0, -3, 9),
        (lambda: where(S.b, S.i, S.r), Kind.NUMBER, 8, -768, 1024),
        (lambda: where(S.b, S.c, S.d), Kind.CATEGORY, 0, 0, 2),
        (lambda: where(S.b, S.c, first([S.p])), Kind.CATEGORY, 0, 0, 2),
        (lambda: where(S.b, "green", S.c), Kind.CATEGORY, 0, 0, 2),
        (lambda: where(True, S.i, 1), Kind.NUMBER, 0, -3, 4),
        (lambda: clip(S.n, -1, 3), Kind.NUMBER, 0, 0, 3),
        (lambda: clip(S.n, 12, 13), Kind.NUMBER, 0, 12, 12),
        (lambda: clip(S.n, 0, "2.5"), Kind.NUMBER, 16, 0, 163840),
        (lambda: round_to(S.r, 0), Kind.NUMBER, 0, -1, 2),
        (lambda: round_to(S.r * S.r, 4), Kind.NUMBER, 4, 0, 64),
        (lambda: sigmoid(S.i), Kind.NUMBER, 16, 3108, 64357),
        (lambda: sigmoid(100 * S.i), Kind.NUMBER, 16, 22, 65514),
        (lambda: parity(S.v, "11000"), Kind.BOOLEAN, 0, 0, 1),
        (lambda: dot([1, -2, 3, 0, 0], S.v), Kind.NUMBER, 0, -2, 4),
        (lambda: dot([2, -1], [S.i, S.r]), Kind.NUMBER, 8, -2048, 2304),
        (lambda: dot([Fraction(1, 2), 1], [S.i, S.b]), Kind.NUMBER, 16, -98304, 196608),
        (lambda: dot([1], [S.i], frac_bits=3), Kind.NUMBER, 3, -24, 32),
        (lambda: bucketize(S.i, [-1, 0, 2]), Kind.CATEGORY, 0, 0, 3),
        (lambda: first([S.b, S.p]), Kind.CATEGORY, 0, 0, 2),
        (lambda: index_of(S.c), Kind.NUMBER, 0, 0, 2),
        (lambda: cross(S.c, S.b, S.e), Kind.NUMBER, 0, 0, 11),
    ],
    ids=range(53),
)
def test_kind_grid_and_bounds(
    make: Callable[[], Expression], kind: Kind, frac: int, low: int, high: int
) -> None:
    expression = make()
    found = (expression.kind, expression.frac, expression.low, expression.high)
    assert found == (kind, frac, low, high)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: S.i & S.b, "AND expects BOOLEAN as argument 1, found NUMBER"),
        (lambda: ~S.i, "NOT expects BOOLEAN"),
        (lambda: S.b | 2, "OR expects BOOLEAN as argument 2"),
        (lambda: S.c + 1, "found CATEGORY; index_of"),
        (lambda: S.c < "green", "finite number, found str"),
        (lambda: S.c < S.d, "LESS expects BOOLEAN or NUMBER"),
        (lambda: S.c == "blue", "one of its labels: red, green, 7; found 'blue'"),
        (lambda: S.c == 8, "one of its labels"),
        (lambda: S.c == 1.5, "one of its labels"),
        (lambda: S.c == S.e, "categories with the same labels"),
        (lambda: S.c == S.i, "EQUAL expects beside a category one of its labels"),
        (lambda: first([S.b]) == 2, r"indices 0\.\.1"),
        (lambda: first([S.b]) == 0.5, "beside a category"),
        (lambda: S.v == 3, "found BITS"),
        (lambda: S.v == S.v, "found BITS"),
        (lambda: S.v + 1, "found BITS"),
        (lambda: S.v[5], r"one of 0\.\.4, found 5"),
        (lambda: S.v[-1], r"one of 0\.\.4, found -1"),
        (lambda: S.v["a"], "asked for by an integer, found str"),  # type: ignore[index]  # refused
        (lambda: S.i[0], "COMPONENT expects BITS"),
        (lambda: len(S.i), "only BITS have components"),
        (lambda: list(S.i), "only BITS have components"),
        (lambda: 3 in S.i, "cannot be asked"),
        (lambda: 0 < S.i < 3, "no truth value"),
        (lambda: bool(S.b), "no truth value"),
        (lambda: S.i / 2, "multiply by a constant"),
        (lambda: 2 // S.i, "multiply by a constant"),
        (lambda: S.i + None, "constant 0 expects a finite number, found NoneType"),
        (lambda: S.i + "ten", "finite number, found str"),
        (lambda: S.i + float("nan"), "finite number, found float"),
        (lambda: S.i < float("inf"), "finite number, found float"),
        (lambda: np.array([1, 2]) * S.i, "finite number, found ndarray"),
        (lambda: S.i + 2**62, r"reaches 2\^62"),
        (lambda: constant("1e400"), r"reaches 2\^62"),
        (lambda: constant(1, 41), r"frac_bits in 0\.\.40"),
        (lambda: constant(1, -1), r"frac_bits in 0\.\.40"),
        (lambda: where(S.i, 1, 2), "WHERE expects BOOLEAN"),
        (lambda: where(S.b, S.c, 1.5), "one of its labels"),
        (lambda: where(S.b, S.c, S.e), "categories with the same labels"),
        (lambda: where(S.b, S.c, "blue"), "one of its labels"),
        (lambda: where(S.b, S.c, S.i), "WHERE expects beside a category"),
        (lambda: where(S.b, S.v, S.v), "found BITS"),
        (lambda: clip(S.i, 3, 2), "low <= high"),
        (lambda: clip(S.c, 0, 1), "CLIP expects"),
        (lambda: round_to(S.r, -1), r"grid of 0\.\.40 bits, found -1"),
        (lambda: round_to(S.r, 1.5), "integer frac_bits"),  # type: ignore[arg-type]  # refused
        (lambda: round_to(S.c, 0), "ROUND expects"),
        (lambda: sigmoid(S.c), "SIGMOID expects"),
        (lambda: parity(S.v, "1100"), "mask of 5 values 0/1"),
        (lambda: parity(S.v, [1, 1, 2, 0, 0]), "mask of 5 values 0/1"),
        (lambda: parity(S.i, "1"), "PARITY expects BITS"),
        (lambda: dot([1, 2], S.v), "5 constants, found 2"),
        (lambda: dot([1], [S.i, S.b]), "2 constants, found 1"),
        (lambda: dot([], []), "arguments, found 0"),
        (lambda: dot([1], S.i), "expects BITS or a list"),
        (lambda: dot([1, 1], [S.v, S.i]), "BITS alone"),
        (lambda: dot([1], [S.c]), "DOT expects"),
        (lambda: bucketize(S.i, []), "constants, found 0"),
        (lambda: bucketize(S.i, [1, 1]), "increasing edges, edge 1"),
        (lambda: bucketize(S.i, [0, 0.000001]), "increasing edges, edge 1"),
        (lambda: first([]), "arguments, found 0"),
        (lambda: first([S.i]), "FIRST expects BOOLEAN"),
        (lambda: index_of(S.i), "INDEX expects CATEGORY"),
        (lambda: cross(), "at least one"),
        (lambda: cross(S.i), "cross expects"),
        (lambda: cross(S.r), "cross expects"),
    ],
)
def test_what_is_ill_typed_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: S.big + S.big,
        lambda: S.big - S.big,
        lambda: S.big * 2,
        lambda: S.big * S.big,
        lambda: S.big * 0.5,
        lambda: S.big + 0.5,
        lambda: S.big < 0.5,
        lambda: where(S.b, S.big, S.r),
        lambda: dot([1, 1], [S.big, S.big]),
        lambda: dot([1, -1], [S.big, S.big]),
        lambda: dot([1 << 61, 1], [clip(S.i, 0, 0), S.r]),
        lambda: clip(S.r, 0, 1 << 58),
        lambda: bucketize(S.big, [0.5]),
        lambda: bucketize(S.r, [1 << 58]),
        lambda: minimum(S.big, 0.5),
    ],
)
def test_what_could_overflow_is_refused(make: Any) -> None:
    with pytest.raises(InvalidQuery, match=r"could reach 2\^62"):
        make()


def test_a_grid_finer_than_the_finest_is_refused() -> None:
    with pytest.raises(InvalidQuery, match=r"finer than 2\^-40: round_to"):
        _ = S.fine * S.r
    assert (round_to(S.fine, 32) * S.r).frac == 40


@pytest.mark.parametrize(
    ("value", "mantissa", "grid"),
    [
        (3, 3, 0),
        (True, 1, 0),
        (np.int64(-3), -3, 0),
        (np.bool_(False), 0, 0),
        (3.0, 3 << 16, 16),
        (0.1, 6554, 16),
        (np.float32(0.1), 6554, 16),
        ("0.1", 6554, 16),
        (Decimal("-0.1"), -6554, 16),
        (Fraction(1, 3), 21845, 16),
        (Fraction(1, 1 << 17), 0, 16),  # ties go to even
        (Fraction(3, 1 << 17), 2, 16),
        (Fraction(-1, 1 << 17), 0, 16),
        (Fraction(-3, 1 << 17), -2, 16),
    ],
)
def test_constants_are_rounded_half_even_to_the_grid(value: Any, mantissa: int, grid: int) -> None:
    for node in (constant(value), (S.i + value).args[1], (value - S.i).args[0]):
        assert (node.op, node.constants, node.grid) == (Op.CONSTANT, (mantissa,), grid)


def test_an_explicit_grid_holds_for_integers_too() -> None:
    assert constant(3, 4).constants == (48,)
    assert constant("0.7", 0).constants == (1,)


def test_labels_may_be_given_as_they_are_or_as_integers() -> None:
    assert (S.c == 7).same_as(S.c == "7")
    assert (S.c != 7).same_as(~(S.c == "7"))


@pytest.mark.parametrize(
    ("count", "more"), [(1, ""), (19, ""), (20, ""), (21, ", ..."), (22, ", ...")]
)
def test_a_label_that_is_none_is_refused_with_the_first_twenty(count: int, more: str) -> None:
    labels = [f"l{k}" for k in range(count)]
    category = Schema("labels", 1, c=Category(labels)).c
    with pytest.raises(InvalidQuery) as refused:
        _ = category == "none"
    shown = ", ".join(labels[:20]) + more
    assert str(refused.value) == f"c expects one of its labels: {shown}; found 'none'"


def test_a_choice_between_categories_keeps_labels_that_agree() -> None:
    assert where(S.b, S.c, S.d).labels == where(S.b, S.c, "red").labels == S.c.labels
    assert where(S.b, S.c, first([S.p])).labels is None


def test_components_of_bits_are_a_sequence() -> None:
    assert len(S.v) == 5
    assert [bit.constants for bit in S.v] == [(0,), (1,), (2,), (3,), (4,)]
    assert S.v[np.int64(2)].same_as(S.v[2])


def test_rounding_to_a_finer_grid_changes_nothing() -> None:
    assert round_to(S.r, 8) is S.r
    assert round_to(S.i, 40) is S.i


def test_same_as_is_structure_and_hash_is_identity() -> None:
    a, b = S.i + 1, S.i + 1
    assert a is not b
    assert a.same_as(b)
    assert not a.same_as(S.i + 2)
    assert not a.same_as(1 + S.i)
    assert len({a, b, a}) == 2
    other = Schema("t", 1, i=Integer(-3, 5))
    assert not S.i.same_as(other.i)  # the same name, another type


def test_an_expression_is_immutable_and_travels() -> None:
    expression = (S.i + 1) * sigmoid(S.r)
    with pytest.raises(AttributeError):
        expression.op = Op.ADD  # type: ignore[misc]  # that it cannot be set is the point
    for other in (pickle.loads(pickle.dumps(expression)), copy.deepcopy(expression)):
        assert other.same_as(expression)


def test_sharing_makes_one_node() -> None:
    x = S.i + 1
    nodes = flatten((x * (S.i + 1)) + x)
    assert [node.op for node in nodes] == [
        Op.FIELD,
        Op.CONSTANT,
        Op.ADD,
        Op.MULTIPLY,
        Op.ADD,
    ]


def test_depth_is_limited_to_64() -> None:
    expression = S.i
    for _ in range(63):
        expression = -expression
    assert expression.depth == 64
    with pytest.raises(InvalidQuery, match=r"depth of at most 64, found 65: use dot"):
        _ = -expression


def test_nodes_are_limited_to_4096_distinct_ones() -> None:
    wide = Schema("wide", 1, v=Bits(4096))
    bits = list(wide.v)
    assert len(flatten(first(bits[:4094]))) == 4096
    with pytest.raises(InvalidQuery, match="at most 4096 distinct nodes"):
        first(bits[:4095])
    doubled = S.b + S.p
    for _ in range(40):  # 2^40 as a tree, 43 nodes as it is
        doubled = minimum(doubled, doubled)
    assert len(flatten(doubled)) == 43


def test_arguments_and_constants_are_limited_in_all() -> None:
    wide = Schema("wide", 1, v=Bits(4096))
    dots = [dot([k] * 4096, wide.v) for k in range(16)]
    assert first([d > 0 for d in dots[:15]]).high == 15
    with pytest.raises(InvalidQuery, match="65536 nodes, arguments and constants"):
        first([d > 0 for d in dots])


def test_expressions_read_as_they_were_written_and_long_ones_are_cut() -> None:
    assert repr((S.i + 1 > 3) & ~S.b) == "((3 < (i + 1)) & ~b)"
    assert repr(S.c == "green") == "(c == 'green')"
    assert repr(clip(S.r * 0.5, 0, 1)) == "clip((r * 1/2), [0, 1])"
    assert repr(round_to(S.r, 2)) == "round(r, 2)"
    assert repr(S.v[3]) == "v[3]"
    doubled = S.i + 1
    for _ in range(40):
        doubled = minimum(doubled, doubled)
    assert len(repr(doubled)) < 10_000
