"""Populations: columns of records by ordinal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from inspect import signature
from operator import add
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.totals import AnswerTotals, sum_columns
from askance_aggregator.names import Suits, named_schema, names_of, plain_schema, unknown_name
from askance_aggregator.numbers import Rational, plain_arguments, rational
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_aggregator.queries.columns import ColumnValue
from askance_aggregator.reports.html import html_of, line_of
from askance_aggregator.reports.report import CommandReport
from askance_aggregator.reports.schemas import fields_body
from askance_aggregator.reports.texts import counted
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Bits, Category, Label, Query, Schema
from askance_client.records import Table
from askance_simulation.populations import tables
from askance_simulation.populations.arrow_records import frame_records, parquet_records
from askance_simulation.populations.arrow_tables import arrow_of, columns_of_frame
from askance_simulation.populations.columns import below, draws, narrowed
from askance_simulation.populations.record_types import RecordTypes
from askance_simulation.populations.sources import DataSource
from askance_simulation.randomness import Seed

_Maker = TypeVar("_Maker", bound="Callable[..., Population]")


@dataclass(frozen=True, slots=True)
class PopulationEntry:
    """Entry of a population: name, summary, whole-number parameters, and its maker.

    The maker is called with size, seed and the parameters.
    """

    name: str
    summary: str
    parameters: tuple[tuple[str, int], ...]
    build: Callable[..., Population]


_CATALOGUE: dict[str, PopulationEntry] = {}
POPULATIONS: Mapping[str, PopulationEntry] = MappingProxyType(_CATALOGUE)
"""Generated populations by name."""


def catalogued(name: str, summary: str) -> Callable[[_Maker], _Maker]:
    """List a population under `name`; what its maker takes after size and seed are its parameters.

    A maker takes `size`, the number of users, and `seed`, the root of all randomness.
    """
    if name in _CATALOGUE:
        raise InvalidParameter(f"the population {name!r} is registered already")

    def listed(maker: _Maker) -> _Maker:
        _, _, *settings = signature(maker).parameters.values()
        parameters = tuple((setting.name, setting.default) for setting in settings)
        _CATALOGUE[name] = PopulationEntry(name, summary, parameters, maker)
        return maker

    return listed


def entry(name: str) -> PopulationEntry:
    """Return the generated population of that name."""
    if name not in POPULATIONS:
        raise unknown_name("population", name, sorted(POPULATIONS))
    return POPULATIONS[name]


def build(name: str, users: int, seed: Seed, parameters: Mapping[str, int]) -> Population:
    """Make `users` users of the population of that name."""
    chosen = entry(name)
    known = [key for key, _ in chosen.parameters]
    for key in parameters:
        if key not in known:
            raise InvalidParameter(
                f"{name}: expected parameters {', '.join(known) or 'none'}, got {key!r}"
            )
    return chosen.build(users, seed, **parameters)


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
      column_notes: notes on single columns of the file; a result has those it is about.
      suiting: users of the same file by other questions, if the schema was inferred for none.

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
    column_notes: tables.ColumnNotes = field(default_factory=tables.ColumnNotes)
    suiting: SuitingUsers | None = None

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not 1 <= self.size <= MAX_USERS:
            raise InvalidParameter(f"population: expected 1 to {MAX_USERS} users, got {self.size}")

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

    def of_schema(self, schema: Schema) -> Population:
        """Return the users by a schema that a question made of theirs (see `suiting_schema`)."""
        if self.suiting is None or schema.digest == self.schema.digest:
            return self
        return self.suiting.made.get(schema.digest, self)

    def notes_about(self, fields: Collection[str]) -> list[str]:
        """Return the notes that are on no column, or on columns among some fields."""
        schema, columns = self.schema, self.column_notes
        of_columns = columns.about(schema.fields, schema)
        others = [note for note in self.notes if note not in of_columns]
        return [*others, *columns.about(fields, schema)]

    def of_one_schema(self) -> Population:
        """Return the same users, whose schema no question makes anew."""
        schema = named_schema(plain_schema(self.schema), names_of(self.schema).renamed)
        return replace(self, schema=schema, suiting=None)

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

    @plain_arguments
    def with_label_noise(
        self, rate: Rational, *, label: str | None = None, seed: int = 0
    ) -> Population:
        """Change each user's label with chance `rate` (see `label_noise`)."""
        return label_noise(self, rate, Seed.of(seed) / "label-noise", label=label)

    @plain_arguments
    def moving_to(self, other: Population, rate: Rational, *, seed: int = 0) -> Population:
        """Return users who become those of `other` as rounds go by (see `moving`)."""
        return moving(self, other, rate, Seed.of(seed) / "drift")

    @classmethod
    @plain_arguments
    def generated(cls, name: str, users: int, *, seed: int = 0, **parameters: int) -> Population:
        """Return a generated population by its name (see `askance simulate --list`)."""
        return build(name, users, Seed.of(seed), parameters)

    @classmethod
    def from_columns(
        cls,
        schema: Schema,
        columns: Any,
        *,
        name: str = "columns",
        seed: int = 0,
        held_out: Rational = 0,
    ) -> Population:
        """Make a population of equally long columns (arrays, lists, a frame), one user per row.

        Args:
          schema: the schema of the records.
          columns: by name.
          name: what it is called.
          seed: of the rows that are held out.
          held_out: part of the rows that belong to no user, in [0, 1): a model's error is measured
            on them, beside that of a constant guess.

        Raises:
          InvalidParameter: no part is held out so, or it leaves no user.
          InvalidParameter: no columns by name (see `from_arrow`).
          InvalidRecord: a column that the schema does not have, or of another shape.
        """
        given = {name: _values(name, column) for name, column in columns_of_frame(columns)}
        people = narrowed(schema, encode_columns(schema, given))
        records = tables.TableRecords(name, schema, people)
        return population_of(records, Seed.of(seed), held_out=rational(held_out, "held_out"))

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
        most_outside: Rational = tables.MOST_OUTSIDE,
        categories: Collection[str] = (),
        held_out: Rational = 0,
    ) -> Population:
        """Make a population of a CSV file, or of a data set by its name (see `people_of`).

        Args:
          path: path of the file; or "census", the data set that ships with the package.
          schema: the schema of the records; None: inferred.
          label: field to be predicted; None: the only label.
          users: how many; None: one per row that is not held out.
          seed: of a sample of the rows, and of those that are held out.
          keep: names of columns that are not left out as identifiers.
          delimiter: the character between two cells: "," ";" "|" or a tab.
          most_outside: share of a field's values outside `schema` that is accepted, 0 .. 1.
          categories: names of columns whose values are labels, even if they are numbers.
          held_out: as of `from_columns`.

        Raises:
          InvalidRecord, InvalidParameter: the file or an argument is not of that form.
        """
        source = DataSource(Path(path), delimiter, rational(most_outside, "most_outside"))
        return people_of(
            source.records(),
            Seed.of(seed),
            schema=schema,
            label=label,
            size=users,
            held_out=rational(held_out, "held_out"),
            keep=keep,
            most_outside=source.most_outside,
            categories=categories,
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
        most_outside: Rational = tables.MOST_OUTSIDE,
        categories: Collection[str] = (),
        held_out: Rational = 0,
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
            held_out=rational(held_out, "held_out"),
            keep=keep,
            most_outside=rational(most_outside, "most_outside"),
            categories=categories,
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
        most_outside: Rational = tables.MOST_OUTSIDE,
        categories: Collection[str] = (),
        held_out: Rational = 0,
    ) -> Population:
        """Make a population of a frame, like a CSV file of these cells.

        `frame` is a frame or series of pandas, polars (lazy ones too), pyarrow or DuckDB, a dict of
        columns, or an array. A column of lists, bytes or other odd values is left out, and noted.
        `name` is the population's, and that of a schema that is inferred. The other arguments
        are as of `from_csv`.

        Raises:
          InvalidRecord, InvalidParameter: as of `from_csv`; pyarrow is not installed.
        """
        return people_of(
            frame_records(arrow_of(frame), Path(name)),
            Seed.of(seed),
            schema=schema,
            label=label,
            size=users,
            held_out=rational(held_out, "held_out"),
            keep=keep,
            most_outside=rational(most_outside, "most_outside"),
            categories=categories,
        )

    from_pandas = from_arrow


