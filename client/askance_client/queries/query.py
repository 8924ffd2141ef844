"""Queries: an expression together with what of its value is asked, its bounds and its default.

The default is public: it is the answer of every record on which the expression cannot be
evaluated (a field is missing or unreadable), so whether it could be is not revealed by an error.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from typing import Any

from askance_client.errors import InvalidQuery, InvalidRecord
from askance_client.queries.canonical import i64, u8
from askance_client.queries.evaluate import Compiled, compile_expression
from askance_client.queries.expressions import Expression
from askance_client.queries.kinds import Kind
from askance_client.queries.limits import MAX_CELLS, MAX_MAGNITUDE, MAX_SPREAD
from askance_client.queries.program import Carried, Node, Program, rebuild
from askance_client.queries.schema import EncodedRecord, Schema

_FORMAT = b"askance/query/1"


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

    `fields_used` are the names of the fields that the value depends on.

    Raises:
        InvalidQuery: the parts do not fit together.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> query = ask.predicate(schema.age > 40)
        >>> query.expression, query.default
        ((40 < age), 0)
    """

    kind: QueryKind
    expression: Expression
    low: int
    high: int
    default: int
    program: Program = field(init=False, repr=False)
    canonical: bytes = field(init=False, repr=False)
    compiled: Compiled = field(init=False, repr=False)
    fields_used: frozenset[str] = field(init=False, repr=False)

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
        object.__setattr__(self, "compiled", compiled)
        object.__setattr__(self, "fields_used", frozenset(compiled.names))

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
        """The query that came as canonical nodes, inferred anew against this schema."""
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
        """The number of values of a PREDICATE, CATEGORY or SIGNED query; else an InvalidQuery."""
        if self.kind in (QueryKind.REAL, QueryKind.VECTOR):
            raise InvalidQuery(f"a {self.kind.name} query has no cells")
        return self.high + 1

    @property
    def components(self) -> int:
        """The number of components of a VECTOR query; else an InvalidQuery."""
        if self.kind != QueryKind.VECTOR:
            raise InvalidQuery(f"components expects a VECTOR query, found {self.kind.name}")
        return self.expression.width

    def digest(self, schema: Schema) -> bytes:
        """Return the digest of this question over this schema: SHA-256, 32 bytes."""
        return sha256(schema.digest + self.canonical).digest()

    def evaluate(self, record: EncodedRecord) -> int:
        """Compute the value on the grid, in [low, high]; the default if a field is not present.

        Args:
            record: the result of `Schema.encode`.

        Raises:
            InvalidQuery: a VECTOR query, which has several values (see `evaluate_vector`).
            InvalidRecord: the record was encoded by a schema without a field that is used.
        """
        if self.kind == QueryKind.VECTOR:
            raise InvalidQuery("a VECTOR query has several values: evaluate_vector gives them")
        # Computed also if a field is missing, so that the time does not tell whether one is.
        value: int = self._run(record)
        absent = [name for name in self.compiled.names if not record.present[name]]
        return self.default if absent else min(max(value, self.low), self.high)

    def evaluate_vector(self, record: EncodedRecord) -> tuple[int, ...]:
        """Compute the components on the grid, each in [low, high].

        A component answers the default if a field that it depends on itself is not present, so an
        answer is the same in all blocks that its components are asked in.

        Raises:
            InvalidQuery: a query of another kind.
            InvalidRecord: the record was encoded by a schema without a field that is used.
        """
        if self.kind != QueryKind.VECTOR:
            raise InvalidQuery(f"evaluate_vector expects a VECTOR query, found {self.kind.name}")
        values: tuple[int, ...] = self._run(record)  # also if a field is missing, as above
        names = enumerate(self.compiled.names)
        absent = sum([1 << i for i, name in names if not record.present[name]])
        return tuple(
            [
                self.default if reads & absent else min(max(value, self.low), self.high)
                for value, reads in zip(values, self.compiled.reads, strict=True)
            ]
        )

    def check_fields(self, present: Container[str]) -> None:
        """Refuse an encoding without a field that is used, as an InvalidRecord."""
        for name in self.compiled.names:
            if name not in present:
                raise InvalidRecord(f"the query uses field {name}, which the record's schema lacks")

    def _run(self, record: EncodedRecord) -> Any:
        self.check_fields(record.present)
        return self.compiled.run([record.values[name] for name in self.compiled.names])


def typed_expression(expression: object) -> Expression:
    """Refuse a value that is not an expression, as an InvalidQuery."""
    if not isinstance(expression, Expression):
        raise InvalidQuery(f"expected an expression, found {type(expression).__name__}")
    return expression


def _check_query(query: Query) -> None:
    expression = typed_expression(query.expression)
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
