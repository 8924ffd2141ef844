"""Plans beside what is possible: means beside the dual's bound, shares of cells beside sets.

    python benchmarks/randomizers.py --only limits

Means: n x variance of the plan for a sample's mean (objective `conditional`) over the bound that
the plan prints, at epsilons from .01 to 16 in equal ratios. Shares: n x variance of the randomizer
that a plan takes over that of subset selection at its best size, the worst over epsilons, for
numbers of cells from 2 to 1,000,000.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from randomizer_cells import optimum

from askance_aggregator.families import best_for, family_of
from askance_aggregator.learners import Batch, Question, SampleMean
from askance_aggregator.planning import plan_batch, randomizer_text
from askance_aggregator.queries import real
from askance_client.queries import Real, Schema

NAT = 10**9
LEAST_EPS, MOST_EPS = 0.01, 16.0
CELLS = (2, 3, 5, 10, 33, 64, 129, 256, 257, 400, 401, 450, 520, 700, 1024, 2000, 4096)
MANY_CELLS = (10_000, 30_000, 65_535, 65_536, 100_000, 262_144, 1_000_000)
_BETA = 0.01


@dataclass(frozen=True, slots=True)
class MeanLimit:
    """A plan for a sample's mean, and the bound that it prints.

    Args:
        figure: n x variance, of a number in [-1, 1].
        limit: what no randomizer of this epsilon is below; None where none was proved.
    """

    eps: float
    randomizer: str
    figure: float
    limit: float | None

    @property
    def ratio(self) -> float | None:
        """The figure over the limit."""
        return None if self.limit is None else self.figure / self.limit


@dataclass(frozen=True, slots=True)
class CellLimit:
    """The worst epsilon for the shares of k cells.

    Args:
        ratio: n x variance over subset selection's at its best size.
    """

    k: int
    eps: float
    randomizer: str
    ratio: float


def mean_limits(count: int) -> Iterator[MeanLimit]:
    """Plan a mean at `count` epsilons from .01 to 16."""
    schema = Schema("number", 1, number=Real(-1, 1))
    question = Question(real(schema["number"]), aim=SampleMean())
    for eps in np.geomspace(LEAST_EPS, MOST_EPS, count).tolist():
        planned = plan_batch(Batch([question]), round(eps * NAT), _BETA)
        (randomizer,) = planned.randomizers
        yield MeanLimit(eps, randomizer, planned.n_variance, planned.n_variance_limit)


def cell_limits(sizes: tuple[int, ...], count: int) -> Iterator[CellLimit]:
    """Find the worst of `count` epsilons from .01 to 16 and of some about 1.04, for each size."""
    between = np.arange(0.98, 1.1, 0.02)  # between the moduli 3 and 5
    every = np.concatenate([np.geomspace(LEAST_EPS, MOST_EPS, count), between]).tolist()
    for k in sizes:
        rows = []
        for eps in every:
            randomizer = best_for(k, round(eps * NAT))
            figure = float(family_of(randomizer).frequency_variance())
            rows.append(CellLimit(k, eps, randomizer_text(randomizer), figure / optimum(k, eps)))
        yield max(rows, key=lambda row: row.ratio)
