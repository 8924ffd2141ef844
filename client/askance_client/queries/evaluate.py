"""Evaluation of an expression on one record: a list of steps over slots.

A program is compiled once to a list of steps. A step is one of the small functions below with its
parameters; each is written with +, -, *, <<, >>, & , |, ^ only, which mean the same on an integer
and on an int64 array, so that an aggregator's simulation runs the same steps over columns
(`askance_aggregator.queries`). The sign of a difference is its 63rd bit: every value is below 2^62
in magnitude (`inference` infers it), so a difference of two fits in int64 and `d >> 63` is -1 if
d < 0, else 0. The one step that is written twice is `sigmoid_step`, which looks an index up.

No floats, no libm, no BLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from askance_client.queries.expressions import Expression
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.limits import WORD
from askance_client.queries.program import postorder
from askance_client.queries.sigmoid import sigmoid_table

# A slot holds an int, an int64 array, or a tuple of either (of BITS and VECTOR): by construction
# one of them throughout an evaluation, which the type system cannot say.
Slots = list[Any]
Step = tuple[Callable[..., Any], tuple[Any, ...]]

_SIGN = 63
_SIGMOID_STEP = 8


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program ready to run.

    Args:
        names: the fields that it reads, in the order of the first slots.
        steps: what fills the slots after them, one each.
        result: the slot that holds the value (of VECTOR: the tuple of its components).
        reads: for VECTOR, which of the names each component depends on: bit i stands for name i.
    """

    names: tuple[str, ...]
    steps: tuple[Step, ...]
    result: int
    reads: tuple[int, ...] = ()

    def run(self, slots: Slots) -> Any:
        """The value, given the fields' values; `slots` is used up."""
        for function, parameters in self.steps:
            slots.append(function(slots, *parameters))
        return slots[self.result]


def compile_expression(expression: Expression) -> Compiled:
    """The steps of an expression, each distinct node evaluated once."""
    ordered = postorder(expression)
    fields = [node for node in ordered if node.name]
    compiler = _Compiler(fields)
    for node in ordered:
        if not node.name:
            compiler.add(node)
    result = compiler.slot(expression)
    steps = tuple(compiler.steps)
    names = tuple([node.name for node in fields])
    return Compiled(names, steps, result, _reads(ordered, fields))


def _reads(ordered: Sequence[Expression], fields: Sequence[Expression]) -> tuple[int, ...]:
    """Return the fields that each component of a vector depends on."""
    root = ordered[-1]
    if root.kind != Kind.VECTOR:
        return ()
    read = {node.digest: 1 << position for position, node in enumerate(fields)}
    for node in ordered[:-1]:
        if not node.name:
            masks = [read[arg.digest] for arg in node.args]
            read[node.digest] = reduce(or_, masks, 0)
    return tuple([read[arg.digest] for arg in root.args])


class _Compiler:
    """Assigns slots to nodes, fields first, and turns each other node into one or a few steps."""

    def __init__(self, fields: Sequence[Expression]) -> None:
        self.steps: list[Step] = []
        self._fields = len(fields)
        self._slots = {node.digest: position for position, node in enumerate(fields)}
        self._shifted: dict[tuple[int, int], int] = {}

    def slot(self, node: Expression) -> int:
        return self._slots[node.digest]

    def emit(self, function: Callable[..., Any], *parameters: Any) -> int:
        self.steps.append((function, parameters))
        return self._fields + len(self.steps) - 1

    def aligned(self, node: Expression, frac: int) -> int:
        """The slot of a value on the finer grid `frac`."""
        slot, shift = self._slots[node.digest], frac - node.type.frac
        if shift == 0:
            return slot
        if (slot, shift) not in self._shifted:
            self._shifted[slot, shift] = self.emit(_shift_left, slot, shift)
        return self._shifted[slot, shift]

    def all_aligned(self, nodes: Sequence[Expression], frac: int) -> list[int]:
        """The slots of several, on one grid."""
        return [
            self._slots[node.digest] if node.type.frac == frac else self.aligned(node, frac)
            for node in nodes
        ]

    def add(self, node: Expression) -> None:
        if node.op == Op.CONSTANT:
            self._slots[node.digest] = self.emit(_constant, node.constants[0])
        elif node.op in _ALIGNED:
            frac = max(arg.frac for arg in node.args)
            slots = self.all_aligned(node.args, frac)
            self._slots[node.digest] = self.emit(_ALIGNED[node.op], *slots)
        elif node.op in _PLAIN:
            slots = [self.slot(arg) for arg in node.args]
            self._slots[node.digest] = self.emit(_PLAIN[node.op], *slots)
        else:
            self._slots[node.digest] = _SPECIAL[node.op](self, node)