class SuitingUsers:
    """Maker of the users of a file by a schema that suits a question; it keeps those it has made.

    Where it is pickled, it is None: another process is sent users of a schema that is settled.

    Args:
      make: makes them from the question's rule and the columns that it names.
    """

    def __init__(self, make: Callable[[Suits, frozenset[str]], Population]) -> None:
        self._make = make
        self.made: dict[bytes, Population] = {}

    def schema(self, suits: Suits, columns: Collection[str]) -> Schema | None:
        """Return the schema that suits a question; None: there is none."""
        found = self._make(suits, frozenset(columns))
        if not suits(found.schema):
            return None
        self.made[found.schema.digest] = found
        return found.schema

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def _values(name: object, column: Any) -> Any:
    """Return a column of a frame as an array, and any other as it is."""
    if not hasattr(column, "__arrow_c_stream__"):
        return column
    try:
        return np.asarray(column)
    except Exception:  # of any library, with a value in its text perhaps
        raise InvalidParameter(
            f"columns: expected numbers, truth values or texts in {name!r:.80}, got values that"
            " cannot be read"
        ) from None


@plain_arguments
def people_of(
    people: Table | tables.Records,
    seed: Seed,
    *,
    schema: Schema | None = None,
    label: str | None = None,
    size: int | None = None,
    held_out: Fraction = Fraction(0),
    keep: Collection[str] = (),
    most_outside: Fraction = tables.MOST_OUTSIDE,
    categories: Collection[str] = (),
) -> Population:
    """Make a population of the rows of a table, one user per row.

    Users of an inferred schema may be made anew to suit a question (`Population.suiting`).

    Arguments and rules are as of `tables.records_of` and `tables.users_of`.
    """
    source = tables.TextColumns.of(people) if isinstance(people, Table) else people

    def make(suits: Suits | None, columns: frozenset[str]) -> Population:
        records = tables.records_of(
            source,
            schema=schema,
            label=label,
            keep={*keep, *columns},
            most_outside=most_outside,
            categories=categories,
            suits=suits,
        )
        return population_of(records, seed, size=size, held_out=held_out)

    found = make(None, frozenset())
    if schema is not None:
        return found
    suiting = SuitingUsers(make)
    return replace(found, schema=named_schema(found.schema, {}, suiting.schema), suiting=suiting)


