"""Expressions: immutable trees over a record's fields.

Every node goes through `build`, from every origin: an operator, a function of `functions`, or a
program that came over the wire. It infers the kind and the bounds and refuses what is ill-typed,
could overflow, or is too large; so there is no expression that a device would refuse for its
shape.

Two expressions with the same `digest` are the same; that is how sharing is found. Python's `==`
builds a comparison (`operators`), so ask `a.same_as(b)`; hashing is by identity.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

from askance_client.errors import InvalidQuery
from askance_client.queries.canonical import i64s, text, u8, u32
from askance_client.queries.fields import FIELD_NAME, Field, ValueType
from askance_client.queries.inference import Parts, infer
from askance_client.queries.kinds import Op
from askance_client.queries.limits import MAX_DEPTH, MAX_NODES, MAX_WEIGHT
from askance_client.queries.operators import Expression as Expression
from askance_client.queries.operators import build_by

_NODE = b"askance/node/1"


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

    `name` and `field` are a FIELD's, `constants` integers over 2^grid. `ceiling` is a size and a
    weight that are known not to be exceeded, where a whole program is known; it spares counting
    shared nodes again at every step.

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
    return replace(field.type, required=field.required), field.canonical


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
