"""Kinds, grids and bounds of a program's nodes: the checks before a record is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache

from tests.conformance.verifier.schemas import LIMIT

(CONSTANT, FIELD, COMPONENT, ADD, SUBTRACT, MULTIPLY, NEGATE, LESS, LESS_EQUAL, EQUAL, AND, OR,
 NOT, WHERE, CLIP, ROUND, SIGMOID, PARITY, DOT, BUCKETIZE, FIRST, MINIMUM, MAXIMUM, ABSOLUTE,
 INDEX, VECTOR) = range(1, 27)  # fmt: skip
MAX_FRAC = 40
MAX_NODES = 4096


class Invalid(Exception):
    """A query that no device answers."""


@dataclass(frozen=True)
class Value:
    """Facts about a node's value: kind, grid 2^-frac, bounds on it, labels, width.

    The kind is boolean, number, category, bits or vector.
    """

    kind: str
    frac: int = 0
    low: int = 0
    high: int = 1
    labels: tuple[str, ...] = ()
    width: int = 0
    constant: bool = False


@dataclass(frozen=True)
class Node:
    """A node of a program: operation, earlier nodes, field's name, constants over 2^grid."""

    op: int
    args: tuple[int, ...]
    name: str
    constants: tuple[int, ...]
    grid: int


BOOLEAN = Value("boolean")
_MANY = (1, MAX_NODES - 1)
# Operation: numbers of arguments, numbers of constants, and the greatest grid.
SHAPES = {
    CONSTANT: ((0, 0), (1, 1), MAX_FRAC),
    COMPONENT: ((1, 1), (1, 1), 0),
    **dict.fromkeys((ADD, SUBTRACT, MULTIPLY, LESS, LESS_EQUAL, EQUAL), ((2, 2), (0, 0), 0)),
    **dict.fromkeys((AND, OR, MINIMUM, MAXIMUM), ((2, 2), (0, 0), 0)),
    **dict.fromkeys((NEGATE, NOT, SIGMOID, ABSOLUTE, INDEX), ((1, 1), (0, 0), 0)),
    WHERE: ((3, 3), (0, 0), 0),
    CLIP: ((1, 1), (2, 2), MAX_FRAC),
    ROUND: ((1, 1), (0, 0), MAX_FRAC),
    PARITY: ((1, 1), (1, 128), 0),
    DOT: (_MANY, (1, 4096), MAX_FRAC),
    BUCKETIZE: ((1, 1), (1, 4096), MAX_FRAC),
    FIRST: (_MANY, (0, 0), 0),
    VECTOR: ((1, 1024), (0, 0), MAX_FRAC),
}


def infer(node: Node, args: Sequence[Value]) -> Value:
    """The facts about the value of any node but a field.

    Raises:
        Invalid: wrong arguments or constants, or a value that could reach 2^62.
    """
    _expect(node.op in SHAPES, "a known operation")
    arguments, constants, grid = SHAPES[node.op]
    _expect(arguments[0] <= len(args) <= arguments[1], "another number of arguments")
    _expect(constants[0] <= len(node.constants) <= constants[1], "another number of constants")
    _expect(0 <= node.grid <= grid and not node.name, "another grid, or no name")
    _bounded(*node.constants)
    return _RULES[node.op](node, args)


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise Invalid(f"expected {what}")


def _bounded(*values: int) -> None:
    _expect(all(-LIMIT < value < LIMIT for value in values), "values below 2^62")


def _numeric(args: Sequence[Value]) -> None:
    _expect(all(a.kind in ("boolean", "number") for a in args), "numbers")


def _aligned(frac: int, args: Sequence[Value]) -> list[tuple[int, int]]:
    """Bounds of arguments on a finer grid; a value that is moved may not reach 2^62."""
    bounds = [(a.low << (frac - a.frac), a.high << (frac - a.frac)) for a in args]
    _bounded(*[end for pair in bounds for end in pair])
    return bounds


