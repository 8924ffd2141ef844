"""Changes of a population: wrong labels, and users whose records change.

Every change makes another population of the same users, schema and size, by random access: whose
label is wrong, and from which round on a user's record is another, is a function of the seed and
the ordinal. So changes can be combined, and every fleet sees the same users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import EncodedColumns
from askance_aggregator.queries.columns import ColumnValue
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Bit,
    Category,
    Label,
    Schema,
)
from askance_simulation.populations.columns import below, draws
from askance_simulation.randomness.seeds import Seed

if TYPE_CHECKING:
    from askance_simulation.populations.population import Population


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

    Which one is uniform over the others. What the population's target is stays, and so do the
    `unseen` records, by which a hypothesis is judged; a label that is missing stays missing. Whose
    label is wrong is the same in every round. The chance is exact to 2^-64.

    Args:
      population: users and their records.
      rate: in [0, 1].
      seed: root of all randomness.
      label: a field of type Label, Category or Bit; None: the only Label.

    Raises:
      InvalidParameter: a rate out of range, or no such field.
    """
    chance = _chance(rate, LABEL_NOISE.name)
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

    In round r, the first being 0, a user has moved with probability 1 - (1 - rate)^r, exact to
    2^-64. Each user's round is drawn once, so that a user who has moved stays so. The target and
    the `unseen` records are the first population's, and a hypothesis is judged by those.

    Args:
      population: users and their records.
      other: of the same schema, with as many users or more.
      rate: the chance to move before a round, in [0, 1].
      seed: root of all randomness.

    Raises:
      InvalidParameter: a rate out of range, or a population that does not fit.
    """
    chance = _chance(rate, DRIFT.name)
    if other.schema.digest != population.schema.digest:
        raise InvalidParameter(
            f"{DRIFT.name}: expected a population of the schema {population.schema.name!r},"
            f" got {other.schema.name!r} with other fields"
        )
    if other.size < population.size:
        raise InvalidParameter(
            f"{DRIFT.name}: expected {population.size} users or more to become, found {other.size}"
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

    return replace(population, notes=(*population.notes, note), drift=in_round)


def changed(
    population: Population,
    settings: Mapping[str, str],
    seed: Seed,
    sibling: Callable[[Seed], Population] | None,
) -> Population:
    """Return a population with the changes that were asked for by name.

    Args:
      population: users and their records.
      settings: a rate by the name of a change.
      seed: the population's.
      sibling: makes the same population from another seed; None: it can have none.

    Raises:
      InvalidParameter: a change that there is none of, or that it cannot be given.
    """
    known = [change.name for change in CHANGES]
    for name in settings:
        if name not in known:
            raise unknown_name("--set", name, known)
    if DRIFT.name in settings:
        if sibling is None:
            raise InvalidParameter(
                f"{DRIFT.name}: expected a generated population, got a data file"
            )
        other = sibling(seed / "other")
        population = moving(population, other, settings[DRIFT.name], seed / DRIFT.name)
    if LABEL_NOISE.name in settings:
        population = label_noise(population, settings[LABEL_NOISE.name], seed / LABEL_NOISE.name)
    return population


def _chance(rate: Rational, name: str) -> Fraction:
    chance = rational(rate, name)
    if not 0 <= chance <= 1:
        raise InvalidParameter(f"{name}: expected a chance in [0, 1], found {chance}")
    return chance


def _label(schema: Schema, name: str | None) -> str:
    """Return the label to be changed, with two values or more."""
    if name is None:
        found = [key for key, kind in schema.fields.items() if isinstance(kind, Label)]
        if len(found) != 1:
            raise InvalidParameter(
                f"{LABEL_NOISE.name}: expected a population with one label, found {len(found)}"
            )
        name = found[0]
    kind = schema.fields.get(name)
    if not isinstance(kind, Category | Bit) or kind.type.high < 1:
        raise InvalidParameter(
            f"{LABEL_NOISE.name}: expected a label of two values or more, found {name!r:.80}"
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
