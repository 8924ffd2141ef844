"""Records of a file as a population, one user per row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.names import unknown_column
from askance_aggregator.queries import EncodedColumns
from askance_aggregator.queries.columns import ColumnValue, encode_column
from askance_aggregator.studies import Permutation
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import (
    Bit,
    Category,
    Field,
    Integer,
    Label,
    Real,
    Schema,
)
from askance_client.queries.exact import exact_ratio
from askance_client.queries.limits import MAX_FRAC, MAX_SPREAD
from askance_client.records import NOTHING, Table, field_name, is_missing
from askance_simulation.populations.columns import draws, narrowed
from askance_simulation.randomness.seeds import Seed

Rows = NDArray[np.int64]

_MAX_LABELS = 1024
_FRAC_BITS = 16  # the grid of a number, unless its range asks for a finer or a coarser one
_MIN_STEPS = 1 << 16  # of the grid between a number's bounds
_IDENTIFIER = "nearly all of its values differ, as of an identifier"
_ID_ROWS = 50  # of fewer values most differ in any column
_ID_TEXTS = Fraction(95, 100)  # share of distinct values from which a text identifies a user
_ID_NUMBERS = Fraction(99, 100)  # the same of whole numbers that lie evenly
_UNEVEN = 0.1  # distance from the uniform law: that of a bell is about 0.2
_BY_CHANCE = 1.4  # over the root of the values: the distance of numbers drawn from that law


@dataclass(frozen=True, slots=True, eq=False)
class TableUsers:
    """Users of a table, by the parts that make a `Population`."""

    name: str
    schema: Schema
    size: int
    columns: Callable[[int, int], EncodedColumns]
    unseen: Callable[[int], EncodedColumns] | None
    notes: tuple[str, ...]


def users_of(
    people: Table,
    seed: Seed,
    *,
    schema: Schema | None = None,
    label: str | None = None,
    size: int | None = None,
    held_out: Fraction = Fraction(0),
    keep: Collection[str] = (),
) -> TableUsers:
    """Select and encode users from the rows of a table (see `files.read_file`).

    Without a schema one is inferred: whole numbers, then numbers, then categories, bounds and
    labels taken from the file; truth values of a Parquet file are bits. Those are facts about the
    users in it, and the result notes it; a real study takes them from its own schema. A column with
    nothing to ask about is left out: a constant, free text, numbers too large for any grid. So is a
    column that looks like an identifier: texts, or whole numbers that lie evenly, nearly all of
    which differ (of 50 or more). It is kept if `keep` names it, or if no other column is left. The
    result notes each. What a field's name cannot hold is "_" in it, whatever the schema:
    "hours-per-week" is hours_per_week, and the result notes it. A missing value ("" or "?") of a
    category is the label "(missing)", which an inferred category has where it needs one, the label
    to be predicted excepted. Other missing values and labels that a given schema does not know are
    answered by a query's public default, and the result of a study counts them.

    Args:
      people: columns of texts, one row per user.
      seed: root of all randomness.
      schema: schema of the records; None: inferred.
      label: field to be predicted; None: the only label.
      size: how many users; fewer than rows: a seeded sample without replacement; more: resampled
        with replacement, by random access, and noted as such. None: one user per row that is not
        held out.
      keep: names of columns that are not left out as identifiers.
      held_out: the part of the rows that belong to no user and stay `unseen`, chosen by the seed.

    Raises:
      InvalidRecord: a column that is not there, or nothing to ask about.
      InvalidParameter: no users, or no rows that are not held out.
    """
    if size is not None and size < 1:
        raise InvalidParameter(f"users: expected 1 or more, found {size}")
    notes = []
    if schema is None:
        schema, left_out = _infer(people, None if label is None else field_name(label), keep)
        notes.append("bounds and labels were inferred from the data file")
        notes += [f"the column {name} is left out: {why}" for name, why in left_out.items()]
    table = _encoded(people, schema)
    notes += [
        f"the column {before!r} is called {after}"
        for before, after in zip(people.written, people.names, strict=True)
        if before != after and after in schema.fields
    ]
    aside, kept = _divided(len(people.rows), held_out, seed)
    if len(aside):
        notes.append(f"{len(aside)} of {len(people.rows)} rows are held out to measure the error")
    count = len(kept) if size is None else size
    if count > len(kept):
        notes.append(f"{len(kept)} rows were resampled with replacement to {count} users")
    chosen = _chosen(kept, count, seed)
    return TableUsers(
        people.path.stem,
        schema,
        count,
        lambda start, stop: table.take(chosen(start, stop)),
        unseen=(lambda most: table.take(aside[:most])) if len(aside) else None,
        notes=tuple(notes),
    )


def _encoded(people: Table, schema: Schema) -> EncodedColumns:
    """Encode all records on the schema's grid; repeated texts are encoded once."""
    values: dict[str, ColumnValue] = {}
    present: dict[str, NDArray[np.bool_]] = {}
    for name, kind in schema.fields.items():
        column = people.column(name, kind)
        places = {cell: place for place, cell in enumerate(dict.fromkeys(column))}
        chosen = np.fromiter(map(places.__getitem__, column), np.int64, len(column))
        found, known = encode_column(name, kind, list(places))
        present[name] = known[chosen]
        values[name] = (
            tuple(word[chosen] for word in found) if isinstance(found, tuple) else found[chosen]
        )
    return narrowed(schema, EncodedColumns(values, present, len(people.rows)))