def _common(args: Sequence[Value]) -> tuple[int, list[tuple[int, int]]]:
    _numeric(args)
    frac = max(a.frac for a in args)
    return frac, _aligned(frac, args)


def _number(frac: int, *ends: int) -> Value:
    _bounded(*ends)
    _expect(frac <= MAX_FRAC, "a grid of at most 40 bits")
    return Value("number", frac, min(ends), max(ends))


def _constant(node: Node, args: Sequence[Value]) -> Value:
    (value,) = node.constants
    boolean = node.grid == 0 and value in (0, 1)
    return Value("boolean" if boolean else "number", node.grid, value, value, constant=True)


def _component(node: Node, args: Sequence[Value]) -> Value:
    _expect(args[0].kind == "bits" and 0 <= node.constants[0] < args[0].width, "a component")
    return BOOLEAN


def _combine(ends: Callable[[tuple[int, int], tuple[int, int]], tuple[int, ...]]) -> _Rule:
    def rule(node: Node, args: Sequence[Value]) -> Value:
        frac, (a, b) = _common(args)
        return _number(frac, *ends(a, b))

    return rule


def _multiply(node: Node, args: Sequence[Value]) -> Value:
    _numeric(args)
    a, b = args
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    if node.args[0] == node.args[1]:  # a square
        ends = [a.low**2, a.high**2] + [0] * (a.low <= 0 <= a.high)
    return _number(a.frac + b.frac, *ends)


def _negate(node: Node, args: Sequence[Value]) -> Value:
    frac, ((low, high),) = _common(args)
    return _number(frac, -high, -low)


def _absolute(node: Node, args: Sequence[Value]) -> Value:
    frac, ((low, high),) = _common(args)
    least = 0 if low <= 0 <= high else min(abs(low), abs(high))
    return _number(frac, least, max(abs(low), abs(high)))


def _compare(node: Node, args: Sequence[Value]) -> Value:
    _common(args)
    return BOOLEAN


def _equal(node: Node, args: Sequence[Value]) -> Value:
    if "category" not in (args[0].kind, args[1].kind):
        return _compare(node, args)
    _category_pair(*args)
    return BOOLEAN


def _category_pair(a: Value, b: Value) -> tuple[str, ...]:
    """Labels of two categories that may be compared, or of one and the index of its label."""
    if a.kind != "category":
        a, b = b, a
    if b.kind == "category":
        if not a.labels or not b.labels:
            return ()
        _expect(a.labels == b.labels, "categories with the same labels")
        return a.labels
    _expect(b.constant and b.frac == 0 and a.low <= b.low <= a.high, "the index of a label")
    return a.labels


def _logic(node: Node, args: Sequence[Value]) -> Value:
    _expect(all(a.kind == "boolean" for a in args), "booleans")
    return BOOLEAN


def _where(node: Node, args: Sequence[Value]) -> Value:
    condition, a, b = args
    _expect(condition.kind == "boolean", "a boolean")
    if "category" in (a.kind, b.kind):
        labels = _category_pair(a, b)
        return Value("category", 0, min(a.low, b.low), max(a.high, b.high), labels)
    frac, ends = _common((a, b))
    if a.kind == b.kind == "boolean":
        return BOOLEAN
    return _number(frac, *ends[0], *ends[1])


def _clip(node: Node, args: Sequence[Value]) -> Value:
    _numeric(args)
    frac = max(args[0].frac, node.grid)
    low, high = (end << (frac - node.grid) for end in node.constants)
    _bounded(low, high)
    _expect(low <= high, "bounds in order")
    ((least, most),) = _aligned(frac, args)
    return _number(frac, min(max(least, low), high), min(max(most, low), high))


def _round(node: Node, args: Sequence[Value]) -> Value:
    _numeric(args)
    shift = args[0].frac - node.grid
    _expect(shift > 0, "a coarser grid")
    half = 1 << (shift - 1)
    _bounded(args[0].low + half, args[0].high + half)
    return _number(node.grid, (args[0].low + half) >> shift, (args[0].high + half) >> shift)


