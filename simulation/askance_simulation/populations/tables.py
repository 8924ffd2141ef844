"""Records of a file as a population, one user per row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import EncodedColumns
from askance_aggregator.studies import Permutation
from askance_client.errors import InvalidParameter
from askance_client.queries import Schema
from askance_client.records import Table, field_name
from askance_simulation.populations.columns import draws
from askance_simulation.populations.inference import Summarized, infer
from askance_simulation.populations.outside_values import Outside, outside_warnings
from askance_simulation.populations.record_types import RecordTypes, drawn_types
from askance_simulation.populations.row_sets import RowSet
from askance_simulation.populations.table_cells import RecordsOfTable
from askance_simulation.randomness.seeds import Seed

MOST_OUTSIDE = Fraction(1, 2)
"""Share of a field's values outside a given schema from which a file is refused."""


class RecordRows(Protocol):
    """Rows on the grid of a schema: in memory (`EncodedColumns`), or read when they are used."""

    def __len__(self) -> int: ...

    def take(self, rows: slice | NDArray[Any]) -> EncodedColumns:
        """Select records at a slice, or at positions in rising order."""
        ...


class Records(Summarized, Protocol):
    """Columns of a source."""

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the columns as the source has them."""
        ...

    def __len__(self) -> int: ...

    def outside(self, schema: Schema) -> Mapping[str, Outside]:
        """Count the values of each field that a schema does not know or clamps.

        Raises:
          InvalidRecord: a field has no column.
        """
        ...

    def encoded(self, schema: Schema) -> RecordRows:
        """Return the rows on the grid of a schema."""
        ...


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
    table: RecordRows
    notes: Sequence[str] = ()
    warnings: Mapping[str, str] = field(default_factory=dict)
    column_types: Mapping[str, str] = field(default_factory=dict)


def records_of(
    people: Table | Records,
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
      people: columns, one row per user: a table in memory, or `arrow_records.ArrowRecords`.
      schema: schema of the records; None: inferred.
      label: field to be predicted; None: the only label.
      keep: names of columns that are not left out as identifiers.
      most_outside: share of a field's values outside `schema` that is accepted, 0 .. 1; the error
        names the field.

    Raises:
      InvalidRecord: a column that is not there, nothing to ask about, or too many values outside
        the schema.
    """
    records = RecordsOfTable(people) if isinstance(people, Table) else people
    if schema is None:
        known = _inferred(records, label, keep)
    else:
        known = _given(records, schema, most_outside)
    return replace(known, notes=(*known.notes, *_renamed(records, known.schema)))


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
    if aside is not None:
        notes.append(f"{len(aside):,} of {rows:,} rows are held out to measure the error")
    count = len(kept) if size is None else size
    if count > len(kept):
        notes.append(f"{len(kept)} rows were resampled with replacement to {count} users")
    columns = _chosen(table, kept, count, seed)
    return TableUsers(
        records.name,
        records.schema,
        count,
        columns,
        law=_law(table, kept, count, columns),
        unseen=None if aside is None else _first_of(table, aside),
        notes=tuple(notes),
        warnings=records.warnings,
        column_types=records.column_types,
    )


def _first_of(table: RecordRows, rows: RowSet) -> Callable[[int], EncodedColumns]:
    """Return a reader of the first so many of some rows."""
    return lambda most: table.take(rows.rows(0, min(most, len(rows))))


def _law(
    table: RecordRows, kept: RowSet, count: int, columns: Callable[[int, int], EncodedColumns]
) -> Callable[[Seed], RecordTypes]:
    """Return the law of the users by their records: these rows, or independent draws of them."""

    def law(seed: Seed) -> RecordTypes:
        rows = len(kept)
        if count > rows:
            held = table.take(kept.rows(0, rows))
            return drawn_types(held, np.ones(rows, np.int64), count, seed)
        return RecordTypes(columns(0, count), np.ones(count, np.int64))

    return law


def _inferred(people: Records, label: str | None, keep: Collection[str]) -> TableRecords:
    found = infer(people, None if label is None else field_name(label), keep)
    notes = ["bounds and labels were inferred from the data file"]
    notes += [f"the column {name} is left out: {why}" for name, why in found.left_out.items()]
    notes += [f"the column {name} is of texts: {why}" for name, why in found.doubts.items()]
    table = people.encoded(found.schema)
    name = Path(people.path).stem
    return TableRecords(name, found.schema, table, notes, column_types=found.column_types)


def _given(people: Records, schema: Schema, most_outside: Fraction) -> TableRecords:
    warnings = outside_warnings(people.path, schema, people.outside(schema), most_outside)
    encoded = people.encoded(schema)
    return TableRecords(Path(people.path).stem, schema, encoded, warnings=warnings)


def _renamed(people: Records, schema: Schema) -> list[str]:
    """Note the columns of the schema whose names in the file a field cannot have."""
    return [
        f"the column {before!r} is called {after}"
        for before, after in zip(people.written, people.names, strict=True)
        if before != after and after in schema.fields
    ]


def _divided(rows: int, held_out: Fraction, seed: Seed) -> tuple[RowSet | None, RowSet]:
    """Return the rows that are held out, None for none, and all others."""
    if not 0 <= held_out < 1:
        raise InvalidParameter(f"held_out: expected a part in [0, 1), got {held_out}")
    every, count = RowSet(rows), int(rows * held_out)
    if count == 0:
        return None, every
    aside = every.drawn(Permutation((seed / "held-out").key, rows), count)
    return aside, aside.others()


def _chosen(
    table: RecordRows, kept: RowSet, size: int, seed: Seed
) -> Callable[[int, int], EncodedColumns]:
    """Return the records of users start .. stop-1; those of more users than rows are in memory."""
    rows = len(kept)
    if size > rows:
        held, people = table.take(kept.rows(0, rows)), seed / "resample"

        def resampled(start: int, stop: int) -> EncodedColumns:
            places = draws(people, start, stop, 1)[:, 0] % np.uint64(rows)
            return held.take(places.astype(np.int64))

        return resampled
    if size < rows:
        kept = kept.drawn(Permutation((seed / "sample").key, rows), size)
    return lambda start, stop: table.take(kept.rows(start, stop))
