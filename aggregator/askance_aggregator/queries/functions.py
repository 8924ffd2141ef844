"""Functions that build expressions: the operations that Python has no operator for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from askance_client.errors import InvalidQuery
from askance_client.queries.exact import is_integral
from askance_client.queries.expressions import Expression, build
from askance_client.queries.fields import Bits
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.operators import on_grid, operand


def where(condition: object, a: object, b: object) -> Expression:
    """`a` where the condition holds, else `b`.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.where(schema.age > 40, 1, 0)
        where((40 < age), 1, 0)
    """
    left = operand(a, b if isinstance(b, Expression) else None)
    return build(Op.WHERE, (operand(condition), left, operand(b, left)))


def clip(x: object, low: object, high: object) -> Expression:
    """`x` moved into [low, high]; the value's grid is the finer of `x`'s and the constants'.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.clip(schema.age, 18, 65)
        clip(age, [18, 65])
    """
    constants, grid = on_grid([low, high])
    return build(Op.CLIP, (operand(x),), constants=constants, grid=grid)


def round_to(x: object, frac_bits: int) -> Expression:
    """`x` on the coarser grid 2^-frac_bits, rounded half up; a coarse `x` stays as it is.

    Example:
        >>> schema = ask.Schema("people", height=ask.Real("0.5", "2.5", frac_bits=10))
        >>> ask.round_to(schema.height, 2)
        round(height, 2)
    """
    if not is_integral(frac_bits):
        raise InvalidQuery(f"round_to expects integer frac_bits, found {type(frac_bits).__name__}")
    inner = operand(x)
    if inner.kind in (Kind.BOOLEAN, Kind.NUMBER) and 0 <= inner.frac <= frac_bits:
        return inner
    return build(Op.ROUND, (inner,), grid=int(frac_bits))


def sigmoid(x: object) -> Expression:
    """The logistic function by its stated integer table (see `sigmoid.py`), over 2^16.

    Example:
        >>> schema = ask.Schema("people", change=ask.Integer(-10, 10))
        >>> ask.sigmoid(schema.change)
        sigmoid(change)
    """
    return build(Op.SIGMOID, (operand(x),))


def minimum(a: object, b: object) -> Expression:
    """The smaller of two numbers.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.minimum(schema.age, 65)
        minimum(age, 65)
    """
    return build(Op.MINIMUM, (operand(a), operand(b)))


def maximum(a: object, b: object) -> Expression:
    """The larger of two numbers.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.maximum(schema.age, 18)
        maximum(age, 18)
    """
    return build(Op.MAXIMUM, (operand(a), operand(b)))


def absolute(x: object) -> Expression:
    """The magnitude of a number.

    Example:
        >>> schema = ask.Schema("people", change=ask.Integer(-10, 10))
        >>> ask.absolute(schema.change)
        absolute(change)
    """
    return build(Op.ABSOLUTE, (operand(x),))


def parity(bits: Expression, mask: Sequence[int] | str) -> Expression:
    """<mask, bits> mod 2.

    Args:
        bits: a Bits field.
        mask: one 0/1 a component, as a sequence or as text "0110"; leftmost is component 0.

    Example:
        >>> schema = ask.Schema("people", answers=ask.Bits(3))
        >>> ask.parity(schema.answers, "101")
        parity(answers, [5])
    """
    if not isinstance(bits, Expression) or bits.kind != Kind.BITS:
        raise InvalidQuery("PARITY expects BITS as argument 1")
    words = Bits(bits.width).encode(mask)
    if words is None:
        raise InvalidQuery(f"PARITY expects a mask of {bits.width} values 0/1")
    return build(Op.PARITY, (bits,), constants=words)


def dot(
    coefficients: Iterable[Any], of: Expression | Iterable[Any], frac_bits: int | None = None
) -> Expression:
    """The exact sum of coefficient times value, over a Bits field or a list of expressions.

    Args:
        coefficients: numbers; if any is not of an integer type all are rounded to 2^-16.
        of: a Bits field, or as many expressions.
        frac_bits: another grid for the coefficients.

    Example:
        >>> schema = ask.Schema("people", answers=ask.Bits(3))
        >>> ask.dot([1, 2, 4], schema.answers)
        dot(answers, [1, 2, 4])
    """
    constants, grid = on_grid(list(coefficients), frac_bits)
    if isinstance(of, Expression):
        if of.kind != Kind.BITS:
            raise InvalidQuery(f"DOT expects BITS or a list of expressions, found {of.kind.name}")
        args: tuple[Expression, ...] = (of,)
    else:
        args = tuple(operand(item) for item in of)
        if any(arg.kind == Kind.BITS for arg in args):
            raise InvalidQuery("DOT expects BITS alone, not in a list")
    return build(Op.DOT, args, constants=constants, grid=grid)


def bucketize(x: object, edges: Iterable[Any]) -> Expression:
    """The number of edges that are <= x: a category of len(edges) + 1 buckets.

    Args:
        x: a number.
        edges: strictly increasing numbers; all integers, or all rounded to 2^-16.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.bucketize(schema.age, [18, 40, 65])
        bucketize(age, [18, 40, 65])
    """
    constants, grid = on_grid(list(edges))
    return build(Op.BUCKETIZE, (operand(x),), constants=constants, grid=grid)


def first(predicates: Iterable[Any]) -> Expression:
    """The index of the first predicate that holds, or their number if none does: a category.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.first([schema.age < 18, schema.age < 65])
        first((age < 18), (age < 65))
    """
    return build(Op.FIRST, tuple(operand(predicate) for predicate in predicates))


def index_of(category: Expression) -> Expression:
    """A category's index as a number, for arithmetic such as joint indices.

    Example:
        >>> schema = ask.Schema("people", colour=ask.Category(["red", "green"]))
        >>> ask.index_of(schema.colour) + 1
        (index(colour) + 1)
    """
    return build(Op.INDEX, (operand(category),))


def cross(*categories: Expression) -> Expression:
    """The joint index of several categories or predicates, the last varying fastest: a number.

    Example:
        >>> schema = ask.Schema("people", colour=ask.Category(["red", "green"]), smokes=ask.Bit())
        >>> ask.category(ask.cross(schema.colour, schema.smokes)).high
        3
    """
    if not categories:
        raise InvalidQuery("cross expects at least one category")
    return reduce(lambda joint, index: joint * (index.high + 1) + index, map(_cell, categories))


def _cell(category: Expression) -> Expression:
    index = index_of(category) if category.kind == Kind.CATEGORY else category
    if index.kind == Kind.BITS or index.frac or index.low < 0:
        raise InvalidQuery("cross expects categories, predicates or integers from 0")
    return index


def vector(components: Iterable[Any], frac_bits: int | None = None) -> Expression:
    """Several numbers as one value, which a VECTOR query asks; nothing else takes it.

    Args:
        components: 1..1024 numbers.
        frac_bits: their common grid; the finest of theirs if None.
    """
    args = tuple(operand(component) for component in components)
    grid = max((arg.frac for arg in args), default=0) if frac_bits is None else frac_bits
    if not is_integral(grid):
        raise InvalidQuery(f"vector expects integer frac_bits, found {type(frac_bits).__name__}")
    return build(Op.VECTOR, args, grid=int(grid))


def components(vector: Expression, start: int, stop: int) -> Expression:
    """The components start .. stop-1 of a vector, as a vector on the same grid."""
    return build(Op.VECTOR, vector.args[start:stop], grid=vector.grid)


def each_component(vector: Expression) -> tuple[Expression, ...]:
    """The components of a vector as numbers of their own, on their own grids."""
    return vector.args
