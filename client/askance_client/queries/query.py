"""Queries: an expression together with what of its value is asked, its bounds and its default.

The default is public: it is the answer of every record on which the expression cannot be
evaluated (a field is missing or unreadable), so whether it could be is not revealed by an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from typing import overload

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidQuery
from askance_client.queries.canonical import i64, u8
from askance_client.queries.evaluate import Compiled, compile_expression
from askance_client.queries.exact import exact_ratio, is_integral, to_grid
from askance_client.queries.expressions import Expression
from askance_client.queries.functions import components, first
from askance_client.queries.functions import vector as vector_of
from askance_client.queries.kinds import Kind
from askance_client.queries.limits import MAX_CELLS, MAX_MAGNITUDE, MAX_SPREAD
from askance_client.queries.program import Carried, Node, Program, rebuild
from askance_client.queries.schema import Encoded, EncodedColumns, EncodedRecord, Schema
from askance_client.queries.vectors import (
    Bounds,
    check_fields,
    everywhere,
    slots_of,
    vector_of_record,
    vectors_of_columns,
)

_FORMAT = b"askance/query/1"
_CHUNK = 1 << 14  # rows evaluated together: a program's intermediate columns stay in the cache


class QueryKind(IntEnum):
    """Kind of a query: what it asks of the expression's value. Goes on the wire; 0 is reserved."""

    PREDICATE = 1
    REAL = 2
    CATEGORY = 3
    SIGNED = 4
    VECTOR = 5


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question to one record; equal when the canonical bytes are.

    Args:
        kind: PREDICATE (0/1), REAL (a clamped mantissa), CATEGORY (a cell), or SIGNED (a cell:
            2j is +1 at j, 2j+1 is -1 at j, the last is "none"), or VECTOR (clamped mantissas).
        expression: what is computed.
        low: the least value, over 2^frac; 0 but for REAL and VECTOR, where each component has it.
        high: the greatest value.
        default: the value (of VECTOR: the component) where a field that it uses is not present.

    Raises:
        InvalidQuery: the parts do not fit together.
    """

    kind: QueryKind
    expression: Expression
    low: int
    high: int
    default: int
    program: Program = field(init=False, repr=False)
    canonical: bytes = field(init=False, repr=False)
    _compiled: Compiled = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_query(self)
        program = Program(self.expression)
        compiled = compile_expression(self.expression)
        if len(set(compiled.names)) < len(compiled.names):
            raise InvalidQuery("a query expects each field with one type, found two schemas mixed")
        numbers = i64(self.low) + i64(self.high) + i64(self.default)
        canonical = _FORMAT + u8(self.kind) + numbers + program.canonical
        object.__setattr__(self, "program", program)
        object.__setattr__(self, "canonical", canonical)
        object.__setattr__(self, "_compiled", compiled)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    @classmethod
    def rebuilt(
        cls,
        kind: int,
        nodes: Sequence[Carried],
        schema: Schema,
        *,
        low: int,
        high: int,
        default: int,
    ) -> Query:
        """The query that came as canonical nodes, inferred anew against this schema.

        Raises:
            InvalidQuery: see `rebuild` and `Query`.
        """
        try:
            known = QueryKind(kind)
        except ValueError:
            raise InvalidQuery("a query expects a known kind") from None
        return cls(known, rebuild(nodes, schema), low, high, default)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The expression's canonical nodes."""
        return self.program.nodes

    @property
    def frac(self) -> int:
        """The value is an integer over 2^frac; 0 but for REAL and VECTOR."""
        return self.expression.frac

    @property
    def cells(self) -> int:
        """The number of values of a PREDICATE, CATEGORY or SIGNED query.

        Raises:
            InvalidQuery: a REAL or VECTOR query has no cells.
        """
        if self.kind in (QueryKind.REAL, QueryKind.VECTOR):
            raise InvalidQuery(f"a {self.kind.name} query has no cells")
        return self.high + 1

    @property
    def components(self) -> int:
        """The number of components of a VECTOR query.

        Raises:
            InvalidQuery: a query of another kind.
        """
        if self.kind != QueryKind.VECTOR:
            raise InvalidQuery(f"components expects a VECTOR query, found {self.kind.name}")
        return self.expression.width

    @property
    def signed_cells(self) -> int:
        """The number d of positions of a SIGNED query.

        Raises:
            InvalidQuery: a query of another kind.
        """
        if self.kind != QueryKind.SIGNED:
            raise InvalidQuery(f"signed_cells expects a SIGNED query, found {self.kind.name}")
        return self.high // 2

    @property
    def cell_names(self) -> tuple[str, ...]:
        """The labels of a category that has them; else the cells' numbers."""
        if self.kind == QueryKind.CATEGORY and self.expression.labels is not None:
            return self.expression.labels
        return tuple(map(str, range(self.cells)))

    @property
    def fields_used(self) -> frozenset[str]:
        """The names of the fields that the value depends on."""
        return frozenset(self._compiled.names)

    def digest(self, schema: Schema) -> bytes:
        """Return the digest of this question over this schema: SHA-256, 32 bytes."""
        return sha256(schema.digest + self.canonical).digest()

    @overload
    def evaluate(self, encoded: EncodedRecord) -> int: ...

    @overload
    def evaluate(self, encoded: EncodedColumns) -> NDArray[np.int64]: ...

    def evaluate(self, encoded: Encoded) -> int | NDArray[np.int64]:
        """The value on the grid, in [low, high]; the default where a field is not present.

        Args:
            encoded: what `Schema.encode` or `Schema.encode_columns` gave.

        Returns:
            An int for a record; for columns an int64 array, shape (rows,), of the same integers.

        Raises:
            InvalidQuery: a VECTOR query, which has several values: `evaluate_vector`.
            InvalidRecord: encoded by a schema without a field that is used.
        """
        if self.kind == QueryKind.VECTOR:
            raise InvalidQuery("a VECTOR query has several values: evaluate_vector gives them")
        check_fields(self._compiled, encoded)
        if isinstance(encoded, EncodedRecord):
            return self._evaluate_record(encoded)
        return self._evaluate_columns(encoded)

    @overload
    def evaluate_vector(self, encoded: EncodedRecord) -> tuple[int, ...]: ...

    @overload
    def evaluate_vector(self, encoded: EncodedColumns) -> NDArray[np.int64]: ...

    def evaluate_vector(self, encoded: Encoded) -> tuple[int, ...] | NDArray[np.int64]:
        """Return the components on the grid, each in [low, high].

        A component that depends on a field that is not present is the default.

        Returns:
            A tuple for a record; for columns an int64 array, shape (rows, components), of the same
            integers.

        Raises:
            InvalidQuery: a query of another kind.
            InvalidRecord: encoded by a schema without a field that is used.
        """
        if self.kind != QueryKind.VECTOR:
            raise InvalidQuery(f"evaluate_vector expects a VECTOR query, found {self.kind.name}")
        check_fields(self._compiled, encoded)
        bounds = Bounds(self.low, self.high, self.default)
        if isinstance(encoded, EncodedRecord):
            return vector_of_record(self._compiled, bounds, encoded)
        return vectors_of_columns(self._compiled, bounds, encoded)

    def _evaluate_record(self, record: EncodedRecord) -> int:
        names = self._compiled.names
        # Computed also where a field is missing: the time it takes does not reveal whether one is.
        value: int = self._compiled.run([record.values[name] for name in names])
        answered = all(record.present[name] for name in names)
        return min(max(value, self.low), self.high) if answered else self.default

    def holds(self, columns: EncodedColumns) -> NDArray[np.bool_]:
        """Return where a PREDICATE holds: `evaluate`'s values, in a byte per row.

        Raises:
            InvalidQuery: a query of another kind.
            InvalidRecord: encoded by a schema without a field that is used.
        """
        if self.kind != QueryKind.PREDICATE:
            raise InvalidQuery(f"holds expects a PREDICATE query, found {self.kind.name}")
        compiled = self._compiled
        check_fields(compiled, columns)
        held: NDArray[np.bool_]
        if compiled.direct:
            held = compiled.holds([columns.values[name] for name in compiled.names])
        else:
            held = np.empty(columns.rows, dtype=np.bool_)
            for start in range(0, columns.rows, _CHUNK):
                chunk = slice(start, start + _CHUNK)
                held[chunk] = compiled.holds(slots_of(compiled, columns, chunk))
        for name in compiled.names:
            present = columns.present[name]
            if not everywhere(present):
                held[~present] = self.default == 1
        return held

    def _evaluate_columns(self, columns: EncodedColumns) -> NDArray[np.int64]:
        if self.kind == QueryKind.PREDICATE:
            return self.holds(columns).astype(np.int64)
        values = np.empty(columns.rows, dtype=np.int64)
        low, high = np.int64(self.low), np.int64(self.high)  # whose range numpy need not look up
        for start in range(0, columns.rows, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            value = self._compiled.run(slots_of(self._compiled, columns, chunk))
            np.clip(value, low, high, out=values[chunk])
        for name in self._compiled.names:
            present = columns.present[name]
            if not everywhere(present):
                values[~present] = self.default
        return values


def predicate(expression: Expression, default: int = 0) -> Query:
    """Ask whether the expression holds: 0 or 1."""
    return Query(QueryKind.PREDICATE, expression, 0, 1, _public(default))


def real(
    expression: Expression, low: object = None, high: object = None, default: object = None
) -> Query:
    """The expression's value, clamped to [low, high].

    Args:
        expression: a number or a boolean.
        low: in real units, rounded half to even to the expression's grid; its own bound if None.
        high: likewise.
        default: likewise; the midpoint (rounded down) if None.

    Raises:
        InvalidQuery: not a number, low >= high, 2^31 grid units or more between them, or the
            default is not between them.
    """
    return _bounded(QueryKind.REAL, _typed(expression), low, high, default)


def category(expression: Expression, default: int = 0) -> Query:
    """Ask which of the cells 0..high the expression's value is.

    Args:
        expression: a category, or a number on the integers, from 0.
        default: the cell (for a labelled category, its index) of a record without an answer.

    Raises:
        InvalidQuery: not integers from 0, or not 2..65536 cells.
    """
    return Query(QueryKind.CATEGORY, expression, 0, _typed(expression).high, _public(default))


def signed(expression: Expression, default: int | None = None) -> Query:
    """Disjoint signed values: cell 2j is +1 at j, 2j+1 is -1 at j, and 2d is none.

    Args:
        expression: a number on the integers in [0, 2d] (or a category of 2d + 1).
        default: the cell of a record without an answer; none if None.

    Raises:
        InvalidQuery: not integers from 0, or their bound is not even and at least 2.
    """
    high = _typed(expression).high
    cell = high if default is None else _public(default)
    return Query(QueryKind.SIGNED, expression, 0, high, cell)


def vector(
    of: Expression | Iterable[object],
    low: object = None,
    high: object = None,
    default: object = None,
    frac_bits: int | None = None,
) -> Query:
    """Several values of one record, each clamped to the one range [low, high].

    Args:
        of: 1..1024 numbers or booleans, or a vector already (`hadamard`).
        low: in real units, rounded half to even to the grid; the least of all bounds if None.
        high: likewise; the greatest.
        default: of every component; the midpoint (rounded down) if None.
        frac_bits: the grid; the finest of the components' if None.

    Raises:
        InvalidQuery: not numbers, low >= high, 2^31 grid units or more between them, or the
            default is not between them.
    """
    expression = of if isinstance(of, Expression) else vector_of(of, frac_bits)
    return _bounded(QueryKind.VECTOR, expression, low, high, default)


def block_of(query: Query, start: int, stop: int) -> Query:
    """The components start .. stop-1 of a VECTOR query, asked alone: same grid, range, default.

    Raises:
        InvalidQuery: a query of another kind, or there are no such components.
    """
    if not 0 <= start < stop <= query.components:
        raise InvalidQuery(f"a block lies within 0..{query.components}, found {start}..{stop}")
    part = components(query.expression, start, stop)
    return Query(QueryKind.VECTOR, part, query.low, query.high, query.default)


def merge_disjoint(predicates: Sequence[Expression]) -> Query:
    """Merge d disjoint predicates into one categorical query of d + 1 cells; the last is "none".

    Utility: saves about d/4 in users over d queries (8.6 x at d = 32, 65 x at d = 256, eps = 1).
    Predicates that are not disjoint count for the first that holds.
    """
    expression = first(predicates)
    return category(expression, default=expression.high)


def as_query(question: Expression | Query) -> Query:
    """A query as it is; an expression by its kind: predicate, category, real or vector."""
    if isinstance(question, Query):
        return question
    kind = _typed(question).kind
    if kind == Kind.BOOLEAN:
        return predicate(question)
    if kind == Kind.VECTOR:
        return _bounded(QueryKind.VECTOR, question, None, None, None)
    return category(question) if kind == Kind.CATEGORY else real(question)


def _bounded(
    kind: QueryKind, expression: Expression, low: object, high: object, default: object
) -> Query:
    """A REAL or VECTOR query; what is None follows from the expression."""
    least = expression.low if low is None else _on_own_grid("low", low, expression)
    most = expression.high if high is None else _on_own_grid("high", high, expression)
    middle = (least + most) // 2
    public = middle if default is None else _on_own_grid("default", default, expression)
    return Query(kind, expression, least, most, public)


def _typed(expression: object) -> Expression:
    if not isinstance(expression, Expression):
        raise InvalidQuery(f"expected an expression, found {type(expression).__name__}")
    return expression


def _public(default: object) -> int:
    if not is_integral(default):
        raise InvalidQuery(f"default expects an integer, found {type(default).__name__}")
    return int(default)  # type: ignore[call-overload, no-any-return]  # just seen to be integral


def _on_own_grid(what: str, value: object, expression: Expression) -> int:
    ratio = exact_ratio(value)
    if ratio is None:
        raise InvalidQuery(f"{what} expects a finite number, found {type(value).__name__}")
    return to_grid(ratio, expression.frac)


def _check_query(query: Query) -> None:
    expression = _typed(query.expression)
    if not isinstance(query.kind, QueryKind):
        raise InvalidQuery(f"a query expects a QueryKind, found {type(query.kind).__name__}")
    kind, name = expression.kind, query.kind.name
    for what in ("low", "high", "default"):
        value = getattr(query, what)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= MAX_MAGNITUDE:
            raise InvalidQuery(f"a {name} query expects an integer below 2^62 as {what}")
    if query.kind in (QueryKind.REAL, QueryKind.VECTOR):
        vector = query.kind == QueryKind.VECTOR
        if kind not in ((Kind.VECTOR,) if vector else (Kind.BOOLEAN, Kind.NUMBER)):
            expected = "a vector" if vector else "a number"
            raise InvalidQuery(f"a {name} query expects {expected}, found {kind.name}")
        if not 0 < query.high - query.low < MAX_SPREAD:
            raise InvalidQuery(
                f"a {name} query expects 0 < high - low < 2^31 grid units, found "
                f"{query.high - query.low} units of 2^-{query.frac}; "
                "round_to a coarser grid or give closer bounds"
            )
    elif query.kind == QueryKind.PREDICATE:
        if kind != Kind.BOOLEAN or (query.low, query.high) != (0, 1):
            raise InvalidQuery(f"a PREDICATE query expects a BOOLEAN in 0..1, found {kind.name}")
    else:
        _check_cells(query, name)
    if not query.low <= query.default <= query.high:
        raise InvalidQuery(f"a {name} query expects its default within its bounds")


def _check_cells(query: Query, name: str) -> None:
    expression = query.expression
    cells = expression.kind not in (Kind.BITS, Kind.VECTOR)
    if not cells or expression.frac or expression.low < 0:
        raise InvalidQuery(
            f"a {name} query expects integers from 0, found {expression.kind.name} "
            f"from {expression.low} on a grid of 2^-{expression.frac}"
        )
    if query.low != 0 or query.high != expression.high:
        raise InvalidQuery(f"a {name} query expects the cells 0..{expression.high} as its bounds")
    if not 2 <= query.cells <= MAX_CELLS:
        raise InvalidQuery(f"a {name} query expects 2..{MAX_CELLS} cells, found {query.cells}")
    if query.kind == QueryKind.SIGNED and query.high % 2:
        raise InvalidQuery(f"a SIGNED query expects 2d + 1 cells, found {query.cells}")
