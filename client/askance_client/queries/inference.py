"""Inference of an operation's kind, grid and bounds.

One rule an operation. Bounds are interval arithmetic over exact integers; a rule refuses what is
ill-typed and every intermediate value that could reach 2^62. The evaluator (`evaluate`) computes
exactly the intermediate values that are bounded here, so int64 never overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from askance_client.errors import InvalidQuery
from askance_client.queries.fields import ValueType
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.limits import (
    MAX_BITS,
    MAX_COMPONENTS,
    MAX_FRAC,
    MAX_MAGNITUDE,
    MAX_NODES,
    WORD,
)
from askance_client.queries.sigmoid import SIGMOID_FRAC, sigmoid_index, sigmoid_table

_NUMERIC = (Kind.BOOLEAN, Kind.NUMBER)
_BOOLEAN = ValueType(Kind.BOOLEAN, 0, 0, 1)


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class ExpressionNode:
    """A typed value computed from a record: what a device reads of an `Expression`.

    Args:
        name: the field's name (FIELD only).
        constants: the operation's own integers, over 2^grid.
        grid: their grid, or the grid that ROUND goes to.
        type: kind, scale and bounds of the value.
        depth: of the tree; a leaf has 1.
        size: not less than the number of distinct nodes.
        weight: not less than their nodes, arguments and constants together.
        digest: of the structure and of the types of the fields in it.
        around: the bytes that a program has of it, before and after those of its arguments.
    """

    op: Op
    args: tuple[ExpressionNode, ...]
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

    def same_as(self, other: ExpressionNode) -> bool:
        """Return whether the two are the same tree over fields of the same types."""
        return self.digest == other.digest


@dataclass(frozen=True, slots=True)
class Parts:
    """An operation about to become a node: what its rule looks at."""

    op: Op
    args: tuple[ExpressionNode, ...]
    constants: tuple[int, ...]
    grid: int


Rule = Callable[[Parts], ValueType]


@dataclass(frozen=True, slots=True)
class Shape:
    """Number of arguments and constants of an operation, and whether it states a grid."""

    rule: Rule
    args: tuple[int, int]
    constants: tuple[int, int] = (0, 0)
    states_grid: bool = False


def infer(parts: Parts) -> ValueType:
    """The type of an operation's value (every operation but FIELD, whose type is the schema's).

    Raises:
        InvalidQuery: wrong number or kind of arguments or constants, or a possible overflow.
    """
    shape = SHAPES[parts.op]
    _check_count(parts.op, "arguments", len(parts.args), shape.args)
    _check_count(parts.op, "constants", len(parts.constants), shape.constants)
    if not 0 <= parts.grid <= (MAX_FRAC if shape.states_grid else 0):
        limit = f"0..{MAX_FRAC}" if shape.states_grid else "0"
        raise InvalidQuery(f"{parts.op.name} expects a grid of {limit} bits, found {parts.grid}")
    bounded(parts.op, *parts.constants)
    return shape.rule(parts)


def bounded(op: Op, *values: int) -> None:
    """Refuse a value that int64 could not hold with room for one addition."""
    if values and not -MAX_MAGNITUDE < min(values) <= max(values) < MAX_MAGNITUDE:
        raise InvalidQuery(
            f"{op.name} could reach 2^62 or more: clip its arguments, or round_to a coarser "
            "grid before multiplying"
        )


def _check_count(op: Op, what: str, found: int, allowed: tuple[int, int]) -> None:
    low, high = allowed
    if not low <= found <= high:
        expected = str(low) if low == high else f"{low}..{high}"
        raise InvalidQuery(f"{op.name} expects {expected} {what}, found {found}")


def _expect(parts: Parts, position: int, kinds: Sequence[Kind]) -> ExpressionNode:
    arg = parts.args[position]
    if arg.kind not in kinds:
        expected = " or ".join(kind.name for kind in kinds)
        hint = "; index_of(...) makes a number of it" if arg.kind == Kind.CATEGORY else ""
        raise InvalidQuery(
            f"{parts.op.name} expects {expected} as argument {position + 1}, "
            f"found {arg.kind.name}{hint}"
        )
    return arg


def _aligned(op: Op, frac: int, *args: ExpressionNode) -> list[tuple[int, int]]:
    """The arguments' bounds on a common finer grid."""
    types = [arg.type for arg in args]
    if all(kind.frac == frac for kind in types):  # bounded already, as every value is
        return [(kind.low, kind.high) for kind in types]
    bounds = [(kind.low << (frac - kind.frac), kind.high << (frac - kind.frac)) for kind in types]
    bounded(op, min(bounds)[0], max([high for _, high in bounds]))
    return bounds


