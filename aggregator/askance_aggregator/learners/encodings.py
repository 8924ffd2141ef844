"""Encodings of fields as cells or numbers, by the schema alone, so that no privacy is spent.

Bins, scales and codes follow from what a schema says of a field (its bounds, its labels), never
from users' values; the author of the schema has decided them before any user is asked. Each
encoding is a query expression, and `of` is the same expression on columns: what a device computes
for a question is, to the integer, what a hypothesis sees in a row that it predicts for.

| field | cells | numbers |
|---|---|---|
| Bit, a component of Bits | 0, 1 | 0 or 1 |
| Category, Label | its labels | 0 or 1 for each label but the first |
| Integer, Real | bins of equal width between its bounds | from -1 (low) to 1 (high), grid 2^-10 |

A row in which the field is not present is in no cell (-1), and its number is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator import queries
from askance_aggregator.learners.rows import field_of
from askance_aggregator.numbers import whole_within
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Kind,
    Query,
    QueryKind,
    Real,
    Schema,
    constant,
)
from askance_client.queries.categories import cell_names
from askance_client.queries.kinds import Op

SCALE_BITS = 10  # numbers lie on multiples of 2^-10: rounding is far below what noise leaves
MAX_BINS = 1024
_FINEST = 40  # the grid of a scale's factor
_MAX_WIDTH = 1 << 30  # of bounds: a factor then has at least 10 bits
_EDGE_STEPS = 1 << 16  # the grid of constants beside a real number
_STEPS = 1 << 14  # between bounds: a finer grid of the field says nothing more at 2^-10


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A field, or a component of it, as one of finitely many cells.

    Args:
        name: "age", or "x[3]" for a component.
        expression: the cell's number, from 0: a category, a predicate or a number.
        edges: of a binned number; cell j holds the values from edges[j-1] up to below edges[j].
    """

    name: str
    expression: Expression
    labels: tuple[str, ...]
    edges: tuple[Fraction, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def field(self) -> str:
        """The field's name."""
        return _field_of(self.name)

    @property
    def index(self) -> Expression:
        """The cell's number as a number, for arithmetic such as joint cells."""
        return (
            queries.index_of(self.expression)
            if self.expression.kind is Kind.CATEGORY
            else self.expression
        )

    def of(self, columns: queries.EncodedColumns) -> NDArray[np.int64]:
        """The cell of each row, shape (n,); -1 where the field is not present."""
        return _evaluated(queries.category(self.expression), columns, absent=-1)

    def __str__(self) -> str:
        if not self.edges:
            return f"{self.name}: {len(self)} cells, the schema's own"
        return f"{self.name}: {len(self)} bins of the schema's bounds, {', '.join(self.labels)}"


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A field, or a part of it, as a number in [-1, 1]; what is true or false is 1 or 0.

    Args:
        name: "age", "x[3]", or "colour=red".
        expression: BOOLEAN, or a NUMBER on multiples of 2^-10.
        low: what stands at -1 (of a truth: at 0), in the field's own units.
        high: what stands at 1.
    """

    name: str
    expression: Expression
    low: Fraction
    high: Fraction

    @property
    def field(self) -> str:
        """The field's name."""
        return _field_of(self.name)

    @property
    def is_truth(self) -> bool:
        """Return whether the number is 0 or 1 only."""
        return self.expression.kind is Kind.BOOLEAN

    def of(self, columns: queries.EncodedColumns) -> NDArray[np.float64]:
        """The number of each row, shape (n,); 0 where the field is not present."""
        query = queries.real(self.expression, default=0)
        values = np.asarray(queries.evaluate_columns(query, columns), dtype=np.float64)
        return np.asarray(np.ldexp(values, -query.frac))

    def in_units(self, scaled: ArrayLike) -> NDArray[np.float64]:
        """Scaled numbers in the field's own units."""
        values = np.asarray(scaled, dtype=np.float64)
        share = values if self.is_truth else (values + 1) / 2
        return np.asarray(float(self.low) + share * float(self.high - self.low))

    def __str__(self) -> str:
        if self.is_truth:
            return f"{self.name}: 0 or 1"
        low, high = float(self.low), float(self.high)
        return f"{self.name}: the schema's bounds {low:g} .. {high:g} as [-1, 1]"


def cells(schema: Schema, field: str, bins: int = 8) -> tuple[Cells, ...]:
    """A field as cells: one encoding, or one a component of Bits.

    Whole numbers between bounds that are closer than the number of bins have a cell each.
    """
    kind = field_of(schema, field)
    expression = schema[field]
    match kind:
        case Bit():
            return (Cells(field, expression, ("0", "1")),)
        case Bits():
            return tuple(
                Cells(f"{field}[{place}]", component, ("0", "1"))
                for place, component in enumerate(expression)
            )
        case Category():
            if len(kind.labels) < 2:
                raise InvalidParameter(f"{field}: expected two or more labels, found one")
            return (Cells(field, expression, kind.labels),)
        case Integer() | Real():
            return (binned(schema, field, equal_edges(kind, bins)),)


def columns_of(schema: Schema, bins: int = 8) -> tuple[Cells, ...]:
    """All fields of a schema as cells, in its order."""
    return tuple(part for name in schema.fields for part in cells(schema, name, bins))


def binned(schema: Schema, field: str, edges: Sequence[Fraction | int]) -> Cells:
    """Encode a number as the bin between edges that contains it.

    Edges are strictly increasing, at least one, between the field's bounds. They come from the
    schema, or from the answer to a question, never from the data.
    """
    kind = field_of(schema, field)
    if not isinstance(kind, Integer | Real):
        raise InvalidParameter(
            f"{field}: expected a number to be binned, got {type(kind).__name__}"
        )
    kept = tuple(_edge(kind, edge) for edge in edges)
    low, high = Fraction(kind.low), Fraction(kind.high)
    rising = all(a < b for a, b in pairwise(kept))
    if not kept or not rising or not low < kept[0] or not kept[-1] <= high:
        raise InvalidParameter(
            f"{field}: expected increasing edges between its bounds, got {value_text(kept)}"
        )
    constants = [int(edge) if isinstance(kind, Integer) else edge for edge in kept]
    return Cells(field, queries.bucketize(schema[field], constants), _bin_names(kind, kept), kept)


def equal_edges(kind: Integer | Real, bins: int) -> tuple[Fraction, ...]:
    """The inner edges of bins of equal width; whole numbers keep to whole edges."""
    whole_within(bins, 2, MAX_BINS, "bins")
    if isinstance(kind, Integer):
        count = kind.high - kind.low + 1
        used = min(bins, count)
        return tuple(Fraction(kind.low + -(-place * count // used)) for place in range(1, used))
    low, width = Fraction(kind.low), Fraction(kind.high) - Fraction(kind.low)
    edges = [_edge(kind, low + width * place / bins) for place in range(1, bins)]
    if any(a >= b for a, b in pairwise([low, *edges])):
        raise InvalidParameter(f"expected bounds wide enough for {bins} bins, found closer ones")
    return tuple(edges)


def numbers(schema: Schema, field: str) -> tuple[Number, ...]:
    """A field as numbers: one; one a component of Bits; one a label but the first of a category."""
    kind = field_of(schema, field)
    expression, one, zero = schema[field], Fraction(1), Fraction(0)
    match kind:
        case Bit():
            return (Number(field, expression, zero, one),)
        case Bits():
            return tuple(
                Number(f"{field}[{place}]", component, zero, one)
                for place, component in enumerate(expression)
            )
        case Category():
            if len(kind.labels) < 2:
                raise InvalidParameter(f"{field}: expected two or more labels, found one")
            return tuple(
                Number(f"{field}={label}", expression == label, zero, one)
                for label in kind.labels[1:]
            )
        case Integer() | Real():
            low, high = Fraction(kind.low), Fraction(kind.high)
            return (Number(field, _scaled(field, kind, expression), low, high),)


def numbers_of(schema: Schema) -> tuple[Number, ...]:
    """All fields of a schema as numbers, in its order."""
    return tuple(number for name in schema.fields for number in numbers(schema, name))


def _scaled(field: str, kind: Integer | Real, expression: Expression) -> Expression:
    """(2x - low - high) / (high - low) on the grid 2^-10; the factor lies on the grid 2^-40."""
    # The factor has at least 10 significant bits, so the value is off by less than 2^-9.
    low, high = Fraction(kind.low), Fraction(kind.high)
    width = high - low
    if width >= _MAX_WIDTH:
        raise InvalidParameter(
            f"{field}: expected bounds less than 2^30 apart to scale it, found wider ones"
        )
    frac = expression.frac
    while frac > 0 and width * (1 << (frac - 1)) >= _STEPS:
        frac -= 1
    coarse = queries.round_to(expression, frac) if frac < expression.frac else expression
    centred = 2 * coarse - constant(low + high, frac)
    return queries.clip(
        queries.round_to(queries.dot([1 / width], [centred], _FINEST - frac), SCALE_BITS), -1, 1
    )


def joint(*parts: Cells) -> tuple[Query, tuple[int, ...]]:
    """Build one categorical question for a joint cell, and the shape of its table.

    The cells come in C order, the last encoding varying fastest; one more cell, the last, holds
    users without a value of a field, so that they are in no cell of the table.
    """
    shape = tuple(len(part) for part in parts)
    place = parts[0].index
    for part in parts[1:]:
        place = place * len(part) + part.index
    count = prod(shape)
    # The place is always 0 or more: the condition makes room for one cell more.
    expression = queries.where(place >= 0, place, count)
    return queries.category(expression, default=count), shape


def has_missing_cell(query: Query) -> bool:
    """Return whether a question's last cell is that of `joint`, for users without a value."""
    if query.kind is not QueryKind.CATEGORY or query.expression.op is not Op.WHERE:
        return False
    last = len(cell_names(query)) - 1
    return bool(query.default == last and query.expression.args[2].low == last)


def _evaluated(query: Query, columns: queries.EncodedColumns, absent: int) -> NDArray[np.int64]:
    values = np.array(queries.evaluate_columns(query, columns), dtype=np.int64)
    for name in query.fields_used:
        values[~columns.present[name]] = absent
    return values


def _bin_names(kind: Integer | Real, edges: tuple[Fraction, ...]) -> tuple[str, ...]:
    if isinstance(kind, Integer):
        firsts = [kind.low, *map(int, edges)]
        lasts = [*(first - 1 for first in firsts[1:]), kind.high]
        pairs = zip(firsts, lasts, strict=True)
        return tuple(f"{a}" if a == b else f"{a}..{b}" for a, b in pairs)
    ends = [f"{float(end):g}" for end in (Fraction(kind.low), *edges, Fraction(kind.high))]
    last = len(edges)
    return tuple(f"[{ends[j]}, {ends[j + 1]}{']' if j == last else ')'}" for j in range(last + 1))


def _edge(kind: Integer | Real, edge: Fraction | int) -> Fraction:
    """The edge as the query has it: whole beside whole numbers, else a multiple of 2^-16."""
    if isinstance(kind, Integer):
        return Fraction(ceil(edge))  # x >= edge iff x >= its ceiling
    return Fraction(round(Fraction(edge) * _EDGE_STEPS), _EDGE_STEPS)


def _field_of(name: str) -> str:
    return name.partition("[")[0].partition("=")[0]
