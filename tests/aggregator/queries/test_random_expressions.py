"""Generated expressions: one meaning, in every evaluator.

The reference below evaluates an expression by its documented meaning, in Fractions and by
recursion; it shares nothing with the evaluator but the expression.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import floor
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askance_aggregator.queries import (
    EncodedColumns,
    absolute,
    bucketize,
    category,
    clip,
    dot,
    encode_columns,
    evaluate_columns,
    first,
    index_of,
    maximum,
    minimum,
    parity,
    predicate,
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
    Query,
    QueryKind,
    Real,
    Schema,
    flatten,
    sigmoid_table,
)
from askance_client.queries.program import rebuild
from askance_simulation.populations.columns import narrowed

WIDTH = 35
S = Schema(
    "random",
    1,
    b=Bit(),
    p=Bit(),
    v=Bits(WIDTH),
    c=Category(["red", "green", "blue"]),
    d=Category(["red", "green", "blue"]),
    i=Integer(-3, 4),
    n=Integer(0, 1000),
    r=Real(-1, 2, 8),
    q=Real(-100, 100, 16),
    wide=Integer(-(1 << 61), 1 << 61),
    edge=Integer(-(1 << 62) + 1, (1 << 62) - 1),
)

LEAVES = {
    Kind.BOOLEAN: [S.b, S.p, S.v[0], S.v[31], S.v[34]],
    Kind.NUMBER: [S.i, S.n, S.r, S.q, S.wide, S.edge],
    Kind.CATEGORY: [S.c, S.d],
}
constants = st.one_of(
    st.integers(-5, 5),
    st.fractions(-3, 3, max_denominator=100),
    st.sampled_from([1 << 40, -(1 << 61), 0.5, 0.1]),
)


def reference(e: Expression, fields: Mapping[str, Any]) -> Any:
    """The value in real units: a Fraction, or a list of bits."""
    op, a = e.op, [reference(arg, fields) for arg in e.args]
    k = [Fraction(value, 1 << e.grid) for value in e.constants]
    if op in PLAIN:
        return Fraction(PLAIN[op](*a))
    meanings: dict[Op, Callable[[], Any]] = {
        Op.FIELD: lambda: fields[e.name],
        Op.CONSTANT: lambda: k[0],
        Op.COMPONENT: lambda: a[0][e.constants[0]],
        Op.CLIP: lambda: min(max(a[0], k[0]), k[1]),
        Op.ROUND: lambda: Fraction(floor(a[0] * (1 << e.grid) + Fraction(1, 2)), 1 << e.grid),
        Op.DOT: lambda: sum(
            c * x for c, x in zip(k, a[0] if isinstance(a[0], list) else a, strict=True)
        ),
        Op.PARITY: lambda: (
            sum(bit * (e.constants[i // 32] >> i % 32 & 1) for i, bit in enumerate(a[0])) % 2
        ),
        Op.BUCKETIZE: lambda: sum(edge <= a[0] for edge in k),
        Op.FIRST: lambda: next((i for i, holds in enumerate(a) if holds), len(a)),
    }
    value = meanings[op]()
    return value if isinstance(value, list) else Fraction(value)


PLAIN: dict[Op, Callable[..., Any]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUBTRACT: lambda a, b: a - b,
    Op.MULTIPLY: lambda a, b: a * b,
    Op.NEGATE: lambda a: -a,
    Op.ABSOLUTE: abs,
    Op.LESS: lambda a, b: a < b,
    Op.LESS_EQUAL: lambda a, b: a <= b,
    Op.EQUAL: lambda a, b: a == b,
    Op.AND: lambda a, b: a and b,
    Op.OR: lambda a, b: a or b,
    Op.NOT: lambda a: not a,
    Op.WHERE: lambda c, a, b: a if c else b,
    Op.MINIMUM: min,
    Op.MAXIMUM: max,
    Op.INDEX: lambda a: a,
    Op.SIGMOID: lambda x: Fraction(
        sigmoid_table()[floor(min(max(x, Fraction(-8)), Fraction(8)) * 256) + 2048], 1 << 16
    ),
}


def test_the_reference_and_the_generator_know_every_operation() -> None:
    special = {
        Op.FIELD, Op.CONSTANT, Op.COMPONENT, Op.CLIP, Op.ROUND,
        Op.DOT, Op.PARITY, Op.BUCKETIZE, Op.FIRST,
    }  # fmt: skip
    only_asked = {Op.VECTOR}  # a root: test_vectors.py
    assert set(PLAIN) | special | only_asked == set(Op)


@st.composite
def booleans(draw: st.DrawFn, depth: int) -> Expression:
    return _or_leaf(draw, Kind.BOOLEAN, depth, _boolean)


@st.composite
def categories(draw: st.DrawFn, depth: int) -> Expression:
    return _or_leaf(draw, Kind.CATEGORY, depth, _category)


@st.composite
def numbers(draw: st.DrawFn, depth: int) -> Expression:
    return _or_leaf(draw, Kind.NUMBER, depth, _number)


def _or_leaf(
    draw: st.DrawFn, kind: Kind, depth: int, form: Callable[[st.DrawFn, int], Expression]
) -> Expression:
    """A leaf at depth 0, and where what was generated could have overflowed."""
    if depth > 0:
        try:
            return form(draw, depth)
        except InvalidQuery as refusal:
            if "2^62" not in str(refusal) and "finer than" not in str(refusal):
                raise  # the generator is well typed: it is refused for nothing else
    return draw(st.sampled_from(LEAVES[kind]))


def _boolean(draw: st.DrawFn, depth: int) -> Expression:
    form = draw(st.sampled_from(["<", "<=", "==", "&", "|", "~", "c", "parity", "where", "leaf"]))
    if form in COMPARISONS:
        a, b = draw(numbers(depth - 1)), draw(numbers(depth - 1) | constants)
        return COMPARISONS[form](a, b)
    if form == "c":
        a = draw(categories(depth - 1))
        labels = st.sampled_from(["red", "green", "blue"]) if a.labels else st.integers(0, a.high)
        return a == draw(labels)
    if form == "parity":
        mask = draw(st.lists(st.integers(0, 1), min_size=WIDTH, max_size=WIDTH))
        return parity(S.v, mask)
    a, b = draw(booleans(depth - 1)), draw(booleans(depth - 1))
    if form == "where":
        return where(draw(booleans(depth - 1)), a, b)
    return {"&": a & b, "|": a | b, "~": ~a, "leaf": a}[form]


def _category(draw: st.DrawFn, depth: int) -> Expression:
    form = draw(st.sampled_from(["bucketize", "first", "where", "leaf"]))
    if form == "bucketize":
        edges = sorted(draw(st.sets(st.integers(-4, 4), min_size=1, max_size=5)))
        scale = draw(st.sampled_from([Fraction(1), Fraction(1, 3)]))
        return bucketize(draw(numbers(depth - 1)), [edge * scale for edge in edges])
    if form == "first":
        return first(draw(st.lists(booleans(depth - 1), min_size=1, max_size=4)))
    a, b = draw(categories(depth - 1)), draw(categories(depth - 1))
    return where(draw(booleans(depth - 1)), a, b) if form == "where" else a


COMPARISONS: dict[str, Callable[[Expression, Any], Expression]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: b <= a,
    "==": lambda a, b: a == b,
}
FORMS = ["+", "-", "*", "neg", "abs", "min", "max", "where", "clip", "round", "sigmoid", "dot",
         "dot bits", "square", "index", "boolean"]  # fmt: skip


def _number(draw: st.DrawFn, depth: int) -> Expression:
    form = draw(st.sampled_from(FORMS))
    a = draw(numbers(depth - 1))
    b: Any = draw(numbers(depth - 1) | constants)
    if form == "where":
        return where(draw(booleans(depth - 1)), a, b)
    if form == "clip":
        low, high = sorted([draw(constants), draw(constants)])
        return clip(a, low, high)
    if form == "dot":
        terms = [a, *draw(st.lists(numbers(depth - 1) | booleans(depth - 1), max_size=3))]
        return dot([draw(constants) for _ in terms], terms)
    if form == "dot bits":
        weights = st.integers(-9, 9) | st.fractions(-2, 2, max_denominator=50)
        return dot(draw(st.lists(weights, min_size=WIDTH, max_size=WIDTH)), S.v)
    forms: dict[str, Callable[[], Expression]] = {
        "+": lambda: a + b,
        "-": lambda: b - a,
        "*": lambda: a * b,
        "neg": lambda: -a,
        "abs": lambda: absolute(a),
        "min": lambda: minimum(a, b),
        "max": lambda: maximum(b, a),
        "round": lambda: round_to(a, draw(st.integers(0, 10))),
        "sigmoid": lambda: sigmoid(a),
        "square": lambda: a * a,
        "index": lambda: index_of(draw(categories(depth - 1))),
        "boolean": lambda: draw(booleans(depth - 1)) + a,
    }
    return forms[form]()


expressions = st.integers(1, 4).flatmap(lambda d: numbers(d) | booleans(d) | categories(d))


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """A record of grid values, extremes likely."""
    record: dict[str, Any] = {}
    for name, field in S.fields.items():
        kind = field.type
        if kind.kind == Kind.BITS:
            record[name] = draw(st.lists(st.integers(0, 1), min_size=WIDTH, max_size=WIDTH))
            continue
        value = draw(st.sampled_from([kind.low, kind.high]) | st.integers(kind.low, kind.high))
        record[name] = kind.labels[value] if kind.labels else Fraction(value, 1 << kind.frac)
    return record


def meaning(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as the reference reads it: labels are indices."""
    return {
        name: Fraction(S.fields[name].type.labels.index(value))  # type: ignore[union-attr]  # only a label is a text
        if isinstance(value, str)
        else value
        for name, value in record.items()
    }