def _numbers(parts: Parts) -> tuple[int, list[tuple[int, int]]]:
    """All arguments are numbers: their common grid, and their bounds on it."""
    for position, arg in enumerate(parts.args):
        if arg.type.kind not in _NUMERIC:
            _expect(parts, position, _NUMERIC)
    frac = max([arg.type.frac for arg in parts.args])
    return frac, _aligned(parts.op, frac, *parts.args)


def _number(op: Op, frac: int, *ends: int) -> ValueType:
    bounded(op, *ends)
    if frac > MAX_FRAC:
        raise InvalidQuery(
            f"{op.name} needs a grid of 2^-{frac}, finer than 2^-{MAX_FRAC}: round_to its arguments"
        )
    return ValueType(Kind.NUMBER, frac, min(ends), max(ends))


def _constant(parts: Parts) -> ValueType:
    (value,) = parts.constants
    kind = Kind.BOOLEAN if parts.grid == 0 and value in (0, 1) else Kind.NUMBER
    return ValueType(kind, parts.grid, value, value)


def _component(parts: Parts) -> ValueType:
    bits, (position,) = _expect(parts, 0, [Kind.BITS]), parts.constants
    if not 0 <= position < bits.width:
        raise InvalidQuery(f"COMPONENT expects one of 0..{bits.width - 1}, found {position}")
    return _BOOLEAN


def _add(parts: Parts) -> ValueType:
    frac, [a, b] = _numbers(parts)
    return _number(parts.op, frac, a[0] + b[0], a[1] + b[1])


def _subtract(parts: Parts) -> ValueType:
    frac, [a, b] = _numbers(parts)
    return _number(parts.op, frac, a[0] - b[1], a[1] - b[0])


def _multiply(parts: Parts) -> ValueType:
    a, b = _expect(parts, 0, _NUMERIC), _expect(parts, 1, _NUMERIC)
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    if a.same_as(b):  # a square is never negative: half the range, a quarter of the variance
        ends = [a.low * a.low, a.high * a.high]
        if a.low <= 0 <= a.high:
            ends.append(0)
    return _number(parts.op, a.frac + b.frac, *ends)


def _negate(parts: Parts) -> ValueType:
    frac, [a] = _numbers(parts)
    return _number(parts.op, frac, -a[1], -a[0])


def _absolute(parts: Parts) -> ValueType:
    frac, [a] = _numbers(parts)
    low = 0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return _number(parts.op, frac, low, max(abs(a[0]), abs(a[1])))


def _minimum(parts: Parts) -> ValueType:
    frac, [a, b] = _numbers(parts)
    return _number(parts.op, frac, min(a[0], b[0]), min(a[1], b[1]))


def _maximum(parts: Parts) -> ValueType:
    frac, [a, b] = _numbers(parts)
    return _number(parts.op, frac, max(a[0], b[0]), max(a[1], b[1]))


def _compare(parts: Parts) -> ValueType:
    _numbers(parts)
    return _BOOLEAN


def _equal(parts: Parts) -> ValueType:
    a, b = parts.args
    if Kind.CATEGORY not in (a.kind, b.kind):
        return _compare(parts)
    _same_categories(parts.op, a, b)
    return _BOOLEAN


