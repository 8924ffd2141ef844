"""Records of a file as a population, one user per row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import EncodedColumns
from askance_aggregator.queries.columns import ColumnValue, encode_column
from askance_aggregator.studies import Permutation
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import Category, Field, Schema
from askance_client.queries.exact import exact_ratio
from askance_client.queries.kinds import Kind
from askance_client.records import Table, field_name, is_missing
from askance_simulation.populations.columns import draws, narrowed
from askance_simulation.populations.inference import infer
from askance_simulation.populations.record_types import RecordTypes, drawn_types
from askance_simulation.randomness.seeds import Seed

Rows = NDArray[np.int64]

MOST_OUTSIDE = Fraction(1, 2)
"""Share of a field's values outside a given schema from which a file is refused."""
_WARNED = Fraction(1, 100)  # the share from which a result has a warning
_LABELS_SHOWN = 4


@dataclass(frozen=True, slots=True, eq=False)
class TableUsers:
    """Users of a table, by the parts that make a `Population`."""

    name: str
    schema: Schema
    size: int
    columns: Callable[[int, int], EncodedColumns]
    law: Callable[[Seed], RecordTypes]
    unseen: Callable[[int], EncodedColumns] | None
    notes: tuple[str, ...]
    warnings: Mapping[str, str]
    column_types: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class TableRecords:
    """A table's records under a schema, and what is to be said of them."""

    name: str
    schema: Schema
    table: EncodedColumns
    notes: Sequence[str] = ()
    warnings: Mapping[str, str] = field(default_factory=dict)
    column_types: Mapping[str, str] = field(default_factory=dict)


def records_of(
    people: Table,
    *,
    schema: Schema | None = None,
    label: str | None = None,
    keep: Collection[str] = (),
    most_outside: Fraction = MOST_OUTSIDE,
) -> TableRecords:
    """Encode the rows of a table (see `files.read_file`) on the grid of a schema.

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
    answered by a query's public default, and the result of a study counts them. More than 1 % of
    values that a given schema does not know, or whose bounds they exceed, are a warning, and more
    than `most_outside` an error.

    Args:
      people: columns of texts, one row per user.
      schema: schema of the records; None: inferred.
      label: field to be predicted; None: the only label.
      keep: names of columns that are not left out as identifiers.
      most_outside: share of a field's values outside `schema` that is accepted, 0 .. 1; the error
        names the field.

    Raises:
      InvalidRecord: a column that is not there, nothing to ask about, or too many values outside
        the schema.
    """
    if schema is None:
        known = _inferred(people, label, keep)
    else:
        known = _given(people, schema, most_outside)
    return replace(known, notes=(*known.notes, *_renamed(people, known.schema)))


def users_of(
    records: TableRecords,
    seed: Seed,
    *,
    size: int | None = None,
    held_out: Fraction = Fraction(0),
) -> TableUsers:
    """Select users from the records of a table.

    Args:
      records: the table's; several selections share their arrays.
      seed: root of all randomness.
      size: how many users; fewer than rows: a seeded sample without replacement; more: resampled
        with replacement, by random access, and noted as such. None: one user per row that is not
        held out.
      held_out: the part of the rows that belong to no user and stay `unseen`, chosen by the seed.

    Raises:
      InvalidParameter: no users, or no rows that are not held out.
    """
    if size is not None and size < 1:
        raise InvalidParameter(f"users: expected 1 or more, found {size}")
    notes, table, rows = list(records.notes), records.table, len(records.table)
    aside, kept = _divided(rows, held_out, seed)
    if len(aside):
        notes.append(f"{len(aside):,} of {rows:,} rows are held out to measure the error")
    count = len(kept) if size is None else size
    if count > len(kept):
        notes.append(f"{len(kept)} rows were resampled with replacement to {count} users")
    chosen = _chosen(kept, count, seed)
    return TableUsers(
        records.name,
        records.schema,
        count,
        lambda start, stop: table.take(chosen(start, stop)),
        law=_law(table, kept, count, chosen),
        unseen=(lambda most: table.take(aside[:most])) if len(aside) else None,
        notes=tuple(notes),
        warnings=records.warnings,
        column_types=records.column_types,
    )


