"""Records of a file as a population, one user per row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.names import Suits, field_called, named_schema, names_of
from askance_aggregator.numbers import whole_count
from askance_aggregator.queries import DeferredColumns, EncodedColumns
from askance_aggregator.reports.texts import counted
from askance_aggregator.studies import Permutation
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import Category, Schema
from askance_client.records import Table, field_name, field_names, is_missing
from askance_simulation.cores import in_order
from askance_simulation.populations.arrow_columns import Encoded, EncodedOnce, encoded
from askance_simulation.populations.cells import CellRows, ColumnCells, TextBlock, TextCells
from askance_simulation.populations.columns import draws
from askance_simulation.populations.inference import Summarized, infer, with_header_doubt
from askance_simulation.populations.outside_values import Outside, outside_warnings
from askance_simulation.populations.record_types import RecordTypes, drawn_types
from askance_simulation.randomness import Seed


class TextColumns:
    """Records by columns of cells (see `Records`), in which a repeated cell is read once.

    Args:
      path: file that they are of, or name of another source.
      written: names of the columns as the source has them.
      rows: number of rows.
      column: returns a column by its place; it is called once for a column that is used.
      has_header_line: the names are the first line of a text file.
    """

    def __init__(
        self,
        path: Path | str,
        written: tuple[str, ...],
        rows: int,
        column: Callable[[int], TextBlock],
        *,
        has_header_line: bool = False,
    ) -> None:
        self.path = path
        self.written = written
        self.names = field_names(path, written)
        self.has_header_line = has_header_line
        self._rows = rows
        self._read = column
        self._columns: dict[int, TextBlock] = {}

    @classmethod
    def of(cls, table: Table, *, has_header_line: bool = False) -> TextColumns:
        """Return the columns of a table, whose rows are not kept."""
        rows = table.rows if isinstance(table.rows, CellRows) else CellRows(table.rows)
        columns = rows.columns()
        column = columns.__getitem__
        return cls(
            table.path, table.written, len(table.rows), column, has_header_line=has_header_line
        )

    def __len__(self) -> int:
        return self._rows

    @property
    def declared(self) -> Mapping[str, tuple[str, ...]]:
        """Return no labels: a column of texts declares none."""
        return {}

    @property
    def empty_rows(self) -> int:
        """Return the number of rows of a text file of several columns without any value."""
        if not self.has_header_line or len(self.names) < 2:
            return 0
        rows = np.arange(len(self))
        for place in range(len(self.names)):
            block = self.column(place)
            is_empty = np.array([cell in ("", None) for cell in block.cells])
            rows = rows[is_empty[block.places[rows]]]
            if not len(rows):
                break
        return len(rows)

    def cells(self, counted: Collection[str]) -> dict[str, ColumnCells]:
        """Count every column's cells."""
        columns = map(self.column, range(len(self.names)))
        return {
            name: TextCells.of(column) for name, column in zip(self.names, columns, strict=True)
        }

    def outside(self, schema: Schema) -> dict[str, Outside]:
        """Count the values of each field that a schema does not know or clamps."""
        found = {}
        for name, kind in schema.fields.items():
            cells = self.field(name).counts
            given: dict[object, int] = {
                cell: count for cell, count in cells.items() if not is_missing(cell, kind)
            }
            found[name] = Outside.of(kind, given)
        return found

    def encoded(self, schema: Schema) -> EncodedColumns:
        """Return all rows on the grid; a field is encoded when it is first asked about."""
        for name in schema.fields:
            self._place(name)
        grid = EncodedOnce(partial(_on_grid, self, schema))
        return EncodedColumns(
            DeferredColumns(schema.fields, grid.values),
            DeferredColumns(schema.fields, grid.present),
            len(self),
        )

    def field(self, name: str) -> TextBlock:
        """Return the cells of a field."""
        return self.column(self._place(name))

    def _place(self, name: str) -> int:
        return Table(self.path, self.written, self.names, ()).column_index(name)

    def column(self, place: int) -> TextBlock:
        """Return the cells of a column by its place."""
        if place not in self._columns:
            self._columns[place] = self._read(place)
        return self._columns[place]


def _on_grid(records: TextColumns, schema: Schema, name: str) -> Encoded:
    return encoded(name, schema.fields[name], records.field(name))


Rows = NDArray[np.int64]

_BLOCK = 1 << 16  # rows of a block, whose first place is known
_PIECE = 1 << 18  # rows that are added at once