def _same_categories(op: Op, a: ExpressionNode, b: ExpressionNode) -> tuple[str, ...] | None:
    """Two categories with the same labels, or a category and the index of one of its labels."""
    if a.kind != Kind.CATEGORY:
        a, b = b, a
    if b.kind == Kind.CATEGORY:
        if a.labels is None or b.labels is None:
            return None
        # Equal labels are one object (see Category): no query makes a device compare long lists.
        if a.labels is not b.labels and a.labels != b.labels:
            raise InvalidQuery(f"{op.name} expects categories with the same labels")
        return a.labels
    if b.op != Op.CONSTANT or b.frac or not a.low <= b.low <= a.high:
        raise InvalidQuery(
            f"{op.name} expects beside a category one of its labels (indices {a.low}..{a.high}) "
            f"or another category, found {b.kind.name}"
        )
    return a.labels


def _logic(parts: Parts) -> ValueType:
    for position in range(len(parts.args)):
        _expect(parts, position, [Kind.BOOLEAN])
    return _BOOLEAN


def _where(parts: Parts) -> ValueType:
    _expect(parts, 0, [Kind.BOOLEAN])
    a, b = parts.args[1:]
    if Kind.CATEGORY in (a.kind, b.kind):
        labels = _same_categories(parts.op, a, b)
        return ValueType(Kind.CATEGORY, 0, min(a.low, b.low), max(a.high, b.high), labels)
    _expect(parts, 1, _NUMERIC)
    _expect(parts, 2, _NUMERIC)
    if a.kind == b.kind == Kind.BOOLEAN:
        return _BOOLEAN
    frac = max(a.frac, b.frac)
    ends = [end for pair in _aligned(parts.op, frac, a, b) for end in pair]
    return _number(parts.op, frac, *ends)


def _clip(parts: Parts) -> ValueType:
    x = _expect(parts, 0, _NUMERIC)
    frac = max(x.frac, parts.grid)
    low, high = (end << (frac - parts.grid) for end in parts.constants)
    bounded(parts.op, low, high)
    if low > high:
        raise InvalidQuery("CLIP expects low <= high, found low > high")
    [(x_low, x_high)] = _aligned(parts.op, frac, x)
    return _number(parts.op, frac, min(max(x_low, low), high), min(max(x_high, low), high))


def _round(parts: Parts) -> ValueType:
    x = _expect(parts, 0, _NUMERIC)
    shift = x.frac - parts.grid
    if shift <= 0:
        raise InvalidQuery(f"ROUND expects a grid coarser than 2^-{x.frac}, found 2^-{parts.grid}")
    half = 1 << (shift - 1)
    bounded(parts.op, x.low + half, x.high + half)
    return _number(parts.op, parts.grid, (x.low + half) >> shift, (x.high + half) >> shift)


def _sigmoid(parts: Parts) -> ValueType:
    frac, [(low, high)] = _numbers(parts)
    table = sigmoid_table()
    ends = table[sigmoid_index(low, frac)], table[sigmoid_index(high, frac)]
    return _number(parts.op, SIGMOID_FRAC, *ends)


