"""Expressions: immutable trees over a record's fields.

Every node goes through `build`, from every origin: an operator, a function of `functions`, or a
program that came over the wire. It infers the kind and the bounds and refuses what is ill-typed,
could overflow, or is too large; so there is no expression that a device would refuse for its
shape.

Two expressions with the same `digest` are the same; that is how sharing is found. Python's `==`
builds a comparison (`operators`), so ask `a.same_as(b)`; hashing is by identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from askance_client.errors import InvalidQuery
from askance_client.queries.canonical import i64s, text, u8, u32
from askance_client.queries.fields import FIELD_NAME, Field, ValueType
from askance_client.queries.inference import Parts, infer
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.limits import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_WEIGHT,
)
from askance_client.queries.operators import Operators, build_by

_NODE = b"askance/node/1"


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Expression(Operators):
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


build_by(build)


def field_expression(name: str, field: Field) -> Expression:
    """A field's value."""
    return build(Op.FIELD, name=name, field=field)


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