def _constant(slots: Slots, value: int) -> Any:
    return value


def _shift_left(slots: Slots, i: int, shift: int) -> Any:
    return slots[i] << shift


def _add(slots: Slots, i: int, j: int) -> Any:
    return slots[i] + slots[j]


def _subtract(slots: Slots, i: int, j: int) -> Any:
    return slots[i] - slots[j]


def _multiply(slots: Slots, i: int, j: int) -> Any:
    return slots[i] * slots[j]


def _negate(slots: Slots, i: int) -> Any:
    return -slots[i]


def _absolute(slots: Slots, i: int) -> Any:
    value = slots[i]
    sign = value >> _SIGN
    return (value ^ sign) - sign


def _less(slots: Slots, i: int, j: int) -> Any:
    difference = slots[i] - slots[j]
    difference >>= _SIGN  # of a column in its own place, which nothing else refers to
    difference &= 1
    return difference


def _less_equal(slots: Slots, i: int, j: int) -> Any:
    difference = slots[j] - slots[i]
    difference >>= _SIGN
    difference += 1
    return difference


def _equal(slots: Slots, i: int, j: int) -> Any:
    difference = slots[i] - slots[j]
    difference |= -difference
    difference >>= _SIGN
    difference += 1
    return difference


def _and(slots: Slots, i: int, j: int) -> Any:
    return slots[i] & slots[j]


def _or(slots: Slots, i: int, j: int) -> Any:
    return slots[i] | slots[j]


def _not(slots: Slots, i: int) -> Any:
    return 1 - slots[i]


def _minimum(slots: Slots, i: int, j: int) -> Any:
    difference = slots[i] - slots[j]
    return slots[j] + (difference & (difference >> _SIGN))


def _maximum(slots: Slots, i: int, j: int) -> Any:
    difference = slots[i] - slots[j]
    return slots[i] - (difference & (difference >> _SIGN))


def _where(slots: Slots, c: int, i: int, j: int) -> Any:
    return slots[j] + (slots[i] - slots[j]) * slots[c]


def _same(slots: Slots, i: int) -> Any:
    return slots[i]


def _clip(slots: Slots, i: int, low: int, high: int) -> Any:
    below = slots[i] - low
    value = slots[i] - (below & (below >> _SIGN))
    above = high - value
    return value + (above & (above >> _SIGN))


def _round(slots: Slots, i: int, shift: int) -> Any:
    return (slots[i] + (1 << (shift - 1))) >> shift


def _component(slots: Slots, i: int, word: int, bit: int) -> Any:
    return (slots[i][word] >> bit) & 1


def _parity(slots: Slots, i: int, masks: tuple[tuple[int, int], ...]) -> Any:
    folded: Any = 0
    for word, mask in masks:
        folded = folded ^ (slots[i][word] & mask)
    for shift in (16, 8, 4, 2, 1):
        folded = folded ^ (folded >> shift)
    return folded & 1


def _dot_bits(slots: Slots, i: int, terms: tuple[tuple[int, int, int], ...]) -> Any:
    words = slots[i]
    total: Any = 0
    for word, bit, coefficient in terms:
        total = total + ((words[word] >> bit) & 1) * coefficient
    return total


def _dot(slots: Slots, terms: tuple[tuple[int, int], ...]) -> Any:
    total: Any = 0
    for i, coefficient in terms:
        total = total + slots[i] * coefficient
    return total


def _bucketize(slots: Slots, i: int, edges: tuple[int, ...]) -> Any:
    value = slots[i]
    bucket: Any = len(edges)
    for edge in edges:
        bucket = bucket + ((value - edge) >> _SIGN)
    return bucket


def _first(slots: Slots, predicates: tuple[int, ...]) -> Any:
    index: Any = len(predicates)
    for position in range(len(predicates) - 1, -1, -1):
        index = index + (position - index) * slots[predicates[position]]
    return index


def _vector(slots: Slots, components: tuple[int, ...]) -> Any:
    return tuple(map(slots.__getitem__, components))


def sigmoid_step(slots: Slots, i: int) -> Any:
    """Look the sigmoid up: the value is on the table's grid of 1/256, moved to start at 0."""
    return sigmoid_table()[slots[i]]


