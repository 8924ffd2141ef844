"""The cells of a grid, each with seeds of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from askance_client.accounting import NANO_NATS_PER_NAT, parse_epsilon
from askance_client.errors import InvalidParameter
from askance_simulation.experiments.catalogue import BEST, Named, named
from askance_simulation.populations import DataSource

Value = str | int | float | Decimal | Fraction
Grid = Mapping[str, Any]
"""Values by name, one or several: `epsilon`, `users`, `beta`, `randomizer`, and parameters."""

_SEED_BYTES = 8  # less the top bit, so that tables of 64-bit numbers can hold it


@dataclass(frozen=True, slots=True)
class SweepPopulation:
    """Population of all cells, unless a learner brings its own (see `named`).

    Args:
      digest: of the files' names and bytes, so that a sweep is the same in whichever folder they
        lie, and another one when they have changed; empty where there are none.
    """

    population: str | None = None
    data: DataSource | None = None
    schema: Path | None = None
    label: str | None = None
    digest: str = ""

    @classmethod
    def of(
        cls,
        population: str | None,
        data: DataSource | Path | str | None,
        schema: Path | None,
        label: str | None,
    ) -> SweepPopulation:
        """Make the value, with the digest of its files."""
        source = None if data is None else DataSource.of(data)
        files = [source, None if schema is None else DataSource(schema)]
        if files == [None, None]:
            return cls(population, source, schema, label)
        whole = hashlib.sha256()
        for file in files:
            if file is not None:
                whole.update(file.fingerprint())
        return cls(population, source, schema, label, f"sha256:{whole.hexdigest()}")


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of a grid: one combination of its settings.

    Args:
      epsilon: each user's budget in nats, as a decimal in lowest terms.
      beta: the same.
      users: how many; None: as many as the data have rows.
      randomizer: by its name in `DESIGNS`.
      settings: text by name, sorted, for the learner and a generated population.
    """

    learner: str
    epsilon: str
    beta: str
    users: int | None
    randomizer: str
    settings: tuple[tuple[str, str], ...]
    people: SweepPopulation

    @property
    def digest(self) -> str:
        """Names the cell by what it is, not by its place in a grid."""
        told = {
            "learner": self.learner,
            "epsilon": self.epsilon,
            "beta": self.beta,
            "users": self.users,
            "randomizer": self.randomizer,
            "settings": dict(self.settings),
            "population": self.people.population,
            "data": self.people.digest,
            "label": self.people.label,
        }
        text = json.dumps(told, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def seed(self, sweep: int, trial: int) -> int:
        """Return the seed with which `simulate` runs this trial of this cell, as its trial 0."""
        text = f"askance sweep v1 {sweep} {self.digest} {trial}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_SEED_BYTES], "big") >> 1

    def __str__(self) -> str:
        """Format the cell in a few words, for errors."""
        users = "" if self.users is None else f", {self.users:,} users"
        settings = "".join(f", {name}={value}" for name, value in self.settings)
        return f"{self.learner} at epsilon {self.epsilon}{users}{settings} ({self.randomizer})"


Making = Callable[[Cell], Named]
"""Makes a cell's study; its `__name__` is the learner's in rows and seeds. In another process it
is imported anew, so it has to stand at the top of a module."""


def by_name(cell: Cell) -> Named:
    """Return the study of a cell whose learner is in the catalogue."""
    return named(
        cell.learner,
        epsilon=cell.epsilon,
        beta=cell.beta,
        users=cell.users,
        settings=dict(cell.settings),
        population=cell.people.population,
        data=cell.people.data,
        schema=cell.people.schema,
        label=cell.people.label,
        randomizer=cell.randomizer,
    )


def cells_of(learners: Iterable[str], grid: Grid, people: SweepPopulation) -> tuple[Cell, ...]:
    """Return the product over learners and all of a grid's names, each cell once."""
    if "epsilon" not in grid:
        raise InvalidParameter("grid: expected values of epsilon, got none")
    axes = {name: _values(name, values) for name, values in grid.items()}
    cells: dict[Cell, None] = {}
    for learner in learners:
        for point in product(*axes.values()):
            at = dict(zip(axes, point, strict=True))
            cells[_cell(learner, at, people)] = None
    if not cells:
        raise InvalidParameter("learner: expected one or more, got none")
    return tuple(cells)


def _values(name: str, values: Value | Iterable[Value]) -> list[Value]:
    if isinstance(values, str | Fraction | Decimal) or not isinstance(values, Iterable):
        return [values]
    found = list(values)
    if not found:
        raise InvalidParameter(f"grid: expected values of {name}, got none")
    return found


def _cell(learner: str, at: Mapping[str, Value], people: SweepPopulation) -> Cell:
    """Normalize numbers: equal ones make the same cell, however they are written."""
    settings = {name: str(value) for name, value in at.items() if name not in _OWN}
    own = {name: read(at.get(name)) for name, read in _OWN.items()}
    return Cell(learner, settings=tuple(sorted(settings.items())), people=people, **own)


def _epsilon(value: Value | None) -> str:
    exact = value if isinstance(value, Fraction) else str(value)  # .1 is a tenth
    return _decimal(Fraction(parse_epsilon(exact), NANO_NATS_PER_NAT))


def _beta(value: Value | None) -> str:
    text = "0.01" if value is None else str(value)
    try:
        chance = Fraction(text)
    except (ValueError, ZeroDivisionError):
        chance = Fraction(0)
    if not 0 < chance < 1:
        raise InvalidParameter(f"beta: expected a number between 0 and 1, got {text!r}")
    return str(chance)


def _users(value: Value | None) -> int | None:
    if value is None:
        return None
    try:
        number = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        number = Fraction(0)
    if number < 1 or number.denominator != 1:
        raise InvalidParameter(f"users: expected a whole number of 1 or more, got {value!r}")
    return int(number)


def _randomizer(value: Value | None) -> str:
    return BEST if value is None else str(value)


def _decimal(number: Fraction) -> str:
    """Format whole nano-nats, without trailing zeros."""
    return f"{Decimal(number.numerator) / number.denominator:f}"


_OWN: Mapping[str, Callable[[Value | None], Any]] = MappingProxyType(
    {"epsilon": _epsilon, "beta": _beta, "users": _users, "randomizer": _randomizer}
)
