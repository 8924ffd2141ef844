"""Queries built from expressions: the question that an analyst asks of a value.

Numbers are given in real units and rounded here to the expression's grid; `Query` checks the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from askance_aggregator.queries.functions import components, first
from askance_aggregator.queries.functions import vector as vector_of
from askance_client.errors import InvalidQuery
from askance_client.queries import Expression, Kind, Query, QueryKind
from askance_client.queries.exact import exact_ratio, is_integral, to_grid
from askance_client.queries.query import typed_expression


def predicate(expression: Expression, default: int = 0) -> Query:
    """Query the expression's truth: 0 or 1.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.predicate(schema.age > 40)
        Query(kind=<QueryKind.PREDICATE: 1>, expression=(40 < age), low=0, high=1, default=0)
    """
    return Query(QueryKind.PREDICATE, expression, 0, 1, _public(default))


def real(
    expression: Expression, low: object = None, high: object = None, default: object = None
) -> Query:
    """The expression's value, clamped to [low, high].

    Args:
        expression: a number or a boolean.
        low: in real units, rounded half to even to the expression's grid; its own bound if None.
        high: likewise.
        default: likewise; the midpoint (rounded down) if None.

    Raises:
        InvalidQuery: not a number, low >= high, 2^31 grid units or more between them, or the
            default is not between them.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.real(schema.age, 18, 65)
        Query(kind=<QueryKind.REAL: 2>, expression=age, low=18, high=65, default=41)
    """
    return _bounded(QueryKind.REAL, typed_expression(expression), low, high, default)


def category(expression: Expression, default: int = 0) -> Query:
    """Query the cell, of 0..high, that is the expression's value.

    Args:
        expression: a category, or a number on the integers, from 0.
        default: the cell (for a labelled category, its index) of a record without an answer.

    Raises:
        InvalidQuery: not integers from 0, or not 2..2^20 cells.

    Example:
        >>> schema = ask.Schema("people", colour=ask.Category(["red", "green"]))
        >>> ask.category(schema.colour)
        Query(kind=<QueryKind.CATEGORY: 3>, expression=colour, low=0, high=1, default=0)
    """
    return Query(
        QueryKind.CATEGORY, expression, 0, typed_expression(expression).high, _public(default)
    )


def signed(expression: Expression, default: int | None = None) -> Query:
    """Disjoint signed values: cell 2j is +1 at j, 2j+1 is -1 at j, and 2d is none.

    Args:
        expression: a number on the integers in [0, 2d] (or a category of 2d + 1).
        default: the cell of a record without an answer; none if None.

    Raises:
        InvalidQuery: not integers from 0, or their bound is not even and at least 2.

    Example:
        >>> schema = ask.Schema("people", vote=ask.Integer(0, 8))
        >>> ask.signed(schema.vote).high
        8
    """
    high = typed_expression(expression).high
    cell = high if default is None else _public(default)
    return Query(QueryKind.SIGNED, expression, 0, high, cell)


def vector(
    of: Expression | Iterable[object],
    low: object = None,
    high: object = None,
    default: object = None,
    frac_bits: int | None = None,
) -> Query:
    """Several values of one record, each clamped to the one range [low, high].

    Args:
        of: 1..1024 numbers or booleans, or a vector already.
        low: in real units, rounded half to even to the grid; the least of all bounds if None.
        high: likewise; the greatest.
        default: of every component; the midpoint (rounded down) if None.
        frac_bits: the grid; the finest of the components' if None.

    Raises:
        InvalidQuery: not numbers, low >= high, 2^31 grid units or more between them, or the
            default is not between them.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120), height=ask.Integer(0, 250))
        >>> ask.vector([schema.age, schema.height], 0, 250).expression
        vector(age, height)
    """
    expression = of if isinstance(of, Expression) else vector_of(of, frac_bits)
    return _bounded(QueryKind.VECTOR, expression, low, high, default)


def block_of(query: Query, start: int, stop: int) -> Query:
    """The components start .. stop-1 of a VECTOR query, asked alone: same grid, range, default."""
    if not 0 <= start < stop <= query.components:
        raise InvalidQuery(f"a block lies within 0..{query.components}, found {start}..{stop}")
    part = components(query.expression, start, stop)
    return Query(QueryKind.VECTOR, part, query.low, query.high, query.default)


def merge_disjoint(predicates: Sequence[Expression]) -> Query:
    """D disjoint predicates as one categorical query of d + 1 cells; the last is "none".

    Utility: saves about d/4 in users over d queries (8.6 x at d = 32, 65 x at d = 256, eps = 1).
    Predicates that are not disjoint count for the first that holds.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.merge_disjoint([schema.age < 18, schema.age >= 65]).high
        2
    """
    expression = first(predicates)
    return category(expression, default=expression.high)


def as_query(question: Expression | Query) -> Query:
    """A query as it is; an expression by its kind: predicate, category, real or vector."""
    if isinstance(question, Query):
        return question
    kind = typed_expression(question).kind
    if kind == Kind.BOOLEAN:
        return predicate(question)
    if kind == Kind.VECTOR:
        return _bounded(QueryKind.VECTOR, question, None, None, None)
    return category(question) if kind == Kind.CATEGORY else real(question)


def _bounded(
    kind: QueryKind, expression: Expression, low: object, high: object, default: object
) -> Query:
    """A REAL or VECTOR query; what is None follows from the expression."""
    least = expression.low if low is None else _on_own_grid("low", low, expression)
    most = expression.high if high is None else _on_own_grid("high", high, expression)
    middle = (least + most) // 2
    public = middle if default is None else _on_own_grid("default", default, expression)
    return Query(kind, expression, least, most, public)


def _public(default: object) -> int:
    if not is_integral(default):
        raise InvalidQuery(f"default expects an integer, found {type(default).__name__}")
    return int(default)  # type: ignore[call-overload, no-any-return]  # just seen to be integral


def _on_own_grid(what: str, value: object, expression: Expression) -> int:
    ratio = exact_ratio(value)
    if ratio is None:
        raise InvalidQuery(f"{what} expects a finite number, found {type(value).__name__}")
    return to_grid(ratio, expression.frac)
