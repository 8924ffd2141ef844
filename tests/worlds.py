"""Small worlds to learn about, one a learner, and every oracle over each of them.

The distribution is uniform on the rows of a world, so that what is promised can be held against
the truth exactly. Adversaries are off by almost tau wherever that hurts. A learner's settings are
those of its catalogue entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from askance_aggregator import oracles
from askance_aggregator.learners import Learner, find
from askance_aggregator.queries import EncodedColumns
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Label
from askance_simulation.experiments.catalogue import named
from askance_simulation.experiments.trials import local_oracle
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededWords

ROWS = 2_000
FAILURE = 1e-6
"""The chance that an oracle that draws is not valid."""
ETA = Fraction(1, 10)
"""The part of labels that the noisy oracle sees flipped."""

Opened = Callable[["World"], AbstractContextManager[oracles.Oracle]]
"""Opens an oracle over a world's distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A learner, and the rows that it learns about."""

    learner: Learner[Any]
    people: Population
    rows: EncodedColumns

    def drawn(self, seed: int) -> Callable[[int], EncodedColumns]:
        """Return a sampler of fresh rows of the distribution."""
        rng = np.random.default_rng(seed)
        return lambda count: self.rows.take(rng.integers(0, len(self.rows), count))

    def exact(self) -> oracles.ExactOracle:
        """Compute the expectations over its rows."""
        return oracles.ExactOracle(self.people.schema, self.rows)

    @property
    def label(self) -> str | None:
        """The label, if it has two values."""
        kinds = self.people.schema.fields.items()
        found = [name for name, kind in kinds if isinstance(kind, Label) and len(kind.labels) == 2]
        return found[0] if found else None


@cache
def world(name: str) -> World:
    """Return the world of the learner of that name."""
    made = named(name, epsilon=1, users=ROWS, settings=find(name).small.oracles)
    people = made.people(Seed.of(3))
    rows = people.columns(0, ROWS)
    if name == "masked-parity":  # its tolerance is for the uniform distribution: each point once
        points = np.stack([*rows.values["x"], *(rows.values[key] for key in ("i", "b"))])
        rows = rows.take(np.unique(points, axis=1, return_index=True)[1])
    return World(made.study(people).learner, people, rows)


def _noisy(of: World) -> oracles.Oracle:
    """Return rows of which one in ten has the other label."""
    label, draw, rng = of.label, of.drawn(5), np.random.default_rng(6)
    if label is None:
        raise InvalidParameter(f"{of.learner.name}: expected a label of two values, got none")

    def sampler(count: int) -> EncodedColumns:
        rows = draw(count)
        flipped = np.asarray(rows.values[label]) ^ (rng.random(count) < float(ETA))
        return EncodedColumns({**rows.values, label: flipped}, rows.present, count)

    return oracles.ClassificationNoiseOracle(sampler, of.people.schema, label, ETA, FAILURE)


def _local(fleet: str) -> Opened:
    """Make a fleet with as many devices as the plan needs."""

    @contextmanager
    def opened(of: World) -> Iterator[oracles.Oracle]:
        study = Study(of.learner, of.people.schema, epsilon="8", beta=str(FAILURE))
        users = study.plan().users_needed
        columns = of.drawn(7)(users)
        people = Population(
            "drawn", of.people.schema, users, lambda start, stop: columns.take(slice(start, stop))
        )
        with local_oracle(study, people, fleet=fleet, seed=Seed.of(8)) as oracle:
            yield oracle

    return opened


def _plain(make: Callable[[World], oracles.Oracle]) -> Opened:
    @contextmanager
    def opened(of: World) -> Iterator[oracles.Oracle]:
        yield oracles.CheckedOracle(make(of))

    return opened


ORACLES: Mapping[str, Opened] = MappingProxyType(
    {
        "exact": _plain(lambda of: of.exact()),
        "empirical": _plain(lambda of: oracles.EmpiricalOracle(of.drawn(1), FAILURE)),
        "lazy": _plain(lambda of: oracles.LazyOracle(of.exact(), oracles.CentreOracle())),
        "wrong side": _plain(lambda of: oracles.WrongSideOracle(of.exact())),
        "random signs": _plain(
            lambda of: oracles.RandomSignOracle(of.exact(), SeededWords(Seed.of(2)))
        ),
        "noisy labels": _plain(_noisy),
        "central": _plain(
            lambda of: oracles.CentralOracle(
                of.drawn(4)(300_000), "4", SeededWords(Seed.of(4)), FAILURE
            )
        ),
        "local, objects": _local("objects"),
        "local, columns": _local("columns"),
    }
)
"""Oracles by name; "noisy labels" needs a world with a label of two values."""
