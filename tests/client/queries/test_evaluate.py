"""Steps of a compiled expression: every operation's exact value, on a record and on columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import floor
from types import SimpleNamespace
from typing import Any

import numpy as np
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
    sigmoid_table,
)
from askance_client.queries.evaluate import compile_expression
from askance_client.queries.expressions import build
from askance_client.queries.limits import MAX_MAGNITUDE

END = MAX_MAGNITUDE - 1  # the greatest magnitude that a value may have
S = Schema(
    "s",
    1,
    b=Bit(),
    p=Bit(),
    i=Integer(-3, 4),
    n=Integer(0, 5),
    r=Real(-1, 2, 1),
    q=Real(-1, 1, 3),
    c=Category(["a", "b", "c", "d"]),
    d=Category(["a", "b", "c", "d"]),
    huge=Integer(-END, END),
    wide=Integer(-END, END),
)
EXTREMES = [-END, 1 - END, -1, 0, 1, END - 1, END]
DOMAINS: Mapping[str, Sequence[int]] = {  # integers over 2^frac of the field
    "b": range(2),
    "p": range(2),
    "i": range(-3, 5),
    "n": range(6),
    "r": range(-2, 5),
    "q": range(-8, 9),
    "c": range(4),
    "d": range(4),
    "huge": EXTREMES,
    "wide": EXTREMES,
}


def op(
    operation: Op, *args: Expression, constants: Iterable[int] = (), grid: int = 0
) -> Expression:
    return build(operation, args, constants=tuple(constants), grid=grid)


def sigmoid_of(x: Fraction) -> Fraction:
    """The table's entry of the next lower multiple of 1/256, from -8 to 8."""
    return Fraction(
        sigmoid_table()[floor(min(max(x, Fraction(-8)), Fraction(8)) * 256) + 2048], 1 << 16
    )


def clamp(x: Any, low: Any, high: Any) -> Any:
    return min(max(x, low), high)