def _parity(parts: Parts) -> ValueType:
    bits = _expect(parts, 0, [Kind.BITS])
    words = -(-bits.width // WORD)
    _check_count(parts.op, "constants", len(parts.constants), (words, words))
    for position, word in enumerate(parts.constants):
        used = min(WORD, bits.width - position * WORD)
        if not 0 <= word < 1 << used:
            raise InvalidQuery(f"PARITY expects a mask of {bits.width} bits, word {position} is no")
    return _BOOLEAN


def _dot(parts: Parts) -> ValueType:
    if parts.args[0].kind == Kind.BITS:
        _check_count(parts.op, "arguments", len(parts.args), (1, 1))
        width = parts.args[0].width
        frac, bounds = 0, [(0, 1)] * width
    else:
        width = len(parts.args)
        frac, bounds = _numbers(parts)
    _check_count(parts.op, "constants", len(parts.constants), (width, width))
    shifts = [0] * width if len(parts.args) < width else [frac - arg.frac for arg in parts.args]
    for coefficient, shift in zip(parts.constants, shifts, strict=True):
        bounded(parts.op, coefficient << shift)  # the evaluator aligns the coefficient
    pairs = [
        (c * low, c * high) if c >= 0 else (c * high, c * low)
        for c, (low, high) in zip(parts.constants, bounds, strict=True)
    ]
    # Every partial sum, in any order, is below the sum of magnitudes.
    bounded(parts.op, sum(max(abs(low), abs(high)) for low, high in pairs))
    low, high = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return _number(parts.op, frac + parts.grid, low, high)


def _bucketize(parts: Parts) -> ValueType:
    x = _expect(parts, 0, _NUMERIC)
    frac = max(x.frac, parts.grid)
    _aligned(parts.op, frac, x)
    edges = [edge << (frac - parts.grid) for edge in parts.constants]
    bounded(parts.op, *edges)
    for position, (left, right) in enumerate(pairwise(edges)):
        if left >= right:
            raise InvalidQuery(f"BUCKETIZE expects increasing edges, edge {position + 1} is not")
    return ValueType(Kind.CATEGORY, 0, 0, len(edges))


def _first(parts: Parts) -> ValueType:
    _logic(parts)
    return ValueType(Kind.CATEGORY, 0, 0, len(parts.args))


def _index(parts: Parts) -> ValueType:
    category = _expect(parts, 0, [Kind.CATEGORY])
    return ValueType(Kind.NUMBER, 0, category.low, category.high)


def _vector(parts: Parts) -> ValueType:
    frac, bounds = _numbers(parts)
    if parts.grid < frac:
        raise InvalidQuery(
            f"VECTOR expects a grid of at least its components' {frac} bits, found {parts.grid}"
        )
    if parts.grid > frac:
        bounds = _aligned(parts.op, parts.grid, *parts.args)
    low, high = min(bounds)[0], max([high for _, high in bounds])
    return ValueType(Kind.VECTOR, parts.grid, low, high, width=len(parts.args))


_MANY = (1, MAX_NODES - 1)
SHAPES: dict[Op, Shape] = {
    Op.CONSTANT: Shape(_constant, (0, 0), (1, 1), states_grid=True),
    Op.COMPONENT: Shape(_component, (1, 1), (1, 1)),
    Op.ADD: Shape(_add, (2, 2)),
    Op.SUBTRACT: Shape(_subtract, (2, 2)),
    Op.MULTIPLY: Shape(_multiply, (2, 2)),
    Op.NEGATE: Shape(_negate, (1, 1)),
    Op.LESS: Shape(_compare, (2, 2)),
    Op.LESS_EQUAL: Shape(_compare, (2, 2)),
    Op.EQUAL: Shape(_equal, (2, 2)),
    Op.AND: Shape(_logic, (2, 2)),
    Op.OR: Shape(_logic, (2, 2)),
    Op.NOT: Shape(_logic, (1, 1)),
    Op.WHERE: Shape(_where, (3, 3)),
    Op.CLIP: Shape(_clip, (1, 1), (2, 2), states_grid=True),
    Op.ROUND: Shape(_round, (1, 1), states_grid=True),
    Op.SIGMOID: Shape(_sigmoid, (1, 1)),
    Op.PARITY: Shape(_parity, (1, 1), (1, MAX_BITS // WORD)),
    Op.DOT: Shape(_dot, _MANY, (1, MAX_BITS), states_grid=True),
    Op.BUCKETIZE: Shape(_bucketize, (1, 1), (1, MAX_BITS), states_grid=True),
    Op.FIRST: Shape(_first, _MANY),
    Op.MINIMUM: Shape(_minimum, (2, 2)),
    Op.MAXIMUM: Shape(_maximum, (2, 2)),
    Op.ABSOLUTE: Shape(_absolute, (1, 1)),
    Op.INDEX: Shape(_index, (1, 1)),
    Op.VECTOR: Shape(_vector, (1, MAX_COMPONENTS), states_grid=True),
}