class RowSet:
    """Rows in the order of the table, by their place in it.

    Args:
      rows: number of rows of the table.
      bits: a bit per row, eight to a byte from the lowest up, and zeros after the last; None: all
        rows belong to the set.
    """

    def __init__(self, rows: int, bits: NDArray[np.uint8] | None = None) -> None:
        self._rows = rows
        self._bits = bits
        if bits is not None:
            whole = np.zeros(-(-rows // _BLOCK) * (_BLOCK // 8), np.uint8)
            whole[: len(bits)] = bits
            self._bits = whole
            counts = np.bitwise_count(whole).reshape(-1, _BLOCK // 8).sum(axis=1, dtype=np.int64)
            self._firsts = np.concatenate([[0], np.cumsum(counts)])

    def __len__(self) -> int:
        return self._rows if self._bits is None else int(self._firsts[-1])

    def rows(self, start: int, stop: int) -> slice | Rows:
        """Return the rows at places start .. stop-1."""
        if self._bits is None:
            return slice(start, stop)
        if start >= stop:
            return np.empty(0, np.int64)
        first, last = self._firsts.searchsorted([start, stop - 1], side="right") - 1
        found = self._of_blocks(int(first), int(last) + 1)
        begin = int(self._firsts[first])
        return found[start - begin : stop - begin]

    def drawn(self, permutation: Permutation, count: int) -> RowSet:
        """Return those at the first `count` positions of a permutation of the places."""
        parts = map(self._at, _positions(permutation, count))
        return RowSet(self._rows, _bits(self._rows, parts))

    def others(self) -> RowSet:
        """Return the rows of the table that are not in the set."""
        bits = np.zeros(-(-self._rows // 8), np.uint8)
        if self._bits is not None:
            bits = ~self._bits[: len(bits)]
            spare = -self._rows % 8
            bits[-1] &= 0xFF >> spare
        return RowSet(self._rows, bits)

    def _of_blocks(self, first: int, last: int) -> Rows:
        assert self._bits is not None
        width = _BLOCK // 8
        bits = np.unpackbits(self._bits[first * width : last * width], bitorder="little")
        return np.flatnonzero(bits) + first * _BLOCK

    def _at(self, places: Rows) -> Rows:
        """Return the rows at these places, which rise."""
        if self._bits is None:
            return places
        found = np.empty(len(places), np.int64)
        ends = places.searchsorted(self._firsts)
        for block in np.flatnonzero(np.diff(ends)).tolist():
            part = slice(ends[block], ends[block + 1])
            found[part] = self._of_blocks(block, block + 1)[places[part] - self._firsts[block]]
        return found


def _positions(permutation: Permutation, count: int) -> Iterator[Rows]:
    """Generate the places at the first positions of a permutation, piece by piece, each sorted."""
    starts = range(0, count, _PIECE)

    def piece(start: int) -> Rows:
        return permutation.ordinals(start, min(start + _PIECE, count))

    yield from map(piece, starts) if len(starts) < 2 else in_order(piece, starts)


def _bits(rows: int, parts: Iterable[NDArray[Any]]) -> NDArray[np.uint8]:
    """Return the bits of rows that come in parts, each sorted."""
    bits = np.zeros(-(-rows // 8), np.uint8)
    for part in parts:
        if not len(part):
            continue
        places = part >> 3
        ones = np.left_shift(np.uint8(1), (part & 7).astype(np.uint8))
        starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        bits[places[starts]] |= np.bitwise_or.reduceat(ones, starts)
    return bits


MOST_OUTSIDE = Fraction(1, 2)
"""Share of a field's values outside a given schema from which a file is refused."""
_MISSING_SHOWN = 3  # notes on texts that were read as missing


@dataclass(frozen=True, slots=True)
class ColumnNotes:
    """Notes on the columns of a file; a result has those on the columns that it is about.

    Args:
      renamed: columns whose names no field can have.
      left_out: columns that are no fields.
      doubts: columns of texts that look like numbers, by field.
      chosen: how a field is read because of the question, by field.
      lines: other notes by field.
      missing: by field, the number of rows by text that was read as no value.
      categories: columns' own names by field, of categories.
      numbers: the same of all other fields.
      odd_lines: why lines of the file are taken for what they are not read as.
    """

    renamed: Sequence[str] = ()
    left_out: Sequence[str] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    categories: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    odd_lines: Sequence[str] = ()

    def about(self, fields: Collection[str], schema: Schema) -> list[str]:
        """Return the notes on some fields; those on all fields name what was left out, too."""
        left_out = self.left_out if {*fields} >= {*schema.fields} else ()
        doubts = [line for name, line in self.doubts.items() if name in fields]
        return [
            *self.odd_lines,
            *_summarized(left_out, f"{len(left_out)} columns are left out"),
            *_summarized(doubts, f"{len(doubts)} columns that look like numbers are of texts"),
            *self._read_as(fields),
            *(line for name, line in self.lines.items() if name in fields),
            *self._missing_texts(fields)[:_MISSING_SHOWN],
        ]

    @property
    def remarks(self) -> list[str]:
        """Notes on all fields, a line each."""
        return [
            *self.odd_lines,
            *self.doubts.values(),
            *self._missing_texts(self.missing),
        ]

    @property
    def every(self) -> list[str]:
        """All notes, a line each."""
        read_as = self._read_as(self.chosen)
        return [*self.renamed, *self.left_out, *read_as, *self.lines.values(), *self.remarks]

    def _read_as(self, fields: Collection[str]) -> list[str]:
        """Return notes on how fields are read, those that are read alike in one note."""
        own = {**self.categories, **self.numbers}
        columns: dict[str, list[str]] = {}
        for name, what in self.chosen.items():
            if name in fields:
                columns.setdefault(what, []).append(own[name])
        return [f"{_columns_are(named)} read as {what}" for what, named in columns.items()]

    def _missing_texts(self, fields: Collection[str]) -> list[str]:
        """Note texts that were read as missing: by category, and by text of all numbers."""
        notes = []
        of_numbers: dict[str, dict[str, int]] = {}
        for name in fields:
            for text, count in self.missing.get(name, {}).items():
                if name in self.categories:
                    remedy = "; a schema that lists the label counts them"
                    notes.append(f"{_as_missing(text, count, self.categories[name])}{remedy}")
                else:
                    of_numbers.setdefault(text, {})[self.numbers[name]] = count
        for text, counts in of_numbers.items():
            one = len(counts) == 1
            found = next(iter(counts)) if one else f"{len(counts):,} columns of numbers"
            notes.append(_as_missing(text, sum(counts.values()), found))
        return notes


def _summarized(lines: Sequence[str], summary: str) -> Sequence[str]:
    """Return a line as it is, and several as one."""
    return lines if len(lines) < 2 else [f"{summary} (--verbose)"]


def _column(name: str) -> str:
    return f"the column {name}" if name else "the column without a name"


def _columns_are(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{_column(names[0])} is"
    *some, last = names
    return f"the columns {', '.join(some)} and {last} are"


def _as_missing(text: str, count: int, columns: str) -> str:
    verb = "was" if count == 1 else "were"
    return f"{counted(count, 'value')} {text} of {columns} {verb} read as missing"


class RecordRows(Protocol):
    """Rows on the grid of a schema: in memory (`EncodedColumns`), or read when they are used."""

    def __len__(self) -> int: ...

    def take(self, rows: slice | NDArray[Any]) -> EncodedColumns:
        """Select records at a slice, or at positions in rising order."""
        ...


class Records(Summarized, Protocol):
    """Columns of a source."""

    def __len__(self) -> int: ...

    def outside(self, schema: Schema) -> Mapping[str, Outside]:
        """Count the values of each field that a schema does not know or clamps."""
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
    column_notes: ColumnNotes


@dataclass(frozen=True, slots=True, eq=False)
class TableRecords:
    """A table's records under a schema, and what is to be said of them.

    Args:
      notes: what a reader of results must know, a line each.
      column_notes: those of single columns.
    """

    name: str
    schema: Schema
    table: RecordRows
    notes: Sequence[str] = ()
    warnings: Mapping[str, str] = field(default_factory=dict)
    column_types: Mapping[str, str] = field(default_factory=dict)
    column_notes: ColumnNotes = field(default_factory=lambda: ColumnNotes())


def records_of(
    people: Table | Records,
    *,
    schema: Schema | None = None,
    label: str | None = None,
    keep: Collection[str] = (),
    most_outside: Fraction = MOST_OUTSIDE,
    categories: Collection[str] = (),
    suits: Suits | None = None,
) -> TableRecords:
    """Encode the rows of a table (see `sources.read_file`) on the grid of a schema.

    Without a schema one is inferred: whole numbers, then numbers, then categories, bounds and
    labels taken from the file; truth values of a Parquet file are bits. Those are facts about the
    users in it, and the result notes it; a real study takes them from its own schema. A column with
    nothing to ask about is left out: a constant, free text, numbers too large for any grid. So is a
    column that looks like an identifier: texts, or whole numbers that lie evenly, nearly all of
    which differ (of 50 or more). It is kept if `keep` names it, or if no other column is left. The
    result notes each, or their number. What a field's name cannot hold is "_" in it, whatever the
    schema: "hours-per-week" is hours_per_week; columns that would be one field get a digest of
    their own names besides. What is shown has the columns' own names. The texts of
    `queries.fields.MISSING_TEXTS` are missing values, unless a given schema lists such a label. A
    missing value of a category is the label "(missing)", which an inferred category has where it
    needs one, the label to be predicted excepted; the result counts the texts that were read so.
    Other missing values and labels that a given schema does not know are answered by a query's
    public default, and the result of a study counts them. More than 1 % of values that a given
    schema does not know, or whose bounds they exceed, are a warning, and more than `most_outside`
    an error.

    Args:
      people: columns, one row per user: a table in memory, or `arrow_records.ArrowRecords`.
      schema: schema of the records; None: inferred.
      label: field to be predicted; None: the only label.
      keep: names of columns that are not left out as identifiers.
      most_outside: share of a field's values outside `schema` that is accepted, 0 .. 1; the error
        names the field.
      categories: columns whose values are labels, even if they are numbers.
      suits: rule of the question that will be asked. Where what is inferred does not suit it, whole
        numbers of at most 64 values in `keep` are tried as labels, truth values as labels, and yes
        and no as bits; the result notes it.
    """
    records = TextColumns.of(people) if isinstance(people, Table) else people
    if schema is None:
        return _inferred(records, label, keep, categories, suits)
    if categories:
        raise InvalidParameter("categories: expected no schema with it, got one: it says them")
    return _given(records, schema, most_outside)


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
    whole_count(size, "users")
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
        column_notes=records.column_notes,
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


def _inferred(
    people: Records,
    label: str | None,
    keep: Collection[str],
    categories: Collection[str],
    suits: Suits | None,
) -> TableRecords:
    kept = {field_called(name, people.names) for name in keep}
    coded = {field_called(name, people.names) for name in categories}
    called = None if label is None else field_called(label, people.names)
    found = infer(people, called, kept, coded, suits)
    own = dict(zip(people.names, people.written, strict=True))
    schema = named_schema(found.schema, own)
    names = names_of(schema)
    labelled = {name for name, kind in schema.fields.items() if isinstance(kind, Category)}
    columns = ColumnNotes(
        [f"the column {column!r} is the field {name}" for name, column in names.renamed.items()],
        [f"{_column(own[name])} is left out: {why}" for name, why in found.left_out.items()],
        {name: f"{_column(own[name])} is of texts: {why}" for name, why in found.doubts.items()},
        found.chosen,
        {name: f"{_column(own[name])} {why}" for name, why in found.tell_nothing.items()},
        found.missing,
        categories={name: own[name] for name in schema.fields if name in labelled},
        numbers={name: own[name] for name in schema.fields if name not in labelled},
        odd_lines=found.odd_lines,
    )
    return TableRecords(
        Path(people.path).stem,
        schema,
        people.encoded(schema),
        [
            "bounds and labels were inferred from the data file",
            *columns.about(schema.fields, schema),
        ],
        column_types={
            name if name in found.schema.fields else own[name]: kind
            for name, kind in found.column_types.items()
        },
        column_notes=columns,
    )


def _given(people: Records, schema: Schema, most_outside: Fraction) -> TableRecords:
    try:
        outside = people.outside(schema)
    except InvalidRecord as error:
        raise InvalidRecord(with_header_doubt(str(error), people)) from None
    warnings = outside_warnings(people.path, schema, outside, most_outside)
    encoded = people.encoded(schema)
    lines = {  # of a schema that has one of two columns
        name: f"the field {name} is the column {name!r}, and not the column {column!r}"
        for column, marked in zip(people.written, people.names, strict=True)
        if marked not in schema.fields
        and (name := field_name(column)) in schema.fields
        and name in people.written
    }
    named = named_schema(schema, _own_names(people))
    notes = ColumnNotes(lines=lines)
    told = [*lines.values()]
    return TableRecords(Path(people.path).stem, named, encoded, told, warnings, column_notes=notes)


def _own_names(people: Records) -> dict[str, str]:
    """Return the columns' names by field, of those that differ."""
    names = zip(people.names, people.written, strict=True)
    return {name: column for name, column in names if column != name}


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
