"""Expressions: immutable trees over a record's fields, built by Python's operators.

Every node goes through `build`, from every origin: an operator, a function of `functions`, or a
program that came over the wire. It infers the kind and the bounds and refuses what is ill-typed,
could overflow, or is too large; so there is no expression that a device would refuse for its
shape. A constant in an operator stays an integer if it is one and is rounded, half to even, to
2^-16 otherwise.

Two expressions with the same `digest` are the same; that is how sharing is found. Python's `==`
builds a comparison, so ask `a.same_as(b)`; hashing is by identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, SupportsIndex

from askance_client.errors import InvalidQuery
from askance_client.queries.canonical import i64s, text, u8, u32
from askance_client.queries.exact import exact_ratio, is_integral, to_grid
from askance_client.queries.fields import FIELD_NAME, Field, ValueType
from askance_client.queries.inference import Parts, infer
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.limits import (
    CONSTANT_FRAC,
    MAX_DEPTH,
    MAX_FRAC,
    MAX_MAGNITUDE,
    MAX_NODES,
    MAX_WEIGHT,
)

_NODE = b"askance/node/1"
_LABELS_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Expression:
    """A typed value computed from a record.

    Args:
        op: the operation.
        args: its arguments.
        name: the field's name (FIELD only).
        constants: the operation's own integers, over 2^grid.
        grid: their grid, or the grid that ROUND goes to.
        type: kind, scale and bounds of the value.
        depth: of the tree; a leaf has 1.
        size: not less than the number of distinct nodes.
        weight: not less than their nodes, arguments and constants together.
        digest: of the structure and of the types of the fields in it.
        around: the bytes that a program has of it, before and after those of its arguments.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120), smokes=ask.Bit())
        >>> (schema.age > 40) & schema.smokes
        ((40 < age) & smokes)
    """

    op: Op
    args: tuple[Expression, ...]
    name: str
    constants: tuple[int, ...]
    grid: int
    type: ValueType
    depth: int
    size: int
    weight: int
    digest: bytes
    around: tuple[bytes, bytes]

    __array_ufunc__ = None  # numpy's numbers on the left leave the operator to us

    @property
    def kind(self) -> Kind:
        """BOOLEAN, NUMBER, CATEGORY or BITS."""
        return self.type.kind

    @property
    def frac(self) -> int:
        """The value is an integer over 2^frac."""
        return self.type.frac

    @property
    def low(self) -> int:
        """The integer is never below this."""
        return self.type.low

    @property
    def high(self) -> int:
        """The integer is never above this."""
        return self.type.high

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of a category's indices, where it has any."""
        return self.type.labels

    @property
    def width(self) -> int:
        """The number of components of BITS."""
        return self.type.width

    def same_as(self, other: Expression) -> bool:
        """Return whether the two are the same tree over fields of the same types."""
        return self.digest == other.digest

    def __add__(self, other: object) -> Expression:
        return build(Op.ADD, (self, operand(other)))

    def __radd__(self, other: object) -> Expression:
        return build(Op.ADD, (operand(other), self))

    def __sub__(self, other: object) -> Expression:
        return build(Op.SUBTRACT, (self, operand(other)))

    def __rsub__(self, other: object) -> Expression:
        return build(Op.SUBTRACT, (operand(other), self))

    def __mul__(self, other: object) -> Expression:
        return build(Op.MULTIPLY, (self, operand(other)))

    def __rmul__(self, other: object) -> Expression:
        return build(Op.MULTIPLY, (operand(other), self))

    def __truediv__(self, other: object) -> Expression:
        raise InvalidQuery("division is not exact on a grid: multiply by a constant instead")

    __rtruediv__ = __floordiv__ = __rfloordiv__ = __truediv__

    def __neg__(self) -> Expression:
        return build(Op.NEGATE, (self,))

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return build(Op.ABSOLUTE, (self,))

    def __lt__(self, other: object) -> Expression:
        return build(Op.LESS, (self, operand(other)))

    def __le__(self, other: object) -> Expression:
        return build(Op.LESS_EQUAL, (self, operand(other)))

    def __gt__(self, other: object) -> Expression:
        return build(Op.LESS, (operand(other), self))

    def __ge__(self, other: object) -> Expression:
        return build(Op.LESS_EQUAL, (operand(other), self))

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # a query's ==, not Python's
        return build(Op.EQUAL, (self, operand(other, self)))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # a query's !=, not Python's
        return build(Op.NOT, (build(Op.EQUAL, (self, operand(other, self))),))

    __hash__ = object.__hash__

    def __and__(self, other: object) -> Expression:
        return build(Op.AND, (self, operand(other)))

    def __rand__(self, other: object) -> Expression:
        return build(Op.AND, (operand(other), self))

    def __or__(self, other: object) -> Expression:
        return build(Op.OR, (self, operand(other)))

    def __ror__(self, other: object) -> Expression:
        return build(Op.OR, (operand(other), self))

    def __invert__(self) -> Expression:
        return build(Op.NOT, (self,))

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
        return build(Op.COMPONENT, (self,), constants=(int(component),))

    def __iter__(self) -> Iterator[Expression]:
        return iter([self[component] for component in range(len(self))])

    def __contains__(self, item: object) -> bool:
        raise InvalidQuery("`in` cannot be asked of an expression: join comparisons by |")

    def __repr__(self) -> str:
        from askance_client.queries.rendering import render  # it knows this class

        return render(self)