def _compile_clip(compiler: _Compiler, node: Expression) -> int:
    low, high = (end << (node.frac - node.grid) for end in node.constants)
    return compiler.emit(_clip, compiler.aligned(node.args[0], node.frac), low, high)


def _compile_round(compiler: _Compiler, node: Expression) -> int:
    return compiler.emit(_round, compiler.slot(node.args[0]), node.args[0].frac - node.grid)


def _compile_sigmoid(compiler: _Compiler, node: Expression) -> int:
    frac = node.args[0].frac
    reach = 8 << frac  # clamped first, so that moving to a finer grid cannot overflow
    slot = compiler.emit(_clip, compiler.slot(node.args[0]), -reach, reach)
    if frac < _SIGMOID_STEP:
        slot = compiler.emit(_shift_left, slot, _SIGMOID_STEP - frac)
    elif frac > _SIGMOID_STEP:
        slot = compiler.emit(_shift_right, slot, frac - _SIGMOID_STEP)
    slot = compiler.emit(_add_constant, slot, 8 << _SIGMOID_STEP)
    return compiler.emit(sigmoid_step, slot)


def _shift_right(slots: Slots, i: int, shift: int) -> Any:
    return slots[i] >> shift


def _add_constant(slots: Slots, i: int, value: int) -> Any:
    return slots[i] + value


def _compile_component(compiler: _Compiler, node: Expression) -> int:
    return compiler.emit(_component, compiler.slot(node.args[0]), *divmod(node.constants[0], WORD))


def _compile_parity(compiler: _Compiler, node: Expression) -> int:
    masks = tuple((word, mask) for word, mask in enumerate(node.constants) if mask)
    return compiler.emit(_parity, compiler.slot(node.args[0]), masks)


def _compile_dot(compiler: _Compiler, node: Expression) -> int:
    if node.args[0].kind == Kind.BITS:
        bits = tuple(
            (*divmod(component, WORD), coefficient)
            for component, coefficient in enumerate(node.constants)
            if coefficient
        )
        return compiler.emit(_dot_bits, compiler.slot(node.args[0]), bits)
    frac = max(arg.frac for arg in node.args)
    terms = tuple(
        (compiler.slot(arg), coefficient << (frac - arg.frac))
        for arg, coefficient in zip(node.args, node.constants, strict=True)
        if coefficient
    )
    return compiler.emit(_dot, terms)


def _compile_bucketize(compiler: _Compiler, node: Expression) -> int:
    frac = max(node.args[0].frac, node.grid)
    edges = tuple(edge << (frac - node.grid) for edge in node.constants)
    return compiler.emit(_bucketize, compiler.aligned(node.args[0], frac), edges)


def _compile_first(compiler: _Compiler, node: Expression) -> int:
    return compiler.emit(_first, tuple(compiler.slot(arg) for arg in node.args))


def _compile_vector(compiler: _Compiler, node: Expression) -> int:
    return compiler.emit(_vector, tuple(compiler.all_aligned(node.args, node.grid)))


_ALIGNED: dict[Op, Callable[..., Any]] = {
    Op.ADD: _add,
    Op.SUBTRACT: _subtract,
    Op.LESS: _less,
    Op.LESS_EQUAL: _less_equal,
    Op.EQUAL: _equal,
    Op.MINIMUM: _minimum,
    Op.MAXIMUM: _maximum,
}
_PLAIN: dict[Op, Callable[..., Any]] = {
    Op.MULTIPLY: _multiply,
    Op.NEGATE: _negate,
    Op.ABSOLUTE: _absolute,
    Op.AND: _and,
    Op.OR: _or,
    Op.NOT: _not,
    Op.INDEX: _same,
}


def _compile_where(compiler: _Compiler, node: Expression) -> int:
    condition, a, b = node.args
    frac = max(a.frac, b.frac)
    slots = compiler.all_aligned((a, b), frac)
    return compiler.emit(_where, compiler.slot(condition), *slots)


_SPECIAL: dict[Op, Callable[[_Compiler, Expression], int]] = {
    Op.WHERE: _compile_where,
    Op.CLIP: _compile_clip,
    Op.ROUND: _compile_round,
    Op.SIGMOID: _compile_sigmoid,
    Op.COMPONENT: _compile_component,
    Op.PARITY: _compile_parity,
    Op.DOT: _compile_dot,
    Op.BUCKETIZE: _compile_bucketize,
    Op.FIRST: _compile_first,
    Op.VECTOR: _compile_vector,
}
