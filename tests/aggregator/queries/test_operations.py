"""Values of each operation: all values of small fields, against its documented meaning."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import floor

import pytest

from askance_aggregator.queries import (
    absolute,
    bucketize,
    clip,
    cross,
    dot,
    encode_columns,
    evaluate_columns,
    first,
    index_of,
    maximum,
    minimum,
    parity,
    round_to,
    where,
)
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Kind,
    Query,
    QueryKind,
    Real,
    Schema,
)

S = Schema(
    "small",
    1,
    b=Bit(),
    v=Bits(3),
    c=Category(["red", "green"]),
    i=Integer(-2, 3),
    r=Real(-1, 1, 2),
)
# All records, as the meanings read them: v is a text, c an index, r a Fraction.
VALUES: dict[str, list[object]] = {
    "b": [0, 1],
    "v": ["".join(bits) for bits in product("01", repeat=3)],
    "c": [0, 1],
    "i": list(range(-2, 4)),
    "r": [Fraction(quarter, 4) for quarter in range(-4, 5)],
}
RECORDS = [dict(zip(VALUES, row, strict=True)) for row in product(*VALUES.values())]
LABELS = ["red", "green"]
COLUMNS = encode_columns(
    S,
    {
        name: [LABELS[r["c"]] if name == "c" else r[name] for r in RECORDS]  # type: ignore[call-overload]  # c holds integers
        for name in S.fields
    },
)

Meaning = Callable[..., object]
HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("expression", "meaning"),
    [
        (S.i + S.r, lambda i, r, **_: i + r),
        (S.r - S.i, lambda i, r, **_: r - i),
        (3 - S.i, lambda i, **_: 3 - i),
        (S.i * S.r, lambda i, r, **_: i * r),
        (S.r * S.r, lambda r, **_: r * r),
        (S.r * 0.25, lambda r, **_: r * Fraction(1, 4)),
        (-S.r, lambda r, **_: -r),
        (S.b + S.v[1], lambda b, v, **_: b + int(v[1])),
        (absolute(S.r), lambda r, **_: abs(r)),
        (minimum(S.i, S.r), lambda i, r, **_: min(i, r)),
        (maximum(S.r, S.i), lambda i, r, **_: max(i, r)),
        (S.i < S.r, lambda i, r, **_: i < r),
        (S.i <= S.r, lambda i, r, **_: i <= r),
        (S.i > S.r, lambda i, r, **_: i > r),
        (S.i >= S.r, lambda i, r, **_: i >= r),
        (S.i == S.r, lambda i, r, **_: i == r),
        (S.i != S.r, lambda i, r, **_: i != r),
        (S.c == "green", lambda c, **_: c == 1),
        (S.c != "green", lambda c, **_: c == 0),
        (where(S.b, "red", S.c) == S.c, lambda b, c, **_: not b or c == 0),
        (S.b & (S.i > 0), lambda b, i, **_: b and i > 0),
        (S.b | (S.i > 0), lambda b, i, **_: b or i > 0),
        (~S.b, lambda b, **_: not b),
        (where(S.b, S.i, S.r), lambda b, i, r, **_: i if b else r),
        (clip(S.r, -HALF, "0.3"), lambda r, **_: min(max(r, -HALF), Fraction(19661, 1 << 16))),
        (clip(S.i, 0, 2), lambda i, **_: min(max(i, 0), 2)),
        (round_to(S.r, 0), lambda r, **_: floor(r + HALF)),
        (round_to(S.r * S.r, 1), lambda r, **_: HALF * floor(2 * r * r + HALF)),
        (parity(S.v, "000"), lambda **_: 0),
        (parity(S.v, "101"), lambda v, **_: (int(v[0]) + int(v[2])) % 2),
        (parity(S.v, [1, 1, 1]), lambda v, **_: v.count("1") % 2),
        (S.v[2], lambda v, **_: int(v[2])),
        (dot([5, 0, -7], S.v), lambda v, **_: 5 * int(v[0]) - 7 * int(v[2])),
        (dot([HALF, 1, 2], S.v), lambda v, **_: int(v[0]) * HALF + int(v[1]) + 2 * int(v[2])),
        (dot([3, -2, 1], [S.i, S.r, S.b]), lambda i, r, b, **_: 3 * i - 2 * r + b),
        (dot([0], [S.i]), lambda **_: 0),
        (bucketize(S.i, [-1, 0, 2]), lambda i, **_: (i >= -1) + (i >= 0) + (i >= 2)),
        (bucketize(S.r, [-HALF, 0.25]), lambda r, **_: (r >= -HALF) + (4 * r >= 1)),
        (bucketize(S.i, [HALF]), lambda i, **_: i > 0),
        (first([S.i > 1, S.b, S.i > 0]), lambda i, b, **_: 0 if i > 1 else 1 if b else 3 - (i > 0)),
        (index_of(S.c), lambda c, **_: c),
        (cross(S.c, S.b, S.v[0]), lambda c, b, v, **_: 4 * c + 2 * b + int(v[0])),
    ],
    ids=lambda item: repr(item) if isinstance(item, Expression) else "",
)
def test_every_record(expression: Expression, meaning: Meaning) -> None:
    if expression.kind == Kind.CATEGORY:
        expression = index_of(expression)
    low, high = expression.low, max(expression.high, expression.low + 1)
    query = Query(QueryKind.REAL, expression, low, high, low)
    answers = evaluate_columns(query, COLUMNS).tolist()
    for row, (record, answer) in enumerate(zip(RECORDS, answers, strict=True)):
        assert Fraction(answer, 1 << query.frac) == meaning(**record)
        if row % 7 == 0:  # the other path, on a sample: all are equal by test_random_expressions
            assert query.evaluate(COLUMNS.record(row)) == answer


@pytest.mark.parametrize(
    "expression",
    [S.i + S.r, S.i - S.r, S.i * S.r, -S.i, S.r * S.r, absolute(S.i), minimum(S.i, S.r),
     maximum(S.i, S.r), round_to(S.r, 0), clip(S.i, -1, 9), dot([3, -2, 1], [S.i, S.r, S.b]),
     dot([5, 0, -7], S.v), where(S.b, S.i, S.r)],
    ids=repr,
)  # fmt: skip
def test_the_bounds_of_independent_operands_are_attained(expression: Expression) -> None:
    query = Query(QueryKind.REAL, expression, expression.low - 1, expression.high + 1, 0)
    answers = evaluate_columns(query, COLUMNS)
    assert (answers.min(), answers.max()) == (expression.low, expression.high)