def build(
    op: Op,
    args: tuple[Expression, ...] = (),
    *,
    name: str = "",
    constants: tuple[int, ...] = (),
    grid: int = 0,
    field: Field | None = None,
    ceiling: tuple[int, int] | None = None,
) -> Expression:
    """The one way to a node: everything about it is inferred and checked here.

    Args:
        op: the operation.
        args: its arguments.
        name: the field's name (FIELD only).
        constants: its integers over 2^grid.
        grid: see `Expression`.
        field: the field's type (FIELD only).
        ceiling: (size, weight) that are known not to be exceeded, where a whole program is
            known; it spares counting shared nodes again at every step.

    Raises:
        InvalidQuery: ill-typed, too large, too deep, or a value could reach 2^62.
    """
    parts = Parts(op, args, constants, grid)
    if op == Op.FIELD:
        inferred, identity = _field_type(name, field)
    elif name:
        raise InvalidQuery(f"{op.name} expects no field name, found one")
    else:
        inferred, identity = infer(parts), b""
    depth = 1 + max([arg.depth for arg in args], default=0)
    if depth > MAX_DEPTH:
        raise InvalidQuery(
            f"{op.name} expects a depth of at most {MAX_DEPTH}, found {depth}: "
            "use dot for a long sum and first for a long choice"
        )
    own = 1 + len(args) + len(constants)
    size = 1 + sum([arg.size for arg in args])
    weight = own + sum([arg.weight for arg in args])
    if ceiling is not None:
        size, weight = min(size, ceiling[0]), min(weight, ceiling[1])
    elif size > MAX_NODES or weight > MAX_WEIGHT:  # perhaps only because shared nodes count twice
        size, weight = _distinct(args)
        size, weight = size + 1, weight + own
    if size > MAX_NODES or weight > MAX_WEIGHT:
        raise InvalidQuery(
            f"a query expects at most {MAX_NODES} distinct nodes and {MAX_WEIGHT} nodes, arguments "
            f"and constants in all, found {size} and {weight}"
        )
    # Injective, whatever stands for the arguments, if all of it has one fixed width.
    before = _NODE + u8(op) + u32(len(args))
    after = text(name) + i64s(constants) + u8(grid)
    digest = sha256(b"".join((before, *[arg.digest for arg in args], after, identity))).digest()
    return Expression(
        op, args, name, constants, grid, inferred, depth, size, weight, digest, (before, after)
    )


def field_expression(name: str, field: Field) -> Expression:
    """A field's value."""
    return build(Op.FIELD, name=name, field=field)


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
    return build(Op.CONSTANT, constants=mantissas, grid=grid)


def on_grid(values: list[object], frac_bits: int | None = None) -> tuple[tuple[int, ...], int]:
    """Several constants on one grid: the integers if all are of an integer type, else 2^-16.

    Raises:
        InvalidQuery: a value is not a finite number, or 2^62 grid units or more.
    """
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
    """An expression as it is; anything else as a constant, or a label of the category beside it.

    Raises:
        InvalidQuery: neither a finite number nor one of the labels.
    """
    if isinstance(value, Expression):
        return value
    if beside is not None and beside.labels is not None:
        return build(Op.CONSTANT, constants=(_label_index(value, beside),))
    return constant(value)


def _label_index(value: object, beside: Expression) -> int:
    labels = beside.labels or ()
    key = value if isinstance(value, str) else str(value) if is_integral(value) else None
    if key is None or key not in labels:
        shown = ", ".join(labels[:_LABELS_SHOWN]) + (", ..." if len(labels) > _LABELS_SHOWN else "")
        raise InvalidQuery(f"{beside!r} expects one of its labels: {shown}; found {value!r:.64}")
    return labels.index(key)


def _field_type(name: str, field: Field | None) -> tuple[ValueType, bytes]:
    if field is None or not FIELD_NAME.fullmatch(name):
        raise InvalidQuery("FIELD expects the name of a field of the schema")
    return field.type, field.canonical


def _distinct(roots: tuple[Expression, ...]) -> tuple[int, int]:
    """Nodes, and nodes with arguments and constants, each distinct one counted once."""
    seen: set[bytes] = set()
    weight = 0
    stack: list[Any] = list(roots)
    while stack:
        node = stack.pop()
        if node.digest not in seen:
            seen.add(node.digest)
            weight += 1 + len(node.args) + len(node.constants)
            stack.extend(node.args)
    return len(seen), weight