EIGHTH, HALF = Fraction(1, 8), Fraction(1, 2)
# Expressions are made in the tests, so that a defect of the building shows there as well.
CASES: dict[str, tuple[Callable[[], Expression], Callable[[Any], Any]]] = {
    "constant": (lambda: S.i + constant(Fraction(-5, 8), 3), lambda t: t.i - 5 * EIGHTH),
    "constant alone": (lambda: constant(7), lambda t: 7),
    "add on two grids": (lambda: S.i + S.r, lambda t: t.i + t.r),
    "add on three grids": (lambda: (S.i + S.r) + (S.q + S.i), lambda t: 2 * t.i + t.r + t.q),
    "subtract": (lambda: S.i - S.r, lambda t: t.i - t.r),
    "subtract the coarser": (lambda: S.r - S.i, lambda t: t.r - t.i),
    "multiply": (lambda: S.i * S.r, lambda t: t.i * t.r),
    "square": (lambda: S.i * S.i, lambda t: t.i * t.i),
    "negate": (lambda: -S.r, lambda t: -t.r),
    "absolute": (lambda: abs(S.r), lambda t: abs(t.r)),
    "absolute extremes": (lambda: abs(S.huge), lambda t: abs(t.huge)),
    "less": (lambda: S.i < S.r, lambda t: t.i < t.r),
    "less, exchanged": (lambda: S.r < S.i, lambda t: t.r < t.i),
    "less, extremes": (lambda: S.huge < S.wide, lambda t: t.huge < t.wide),
    "less equal": (lambda: S.i <= S.r, lambda t: t.i <= t.r),
    "less equal, extremes": (lambda: S.huge <= S.wide, lambda t: t.huge <= t.wide),
    "equal": (lambda: S.i == S.r, lambda t: t.i == t.r),
    "equal, extremes": (lambda: S.huge == S.wide, lambda t: t.huge == t.wide),
    "equal categories": (lambda: S.c == S.d, lambda t: t.c == t.d),
    "not equal": (lambda: S.c != "c", lambda t: t.c != 2),
    "and": (lambda: S.b & S.p, lambda t: t.b and t.p),
    "or": (lambda: S.b | S.p, lambda t: t.b or t.p),
    "not": (lambda: ~S.b, lambda t: not t.b),
    "where": (lambda: op(Op.WHERE, S.b, S.i, S.r), lambda t: t.i if t.b else t.r),
    "where, exchanged": (lambda: op(Op.WHERE, S.b, S.r, S.i), lambda t: t.r if t.b else t.i),
    "where of labels": (lambda: op(Op.WHERE, S.b, S.c, S.d), lambda t: t.c if t.b else t.d),
    "minimum": (lambda: op(Op.MINIMUM, S.i, S.r), lambda t: min(t.i, t.r)),
    "minimum, extremes": (
        lambda: op(Op.MINIMUM, S.huge, S.wide),
        lambda t: min(t.huge, t.wide),
    ),
    "maximum": (lambda: op(Op.MAXIMUM, S.i, S.r), lambda t: max(t.i, t.r)),
    "maximum, extremes": (
        lambda: op(Op.MAXIMUM, S.huge, S.wide),
        lambda t: max(t.huge, t.wide),
    ),
    "clip": (lambda: op(Op.CLIP, S.i, constants=(-1, 2)), lambda t: clamp(t.i, -1, 2)),
    "clip on a finer grid": (
        lambda: op(Op.CLIP, S.r, constants=(-5, 9), grid=3),
        lambda t: clamp(t.r, -5 * EIGHTH, 9 * EIGHTH),
    ),
    "clip on a coarser grid": (
        lambda: op(Op.CLIP, S.q, constants=(-1, 1), grid=1),
        lambda t: clamp(t.q, -HALF, HALF),
    ),
    "clip, extremes": (
        lambda: op(Op.CLIP, S.huge, constants=(1 - END, END - 1)),
        lambda t: clamp(t.huge, 1 - END, END - 1),
    ),
    "round half up": (lambda: op(Op.ROUND, S.r, grid=0), lambda t: floor(t.r + HALF)),
    "round to quarters": (
        lambda: op(Op.ROUND, S.q * S.q, grid=2),
        lambda t: Fraction(floor(4 * t.q * t.q + HALF), 4),
    ),
    "round by three bits": (lambda: op(Op.ROUND, S.q, grid=0), lambda t: floor(t.q + HALF)),
    "sigmoid of integers": (lambda: op(Op.SIGMOID, 3 * S.i), lambda t: sigmoid_of(3 * t.i)),
    "sigmoid of eighths": (lambda: op(Op.SIGMOID, 9 * S.q), lambda t: sigmoid_of(9 * t.q)),
    "sigmoid on the table's grid": (
        lambda: op(Op.SIGMOID, S.i * constant(Fraction(77, 256), 8)),
        lambda t: sigmoid_of(t.i * Fraction(77, 256)),
    ),
    "sigmoid of 2^-9": (
        lambda: op(Op.SIGMOID, S.i * constant(Fraction(-1001, 512), 9)),
        lambda t: sigmoid_of(t.i * Fraction(-1001, 512)),
    ),
    "sigmoid of 2^-40": (
        lambda: op(Op.SIGMOID, S.i * constant(Fraction(3, 7), 40)),
        lambda t: sigmoid_of(t.i * Fraction(round(Fraction(3, 7) * (1 << 40)), 1 << 40)),
    ),
    "dot": (
        lambda: op(Op.DOT, S.i, S.r, S.q, S.n, constants=(3, -2, 0, 5)),
        lambda t: 3 * t.i - 2 * t.r + 5 * t.n,
    ),
    "dot of halves": (
        lambda: op(Op.DOT, S.i, S.r, constants=(-3, 5), grid=1),
        lambda t: -3 * HALF * t.i + 5 * HALF * t.r,
    ),
    "bucketize": (
        lambda: op(Op.BUCKETIZE, S.i, constants=(-3, 0, 4)),
        lambda t: sum(edge <= t.i for edge in (-3, 0, 4)),
    ),
    "bucketize with finer edges": (
        lambda: op(Op.BUCKETIZE, S.r, constants=(-8, -3, 1, 4), grid=3),
        lambda t: sum(edge * EIGHTH <= t.r for edge in (-8, -3, 1, 4)),
    ),
    "bucketize with coarser edges": (
        lambda: op(Op.BUCKETIZE, S.q, constants=(-1, 0, 1), grid=1),
        lambda t: sum(edge * HALF <= t.q for edge in (-1, 0, 1)),
    ),
    "bucketize, extremes": (
        lambda: op(Op.BUCKETIZE, S.huge, constants=(-END, 0, END)),
        lambda t: sum(edge <= t.huge for edge in (-END, 0, END)),
    ),
    "first": (
        lambda: op(Op.FIRST, S.i < 0, S.b, S.i < 2),
        lambda t: next(k for k, is_so in enumerate((t.i < 0, t.b, t.i < 2, True)) if is_so),
    ),
    "index": (lambda: op(Op.INDEX, S.c) + 1, lambda t: t.c + 1),
}


