"""Expressions as one readable line, for plans and errors; long ones are cut, never expanded."""

from __future__ import annotations

from fractions import Fraction

from askance_client.queries.inference import ExpressionNode
from askance_client.queries.kinds import Kind, Op

_MAX_DEPTH = 8
_MAX_ITEMS = 8
_INFIX = {
    Op.ADD: "+",
    Op.SUBTRACT: "-",
    Op.MULTIPLY: "*",
    Op.LESS: "<",
    Op.LESS_EQUAL: "<=",
    Op.EQUAL: "==",
    Op.AND: "&",
    Op.OR: "|",
}
_PREFIX = {Op.NEGATE: "-", Op.NOT: "~"}


def render(expression: ExpressionNode, depth: int = 0) -> str:
    """The expression as it would be written in Python."""
    op, args = expression.op, expression.args
    if op == Op.FIELD:
        return expression.name
    if op == Op.CONSTANT:
        return number(expression.constants[0], expression.grid)
    if depth >= _MAX_DEPTH:
        return "..."
    if op in _INFIX:
        left, right = (_operand(expression, position, depth) for position in (0, 1))
        return f"({left} {_INFIX[op]} {right})"
    most = max(2, _MAX_ITEMS >> depth)  # eight of eight of eight ... would be millions
    shown = [render(arg, depth + 1) for arg in args[:most]]
    shown += ["..."] if len(args) > most else []
    if op in _PREFIX:
        return f"{_PREFIX[op]}{shown[0]}"
    if op == Op.COMPONENT:
        return f"{shown[0]}[{expression.constants[0]}]"
    constants = [number(value, expression.grid) for value in expression.constants[:_MAX_ITEMS]]
    constants += ["..."] if len(expression.constants) > _MAX_ITEMS else []
    if op == Op.ROUND:
        shown.append(str(expression.grid))
    elif constants:
        shown.append(f"[{', '.join(constants)}]")
    return f"{op.name.lower()}({', '.join(shown)})"


def number(mantissa: int, frac: int) -> str:
    """The exact value of a mantissa over 2^frac."""
    return str(Fraction(mantissa, 1 << frac))


def _operand(expression: ExpressionNode, position: int, depth: int) -> str:
    """An argument, or the label that a constant beside a category stands for."""
    arg, other = expression.args[position], expression.args[1 - position]
    if arg.op == Op.CONSTANT and other.kind == Kind.CATEGORY and other.labels is not None:
        return repr(other.labels[arg.constants[0]])
    return render(arg, depth + 1)
