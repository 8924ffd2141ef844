"""Text of an expression: every form, and where a long one is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import pytest

from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Op,
    Real,
    Schema,
    constant,
)
from askance_client.queries.expressions import build

S = Schema(
    "s",
    1,
    b=Bit(),
    p=Bit(),
    v=Bits(33),
    c=Category(["red", "green", "7"]),
    i=Integer(-3, 4),
    r=Real(-1, 2, 8),
)


def op(
    operation: Op, *args: Expression, constants: Iterable[int] = (), grid: int = 0
) -> Expression:
    return build(operation, args, constants=tuple(constants), grid=grid)


def negated(times: int) -> Expression:
    expression = S.i
    for _ in range(times):
        expression = -expression
    return expression


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: S.i, "i"),
        (lambda: constant(Fraction(-5, 8), 3), "-5/8"),
        (lambda: constant(Fraction(-8, 8), 3), "-1"),
        (lambda: S.i + 1, "(i + 1)"),
        (lambda: S.i - S.r, "(i - r)"),
        (lambda: S.i * S.r, "(i * r)"),
        (lambda: S.i < S.r, "(i < r)"),
        (lambda: S.i <= S.r, "(i <= r)"),
        (lambda: S.i == S.r, "(i == r)"),
        (lambda: S.b & S.p, "(b & p)"),
        (lambda: S.b | S.p, "(b | p)"),
        (lambda: -S.i, "-i"),
        (lambda: ~S.b, "~b"),
        (lambda: S.c == "green", "(c == 'green')"),
        (lambda: op(Op.EQUAL, constant(2), S.c), "('7' == c)"),
        (lambda: op(Op.EQUAL, op(Op.FIRST, S.b), constant(1)), "(first(b) == 1)"),
        (lambda: S.v[32], "v[32]"),
        (lambda: op(Op.ROUND, S.r, grid=3), "round(r, 3)"),
        (lambda: op(Op.CLIP, S.r, constants=(-1, 3), grid=1), "clip(r, [-1/2, 3/2])"),
        (lambda: abs(S.i), "absolute(i)"),
        (
            lambda: op(Op.BUCKETIZE, S.i, constants=range(8)),
            "bucketize(i, [0, 1, 2, 3, 4, 5, 6, 7])",
        ),
        (
            lambda: op(Op.BUCKETIZE, S.i, constants=range(9)),
            "bucketize(i, [0, 1, 2, 3, 4, 5, 6, 7, ...])",
        ),
        (lambda: op(Op.FIRST, *[S.b] * 8), "first(b, b, b, b, b, b, b, b)"),
        (lambda: op(Op.FIRST, *[S.b] * 9), "first(b, b, b, b, b, b, b, b, ...)"),
        (lambda: -op(Op.INDEX, op(Op.FIRST, *[S.b] * 3)), "-index(first(b, b, ...))"),
        (lambda: op(Op.INDEX, op(Op.FIRST, *[S.b] * 4)), "index(first(b, b, b, b))"),
        (lambda: op(Op.INDEX, op(Op.FIRST, *[S.b] * 5)), "index(first(b, b, b, b, ...))"),
        (
            lambda: abs(abs(op(Op.INDEX, op(Op.FIRST, *[S.b] * 3)))),
            "absolute(absolute(index(first(b, b, ...))))",
        ),
        (lambda: negated(8), "--------i"),
        (lambda: negated(9), "--------..."),
        (lambda: negated(7) + negated(8), "(-------i + -------...)"),
    ],
    ids=range(31),
)
def test_an_expression_has_its_text(make: Callable[[], Expression], text: str) -> None:
    assert repr(make()) == text