@pytest.mark.parametrize("case", CASES)
def test_every_operation_has_its_exact_value_on_every_record(case: str) -> None:
    make, meaning = CASES[case]
    expression = make()
    compiled = compile_expression(expression)
    rows = list(product(*(DOMAINS[name] for name in compiled.names)))
    answers = []
    for row in rows:
        answer = compiled.run(list(row))
        values = {
            name: Fraction(mantissa, 1 << S[name].frac)
            for name, mantissa in zip(compiled.names, row, strict=True)
        }
        assert Fraction(answer, 1 << expression.frac) == meaning(SimpleNamespace(**values)), row
        assert expression.low <= answer <= expression.high
        answers.append(answer)
    if compiled.names:
        assert on_columns(expression, rows).tolist() == answers


def on_columns(expression: Expression, rows: Sequence[Sequence[int]]) -> Any:
    """Run the steps on int64 columns, which must stay as they are."""
    compiled = compile_expression(expression)
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    table = np.array(sigmoid_table(), dtype=np.int64)
    slots: list[Any] = [column.copy() for column in columns]
    for function, parameters in compiled.steps:
        looks_up = function.__name__ == "sigmoid_step"
        slots.append(table[slots[parameters[0]]] if looks_up else function(slots, *parameters))
    for before, after in zip(columns, slots, strict=False):
        assert before.tolist() == after.tolist()
    return slots[compiled.result]


V = Schema("v", 1, v=Bits(70))
# Patterns of 70 bits: each alone, each left out, none, all, every second and third.
PATTERNS = [
    *(1 << c for c in range(70)),
    *((1 << 70) - 1 ^ 1 << c for c in range(70)),
    0,
    (1 << 70) - 1,
    sum(1 << c for c in range(0, 70, 2)),
    sum(1 << c for c in range(1, 70, 3)),
]


def words_of(pattern: int) -> tuple[int, ...]:
    return tuple(pattern >> 32 * word & 0xFFFFFFFF for word in range(3))


def bits_values(expression: Expression) -> list[int]:
    compiled = compile_expression(expression)
    return [compiled.run([words_of(pattern)]) for pattern in PATTERNS]


@pytest.mark.parametrize("component", [0, 1, 31, 32, 33, 63, 64, 69])
def test_a_component_is_its_bit(component: int) -> None:
    found = bits_values(V.v[component])
    assert found == [pattern >> component & 1 for pattern in PATTERNS]


@pytest.mark.parametrize("mask", [(1 << 70) - 1, 1, 1 << 69, 0, 0xF0F0F << 25, 3 << 31, 5 << 40])
def test_a_parity_counts_every_bit_of_its_mask(mask: int) -> None:
    found = bits_values(op(Op.PARITY, V.v, constants=words_of(mask)))
    assert found == [(pattern & mask).bit_count() % 2 for pattern in PATTERNS]


def test_a_dot_of_bits_adds_the_coefficients_of_the_bits_set() -> None:
    coefficients = [(7 * c - 200) * (c % 5 != 0) for c in range(70)]
    found = bits_values(op(Op.DOT, V.v, constants=coefficients, grid=2))
    assert found == [
        sum(k for c, k in enumerate(coefficients) if pattern >> c & 1) for pattern in PATTERNS
    ]


def test_a_vector_has_its_components_on_its_grid() -> None:
    vector = op(Op.VECTOR, S.i, S.r, S.q, S.i, grid=4)
    compiled = compile_expression(vector)
    assert compiled.names == ("i", "r", "q")
    assert compiled.run([-3, 4, 5]) == (-48, 32, 10, -48)


def test_a_vector_s_component_reads_the_fields_that_it_depends_on() -> None:
    vector = op(Op.VECTOR, S.i + S.n * S.i, S.b, constant(1), S.i, -S.b + S.n)
    compiled = compile_expression(vector)
    assert compiled.names == ("i", "n", "b")
    assert compiled.reads == (0b011, 0b100, 0, 0b001, 0b110)
    assert compile_expression(S.i + S.n).reads == ()


def test_equal_nodes_and_equal_shifts_are_one_step_each() -> None:
    assert len(compile_expression((S.i + S.n) * (S.i + S.n) - (S.i + S.n)).steps) == 3
    comparisons = (S.i < S.r) & (S.r < S.i)  # i is moved to the grid of r once
    assert len(compile_expression(comparisons).steps) == 4
    assert len(compile_expression((S.i < S.r) & (S.i < S.q)).steps) == 5  # on two grids
    assert len(compile_expression(S.i < S.n).steps) == 1
