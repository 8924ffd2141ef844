"""Programs: an expression as a flat list of nodes, as it is carried, compared and evaluated.

The list is the depth-first postorder with every distinct node once, the root last; that order is
canonical, and `rebuild` accepts no other. An untrusted list is rebuilt through the same
`build` as any other, against this device's schema, without recursion.

Canonical bytes: "askance/program/1", the number of nodes, then for each node its operation, the
number and the positions of its arguments, its field name, its constants and its grid; integers
are big-endian and of fixed width, texts and lists are preceded by their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING, Protocol

from askance_client.errors import InvalidQuery
from askance_client.queries.canonical import u32, u32s
from askance_client.queries.expressions import Expression, build
from askance_client.queries.kinds import Op
from askance_client.queries.limits import MAX_BITS, MAX_MAGNITUDE, MAX_NODES, MAX_WEIGHT

if TYPE_CHECKING:
    from askance_client.queries.schema import Schema

_FORMAT = b"askance/program/1"
_OPS = {int(op): op for op in Op}
_FIELD = Op.FIELD  # which takes a while to look up
_LATEST = 4  # expressions remembered: a program is checked, kept and compiled in one go


@dataclass(frozen=True, slots=True)
class Node:
    """Operation of a program.

    Args:
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


class Carried(Protocol):
    """Source that a node is read from: a `Node`, or a message of the wire."""

    @property
    def op(self) -> int:
        """Number of the operation."""
        ...

    @property
    def args(self) -> Sequence[int]:
        """Indices of the argument nodes, each below the node's own."""
        ...

    @property
    def name(self) -> str:
        """Name of the field; empty for other operations."""
        ...

    @property
    def constants(self) -> Sequence[int]:
        """Constants of the operation."""
        ...

    @property
    def frac(self) -> int:
        """Fractional bits of the constants' grid."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """An expression's canonical nodes and bytes."""

    expression: Expression
    canonical: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "canonical", _canonical_bytes(postorder(self.expression)))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes, computed anew: a sender needs them, a receiver has them."""
        return flatten(self.expression)


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


def _canonical_bytes(ordered: Sequence[Expression]) -> bytes:
    """Injective, versioned bytes of a program (see this file's docstring)."""
    position = {node.digest: index for index, node in enumerate(ordered)}
    pieces = [_FORMAT, u32(len(ordered))]
    for node in ordered:
        before, after = node.around
        args = u32s([position[arg.digest] for arg in node.args]) if node.args else b""
        pieces += (before, args, after)
    return b"".join(pieces)


def rebuild(nodes: Sequence[Carried], schema: Schema) -> Expression:
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
        op = _OPS.get(node.op)
        if op is None:
            raise InvalidQuery(
                f"query: expected a known operation at node {position}, found number {node.op}"
            )
        try:
            if op is _FIELD:
                weight += 1
                built.append(_field(node, schema))
            else:
                weight += 1 + len(node.args) + len(node.constants)
                built.append(_operation(op, node, built, (position + 1, weight)))
        except InvalidQuery as error:
            raise InvalidQuery(f"node {position}: {error}") from None
    # An expression has its node's name, constants and grid, and its arguments are these very
    # objects; of two that are equal the postorder has the first only. So this compares all of it.
    ordered = postorder(built[-1])
    if len(ordered) != len(built) or not all(map(is_, ordered, built)):
        raise InvalidQuery("a program expects its nodes in canonical order, each used and once")
    return built[-1]


def _field(node: Carried, schema: Schema) -> Expression:
    """The schema's own expression: a thousand labels are not hashed again for every node."""
    name = node.name
    if name not in schema.fields:
        if not isinstance(name, str):
            raise InvalidQuery("FIELD expects a text as name")
        raise InvalidQuery(f"the schema {schema.name!r} has no field {name[:64]!r}")
    if node.args or node.constants or node.frac:
        raise InvalidQuery(f"FIELD {name} expects no arguments, constants or grid")
    return schema[name]


def _operation(
    op: Op, node: Carried, built: Sequence[Expression], ceiling: tuple[int, int]
) -> Expression:
    """Any other node, whose arguments are among those built; ceiling: see `build`."""
    if ceiling[1] > MAX_WEIGHT:  # before each of them costs time
        raise InvalidQuery(
            f"a program expects at most {MAX_WEIGHT} nodes, arguments and constants in all"
        )
    if len(node.constants) > MAX_BITS:
        raise InvalidQuery(f"{op.name} expects at most {MAX_BITS} constants")
    args, constants = tuple(node.args), tuple(node.constants)
    if not _lie_within(args, -1, len(built)):
        raise InvalidQuery(f"{op.name} expects positions of earlier nodes as arguments")
    if not _lie_within(constants, -MAX_MAGNITUDE, MAX_MAGNITUDE):
        raise InvalidQuery(f"{op.name} expects integer constants below 2^62")
    if type(node.frac) is not int or not isinstance(node.name, str):
        raise InvalidQuery(f"{op.name} expects an integer grid and a text as name")
    return build(
        op,
        tuple([built[arg] for arg in args]),
        name=node.name,
        constants=constants,
        grid=node.frac,
        ceiling=ceiling,
    )


def _lie_within(values: Sequence[int], below: int, above: int) -> bool:
    """Return whether all are integers, and no truth values, between the two."""
    if not values:
        return True
    return {int}.issuperset(map(type, values)) and below < min(values) <= max(values) < above
