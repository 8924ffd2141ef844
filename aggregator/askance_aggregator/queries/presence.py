"""Questions about those users who have a value, or all of several values.

A device that lacks a field of a query answers by the query's public default. Two kinds of questions
follow from that, and the trusted part of a device knows nothing of either. (Of a field that the
schema requires neither is asked: `is_required`.)

- One number. The default lies above all that the expression can be, and says "missing": a
  randomizer with equally spaced levels then has one level for it, the last, and a report tells a
  missing value from a number no better than it tells two numbers.
- Several fields. A query that uses all of them is answered by its default unless a record has all
  of them, a complete case. With a default of 0 its mean is that over the complete cases, times
  their share, for which another question asks (`of_complete`, `has_all`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from operator import index

from askance_aggregator.queries.building import predicate
from askance_aggregator.queries.functions import dot, index_of, round_to, vector, where
from askance_client.errors import InvalidQuery
from askance_client.queries import Expression, Kind, Query, QueryKind, constant
from askance_client.queries.kinds import Op
from askance_client.queries.limits import MAX_SPREAD
from askance_client.queries.program import postorder
from askance_client.queries.query import typed_expression


class PresentQuery(Query):
    """A number asked of the users who have it; its default, the greatest value, says "missing".

    The bytes that a device receives are those of any query with this range and default: the caller
    alone knows that the default is no number.
    """

    __slots__ = ()


def among_present(expression: Expression, steps: int = 1) -> PresentQuery:
    """Ask a number of the users who have it, and of all others that it is missing.

    The query's range is the number's, low .. high, and one step more, whose end is the answer of a
    user without the number. On `steps` + 2 levels numbers are rounded onto the first `steps` + 1,
    and the last is "missing".

    Args:
        expression: a number or a boolean; on a grid too fine for its range (2^31 grid units with
            the additional step) it is rounded to a coarser one.
        steps: into how many equal steps the number's range is divided, 1 or more. If the grid does
            not divide, steps are one grid unit longer and the last level is above the number's
            bound.

    Raises:
        InvalidQuery: neither a number nor a boolean, it has one possible value only, or its range
            and the additional step are 2^31 whole numbers or more.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> oracle = ask.ExactOracle(schema, {"age": [20, 40, None]})
        >>> (answer,) = oracle.answer(ask.Batch([ask.Question(ask.among_present(schema.age))]))
        >>> len(answer.values)
        1
    """
    steps = index(steps)
    number = _fitting(expression, steps)
    missing = number.low + (steps + 1) * _step(number, steps)
    return PresentQuery(QueryKind.REAL, number, number.low, missing, missing)


def among(expression: Expression, condition: Expression, steps: int = 1) -> PresentQuery:
    """Ask a number of the users who have it and for whom a condition holds.

    All others answer that it is missing, as do users without a field of the condition: the answer
    is the mean in a group of users, and the group's share.

    Privacy: a report tells whether a user is in the group no better than epsilon allows.

    Raises:
        InvalidQuery: see `among_present`; or the condition is no boolean.
    """
    number = _fitting(expression, steps)
    if number.kind is Kind.BOOLEAN:
        number = where(number, 1, 0)
    missing = number.low + (steps + 1) * _step(number, steps)
    chosen = where(condition, number, constant(Fraction(missing, 1 << number.frac), number.frac))
    return PresentQuery(QueryKind.REAL, chosen, number.low, missing, missing)


def number_in(query: Query) -> Expression:
    """Return the number that a query with a missing level is about, without its condition."""
    expression = query.expression
    if expression.op is Op.WHERE and expression.args[2].low == query.high:
        return expression.args[1]
    return expression


def _fitting(expression: Expression, steps: int) -> Expression:
    """Return the number on a grid on which its range has room for the level of "missing"."""
    number = typed_expression(expression)
    if number.kind not in (Kind.NUMBER, Kind.BOOLEAN):
        raise InvalidQuery(f"expected a number or a boolean, found {number.kind.name}")
    while number.high - number.low + _step(number, steps) * 2 >= MAX_SPREAD and number.frac:
        number = round_to(number, number.frac - 1)
    missing = number.low + (steps + 1) * _step(number, steps)
    if missing - number.low >= MAX_SPREAD:
        raise InvalidQuery(
            "a number that may be missing expects bounds less than"
            f" {MAX_SPREAD * steps // (steps + 1)} apart, got {number.low} .. {number.high}: give"
            " closer bounds in the schema, or count users without the number with a public value"
            " (missing=default)"
        )
    return number


def is_required(expression: Expression) -> bool:
    """Return whether every field that an expression reads is required.

    Such a number needs no level for "missing": by the schema every record has it.
    """
    return all(node.type.required for node in postorder(expression) if node.name)


def has_missing_level(query: Query) -> bool:
    """Return whether the query was built to say by its last value that the number is missing.

    Another query with the same range and default has the public default that its author gave it.
    """
    return isinstance(query, PresentQuery)


def fits_missing_level(query: Query) -> bool:
    """Return whether the default of a number is its greatest value, which it cannot have itself."""
    number = query.kind is QueryKind.REAL and query.default == query.high
    return number and number_in(query).high < query.high


def presence(query: Query) -> Query:
    """Ask whether a record has the number of a query with a missing level."""
    highest = Fraction(number_in(query).high, 1 << query.frac)
    return predicate(query.expression <= highest, default=0)


def has_all(fields: Mapping[str, Expression]) -> Query:
    """Ask whether a record has all of some fields."""
    if not fields:
        raise InvalidQuery("complete cases expect one field or more, got none")
    return predicate(_always(fields), default=0)


def number_of_complete(number: Expression, fields: Mapping[str, Expression]) -> Expression:
    """Make a number read some fields, so that a component of a vector is of complete cases.

    Its value does not change where a record has all fields.
    """
    never = constant(Fraction(number.low, 1 << number.frac), number.frac)
    return where(_always(fields), number, never)


def of_complete(query: Query, fields: Mapping[str, Expression]) -> Query:
    """Restrict a query to complete cases: all other users answer by the public default.

    Every component of a VECTOR query is restricted. Fields that the query does not use are read and
    change no value.

    Privacy: a report reveals no more than epsilon of which fields a record has, since the default
    is one of the query's values.
    """
    if query.kind is QueryKind.VECTOR:
        return _complete_vector(query, fields)
    rest = {name: field for name, field in fields.items() if name not in query.fields_used}
    if not rest:
        return query
    value, always = query.expression, _always(rest)
    if value.kind is Kind.BOOLEAN:
        return Query(query.kind, value & always, query.low, query.high, query.default)
    if value.kind is Kind.CATEGORY:
        value = index_of(value)
    never = constant(Fraction(value.low, 1 << value.frac), value.frac)
    kept = where(always, value, never)
    return Query(query.kind, kept, query.low, query.high, query.default)


def _complete_vector(query: Query, fields: Mapping[str, Expression]) -> Query:
    """Restrict every component: each of them has a default of its own."""
    default = constant(Fraction(query.default, 1 << query.frac), query.frac)
    always = _always(fields)
    parts = [where(always, part, default) for part in query.expression.args]
    kept = vector(parts, query.frac)
    return Query(query.kind, kept, query.low, query.high, query.default)


def _always(fields: Mapping[str, Expression]) -> Expression:
    """Build a predicate that holds for every record that has the fields."""
    numbers = [_number(field) for field in fields.values()]
    return dot([0] * len(numbers), numbers) <= 0


def _number(field: Expression) -> Expression:
    if field.kind is Kind.BITS:
        return next(iter(field))
    return index_of(field) if field.kind is Kind.CATEGORY else field


def _step(number: Expression, steps: int) -> int:
    if number.high == number.low:
        raise InvalidQuery("expected a number with more than one possible value")
    return -(-(number.high - number.low) // steps)