def population_of(
    records: tables.TableRecords,
    seed: Seed,
    *,
    size: int | None = None,
    held_out: Fraction = Fraction(0),
) -> Population:
    """Make a population of the records of a table (see `tables.users_of`)."""
    users = tables.users_of(records, seed, size=size, held_out=held_out)
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
        column_notes=users.column_notes,
    )


@dataclass(frozen=True, slots=True)
class Change:
    """A change that any population can be given by `--set NAME=RATE`, as listed."""

    name: str
    summary: str


LABEL_NOISE = Change(
    "label-noise", "the chance with which each user's label is another one; the target stays"
)
DRIFT = Change(
    "drift",
    "the chance with which each user becomes, before each round but the first and for good, one of"
    " the same population of another seed",
)
CHANGES = (LABEL_NOISE, DRIFT)


def label_noise(
    population: Population, rate: Rational, seed: Seed, *, label: str | None = None
) -> Population:
    """Return the same users, each with another label in place of its own with chance `rate`.

    Args:
      population: users and their records.
      rate: in [0, 1].
      seed: root of all randomness.
      label: a field of type Label, Category or Bit; None: the only Label.
    """
    # The wrong label is uniform over the others. The population's target stays, and so do the
    # `unseen` records, by which a hypothesis is judged; a label that is missing stays missing.
    # Whose label is wrong is the same in every round. The chance is exact to 2^-64.
    chance, population = _chance(rate, LABEL_NOISE.name), population.of_one_schema()
    name = _label(population.schema, label)
    kind = population.schema.fields[name].type
    classes = kind.high + 1
    note = f"each user's {name} is another one with chance {chance}; the target is what it was"
    drift = population.drift

    def columns(start: int, stop: int) -> EncodedColumns:
        found = population.columns(start, stop)
        words = draws(seed, start, stop, 2)
        wrong = below(words[:, 0], chance)
        steps = 1 + (words[:, 1] % np.uint64(max(classes - 1, 1))).astype(np.int64)
        truth = np.asarray(found.values[name])
        wrong &= found.present[name]
        labels = np.where(wrong, (truth + steps) % classes, truth)
        return EncodedColumns({**found.values, name: labels}, found.present, found.rows)

    return replace(
        population,
        columns=columns,
        notes=(*population.notes, note),
        drift=None
        if drift is None
        else lambda number: label_noise(drift(number), chance, seed, label=name),
    )


