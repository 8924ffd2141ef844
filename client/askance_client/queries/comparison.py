"""Comparison of a replayed learner's questions with the record, up to the last grid step."""

from __future__ import annotations

from askance_client.queries.expressions import Expression
from askance_client.queries.kinds import Op
from askance_client.queries.program import Node
from askance_client.queries.query import Query, QueryKind

# Operations whose constants are numbers, rounded from what a learner computed. The constants of
# the others name something (a component, a mask): there is no "nearly the same" of those.
_ROUNDED = (Op.CONSTANT, Op.DOT, Op.CLIP, Op.BUCKETIZE)


def within_a_step(recorded: Query, asked: Query) -> bool:
    """Return whether the two differ at most in rounded constants, each by at most one grid step.

    A constant on the grid of integers was never rounded (it may be a label's index), so it must
    be equal. Bounds and default of a REAL or VECTOR query are constants too; where they follow from
    the expression on both sides they are not compared, for they move by more than the constants.
    """
    if recorded == asked:
        return True
    if recorded.kind != asked.kind or recorded.frac != asked.frac:
        return False
    ours, theirs = recorded.program.nodes, asked.program.nodes
    if len(ours) != len(theirs):
        return False
    if not all(_close_nodes(a, b) for a, b in zip(ours, theirs, strict=True)):
        return False
    if recorded.kind not in (QueryKind.REAL, QueryKind.VECTOR):
        bounds = (recorded.high, recorded.default)
        return bounds == (asked.high, asked.default)
    return all(
        _close(a, b, recorded.frac) or (_follows(recorded, a, what) and _follows(asked, b, what))
        for what, a, b in (
            ("low", recorded.low, asked.low),
            ("high", recorded.high, asked.high),
            ("default", recorded.default, asked.default),
        )
    )


def _close_nodes(a: Node, b: Node) -> bool:
    if (a.op, a.args, a.name, a.frac) != (b.op, b.args, b.name, b.frac):
        return False
    if len(a.constants) != len(b.constants):
        return False
    grid = a.frac if a.op in _ROUNDED else 0
    return all(_close(x, y, grid) for x, y in zip(a.constants, b.constants, strict=True))


def _close(a: int, b: int, frac: int) -> bool:
    return abs(a - b) <= (1 if frac else 0)


def _follows(query: Query, value: int, what: str) -> bool:
    """Return whether a bound is the expression's own, or the default the middle of the bounds."""
    expression: Expression = query.expression
    if what == "default":
        return value == (query.low + query.high) // 2
    return value == (expression.low if what == "low" else expression.high)
