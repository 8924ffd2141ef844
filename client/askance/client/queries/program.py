"""Programs: an expression as a flat list of nodes, as it is carried, compared and evaluated.

The list is the depth-first postorder with every distinct node once, the root last; that order is
canonical, and `rebuild` accepts no other. A list from a stranger is rebuilt through the same
`build` as everybody's, against this device's schema, without recursion.

Canonical bytes: "askance/program/1", the number of nodes, then for each node its operation, the
number and the positions of its arguments, its field name, its constants and its grid; integers
are big-endian and of fixed width, texts and lists are preceded by their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from askance.client.errors import InvalidQuery
from askance.client.queries.canonical import u32
from askance.client.queries.expressions import Expression, build, node_bytes
from askance.client.queries.kinds import Op
from askance.client.queries.limits import MAX_BITS, MAX_MAGNITUDE, MAX_NODES, MAX_WEIGHT

if TYPE_CHECKING:
    from askance.client.queries.schema import Schema

_FORMAT = b"askance/program/1"
_OPS = {int(op): op for op in Op}
_LATEST = 4  # expressions remembered: a program is checked, kept and compiled in one go


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a program.

    Args:
        op: the operation.
        args: positions of earlier nodes.
        name: the field's name (FIELD only).
        constants: the operation's integers, over 2^frac.
        frac: their grid, or the grid that ROUND goes to; 0 for all other operations.
    """

    op: Op
    args: tuple[int, ...] = ()
    name: str = ""
    constants: tuple[int, ...] = ()
    frac: int = 0


@dataclass(frozen=True, slots=True, init=False)
class Program:
    """An expression's canonical nodes and bytes."""

    nodes: tuple[Node, ...]
    canonical: bytes

    def __init__(self, expression: Expression) -> None:
        nodes = flatten(expression)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "canonical", canonical_bytes(nodes))


@lru_cache(maxsize=_LATEST)
def postorder(expression: Expression) -> tuple[Expression, ...]:
    """Every distinct node once, arguments before what uses them, the expression itself last."""
    done: set[bytes] = set()
    ordered: list[Expression] = []
    stack = [(expression, False)]
    while stack:
        node, ready = stack.pop()
        if node.digest in done:
            continue
        if ready or not node.args:
            done.add(node.digest)
            ordered.append(node)
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))
    return tuple(ordered)


@lru_cache(maxsize=_LATEST)
def flatten(expression: Expression) -> tuple[Node, ...]:
    """The expression as canonical nodes."""
    ordered = postorder(expression)
    position = {node.digest: index for index, node in enumerate(ordered)}
    return tuple(
        Node(
            node.op,
            tuple(position[arg.digest] for arg in node.args),
            node.name,
            node.constants,
            node.grid,
        )
        for node in ordered
    )


def canonical_bytes(nodes: Sequence[Node]) -> bytes:
    """Injective, versioned bytes of a program (see this file's docstring)."""
    encoded = [
        node_bytes(
            node.op,
            len(node.args),
            b"".join(map(u32, node.args)),
            node.name,
            node.constants,
            node.frac,
        )
        for node in nodes
    ]
    return b"".join((_FORMAT, u32(len(encoded)), *encoded))


def rebuild(nodes: Sequence[Node], schema: Schema) -> Expression:
    """The expression that a list of nodes stands for, inferred anew against this schema.

    Raises:
        InvalidQuery: an unknown operation or field, a wrong argument, ill-typed, too large, too
            deep, a possible overflow, or not in the canonical order. The node is named.
    """
    if not 1 <= len(nodes) <= MAX_NODES:
        raise InvalidQuery(f"a program expects 1..{MAX_NODES} nodes, found {len(nodes)}")
    built: list[Expression] = []
    weight = 0
    for position, node in enumerate(nodes):
        weight += 1 + len(node.args) + len(node.constants)
        if weight > MAX_WEIGHT:
            raise InvalidQuery(
                f"a program expects at most {MAX_WEIGHT} nodes, arguments and constants in all"
            )
        try:
            built.append(_rebuild_node(node, built, schema, (position + 1, weight)))
        except InvalidQuery as error:
            raise InvalidQuery(f"node {position}: {error}") from None
    root = built[-1]
    if flatten(root) != tuple(nodes):
        raise InvalidQuery("a program expects its nodes in canonical order, each used and once")
    return root


def _rebuild_node(
    node: Node, built: Sequence[Expression], schema: Schema, ceiling: tuple[int, int]
) -> Expression:
    op = _OPS.get(node.op)
    if op is None:
        raise InvalidQuery("unknown operation")
    for arg in node.args:
        if not _is_int(arg) or not 0 <= arg < len(built):
            raise InvalidQuery(f"{op.name} expects positions of earlier nodes as arguments")
    if len(node.constants) > MAX_BITS:
        raise InvalidQuery(f"{op.name} expects at most {MAX_BITS} constants")
    for value in node.constants:
        if not _is_int(value) or abs(value) >= MAX_MAGNITUDE:
            raise InvalidQuery(f"{op.name} expects integer constants below 2^62")
    if type(node.frac) is not int or not isinstance(node.name, str):
        raise InvalidQuery(f"{op.name} expects an integer grid and a text as name")
    if op == Op.FIELD:
        return _field(node, schema)
    return build(
        op,
        tuple(built[arg] for arg in node.args),
        name=node.name,
        constants=tuple(node.constants),
        grid=node.frac,
        ceiling=ceiling,
    )


def _field(node: Node, schema: Schema) -> Expression:
    """The schema's own expression: a thousand labels are not hashed again for every node."""
    if node.name not in schema:
        raise InvalidQuery(f"the schema {schema.name!r} has no field {node.name[:64]!r}")
    if node.args or node.constants or node.frac:
        raise InvalidQuery(f"FIELD {node.name} expects no arguments, constants or grid")
    return schema[node.name]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