def _divided(rows: int, held_out: Fraction, seed: Seed) -> tuple[Rows, Rows]:
    """Return the rows that are held out, and all others in the file's order."""
    if not 0 <= held_out < 1:
        raise InvalidParameter(f"held_out: expected a part in [0, 1), got {held_out}")
    count = int(rows * held_out)
    if count == 0:
        return np.arange(0, dtype=np.int64), np.arange(rows, dtype=np.int64)
    aside = Permutation((seed / "held-out").key, rows).ordinals(0, count)
    return aside, np.setdiff1d(np.arange(rows, dtype=np.int64), aside)


def _chosen(kept: Rows, size: int, seed: Seed) -> Callable[[int, int], Rows]:
    """Return the rows of users start .. stop-1, whose memory does not grow with the users."""
    rows = len(kept)
    if size > rows:
        people = seed / "resample"

        def resampled(start: int, stop: int) -> Rows:
            places = draws(people, start, stop, 1)[:, 0] % np.uint64(rows)
            return kept[places.astype(np.int64)]

        return resampled
    if size < rows:
        kept = kept[Permutation((seed / "sample").key, rows).ordinals(0, size)]
    return lambda start, stop: kept[start:stop]


def _infer(
    people: Table, label: str | None, keep: Collection[str]
) -> tuple[Schema, dict[str, str]]:
    """Infer the fields, and for each column that is left out the reason."""
    name, header = people.path.stem, people.names
    if label is not None and label not in header:
        raise InvalidRecord(f"label: {unknown_column(label, header)}")
    fields: dict[str, Field] = {}
    left_out: dict[str, str] = {}
    identifiers: dict[str, Field | None] = {}
    for place, column in enumerate(header):
        cells = [row[place] for row in people.rows]
        kind = _infer_column(cells, is_label=column == label)
        if column != label and column not in keep and _identifies(cells):
            identifiers[column] = kind
        elif kind is None:
            left_out[column] = _why_not(cells)
        else:
            fields[column] = kind
    no_other = set(fields) <= {label}
    for column, kind in identifiers.items():
        if kind is None:
            left_out[column] = _IDENTIFIER
        elif no_other:
            fields[column] = kind
        else:
            left_out[column] = f"{_IDENTIFIER}; a setting that names the column keeps it"
    if not fields:
        raise InvalidRecord(
            f"{name}: expected a column of numbers, or of 2 to {_MAX_LABELS} labels, got none"
            f" among {', '.join(header[:20])}"
        )
    in_order = {column: fields[column] for column in header if column in fields}
    return Schema.of(name, 1, in_order), left_out