def question(e: Expression, near: int) -> Query:
    """A query of the expression, whose window shows every value near the one expected."""
    if e.kind == Kind.BOOLEAN:
        return predicate(e)
    if e.kind == Kind.CATEGORY and e.high > 0:
        return category(e)
    low, high = max(near - 1000, 1 - (1 << 62)), min(near + 1000, (1 << 62) - 1)
    return Query(QueryKind.REAL, e, low, high, low)


def columns_of(rows: list[dict[str, Any]]) -> EncodedColumns:
    return encode_columns(S, {name: [row[name] for row in rows] for name in S.fields})


SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(expressions, st.lists(records(), min_size=1, max_size=4))
def test_record_columns_and_reference_agree(e: Expression, rows: list[dict[str, Any]]) -> None:
    columns = columns_of(rows)
    narrow = narrowed(S, columns)
    for position, row in enumerate(rows):
        exact = reference(e, meaning(row)) * (1 << e.frac)
        assert exact.denominator == 1
        assert e.low <= exact <= e.high  # the inferred bounds hold
        query = question(e, int(exact))
        from_record = query.evaluate(S.encode(row))
        assert type(from_record) is int
        assert from_record == exact
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns of some overflows; there are none
            from_columns = evaluate_columns(query, columns)
            from_narrow = evaluate_columns(query, narrow)
        assert from_columns[position] == exact
        assert from_narrow[position] == exact


@SETTINGS
@given(expressions)
def test_a_program_round_trips(e: Expression) -> None:
    nodes = flatten(e)
    again = rebuild(nodes, S)
    assert again.same_as(e)
    assert again.type == e.type
    assert flatten(again) == nodes
    assert len(nodes) <= e.size