def _law(
    table: EncodedColumns, kept: Rows, count: int, chosen: Callable[[int, int], Rows]
) -> Callable[[Seed], RecordTypes]:
    """Return the law of the users by their records: these rows, or independent draws of them."""

    def law(seed: Seed) -> RecordTypes:
        if count > len(kept):
            return drawn_types(table.take(kept), np.ones(len(kept), np.int64), count, seed)
        return RecordTypes(table.take(chosen(0, count)), np.ones(count, np.int64))

    return law


def _inferred(people: Table, label: str | None, keep: Collection[str]) -> TableRecords:
    found = infer(people, None if label is None else field_name(label), keep)
    notes = ["bounds and labels were inferred from the data file"]
    notes += [f"the column {name} is left out: {why}" for name, why in found.left_out.items()]
    notes += [f"the column {name} is of texts: {why}" for name, why in found.doubts.items()]
    table = _encoded(people, found.schema)
    name = Path(people.path).stem
    return TableRecords(name, found.schema, table, notes, column_types=found.column_types)


def _given(people: Table, schema: Schema, most_outside: Fraction) -> TableRecords:
    warnings = _outside(people, schema, most_outside)
    encoded = _encoded(people, schema)
    return TableRecords(Path(people.path).stem, schema, encoded, warnings=warnings)


def _renamed(people: Table, schema: Schema) -> list[str]:
    """Note the columns of the schema whose names in the file a field cannot have."""
    return [
        f"the column {before!r} is called {after}"
        for before, after in zip(people.written, people.names, strict=True)
        if before != after and after in schema.fields
    ]


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


def _outside(people: Table, schema: Schema, most: Fraction) -> dict[str, str]:
    """Return a warning per field with more than 1 % of values outside the schema.

    Raises:
      InvalidRecord: a field has a greater share of them than `most`.
    """
    warnings = {}
    for name, kind in schema.fields.items():
        place = people.column_index(name)
        cells = Counter(row[place] for row in people.rows)
        given = {cell: count for cell, count in cells.items() if not is_missing(cell)}
        unknown = sum(count for cell, count in given.items() if kind.encode(cell) is None)
        beyond = _beyond(given, kind)
        count, values = unknown + beyond, sum(given.values())
        if count <= _WARNED * values:
            continue
        expected = _expected(kind)
        if count > most * values:
            raise InvalidRecord(
                f"{people.path}: {name}: expected {expected} by the schema, got values outside it"
                f" in {count:,} of {values:,} rows: correct the schema, or accept them by"
                " --most-outside 1"
            )
        counted = "they count as missing" if unknown else "they count as the nearest bound"
        if unknown and beyond:
            counted = "they count as missing or as the nearest bound"
        warnings[name] = (
            f"{count:,} of {values:,} values of {name} are outside the schema ({expected});"
            f" {counted}"
        )
    return warnings


def _beyond(cells: Mapping[object, int], kind: Field) -> int:
    """Count the numbers that are clamped by more than the rounding to the grid."""
    known = kind.type
    if known.kind is not Kind.NUMBER:
        return 0
    step = Fraction(1, 1 << known.frac)
    low, high = (known.low - Fraction(1, 2)) * step, (known.high + Fraction(1, 2)) * step
    ratios = ((exact_ratio(cell), count) for cell, count in cells.items())
    return sum(
        count
        for ratio, count in ratios
        if ratio is not None
        and not (
            ratio[0] * low.denominator >= low.numerator * ratio[1]
            and ratio[0] * high.denominator <= high.numerator * ratio[1]
        )
    )


def _expected(kind: Field) -> str:
    """Describe the values of a field of a given schema."""
    known = kind.type
    if isinstance(kind, Category):
        shown = ", ".join(kind.labels[:_LABELS_SHOWN])
        more = ", ..." if len(kind.labels) > _LABELS_SHOWN else ""
        return f"one of {shown}{more}"
    if known.kind is Kind.NUMBER:
        scale = 1 << known.frac
        return f"numbers from {known.low / scale:g} to {known.high / scale:g}"
    return "0 or 1" if known.kind is Kind.BOOLEAN else f"{known.width} digits of 0 and 1"


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
