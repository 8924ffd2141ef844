"""Python's operators on expressions, and constants: the queries that an analyst writes.

No part of the trusted core: a device rebuilds the expressions that it receives by
`expressions.build`, and no function of this module is reached from received bytes.

A constant in an operator stays an integer if it is one and is rounded, half to even, to 2^-16
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, SupportsIndex

from askance_client.errors import InvalidQuery
from askance_client.queries.exact import exact_ratio, is_integral, to_grid
from askance_client.queries.inference import ExpressionNode
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.limits import CONSTANT_FRAC, MAX_FRAC, MAX_MAGNITUDE
from askance_client.queries.rendering import render

_LABELS_SHOWN = 20


class Builder(Protocol):
    """Type of `expressions.build`."""

    def __call__(
        self,
        op: Op,
        args: tuple[Expression, ...] = (),
        *,
        constants: tuple[int, ...] = (),
        grid: int = 0,
    ) -> Expression: ...


_BUILDERS: list[Builder] = []


def build_by(builder: Builder) -> None:
    """Set the function that makes nodes; called by the module that defines expressions."""
    _BUILDERS[:] = [builder]


class Expression(ExpressionNode):
    """A typed value computed from a record, with Python's operators.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120), smokes=ask.Bit())
        >>> (schema.age > 40) & schema.smokes
        ((40 < age) & smokes)
    """

    __slots__ = ()

    args: tuple[Expression, ...]

    __array_ufunc__ = None  # numpy's numbers on the left leave the operator to us

    def __add__(self, other: object) -> Expression:
        return _node(Op.ADD, self, other)

    def __radd__(self, other: object) -> Expression:
        return _node(Op.ADD, other, self)

    def __sub__(self, other: object) -> Expression:
        return _node(Op.SUBTRACT, self, other)

    def __rsub__(self, other: object) -> Expression:
        return _node(Op.SUBTRACT, other, self)

    def __mul__(self, other: object) -> Expression:
        return _node(Op.MULTIPLY, self, other)

    def __rmul__(self, other: object) -> Expression:
        return _node(Op.MULTIPLY, other, self)

    def __truediv__(self, other: object) -> Expression:
        raise InvalidQuery("division is not exact on a grid: multiply by a constant instead")

    __rtruediv__ = __floordiv__ = __rfloordiv__ = __truediv__

    def __neg__(self) -> Expression:
        return _node(Op.NEGATE, self)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return _node(Op.ABSOLUTE, self)

    def __lt__(self, other: object) -> Expression:
        return _node(Op.LESS, self, other)

    def __le__(self, other: object) -> Expression:
        return _node(Op.LESS_EQUAL, self, other)

    def __gt__(self, other: object) -> Expression:
        return _node(Op.LESS, other, self)

    def __ge__(self, other: object) -> Expression:
        return _node(Op.LESS_EQUAL, other, self)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # a query's ==, not Python's
        return _node(Op.EQUAL, self, operand(other, self))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # a query's !=, not Python's
        return _node(Op.NOT, self == other)

    __hash__ = object.__hash__

    def __and__(self, other: object) -> Expression:
        return _node(Op.AND, self, other)

    def __rand__(self, other: object) -> Expression:
        return _node(Op.AND, other, self)

    def __or__(self, other: object) -> Expression:
        return _node(Op.OR, self, other)

    def __ror__(self, other: object) -> Expression:
        return _node(Op.OR, other, self)

    def __invert__(self) -> Expression:
        return _node(Op.NOT, self)

    def __bool__(self) -> bool:
        raise InvalidQuery(
            "an expression has no truth value before a record is seen: write (a < b) & (b < c) for "
            "a < b < c, &, |, ~ for and, or, not, and same_as to compare two expressions"
        )

    def __len__(self) -> int:
        if self.kind != Kind.BITS:
            raise InvalidQuery(f"only BITS have components, found {self.kind.name}")
        return self.width

    def __getitem__(self, component: SupportsIndex) -> Expression:
        if not is_integral(component):
            found = type(component).__name__
            raise InvalidQuery(f"a component is asked for by an integer, found {found}")
        return _node(Op.COMPONENT, self, constants=(int(component),))

    def __iter__(self) -> Iterator[Expression]:
        return iter([self[component] for component in range(len(self))])

    def __contains__(self, item: object) -> bool:
        raise InvalidQuery("`in` cannot be asked of an expression: join comparisons by |")

    def __repr__(self) -> str:
        return render(self)


def constant(value: object, frac_bits: int | None = None) -> Expression:
    """A constant, rounded half to even to a multiple of 2^-frac_bits.

    Args:
        value: int, Fraction, Decimal, decimal text, or a float (which is exactly what it is).
        frac_bits: 0..40; if None, 0 for integers and 16 for all else.

    Raises:
        InvalidQuery: not a finite number, or 2^62 grid units or more.

    Example:
        >>> ask.constant("0.25", frac_bits=4)
        1/4
    """
    mantissas, grid = on_grid([value], frac_bits)
    return _node(Op.CONSTANT, constants=mantissas, grid=grid)


def on_grid(values: list[object], frac_bits: int | None = None) -> tuple[tuple[int, ...], int]:
    """Several constants on one grid: the integers if all are of an integer type, else 2^-16."""
    if frac_bits is None:
        frac_bits = 0 if all(map(is_integral, values)) else CONSTANT_FRAC
    if not is_integral(frac_bits) or not 0 <= frac_bits <= MAX_FRAC:
        raise InvalidQuery(f"constants expect frac_bits in 0..{MAX_FRAC}")
    mantissas = []
    for position, value in enumerate(values):
        ratio = exact_ratio(value)
        if ratio is None:
            found = type(value).__name__
            raise InvalidQuery(f"constant {position} expects a finite number, found {found}")
        mantissa = to_grid(ratio, int(frac_bits))
        if abs(mantissa) >= MAX_MAGNITUDE:
            raise InvalidQuery(f"constant {position} reaches 2^62 units of 2^-{frac_bits}")
        mantissas.append(mantissa)
    return tuple(mantissas), int(frac_bits)


def operand(value: object, beside: Expression | None = None) -> Expression:
    """An expression as it is; anything else as a constant, or a label of the category beside it."""
    if isinstance(value, Expression):
        return value
    if beside is not None and beside.labels is not None:
        return _node(Op.CONSTANT, constants=(_label_index(value, beside),))
    return constant(value)


def _label_index(value: object, beside: Expression) -> int:
    labels = beside.labels or ()
    key = value if isinstance(value, str) else str(value) if is_integral(value) else None
    if key is None or key not in labels:
        shown = ", ".join(labels[:_LABELS_SHOWN]) + (", ..." if len(labels) > _LABELS_SHOWN else "")
        raise InvalidQuery(f"{beside!r} expects one of its labels: {shown}; found {value!r:.64}")
    return labels.index(key)


def _node(op: Op, *values: object, constants: tuple[int, ...] = (), grid: int = 0) -> Expression:
    (build,) = _BUILDERS
    return build(op, tuple(map(operand, values)), constants=constants, grid=grid)