def _infer_column(cells: Sequence[object], *, is_label: bool) -> Field | None:
    """Infer a column's field; None if there is nothing to ask about."""
    values = [cell for cell in set(cells) if not is_missing(cell)]
    distinct = sorted({str(value) for value in values})
    if is_label:  # no record is predicted to have no label
        return Label(tuple(distinct))
    if values and all(isinstance(value, bool) for value in values):
        return Bit() if len(distinct) > 1 else None
    kind = _infer_field(distinct)
    some_missing = len(values) < len(set(cells))
    if isinstance(kind, Category) and some_missing and NOTHING not in kind.labels:
        return type(kind)((NOTHING, *kind.labels))
    return kind


def _why_not(cells: Sequence[object]) -> str:
    """Return the reason for which there is nothing to ask about a column."""
    values = {str(cell) for cell in cells if not is_missing(cell)}
    if len(values) < 2:
        return "it has one value, or none"
    return f"its values are no numbers in range and no {_MAX_LABELS:,} labels or fewer"


def _identifies(cells: Sequence[object]) -> bool:
    """Return whether nearly all values of a column of texts or whole numbers differ."""
    values = [str(cell) for cell in cells if not is_missing(cell)]
    distinct = set(values)
    share = Fraction(len(distinct), max(len(values), 1))
    if len(values) < _ID_ROWS or share < _ID_TEXTS:
        return False
    ratios = [exact_ratio(value) for value in distinct]
    if None in ratios:  # a text
        return True
    whole = all(ratio is not None and ratio[1] == 1 for ratio in ratios)
    return whole and share >= _ID_NUMBERS and _evenly_spread([float(value) for value in distinct])


def _evenly_spread(values: Sequence[float]) -> bool:
    """Return whether values lie evenly between their ends, as counted or drawn numbers do.

    Amounts and measurements are denser in some places, so that few users may well differ in all.
    """
    ordered = np.sort(np.array(values))
    places = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    ranks = np.arange(len(ordered)) / (len(ordered) - 1)
    return float(np.abs(places - ranks).max()) <= max(_UNEVEN, _BY_CHANCE / sqrt(len(ordered)))


def _infer_field(distinct: Sequence[str]) -> Field | None:
    if len(distinct) < 2:
        return None
    ratios = [exact_ratio(value) for value in distinct]  # as the column will be encoded
    numbers = [ratio for ratio in ratios if ratio is not None]
    try:
        if len(numbers) < len(distinct):
            return Category(tuple(distinct)) if len(distinct) <= _MAX_LABELS else None
        low, high = _ends(numbers)
        if all(denominator == 1 for _, denominator in numbers):
            return Integer(int(low), int(high))
        return _real(low, high)
    except InvalidParameter:  # labels too long, numbers too large
        return None


def _ends(ratios: Sequence[tuple[int, int]]) -> tuple[Fraction, Fraction]:
    """Find the least and the greatest exactly; floats, which keep the order, select candidates."""
    near = [numerator / denominator for numerator, denominator in ratios]
    lows, highs = (
        [Fraction(*ratio) for ratio, place in zip(ratios, near, strict=True) if place == end]
        for end in (min(near), max(near))
    )
    return min(lows), max(highs)


def _real(low: Fraction, high: Fraction) -> Real:
    """Choose a grid that is fine enough for the numbers and coarse enough for questions."""
    frac = _FRAC_BITS
    while frac < MAX_FRAC and (high - low) * (1 << frac) < _MIN_STEPS:
        frac += 1
    while frac > 0 and (high - low) * (1 << frac) >= MAX_SPREAD // 2:
        frac -= 1
    return Real(low, high, frac)
