"""Queries: canonical order and bytes, and evaluation in exact fractions."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from tests.conformance.verifier import inference as op
from tests.conformance.verifier.inference import Invalid, Node, Value, infer
from tests.conformance.verifier.schemas import LIMIT, Schema, text
from tests.conformance.verifier.wire import Message

KINDS = {1: "PREDICATE", 2: "REAL", 3: "CATEGORY", 4: "SIGNED", 5: "VECTOR"}
MAX_DEPTH, MAX_WEIGHT, MAX_SPREAD, MAX_CELLS = 64, 1 << 16, 1 << 31, 1 << 20


@dataclass(frozen=True)
class Query:
    """A checked query. `reads` has, per node, the fields that its value depends on."""

    kind: str
    nodes: tuple[Node, ...]
    values: tuple[Value, ...]
    reads: tuple[frozenset[str], ...]
    low: int
    high: int
    default: int

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields that the query uses."""
        return self.reads[-1]

    @property
    def components(self) -> int:
        """Number of values: of a vector its components, else 1."""
        return len(self.nodes[-1].args) if self.kind == "VECTOR" else 1

    @property
    def canonical(self) -> bytes:
        """Kind, bounds, default and nodes."""
        number = next(n for n, name in KINDS.items() if name == self.kind)
        out = [b"askance/query/1", struct.pack(">Bqqq", number, self.low, self.high, self.default)]
        out += [b"askance/program/1", struct.pack(">I", len(self.nodes))]
        for node in self.nodes:
            out += [b"askance/node/1", struct.pack(">BI", node.op, len(node.args))]
            out += [struct.pack(f">{len(node.args)}I", *node.args), text(node.name)]
            constants = node.constants
            out += [struct.pack(f">I{len(constants)}qB", len(constants), *constants, node.grid)]
        return b"".join(out)

    def digest(self, schema: Schema) -> bytes:
        """SHA-256 of the schema's digest and the canonical bytes."""
        return hashlib.sha256(schema.digest + self.canonical).digest()

    def evaluate(self, record: Message, schema: Schema) -> list[int]:
        """The values on the grid: in low..high, or the default where a field is not present."""
        absent = {name for name, value in record.items() if value is None}
        real: list[Any] = []
        for node, reads in zip(self.nodes, self.reads, strict=True):
            real.append(None if reads & absent else _value(node, real, record, schema))
        roots = self.nodes[-1].args if self.kind == "VECTOR" else (len(self.nodes) - 1,)
        scale = 1 << self.values[-1].frac
        answers = []
        for root in roots:
            if real[root] is None:
                answers.append(self.default)
            else:
                mantissa = real[root] * scale
                assert mantissa.denominator == 1
                answers.append(min(max(int(mantissa), self.low), self.high))
        return answers


def query_of(message: Message | None, schema: Schema) -> Query:
    """The query in a decoded message.

    Raises:
        Invalid: a device refuses it.
    """
    if message is None or not 1 <= len(message["nodes"]) <= op.MAX_NODES:
        raise Invalid("expected 1 to 4096 nodes")
    if message["kind"] not in KINDS:
        raise Invalid("expected a known kind")
    nodes = [
        Node(n["op"], tuple(n["args"]), n["name"], tuple(n["constants"]), n["frac"])
        for n in message["nodes"]
    ]
    if sum(1 + len(n.args) + len(n.constants) for n in nodes) > MAX_WEIGHT:
        raise Invalid("expected at most 65536 nodes, arguments and constants")
    values: list[Value] = []
    reads: list[frozenset[str]] = []
    depths: list[int] = []
    for position, node in enumerate(nodes):
        if any(arg >= position for arg in node.args):
            raise Invalid("expected earlier nodes as arguments")
        values.append(_field(node, schema) if node.op == op.FIELD else _inferred(node, values))
        reads.append(frozenset().union({node.name} - {""}, *[reads[arg] for arg in node.args]))
        depths.append(1 + max([depths[arg] for arg in node.args], default=0))
    if max(depths) > MAX_DEPTH or not _is_canonical(nodes):
        raise Invalid("expected a depth of at most 64 and nodes in canonical order")
    low, high, default = message["low"], message["high"], message["default"]
    query = Query(
        KINDS[message["kind"]], tuple(nodes), tuple(values), tuple(reads), low, high, default
    )
    _check_bounds(query)
    return query


def _inferred(node: Node, values: list[Value]) -> Value:
    return infer(node, [values[arg] for arg in node.args])