def moving(population: Population, other: Population, rate: Rational, seed: Seed) -> Population:
    """Make users who become, for good, those of the same ordinal in another population.

    Args:
      population: users and their records.
      other: of the same schema, with as many users or more.
      rate: the chance to move before a round, in [0, 1].
      seed: root of all randomness.
    """
    # In round r, the first being 0, a user has moved with probability 1 - (1 - rate)^r, exact to
    # 2^-64. Each user's round is drawn once, so that a user who has moved stays so. The target and
    # the `unseen` records are the first population's, and a hypothesis is judged by those.
    chance, population = _chance(rate, DRIFT.name), population.of_one_schema()
    if other.schema.digest != population.schema.digest:
        raise InvalidParameter(
            f"{DRIFT.name}: expected a population of the schema {population.schema.name!r},"
            f" got {other.schema.name!r} with other fields"
        )
    if other.size < population.size:
        raise InvalidParameter(
            f"{DRIFT.name}: expected {population.size} users or more to become, got {other.size}"
        )
    note = (
        f"before each round but the first, each user's record became another with chance {chance}"
    )

    def in_round(number: int) -> Population:
        before, after = population.in_round(number), other.in_round(number)
        moved = 1 - (1 - chance) ** number

        def columns(start: int, stop: int) -> EncodedColumns:
            gone = below(draws(seed, start, stop, 1)[:, 0], moved)
            if not gone.any():
                return before.columns(start, stop)
            return _either(gone, after.columns(start, stop), before.columns(start, stop))

        return replace(before, columns=columns, notes=(*before.notes, note), drift=None)

    notes = (*population.notes, note)
    return replace(population, notes=notes, drift=in_round)


def changed(
    population: Population,
    settings: Mapping[str, str],
    seed: Seed,
    sibling: Callable[[Seed], Population] | None,
) -> Population:
    """Return a population with the changes that were asked for by name."""
    check_changes(settings, of_file=sibling is None)
    if DRIFT.name in settings and sibling is not None:
        other = sibling(seed / "other")
        population = moving(population, other, settings[DRIFT.name], seed / DRIFT.name)
    if LABEL_NOISE.name in settings:
        population = label_noise(population, settings[LABEL_NOISE.name], seed / LABEL_NOISE.name)
    return population


def check_changes(settings: Mapping[str, str], *, of_file: bool) -> None:
    """Check changes that are asked for by name."""
    known = [change.name for change in CHANGES]
    for name, rate in settings.items():
        if name not in known:
            raise unknown_name("--set", name, known)
        if name == DRIFT.name and of_file:
            raise InvalidParameter(
                f"{DRIFT.name}: expected a generated population, got a data file"
            )
        _chance(rate, name)


def _chance(rate: Rational, name: str) -> Fraction:
    chance = rational(rate, name)
    if not 0 <= chance <= 1:
        raise InvalidParameter(f"{name}: expected a chance in [0, 1], got {chance}")
    return chance


def _label(schema: Schema, name: str | None) -> str:
    """Return the label to be changed, with two values or more."""
    if name is None:
        found = [key for key, kind in schema.fields.items() if isinstance(kind, Label)]
        if len(found) != 1:
            raise InvalidParameter(
                f"{LABEL_NOISE.name}: expected a population with one label, got {len(found)}"
            )
        name = found[0]
    kind = schema.fields.get(name)
    if not isinstance(kind, Category | Bit) or kind.type.high < 1:
        raise InvalidParameter(
            f"{LABEL_NOISE.name}: expected a label of two values or more, got {name!r:.80}"
        )
    return name


def _either(which: NDArray[np.bool_], one: EncodedColumns, other: EncodedColumns) -> EncodedColumns:
    """Select each row from one or the other table."""

    def chosen(first: ColumnValue, second: ColumnValue) -> ColumnValue:
        if isinstance(first, tuple) and isinstance(second, tuple):
            pairs = zip(first, second, strict=True)
            return tuple(np.where(which, ours, theirs) for ours, theirs in pairs)
        return np.where(which, np.asarray(first), np.asarray(second))

    return EncodedColumns(
        {name: chosen(one.values[name], other.values[name]) for name in one.values},
        {name: np.where(which, one.present[name], other.present[name]) for name in one.present},
        one.rows,
    )
