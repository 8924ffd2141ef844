"""Studies and populations by name and text, as the command line and a study's file give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from askance_aggregator import names
from askance_aggregator.families import best_for, k_ary_response, linear_hashing, subset_selection
from askance_aggregator.learners import Learner, LearnerEntry, canonical_text, find
from askance_aggregator.numbers import (
    plain_arguments,
    read_nano_nats,
    read_probability,
    whole_count,
)
from askance_aggregator.planning import Design
from askance_aggregator.studies.study import Epsilon, Study
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.messages import Conduct
from askance_client.queries import Schema
from askance_simulation import populations
from askance_simulation.populations.population import build, entry
from askance_simulation.populations.tables import TableRecords
from askance_simulation.randomness import Seed

BEST = "best"
DESIGNS: Mapping[str, Design] = MappingProxyType(
    {
        BEST: best_for,
        "k-ary-response": k_ary_response,
        "subset-selection": subset_selection,
        "linear-hashing": linear_hashing,
    }
)
"""Designs by name; "best" is a study's default."""


def design(name: str) -> Design:
    """Return the design of that name."""
    if name not in DESIGNS:
        raise names.unknown_name("randomizer", name, DESIGNS)
    return DESIGNS[name]


_EXPLAINED = 5  # columns in an error
_READER = populations.RecordReader()  # the trials of a process share their file's records
_HELD_OUT = Fraction(1, 5)  # of a file's rows, for learners that are judged by such rows


@dataclass(frozen=True, slots=True)
class Named:
    """A study that is made for a population, and how to make the population from a seed.

    Example:
        >>> made = ask.named("frequency", epsilon=2, users=3_000)
        >>> people = made.people(ask.Seed.of(0))
        >>> made.study(people)
        <Study: frequency of category, epsilon 2, schema categories>
    """

    study: Callable[[populations.Population], Study]
    people: Callable[[Seed], populations.Population]


@plain_arguments
def named(
    learner: str,
    *,
    epsilon: Epsilon,
    beta: Epsilon = "0.01",
    delta: Epsilon | None = None,
    users: int | None = None,
    settings: Mapping[str, str] | None = None,
    population: str | None = None,
    data: populations.DataSource | Path | str | None = None,
    schema: Path | None = None,
    label: str | None = None,
    categories: Collection[str] = (),
    randomizer: str = BEST,
    waves: int = 1,
    least_answers: int = 0,
) -> Named:
    """Make the study of a learner by its name.

    Args:
      learner: the learner's name.
      epsilon: nats per user.
      beta: failure probability.
      delta: at which charges are composed, for the result; None: they are summed only.
      users: how many; None with `data`: one a row. A learner whose error is measured on rows of
        which no user was asked leaves a fifth of the rows out.
      settings: text by name, for the learner and for a generated population; a rate by the name of
        one of `CHANGES`, for any population.
      population: a generated population's name; None: the learner's own.
      data: a CSV or Parquet file instead, or the name of a data set that ships with the package
        (`DATA_SETS`); or a `DataSource`, which says how the file is read. A column that looks
        like an identifier is left out unless a setting names it (see `people_of`).
      schema: a TOML file with the schema of `data`; None: inferred.
      label: the column of `data` that is to be predicted; None: the schema's.
      categories: the columns of `data` whose values are labels, even if they are numbers.
      randomizer: which one answers, by its name in `DESIGNS`.
      waves: in how many parts the users of a round are asked, see `Study`.
      least_answers: in every group of a round, see `Study`.

    Raises:
      InvalidParameter: a name or a setting that there is none of, or no users.

    Example:
      >>> ask.named("mean", epsilon=2, users=3_000).people(ask.Seed.of(0)).size
      3000
    """
    chosen, designed = find(learner), design(randomizer)
    whole_count(users, "users")
    given = {name: canonical_text(value) for name, value in (settings or {}).items()}
    changes = {one.name: given.pop(one.name) for one in populations.CHANGES if one.name in given}
    is_of_file = schema is not None or label is not None or bool(categories)
    _check_source(data is not None, population is not None, is_of_file=is_of_file)
    if data is None:
        people = _changing(_generated(chosen, population, users, given), changes)
    else:
        chosen.check(given)  # before a file is read, which may take long
        _check_numbers(epsilon, beta, delta, waves, changes)
        people = _in_file(chosen, given, data, schema, label, categories, users, changes)
    make = partial(
        Study,
        epsilon=epsilon,
        beta=beta,
        delta=delta,
        design=designed,
        waves=waves,
        least_answers=least_answers,
    )
    return Named(_NamedStudy(chosen, given, make), people)


@dataclass(frozen=True, slots=True)
class _NamedStudy:
    """Maker of a learner's study, by the learner's name and settings, for a population."""

    learner: LearnerEntry
    settings: Mapping[str, str]
    make: Callable[[Learner[Any], Schema], Study]

    def __call__(self, population: populations.Population) -> Study:
        try:
            made = self.learner.build(population.schema, self.settings)
        except InvalidParameter as error:
            raise explained(error, population, _named_in(self.settings)) from None
        return self.make(made, population.schema)