def _field(node: Node, schema: Schema) -> Value:
    field = schema.fields.get(node.name)
    if field is None or node.args or node.constants or node.grid:
        raise Invalid("expected a field of the schema and no more")
    kind = {"bit": "boolean", "bits": "bits", "integer": "number", "real": "number"}
    return Value(
        kind.get(field.kind, "category"),
        *(field.frac, field.low, field.high, field.labels, field.width),
    )


def _is_canonical(nodes: list[Node]) -> bool:
    """Depth-first postorder from the last node, each node distinct."""
    if len(set(nodes)) < len(nodes):
        return False
    order: list[int] = []
    done: set[int] = set()

    def visit(position: int) -> None:
        if position in done:
            return
        for arg in nodes[position].args:
            visit(arg)
        done.add(position)
        order.append(position)

    visit(len(nodes) - 1)
    return order == list(range(len(nodes)))


def _check_bounds(query: Query) -> None:
    root = query.values[-1]
    low, high, default = query.low, query.high, query.default
    fits = max(abs(low), abs(high), abs(default)) < LIMIT and low <= default <= high
    if query.kind == "PREDICATE":
        fits = fits and root.kind == "boolean" and (low, high) == (0, 1)
    elif query.kind in ("REAL", "VECTOR"):
        kinds = ("vector",) if query.kind == "VECTOR" else ("boolean", "number")
        fits = fits and root.kind in kinds and 0 < high - low < MAX_SPREAD
    else:
        cells = root.kind in ("boolean", "number", "category") and not root.frac and root.low >= 0
        fits = fits and cells and (low, high) == (0, root.high) and 2 <= high + 1 <= MAX_CELLS
        fits = fits and not (query.kind == "SIGNED" and high % 2)
    if not fits:
        raise Invalid(f"expected bounds of a {query.kind} query")


_OPERATORS: dict[int, Callable[..., Any]] = {
    op.ADD: lambda a, b: a + b,
    op.SUBTRACT: lambda a, b: a - b,
    op.MULTIPLY: lambda a, b: a * b,
    op.NEGATE: lambda a: -a,
    op.ABSOLUTE: abs,
    op.LESS: lambda a, b: a < b,
    op.LESS_EQUAL: lambda a, b: a <= b,
    op.EQUAL: lambda a, b: a == b,
    op.AND: lambda a, b: a and b,
    op.OR: lambda a, b: a or b,
    op.NOT: lambda a: not a,
    op.WHERE: lambda c, a, b: a if c else b,
    op.MINIMUM: min,
    op.MAXIMUM: max,
    op.INDEX: lambda a: a,
    op.SIGMOID: lambda a: Fraction(op.sigmoid_entry(floor(a * 256), 8), 1 << 16),
}


def _value(node: Node, real: list[Any], record: Message, schema: Schema) -> Any:
    """A node's value in real units: a fraction, or a list of bits."""
    if node.op == op.FIELD:
        field, value = schema.fields[node.name], record[node.name]
        return value if field.kind == "bits" else Fraction(value, 1 << field.frac)
    a = [real[arg] for arg in node.args]
    if node.op in _OPERATORS:
        return Fraction(_OPERATORS[node.op](*a))
    if node.op == op.VECTOR:
        return Fraction(0)  # its components are read, not the node
    k = [Fraction(constant, 1 << node.grid) for constant in node.constants]
    return Fraction(_SPECIAL[node.op](node, a, k))


def _parity_of(node: Node, a: list[Any], k: list[Fraction]) -> int:
    bits: list[int] = a[0]
    return sum(bit & node.constants[i // 32] >> i % 32 for i, bit in enumerate(bits)) % 2


def _dot_of(node: Node, a: list[Any], k: list[Fraction]) -> Any:
    terms = a[0] if isinstance(a[0], list) else a
    return sum((c * x for c, x in zip(k, terms, strict=True)), Fraction(0))


_SPECIAL: dict[int, Callable[[Node, list[Any], list[Fraction]], Any]] = {
    op.CONSTANT: lambda node, a, k: k[0],
    op.COMPONENT: lambda node, a, k: a[0][node.constants[0]],
    op.CLIP: lambda node, a, k: min(max(a[0], k[0]), k[1]),
    op.ROUND: lambda node, a, k: Fraction(
        floor(a[0] * (1 << node.grid) + Fraction(1, 2)), 1 << node.grid
    ),
    op.PARITY: _parity_of,
    op.DOT: _dot_of,
    op.BUCKETIZE: lambda node, a, k: sum(edge <= a[0] for edge in k),
    op.FIRST: lambda node, a, k: next((i for i, holds in enumerate(a) if holds), len(a)),
}