def _sigmoid(node: Node, args: Sequence[Value]) -> Value:
    frac, ((low, high),) = _common(args)
    return _number(16, sigmoid_entry(low, frac), sigmoid_entry(high, frac))


def sigmoid_entry(value: int, frac: int) -> int:
    """round(2^16 / (1 + e^-t)), t the value / 2^frac, clamped to -8..8, rounded down to 1/256."""
    reach = 8 << frac
    return _sigmoid_at((min(max(value, -reach), reach) << 8) >> frac)


@cache
def _sigmoid_at(point: int) -> int:
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(1 << 16) / (1 + (Decimal(-point) / 256).exp())
        return int(exact.to_integral_value())


def _parity(node: Node, args: Sequence[Value]) -> Value:
    _expect(args[0].kind == "bits" and len(node.constants) == -(-args[0].width // 32), "a mask")
    mask = sum(word << (32 * place) for place, word in enumerate(node.constants))
    fits = all(0 <= word < 1 << 32 for word in node.constants)
    _expect(fits and mask < 1 << args[0].width, "a mask of the bits")
    return BOOLEAN


def _dot(node: Node, args: Sequence[Value]) -> Value:
    if args[0].kind == "bits":
        _expect(len(args) == 1, "bits alone")
        frac, bounds = 0, [(0, 1)] * args[0].width
        shifts = [0] * args[0].width
    else:
        frac, bounds = _common(args)
        shifts = [frac - a.frac for a in args]
    _expect(len(node.constants) == len(bounds), "a coefficient per term")
    _bounded(*[c << shift for c, shift in zip(node.constants, shifts, strict=True)])
    terms = [
        sorted((c * low, c * high)) for c, (low, high) in zip(node.constants, bounds, strict=True)
    ]
    _bounded(sum(max(abs(low), abs(high)) for low, high in terms))
    return _number(frac + node.grid, sum(t[0] for t in terms), sum(t[1] for t in terms))


def _bucketize(node: Node, args: Sequence[Value]) -> Value:
    _numeric(args)
    frac = max(args[0].frac, node.grid)
    _aligned(frac, args)
    edges = [edge << (frac - node.grid) for edge in node.constants]
    _bounded(*edges)
    _expect(edges == sorted(set(edges)), "increasing edges")
    return Value("category", 0, 0, len(edges))


def _first(node: Node, args: Sequence[Value]) -> Value:
    _logic(node, args)
    return Value("category", 0, 0, len(args))


def _index(node: Node, args: Sequence[Value]) -> Value:
    _expect(args[0].kind == "category", "a category")
    return Value("number", 0, args[0].low, args[0].high)


def _vector(node: Node, args: Sequence[Value]) -> Value:
    frac, _ = _common(args)
    _expect(node.grid >= frac, "a grid of at least the components'")
    bounds = _aligned(node.grid, args)
    low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
    return Value("vector", node.grid, low, high, width=len(args))


_Rule = Callable[[Node, Sequence[Value]], Value]
_RULES: dict[int, _Rule] = {
    CONSTANT: _constant,
    COMPONENT: _component,
    ADD: _combine(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    SUBTRACT: _combine(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    MULTIPLY: _multiply,
    NEGATE: _negate,
    **dict.fromkeys((LESS, LESS_EQUAL), _compare),
    EQUAL: _equal,
    **dict.fromkeys((AND, OR, NOT), _logic),
    WHERE: _where,
    CLIP: _clip,
    ROUND: _round,
    SIGMOID: _sigmoid,
    PARITY: _parity,
    DOT: _dot,
    BUCKETIZE: _bucketize,
    FIRST: _first,
    MINIMUM: _combine(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    MAXIMUM: _combine(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    ABSOLUTE: _absolute,
    INDEX: _index,
    VECTOR: _vector,
}