def _check_source(has_data: bool, has_population: bool, *, is_of_file: bool) -> None:
    """Refuse users of two sources, and what is of a file without one."""
    if is_of_file and not has_data:
        raise InvalidParameter("expected a data file with schema, label or categories, got none")
    if has_data and has_population:
        raise InvalidParameter("expected a population or a data file, got both")


def _check_numbers(
    epsilon: Epsilon,
    beta: Epsilon,
    delta: Epsilon | None,
    waves: int,
    changes: Mapping[str, str],
) -> None:
    populations.check_changes(changes, of_file=True)
    read_nano_nats(epsilon)
    Conduct(read_probability(beta, "beta"), waves=waves)
    if delta is not None:
        read_probability(delta, "delta")


@dataclass(frozen=True, slots=True)
class FileUsers:
    """Maker of the users in a data file.

    It is pickled with the records that it has read: another machine may not have the file. A `size`
    of None is one user per row.
    """

    read: Callable[[], TableRecords]
    size: int | None
    held_out: Fraction
    changes: Mapping[str, str]

    def __call__(self, seed: Seed) -> populations.Population:
        found = populations.population_of(self.read(), seed, size=self.size, held_out=self.held_out)
        return populations.changed(found, self.changes, seed, None)

    def __reduce__(self) -> tuple[object, ...]:
        return _with_records, (self.read(), self.size, self.held_out, self.changes)


@dataclass(frozen=True, slots=True)
class _Suits:
    """Rule of a learner with its settings: true of a schema for which it can be made."""

    learner: str
    settings: tuple[tuple[str, str], ...]

    def __call__(self, schema: Schema) -> bool:
        try:
            find(self.learner).build(schema, dict(self.settings))
        except (InvalidParameter, InvalidQuery):
            return False
        return True


def _with_records(
    records: TableRecords, size: int | None, held_out: Fraction, changes: Mapping[str, str]
) -> FileUsers:
    return FileUsers(lambda: records, size, held_out, changes)


def _named_in(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the names among the settings' texts: a column that is named is not left out."""
    return frozenset(
        name for text in settings.values() for name in (text.strip(), *names.names_in(text))
    )


_OFFERED = re.compile(r"expected one of the fields .*, (?=got )")  # names that are not asked about


def explained(
    error: InvalidParameter, population: populations.Population, asked: Collection[str]
) -> InvalidParameter:
    """Return the error with what is known of the columns that it is about.

    They are those asked about that the error names, else, if no column suits the learner, all. A
    file without a line of names is said to be one.
    """
    types = population.column_types
    called = (names.field_called(name, types) for name in sorted(asked))
    named = [name for name in called if name in types]
    said = str(error)
    about = _OFFERED.sub("", said)
    columns = [name for name in named if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", about)]
    if not columns and isinstance(error, names.NoSuitableColumn):
        columns = list(types)[:_EXPLAINED]
    reasons = "; ".join(f"{name}: {types[name]}" for name in columns)
    more = f"; in the file, {reasons}" if reasons else ""
    more += "".join(f"; {line}" for line in population.column_notes.odd_lines)
    told = names.names_of(population.schema).in_text(f"{error}{more}")
    return error if told == said else InvalidParameter(told)


def _in_file(
    learner: LearnerEntry,
    given: Mapping[str, str],
    data: populations.DataSource | Path | str,
    schema: Path | None,
    label: str | None,
    categories: Collection[str],
    users: int | None,
    changes: Mapping[str, str],
) -> Callable[[Seed], populations.Population]:
    """Return the maker of a data file's users; the arguments are those of `named`."""
    read = partial(
        _READER.read,
        populations.DataSource.of(data),
        None if schema is None else names.named_schema_from_toml(schema),
        label,
        _named_in(given),
        frozenset(categories),
        _Suits(learner.name, tuple(given.items())),
    )
    return FileUsers(read, users, _HELD_OUT if learner.held_out else Fraction(0), changes)


def _changing(
    home: Callable[[Seed], populations.Population], changes: Mapping[str, str]
) -> Callable[[Seed], populations.Population]:
    """Return the maker of the same users with changes."""
    return lambda seed: populations.changed(home(seed), changes, seed, home)


def _generated(
    learner: LearnerEntry, population: str | None, users: int | None, given: dict[str, str]
) -> Callable[[Seed], populations.Population]:
    """Return the maker of a generated population; takes its own settings out of `given`."""
    name = population or learner.population
    if name is None:
        raise InvalidParameter(f"{learner.name}: expected a population or a data file, got neither")
    if users is None:
        raise InvalidParameter("expected a number of users, got none")
    size, home = users, name
    keys = [key for key, _ in entry(home).parameters]
    own = {key: _whole(key, given.pop(key)) for key in keys if key in given}
    return lambda seed: build(home, size, seed, own)


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"{name}: expected a whole number, got {text!r}") from None
