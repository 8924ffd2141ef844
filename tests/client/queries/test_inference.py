"""Rules of inference: numbers of arguments and constants, grids, and every bound at its limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from re import escape

import pytest

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
)
from askance_client.queries.expressions import build
from askance_client.queries.fields import ValueType
from askance_client.queries.limits import MAX_MAGNITUDE

END = MAX_MAGNITUDE - 1  # the greatest magnitude that a value may have
HALF = MAX_MAGNITUDE // 2
S = Schema(
    "s",
    1,
    b=Bit(),
    p=Bit(),
    v=Bits(70),
    c=Category(["w", "x", "y", "z"]),
    i=Integer(-3, 4),
    n=Integer(2, 7),
    m=Integer(-9, -5),
    r=Real(-1, 2, 1),
)


def op(
    operation: Op, *args: Expression, constants: Iterable[int] = (), grid: int = 0
) -> Expression:
    return build(operation, args, constants=tuple(constants), grid=grid)


def between(low: int, high: int, frac: int = 0) -> Expression:
    """A field with these bounds, in units of 2^-frac."""
    return Schema("bounds", 1, x=Real.of_mantissas(low, high, frac)).x


def widest() -> Schema:
    return Schema("widest", 1, v=Bits(4096))


def facts(expression: Expression) -> tuple[Kind, int, int, int]:
    return expression.kind, expression.frac, expression.low, expression.high


ONE, TWO, MANY = "1", "2", "1..4095"
COUNTS = {  # arguments, constants, whether a grid is stated
    Op.CONSTANT: ("0", "1", True),
    Op.COMPONENT: (ONE, "1", False),
    Op.ADD: (TWO, "0", False),
    Op.SUBTRACT: (TWO, "0", False),
    Op.MULTIPLY: (TWO, "0", False),
    Op.NEGATE: (ONE, "0", False),
    Op.LESS: (TWO, "0", False),
    Op.LESS_EQUAL: (TWO, "0", False),
    Op.EQUAL: (TWO, "0", False),
    Op.AND: (TWO, "0", False),
    Op.OR: (TWO, "0", False),
    Op.NOT: (ONE, "0", False),
    Op.WHERE: ("3", "0", False),
    Op.CLIP: (ONE, "2", True),
    Op.ROUND: (ONE, "0", True),
    Op.SIGMOID: (ONE, "0", False),
    Op.PARITY: (ONE, "1..128", False),
    Op.DOT: (MANY, "1..4096", True),
    Op.BUCKETIZE: (ONE, "1..4096", True),
    Op.FIRST: (MANY, "0", False),
    Op.MINIMUM: (TWO, "0", False),
    Op.MAXIMUM: (TWO, "0", False),
    Op.ABSOLUTE: (ONE, "0", False),
    Op.INDEX: (ONE, "0", False),
    Op.VECTOR: ("1..1024", "0", True),
}


def ends(allowed: str) -> tuple[int, int]:
    low, _, high = allowed.partition("..")
    return int(low), int(high or low)


def test_every_operation_but_a_field_has_its_numbers_here() -> None:
    assert set(COUNTS) == set(Op) - {Op.FIELD}


@pytest.mark.parametrize("operation", COUNTS)
def test_one_or_two_arguments_or_constants_too_few_or_too_many_are_refused(operation: Op) -> None:
    args, constants, _ = COUNTS[operation]
    low, high = ends(args)
    for count in (low - 2, low - 1, high + 1, high + 2):
        if count >= 0:
            message = f"{operation.name} expects {args} arguments, found {count}"
            with pytest.raises(InvalidQuery, match=escape(message)):
                op(operation, *[S.b] * count, constants=[0] * ends(constants)[0])
    least, most = ends(constants)
    for count in (least - 2, least - 1, most + 1, most + 2):
        if count >= 0:
            message = f"{operation.name} expects {constants} constants, found {count}"
            with pytest.raises(InvalidQuery, match=escape(message)):
                op(operation, *[S.b] * low, constants=[0] * count)


@pytest.mark.parametrize("operation", COUNTS)
def test_a_grid_is_stated_up_to_40_bits_or_not_at_all(operation: Op) -> None:
    args, constants, states_grid = COUNTS[operation]
    limit, most = ("0..40", 40) if states_grid else ("0", 0)
    for grid in (-2, -1, most + 1, most + 2):
        message = f"{operation.name} expects a grid of {limit} bits, found {grid}"
        with pytest.raises(InvalidQuery, match=escape(message)):
            op(operation, *[S.b] * ends(args)[0], constants=[0] * ends(constants)[0], grid=grid)


def test_the_greatest_numbers_are_accepted() -> None:
    assert op(Op.FIRST, *[S.b] * 4095).high == 4095
    assert op(Op.DOT, *[S.b] * 4095, constants=[1] * 4095, grid=40).high == 4095
    assert op(Op.BUCKETIZE, S.i, constants=range(4096)).high == 4096
    assert op(Op.VECTOR, *[S.b] * 1024, grid=40).width == 1024
    assert op(Op.PARITY, widest().v, constants=[(1 << 32) - 1] * 128).kind == Kind.BOOLEAN
    assert op(Op.DOT, widest().v, constants=[-1] * 4096).low == -4096


TYPES: dict[str, tuple[Callable[[], Expression], tuple[Kind, int, int, int]]] = {
    "constant 0": (lambda: op(Op.CONSTANT, constants=[0]), (Kind.BOOLEAN, 0, 0, 0)),
    "constant 1": (lambda: op(Op.CONSTANT, constants=[1]), (Kind.BOOLEAN, 0, 1, 1)),
    "constant 2": (lambda: op(Op.CONSTANT, constants=[2]), (Kind.NUMBER, 0, 2, 2)),
    "constant -1": (lambda: op(Op.CONSTANT, constants=[-1]), (Kind.NUMBER, 0, -1, -1)),
    "constant 1/2": (lambda: op(Op.CONSTANT, constants=[1], grid=1), (Kind.NUMBER, 1, 1, 1)),
    "constant 0/8": (lambda: op(Op.CONSTANT, constants=[0], grid=3), (Kind.NUMBER, 3, 0, 0)),
    "add": (lambda: S.i + S.n, (Kind.NUMBER, 0, -1, 11)),
    "add on two grids": (lambda: S.n + S.r, (Kind.NUMBER, 1, 2, 18)),
    "subtract": (lambda: S.n - S.m, (Kind.NUMBER, 0, 7, 16)),
    "subtract on two grids": (lambda: S.r - S.n, (Kind.NUMBER, 1, -16, 0)),
    "multiply": (lambda: S.i * S.n, (Kind.NUMBER, 0, -21, 28)),
    "multiply negatives": (lambda: S.m * S.i, (Kind.NUMBER, 0, -36, 27)),
    "square": (lambda: S.i * S.i, (Kind.NUMBER, 0, 0, 16)),
    "square above 0": (lambda: S.n * S.n, (Kind.NUMBER, 0, 4, 49)),
    "square below 0": (lambda: S.m * S.m, (Kind.NUMBER, 0, 25, 81)),
    "square from 0": (lambda: (S.n - 2) * (S.n - 2), (Kind.NUMBER, 0, 0, 25)),
    "square to 0": (lambda: (S.m + 5) * (S.m + 5), (Kind.NUMBER, 0, 0, 16)),
    "negate": (lambda: -S.n, (Kind.NUMBER, 0, -7, -2)),
    "absolute": (lambda: abs(S.i), (Kind.NUMBER, 0, 0, 4)),
    "absolute above 0": (lambda: abs(S.n), (Kind.NUMBER, 0, 2, 7)),
    "absolute below 0": (lambda: abs(S.m), (Kind.NUMBER, 0, 5, 9)),
    "absolute from 1": (lambda: abs(S.n - 1), (Kind.NUMBER, 0, 1, 6)),
    "absolute to -1": (lambda: abs(S.m + 4), (Kind.NUMBER, 0, 1, 5)),
    "square from 1": (lambda: (S.n - 1) * (S.n - 1), (Kind.NUMBER, 0, 1, 36)),
    "square to -1": (lambda: (S.m + 4) * (S.m + 4), (Kind.NUMBER, 0, 1, 25)),
    "minimum": (lambda: op(Op.MINIMUM, S.i, S.r), (Kind.NUMBER, 1, -6, 4)),
    "maximum": (lambda: op(Op.MAXIMUM, S.i, S.r), (Kind.NUMBER, 1, -2, 8)),
    "where": (lambda: op(Op.WHERE, S.b, S.n, S.r), (Kind.NUMBER, 1, -2, 14)),
    "where of a label": (
        lambda: op(Op.WHERE, S.b, S.c, constant(3)),
        (Kind.CATEGORY, 0, 0, 3),
    ),
    "clip": (lambda: op(Op.CLIP, S.n, constants=(3, 5)), (Kind.NUMBER, 0, 3, 5)),
    "clip to one value": (lambda: op(Op.CLIP, S.n, constants=(3, 3)), (Kind.NUMBER, 0, 3, 3)),
    "clip of halves": (lambda: op(Op.CLIP, S.r, constants=(0, 1)), (Kind.NUMBER, 1, 0, 2)),
    "clip by eighths": (
        lambda: op(Op.CLIP, S.r, constants=(-5, 99), grid=3),
        (Kind.NUMBER, 3, -5, 16),
    ),
    "round": (lambda: op(Op.ROUND, between(-13, 27, 3), grid=1), (Kind.NUMBER, 1, -3, 7)),
    "sigmoid": (lambda: op(Op.SIGMOID, S.i), (Kind.NUMBER, 16, 3108, 64357)),
    "dot": (lambda: op(Op.DOT, S.i, S.n, constants=(-2, 3)), (Kind.NUMBER, 0, -2, 27)),
    "dot on two grids": (
        lambda: op(Op.DOT, S.i, S.r, constants=(-2, 3), grid=2),
        (Kind.NUMBER, 3, -22, 24),
    ),
    "dot of bits": (
        lambda: op(Op.DOT, Schema("w", 1, v=Bits(3)).v, constants=(-2, 3, 4), grid=2),
        (Kind.NUMBER, 2, -2, 7),
    ),
    "bucketize": (lambda: op(Op.BUCKETIZE, S.i, constants=(0, 2, 9)), (Kind.CATEGORY, 0, 0, 3)),
    "first": (lambda: op(Op.FIRST, S.b, S.p), (Kind.CATEGORY, 0, 0, 2)),
    "index": (lambda: op(Op.INDEX, S.c), (Kind.NUMBER, 0, 0, 3)),
    "vector": (lambda: op(Op.VECTOR, S.i, S.n), (Kind.VECTOR, 0, -3, 7)),
    "vector on a grid": (lambda: op(Op.VECTOR, S.n, S.r, grid=3), (Kind.VECTOR, 3, -8, 56)),
}


@pytest.mark.parametrize("case", TYPES)
def test_a_value_s_kind_grid_and_bounds_are_exact(case: str) -> None:
    make, expected = TYPES[case]
    assert facts(make()) == expected


def test_fields_have_their_types() -> None:
    assert Bit().type == ValueType(Kind.BOOLEAN, 0, 0, 1)
    assert Bits(5).type == ValueType(Kind.BITS, 0, 0, 1, width=5)
    for labels in (("w",), ("w", "x"), ("w", "x", "y"), ("w", "x", "y", "z")):
        expected = ValueType(Kind.CATEGORY, 0, 0, len(labels) - 1, labels=labels)
        assert Category(labels).type == expected
    assert Integer(-3, 9).type == ValueType(Kind.NUMBER, 0, -3, 9)
    assert Real(-3, 9, 2).type == ValueType(Kind.NUMBER, 2, -12, 36)


# One value that is in reach of int64 and the next two, which are not.
LIMITS: dict[str, Callable[[int], Expression]] = {
    "constant": lambda past: op(Op.CONSTANT, constants=[END + past]),
    "constant below": lambda past: op(Op.CONSTANT, constants=[-END - past]),
    "add": lambda past: between(0, HALF) + between(0, HALF - 1 + past),
    "add below": lambda past: between(-HALF, 0) + between(1 - HALF - past, 0),
    "subtract": lambda past: between(0, HALF) - between(1 - HALF - past, 0),
    "subtract below": lambda past: between(-HALF, 0) - between(0, HALF - 1 + past),
    "multiply": lambda past: between(0, HALF - 1 + past) * 2,
    "multiply below": lambda past: between(1 - HALF - past, 0) * 2,
    "square": lambda past: (lambda x: x * x)(between(0, (1 << 31) - 1 + past)),
    "square below": lambda past: (lambda x: x * x)(between(1 - (1 << 31) - past, 0)),
    "less, first aligned": lambda past: between(0, HALF - 1 + past) < S.r,
    "less, second aligned": lambda past: S.r < between(0, HALF - 1 + past),
    "less, aligned below": lambda past: between(1 - HALF - past, 0) < S.r,
    "equal, aligned": lambda past: S.r == between(1 - HALF - past, 0),
    "minimum, aligned": lambda past: op(Op.MINIMUM, S.r, between(0, HALF - 1 + past)),
    "where, aligned": lambda past: op(Op.WHERE, S.b, S.r, between(0, HALF - 1 + past)),
    "clip, aligned": lambda past: op(
        Op.CLIP, between(0, HALF - 1 + past), constants=(0, 1), grid=1
    ),
    "clip, low": lambda past: op(Op.CLIP, S.r, constants=(1 - HALF - past, 0)),
    "clip, high": lambda past: op(Op.CLIP, S.r, constants=(0, HALF - 1 + past)),
    "round": lambda past: op(Op.ROUND, between(-END, END - 4 + past, 3), grid=0),
    "round by a bit": lambda past: op(Op.ROUND, between(-END, min(END - 1 + past, END), 1), grid=0),
    "dot": lambda past: op(Op.DOT, between(0, END // 3 + past), constants=[3]),
    "dot of either sign": lambda past: op(
        Op.DOT, between(-HALF, 1), between(-1, HALF - 1 + past), constants=(1, 1)
    ),
    "dot of a negative": lambda past: op(
        Op.DOT, between(0, HALF), between(0, HALF - 1 + past), constants=(1, -1)
    ),
    "dot's coefficient": lambda past: op(
        Op.DOT, op(Op.CONSTANT, constants=[0]), S.r * 0, constants=(HALF - 1 + past, 1)
    ),
    "bucketize, aligned": lambda past: op(
        Op.BUCKETIZE, between(0, HALF - 1 + past), constants=[1], grid=1
    ),
    "bucketize, edges": lambda past: op(Op.BUCKETIZE, S.r, constants=(0, HALF - 1 + past)),
    "vector, aligned": lambda past: op(Op.VECTOR, S.i, between(0, HALF - 1 + past), grid=1),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_value_may_reach_2_62_less_one_and_no_further(limit: str) -> None:
    assert LIMITS[limit](0).op in Op
    for past in (1, 2):
        with pytest.raises(InvalidQuery, match=r"could reach 2\^62"):
            LIMITS[limit](past)


def test_a_coefficient_is_moved_by_the_difference_of_the_grids_alone() -> None:
    assert op(Op.DOT, between(0, 1, 20), constants=[END]).high == END
    both = op(Op.DOT, between(0, 1, 20), between(0, 1, 18), constants=(1, (END - 1) // 4))
    assert both.high == 1 + (END - 1) // 4 * 4


def test_nodes_that_are_used_twice_count_once_where_a_tree_is_past_the_limit() -> None:
    shared = op(Op.DOT, *[S.i + S.n] * 4000, constants=[1] * 4000)  # 12,001 nodes as a tree
    assert (shared.size, shared.weight) == (4, 2 + 3 + 8001)
    heavy = op(Op.DOT, *[shared] * 9, constants=[0] * 9)  # a weight of 72,073 as a tree
    assert (heavy.size, heavy.weight) == (5, 2 + 3 + 8001 + 19)


def test_a_product_s_grid_is_40_bits_at_most() -> None:
    assert (between(0, 9, 20) * between(0, 8, 20)).frac == 40
    assert op(Op.DOT, between(0, 9, 20), constants=[1], grid=20).frac == 40
    with pytest.raises(InvalidQuery, match=r"MULTIPLY needs a grid of 2\^-41, finer than 2\^-40"):
        between(0, 9, 20) * between(0, 8, 21)
    with pytest.raises(InvalidQuery, match=r"DOT needs a grid of 2\^-41, finer than 2\^-40"):
        op(Op.DOT, between(0, 9, 20), constants=[1], grid=21)


REFUSED: dict[str, tuple[Callable[[], Expression], str]] = {
    "edges that are equal": (
        lambda: op(Op.BUCKETIZE, S.i, constants=(0, 1, 1)),
        "increasing edges, edge 2 is not",
    ),
    "round to its own grid": (lambda: op(Op.ROUND, S.r, grid=1), "coarser than 2^-1, found 2^-1"),
    "dot of bits and more": (
        lambda: op(Op.DOT, S.v, S.i, constants=[1] * 70),
        "DOT expects 1 arguments, found 2",
    ),
    "dot of a number and bits": (
        lambda: op(Op.DOT, S.i, S.v, constants=[1, 1]),
        "DOT expects BOOLEAN or NUMBER as argument 2, found BITS",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_operation_refuses_what_it_is_not_for(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(InvalidQuery, match=escape(message)):
        make()


# A limit that holds for its next value only is no limit: the values after it, a few or far.
FURTHER: dict[str, tuple[Callable[[int], Expression], str]] = {
    "component below": (lambda k: op(Op.COMPONENT, S.v, constants=[-k]), "one of 0..69"),
    "component past": (lambda k: op(Op.COMPONENT, S.v, constants=[69 + k]), "one of 0..69"),
    "mask past a word": (
        lambda k: op(Op.PARITY, S.v, constants=((1 << 32) - 1 + k, 0, 0)),
        "mask of 70 bits, word 0",
    ),
    "mask past the width": (
        lambda k: op(Op.PARITY, S.v, constants=(0, 0, (1 << 6) - 1 + k)),
        "mask of 70 bits, word 2",
    ),
    "mask below 0": (lambda k: op(Op.PARITY, S.v, constants=(0, -k, 0)), "70 bits, word 1"),
    "mask too short": (
        lambda k: op(Op.PARITY, widest().v, constants=[0] * (128 - k)),
        "expects 128 constants",
    ),
    "mask too long": (lambda k: op(Op.PARITY, S.v, constants=[0] * (3 + k)), "3 constants"),
    "edges that fall": (
        lambda k: op(Op.BUCKETIZE, S.i, constants=(-3, -2, -1 - k)),
        "increasing edges, edge 2 is not",
    ),
    "clip": (lambda k: op(Op.CLIP, S.i, constants=(k, 0)), "CLIP expects low <= high"),
    "round to a finer grid": (lambda k: op(Op.ROUND, S.r, grid=k), "coarser than 2^-1"),
    "dot of too few": (
        lambda k: op(Op.DOT, S.v, constants=[1] * (70 - k)),
        "DOT expects 70 constants",
    ),
    "dot of too many": (lambda k: op(Op.DOT, S.i, constants=[1] * (1 + k)), "1 constants"),
    "label below": (lambda k: op(Op.EQUAL, S.c, constant(-k)), "(indices 0..3)"),
    "label past": (lambda k: op(Op.EQUAL, S.c, constant(3 + k)), "(indices 0..3)"),
    "label on a grid": (
        lambda k: op(Op.EQUAL, S.c, op(Op.CONSTANT, constants=[1], grid=k)),
        "(indices 0..3)",
    ),
    "vector's grid": (
        lambda k: op(Op.VECTOR, S.i, between(0, 9, 9), grid=9 - k),
        "its components' 9 bits",
    ),
}


@pytest.mark.parametrize("case", FURTHER)
@pytest.mark.parametrize("past", [1, 2, 3, 8])
def test_whatever_is_past_an_operation_s_own_limit_is_refused(case: str, past: int) -> None:
    make, message = FURTHER[case]
    with pytest.raises(InvalidQuery, match=escape(message)):
        make(past)


def test_an_operation_s_own_limits_are_accepted() -> None:
    assert op(Op.COMPONENT, S.v, constants=[69]).kind == Kind.BOOLEAN
    assert op(Op.PARITY, S.v, constants=(0xFFFFFFFF, 0xFFFFFFFF, 0x3F)).kind == Kind.BOOLEAN
    for index in (0, 3):
        assert op(Op.EQUAL, S.c, constant(index)).kind == Kind.BOOLEAN


def test_an_expression_counts_its_depth_nodes_arguments_and_constants() -> None:
    counted = op(Op.DOT, S.i + S.n, S.i, S.m, constants=(1, 2, 3))
    assert (counted.depth, counted.size, counted.weight) == (3, 6, 14)
    for leaf, weight in ((between(0, 1), 1), (constant(2), 2)):
        assert (leaf.depth, leaf.size, leaf.weight) == (1, 1, weight)
