"""Populations: columns of records by ordinal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from askance_aggregator.learners.totals import AnswerTotals, sum_columns
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_aggregator.reports.html import html_of, line_of
from askance_aggregator.reports.report import CommandReport
from askance_aggregator.reports.schemas import Schema, fields_body
from askance_aggregator.reports.texts import counted
from askance_client.errors import InvalidParameter
from askance_client.queries import Bits, Query
from askance_client.records import Table
from askance_simulation.populations.arrow_records import frame_records, parquet_records
from askance_simulation.populations.arrow_tables import arrow_of
from askance_simulation.populations.changes import label_noise, moving
from askance_simulation.populations.columns import narrowed
from askance_simulation.populations.record_types import RecordTypes
from askance_simulation.populations.registry import build
from askance_simulation.populations.sources import DataSource
from askance_simulation.populations.tables import (
    MOST_OUTSIDE,
    Records,
    TableRecords,
    records_of,
    users_of,
)
from askance_simulation.randomness.seeds import Seed

MAX_USERS = 1 << 40
_MOST_AT_ONCE = 1 << 16
_LEAST_AT_ONCE = 1 << 12
_WORDS_AT_ONCE = 1 << 23  # of columns or of coins: 64 MB


@dataclass(frozen=True, eq=False)
class Population:
    """`size` users with records of one schema.

    Args:
      name: what it is called.
      schema: the shape of a record.
      size: how many users; ordinals are 0 .. size-1.
      columns: the records of ordinals start .. stop-1; a pure function.
      target: the hypothesis that a learner should find, if the law has one.
      unseen: number of further records of the same law that belong to no user: what a hypothesis
        is judged by; None: there are none.
      notes: what a reader of results must know (bounds inferred, rows resampled).
      law: a draw of how many users have each record, from a seed, equal in law to these users;
        None: their records are too many for it, or their law is not known.
      types: how many users have each record, where the population was made from that.
      drift: the same users' records in a round of a study, by its number, where they change;
        None: they do not.
      warnings: by field, a defect of the data that puts a result about it in doubt.
      column_types: by column of the file that the schema was inferred from, what it is, or why it
        is no field; empty for other populations.

    Example:
      >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
      >>> ask.Population.from_columns(schema, {"age": [31, 45, 62]})
      <Population: columns, 3 users, 1 field: age>
      >>> ask.Population.generated("categories", users=100, cells=4)
      <Population: categories, 100 users, 1 field: category>
    """

    name: str
    schema: Schema
    size: int
    columns: Callable[[int, int], EncodedColumns]
    target: object | None = None
    unseen: Callable[[int], EncodedColumns] | None = None
    notes: tuple[str, ...] = field(default=())
    law: Callable[[Seed], RecordTypes] | None = None
    types: RecordTypes | None = None
    drift: Callable[[int], Population] | None = None
    warnings: Mapping[str, str] = field(default_factory=dict)
    column_types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MAX_USERS:
            raise InvalidParameter(
                f"population: expected 1 to {MAX_USERS} users, found {self.size}"
            )

    def __repr__(self) -> str:
        fields = f"{counted(len(self.schema.fields), 'field')}: {', '.join(self.schema.fields)}"
        return line_of("Population", f"{self.name}, {counted(self.size, 'user')}, {fields}")

    def _repr_html_(self) -> str:
        """Show the fields and the notes on the data in a notebook; no record is shown."""
        remarks = {**self.column_types, **self.warnings}
        title = f"{self.name}, {counted(self.size, 'user')}, schema {self.schema.name}"
        body = fields_body(self.schema, remarks)
        return html_of(CommandReport(title, body, warnings=self.notes))

    def stretch(self, coins: int = 0) -> int:
        """Return the number of users whose records are processed together, a power of two.

        It is 2^16, or less, but at least 2^12, where each user has many columns, or coins
        beside them.
        """
        fields = self.schema.fields.values()
        columns = sum(field.words if isinstance(field, Bits) else 1 for field in fields)
        users = _MOST_AT_ONCE
        while users > _LEAST_AT_ONCE and users * max(columns, coins) > _WORDS_AT_ONCE:
            users //= 2
        return users

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Generate the stretches of all users: the first ordinal of each and the one past it."""
        step = self.stretch()
        for start in range(0, self.size, step):
            yield start, min(start + step, self.size)

    def totals(self, queries: Sequence[Query]) -> list[AnswerTotals]:
        """Compute the exact totals of queries over all users, in one pass."""
        if self.types is not None:
            return self.types.totals(queries)
        parts = (
            sum_columns(queries, self.columns(start, stop)) for start, stop in self.stretches()
        )
        return reduce(lambda found, part: list(map(add, found, part)), parts)

    def in_round(self, number: int) -> Population:
        """Return the users with their records in a round of a study."""
        return self if self.drift is None else self.drift(number)

    def by_types(self, seed: Seed) -> Population:
        """Draw as many users of the same law, given by how many have each record.

        Raises:
          InvalidParameter: it has no such law.
        """
        if self.law is None or self.drift is not None:
            raise InvalidParameter(
                "population: expected one whose records are few and do not change (categories,"
                f" numbers, a file, columns), got {self.name!r}: use --fleet columns"
            )
        types = self.law(seed)
        return replace(self, columns=types.columns, types=types, law=None)

    def with_label_noise(
        self, rate: Rational, *, label: str | None = None, seed: int = 0
    ) -> Population:
        """Change each user's label with chance `rate` (see `changes.label_noise`)."""
        return label_noise(self, rate, Seed.of(seed) / "label-noise", label=label)

    def moving_to(self, other: Population, rate: Rational, *, seed: int = 0) -> Population:
        """Return users who become those of `other` as rounds go by (see `changes.moving`)."""
        return moving(self, other, rate, Seed.of(seed) / "drift")

    @classmethod
    def generated(cls, name: str, users: int, *, seed: int = 0, **parameters: int) -> Population:
        """Return a generated population by its name (see `askance simulate --list`)."""
        return build(name, users, Seed.of(seed), parameters)

    @classmethod
    def from_columns(
        cls, schema: Schema, columns: Mapping[str, Any], *, name: str = "columns"
    ) -> Population:
        """Make a population of equally long columns (arrays, lists, a DataFrame), one user per row.

        Raises:
          InvalidRecord: a column that the schema does not have, or of another shape.
        """
        people = narrowed(schema, encode_columns(schema, {key: columns[key] for key in columns}))
        return cls(
            name,
            schema,
            len(people),
            lambda start, stop: people.take(slice(start, stop)),
            law=lambda seed: RecordTypes(people, np.ones(len(people), np.int64)),
        )

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        schema: Schema | None = None,
        *,
        label: str | None = None,
        users: int | None = None,
        seed: int = 0,
        keep: Collection[str] = (),
        delimiter: str = ",",
        most_outside: Rational = MOST_OUTSIDE,
    ) -> Population:
        """Make a population of a CSV file, or of a data set by its name (see `people_of`).

        Args:
          path: path of the file; or "census", the data set that ships with the package.
          schema: the schema of the records; None: inferred.
          label: field to be predicted; None: the only label.
          users: how many; None: one per row.
          seed: of a sample of the rows.
          keep: names of columns that are not left out as identifiers.
          delimiter: the character between two cells: "," ";" "|" or a tab.
          most_outside: share of a field's values outside `schema` that is accepted, 0 .. 1.

        Raises:
          InvalidRecord, InvalidParameter: the file or an argument is not of that form.
        """
        source = DataSource(Path(path), delimiter, rational(most_outside, "most_outside"))
        return people_of(
            source.read(),
            Seed.of(seed),
            schema=schema,
            label=label,
            size=users,
            keep=keep,
            most_outside=source.most_outside,
        )

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
        schema: Schema | None = None,
        *,
        label: str | None = None,
        users: int | None = None,
        seed: int = 0,
        keep: Collection[str] = (),
        most_outside: Rational = MOST_OUTSIDE,
    ) -> Population:
        """Read the users of a Parquet file, like a CSV file of these cells.

        The file is read once to infer or check the schema; records are read row group by row group
        when they are asked about, so that memory does not grow with the rows.

        Raises:
          InvalidRecord, InvalidParameter: as of `from_csv`; pyarrow is not installed.
        """
        return people_of(
            parquet_records(Path(path)),
            Seed.of(seed),
            schema=schema,
            label=label,
            size=users,
            keep=keep,
            most_outside=rational(most_outside, "most_outside"),
        )

    @classmethod
    def from_arrow(
        cls,
        frame: Any,
        schema: Schema | None = None,
        *,
        name: str = "frame",
        label: str | None = None,
        users: int | None = None,
        seed: int = 0,
        keep: Collection[str] = (),
        most_outside: Rational = MOST_OUTSIDE,
    ) -> Population:
        """Make a population of a frame, like a CSV file of these cells.

        Args:
          frame: a pandas DataFrame, or what has `__arrow_c_stream__`: pyarrow, polars, DuckDB.
          schema: the schema of the records; None: inferred.
          name: of the population, and of a schema that is inferred.
          label: field to be predicted; None: the only label.
          users: how many; None: one per row.
          seed: of a sample of the rows.
          keep: names of columns that are not left out as identifiers.
          most_outside: share of a field's values outside `schema` that is accepted, 0 .. 1.

        Raises:
          InvalidRecord, InvalidParameter: as of `from_csv`; pyarrow is not installed.
        """
        return people_of(
            frame_records(arrow_of(frame), Path(name)),
            Seed.of(seed),
            schema=schema,
            label=label,
            size=users,
            keep=keep,
            most_outside=rational(most_outside, "most_outside"),
        )

    from_pandas = from_arrow


def people_of(
    people: Table | Records,
    seed: Seed,
    *,
    schema: Schema | None = None,
    label: str | None = None,
    size: int | None = None,
    held_out: Fraction = Fraction(0),
    keep: Collection[str] = (),
    most_outside: Fraction = MOST_OUTSIDE,
) -> Population:
    """Make a population of the rows of a table, one user per row.

    Args and rules: as of `tables.records_of` and `tables.users_of`.

    Raises:
      InvalidRecord, InvalidParameter: as of these.
    """
    records = records_of(people, schema=schema, label=label, keep=keep, most_outside=most_outside)
    return population_of(records, seed, size=size, held_out=held_out)


def population_of(
    records: TableRecords, seed: Seed, *, size: int | None = None, held_out: Fraction = Fraction(0)
) -> Population:
    """Make a population of the records of a table (see `tables.users_of`).

    Raises:
      InvalidParameter: no users, or no rows that are not held out.
    """
    users = users_of(records, seed, size=size, held_out=held_out)
    return Population(
        users.name,
        users.schema,
        users.size,
        users.columns,
        law=users.law,
        unseen=users.unseen,
        notes=users.notes,
        warnings=users.warnings,
        column_types=users.column_types,
    )
