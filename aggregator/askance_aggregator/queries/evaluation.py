"""Evaluation of queries over columns: the steps that a device runs, on int64 arrays.

The integers are those of `Query.evaluate` and `Query.evaluate_vector`, record by record, for all
chunk sizes, because rows never meet. Two steps are written anew for arrays: the look-up of the
sigmoid, and a comparison at the end of a predicate, which gives the truth values that its step
gives without writing eight bytes per row three times.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries.columns import EncodedColumns
from askance_client.errors import InvalidQuery
from askance_client.queries import Expression, Op, Query, QueryKind, sigmoid_table
from askance_client.queries.evaluate import Slots, Step, sigmoid_step
from askance_client.queries.program import Node

_CHUNK = 1 << 14  # rows evaluated together: a program's intermediate columns stay in the cache
_CELLS_AT_ONCE = 1 << 18  # rows x components evaluated together, for the same reason
_COMPARISONS: Mapping[Op, np.ufunc] = {
    Op.LESS: np.less,
    Op.LESS_EQUAL: np.less_equal,
    Op.EQUAL: np.equal,
}


def values_of(query: Query, columns: EncodedColumns) -> NDArray[np.signedinteger[Any]]:
    """Return what `evaluate_columns` returns, in any integer type, and maybe without a copy.

    A query of one field as it is, which all records have within the query's range, is its column.
    """
    expression = query.expression
    if expression.op == Op.FIELD and query.low <= expression.low <= expression.high <= query.high:
        query.check_fields(columns.present)
        (name,) = query.compiled.names
        column = columns.values[name]
        if not isinstance(column, tuple) and everywhere(columns.present[name]):
            return column
    return evaluate_columns(query, columns)


def evaluate_columns(query: Query, columns: EncodedColumns) -> NDArray[np.int64]:
    """Evaluate a query on columns: the integers of `Query.evaluate`, per record.

    Args:
        query: of any kind but VECTOR.
        columns: encoded by a schema with all fields that the query uses.

    Returns:
        Values in [low, high], the default where a field is not present; int64, shape (rows,).
    """
    if query.kind == QueryKind.VECTOR:
        raise InvalidQuery("a VECTOR query has several values: evaluate_vectors gives them")
    if query.kind == QueryKind.PREDICATE:
        return holds(query, columns).astype(np.int64)
    query.check_fields(columns.present)
    steps = _column_steps(query)
    values = np.empty(columns.rows, dtype=np.int64)
    low, high = np.int64(query.low), np.int64(query.high)  # whose range numpy need not look up
    for start in range(0, columns.rows, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        value = _run(steps, _slots(query, columns, chunk))[query.compiled.result]
        np.clip(value, low, high, out=values[chunk])
    for name in query.compiled.names:
        present = columns.present[name]
        if not everywhere(present):
            values[~present] = query.default
    return values


def evaluate_vectors(query: Query, columns: EncodedColumns) -> NDArray[np.int64]:
    """Evaluate a VECTOR query on columns: the integers of `Query.evaluate_vector`, per record.

    Returns:
        int64, shape (rows, components).
    """
    if query.kind != QueryKind.VECTOR:
        raise InvalidQuery(f"evaluate_vectors expects a VECTOR query, found {query.kind.name}")
    query.check_fields(columns.present)
    compiled, steps = query.compiled, _column_steps(query)
    components = np.empty((columns.rows, len(compiled.reads)), dtype=np.int64)
    rows_at_once = max(1, _CELLS_AT_ONCE // len(compiled.reads))
    for start in range(0, columns.rows, rows_at_once):
        rows = slice(start, start + rows_at_once)
        vector = _run(steps, _slots(query, columns, rows))[compiled.result]
        for position, value in enumerate(vector):
            components[rows, position] = value
    np.clip(components, query.low, query.high, out=components)
    for position, name in enumerate(compiled.names):
        absent = np.flatnonzero(~columns.present[name])
        if len(absent):
            reading = [bool(reads >> position & 1) for reads in compiled.reads]
            components[np.ix_(absent, np.flatnonzero(reading))] = query.default
    return components


def holds(query: Query, columns: EncodedColumns) -> NDArray[np.bool_]:
    """Evaluate a PREDICATE on columns, to one byte per row."""
    if query.kind != QueryKind.PREDICATE:
        raise InvalidQuery(f"holds expects a PREDICATE query, found {query.kind.name}")
    query.check_fields(columns.present)
    held: NDArray[np.bool_]
    if _is_direct(query.expression):
        slots: Slots = [columns.values[name] for name in query.compiled.names]
        held = _truth(query, _column_steps(query), slots)
    else:
        held = np.empty(columns.rows, dtype=np.bool_)
        steps = _column_steps(query)
        for start in range(0, columns.rows, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            held[chunk] = _truth(query, steps, _slots(query, columns, chunk))
    for name in query.compiled.names:
        present = columns.present[name]
        if not everywhere(present):
            held[~present] = query.default == 1
    return held


def _truth(query: Query, steps: list[Step], slots: Slots) -> Any:
    compare = _COMPARISONS.get(query.expression.op)
    if compare is None:
        return _run(steps, slots)[query.compiled.result] >= 1
    _, (i, j) = steps[-1]  # the comparison is the last node
    _run(steps[:-1], slots)
    return compare(slots[i], slots[j])


def _is_direct(expression: Expression) -> bool:
    """Return whether fields are compared unchanged, so that columns may be of any width."""
    args = expression.args
    return (
        expression.op in _COMPARISONS
        and all(arg.op in (Op.FIELD, Op.CONSTANT) for arg in args)
        and any(arg.op == Op.FIELD for arg in args)
        and args[0].frac == args[1].frac
    )


def _column_steps(query: Query) -> list[Step]:
    """Return the query's steps with the look-up for arrays in place of the one for integers."""
    return [
        (_sigmoid_of_column if function is sigmoid_step else function, parameters)
        for function, parameters in query.compiled.steps
    ]


def _run(steps: list[Step], slots: Slots) -> Slots:
    for function, parameters in steps:
        slots.append(function(slots, *parameters))
    return slots


def _slots(query: Query, columns: EncodedColumns, rows: slice) -> Slots:
    """Return the first slots of a program for these rows: int64, in which nothing overflows."""
    slots: Slots = []
    for name in query.compiled.names:
        column = columns.values[name]
        if isinstance(column, tuple):
            slots.append(tuple(word[rows] for word in column))
        else:
            slots.append(column[rows].astype(np.int64, copy=False))
    return slots


def everywhere(present: NDArray[np.bool_]) -> bool:
    """Return whether all rows have a field.

    A single element repeated, which has no stride, is read once.
    """
    return bool(present[:1].all() if present.strides == (0,) else present.all())


def _sigmoid_of_column(slots: Slots, i: int) -> Any:
    return _sigmoid_array()[slots[i]]


@cache
def _sigmoid_array() -> NDArray[np.int64]:
    return np.array(sigmoid_table(), dtype=np.int64)


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
