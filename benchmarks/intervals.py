"""Coverage of the stated intervals on populations that no design was made for.

Ten laws of a number and ten of a category; every trial draws its users anew, asks all of them and
compares with their own mean or shares. The intervals of a trial hold together: a trial counts only
if all of its intervals hold. Stated is a chance of .95; a rate must lie between .95 and .999, by
its exact binomial interval, in every row, where a row is one setting over all ten laws.

    python benchmarks/intervals.py [--quick] [--json] [--trials N] [--most-cells K]
                                   [--cells K ...] [--epsilons E ...] [--seed TEXT]

Exit code 1: a row's rate is, beyond doubt, outside.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta as beta_law

from askance_aggregator.learners import frequency, mean
from askance_aggregator.queries import category
from askance_aggregator.studies.study import Study
from askance_client.queries import Integer, Real, Schema
from askance_simulation.experiments import simulate
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed

Floats = NDArray[np.float64]

CONFIDENCE = "0.95"
LEAST, MOST = float(CONFIDENCE), 0.999
DOUBT = 1e-4  # a row is outside if its exact interval at this level is
EPSILONS = ("0.1", "0.7", "2.7", "9")
CELLS = (2, 3, 7, 63, 257, 1_000, 5_000)
MISSING = (0.0, 0.05, 0.4)
USERS = 6_000
TRIALS, QUICK_TRIALS = 40, 2  # of each law

NUMBERS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "near the lower end": lambda rng, n: 100 * rng.beta(0.3, 9.0, n),
    "near the upper end": lambda rng, n: 100 * rng.beta(12.0, 0.4, n),
    "both ends": lambda rng, n: 100 * rng.beta(0.1, 0.1, n),
    "one value off the grid": lambda _, n: np.full(n, 61.803),
    "two values": lambda rng, n: rng.choice([3.1, 97.7], n, p=[0.93, 0.07]),
    "many zeros": lambda rng, n: np.where(rng.random(n) < 0.8, 0.0, 100 * rng.random(n)),
    "heavy tail, cut": lambda rng, n: np.minimum(rng.pareto(1.1, n), 100.0),
    "log-normal, cut": lambda rng, n: np.minimum(rng.lognormal(2.5, 1.0, n), 100.0),
    "triangle": lambda rng, n: rng.triangular(0, 80, 100, n),
    "whole numbers": lambda rng, n: rng.poisson(7.0, n).clip(0, 100).astype(np.float64),
}
SHARES: dict[str, Callable[[int], Floats]] = {
    "alike": lambda k: np.ones(k),
    "one cell has all": lambda k: np.r_[np.ones(1), np.zeros(k - 1)],
    "the last cell has nine tenths": lambda k: np.r_[np.full(k - 1, 0.1 / (k - 1)), 0.9],
    "halving": lambda k: 0.5 ** np.minimum(np.arange(k), 60.0),
    "by rank to the power 3/2": lambda k: np.arange(1.0, k + 1) ** -1.5,
    "rising": lambda k: np.arange(1.0, k + 1),
    "half of the cells empty": lambda k: (np.arange(k) % 2 == 0) * 1.0,
    "two cells have all": lambda k: np.r_[np.ones(1), np.zeros(k - 2), np.ones(1)],
    "bell": lambda k: np.exp(-((np.arange(k) - k / 3) ** 2) / (2 * (1 + k / 10) ** 2)),
    "waves": lambda k: 1.0 + np.sin(np.arange(k)),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Coverage in one setting over all laws.

    Args:
        missing: share of users without a value, in the mean.
        cells: of a category; 0: a number.
        low: of the exact interval of the rate, at DOUBT.
        worst: the law with the least rate, and that rate.
    """

    learner: str
    epsilon: str
    cells: int
    missing: float
    trials: int
    rate: float
    low: float
    high: float
    worst: str

    @property
    def holds(self) -> bool:
        """True if the rate may be between the bounds."""
        return self.high >= LEAST and self.low <= MOST


def number_law(name: str, missing: float) -> Callable[[Seed], Population]:
    """Return the maker of users with a number between 0 and 100, or without one."""
    schema = Schema("intervals", 1, value=Real(0, 100, 16))

    def people(seed: Seed) -> Population:
        rng = np.random.default_rng(int.from_bytes(seed.key, "big"))
        values = NUMBERS[name](rng, USERS)
        values[rng.random(USERS) < missing] = np.nan
        return Population.from_columns(schema, {"value": values}, name=name)

    return people


def category_law(name: str, cells: int) -> Callable[[Seed], Population]:
    """Return the maker of users in one of so many cells, which have numbers and no labels."""
    schema = Schema("intervals", 1, value=Integer(0, cells - 1))
    shares = SHARES[name](cells)

    def people(seed: Seed) -> Population:
        rng = np.random.default_rng(int.from_bytes(seed.key, "big"))
        drawn = rng.choice(cells, USERS, p=shares / shares.sum())
        return Population.from_columns(schema, {"value": drawn}, name=name)

    return people


def measured(
    learner: str,
    epsilon: str,
    laws: dict[str, Callable[[Seed], Population]],
    trials: int,
    *,
    cells: int = 0,
    missing: float = 0.0,
    seed: str = "",
) -> Row:
    """Count the trials of all laws in which every interval holds."""
    held = {name: _held(learner, epsilon, law, trials, seed + name) for name, law in laws.items()}
    total, good = trials * len(laws), sum(held.values())
    low = beta_law.ppf(DOUBT / 2, good, total - good + 1) if good else 0.0
    high = beta_law.ppf(1 - DOUBT / 2, good + 1, total - good) if good < total else 1.0
    worst = min(held, key=lambda name: held[name])
    return Row(
        learner, epsilon, cells, missing, total, good / total, float(low), float(high),
        f"{worst}: {held[worst]} of {trials}",
    )  # fmt: skip


def _held(
    learner: str,
    epsilon: str,
    law: Callable[[Seed], Population],
    trials: int,
    name: str,
) -> int:
    """Count the trials of one law, which `name` seeds, in which every interval holds."""

    def study(people: Population) -> Study:
        asked = people.schema["value"]
        made = mean(asked) if learner == "mean" else frequency(category(asked))
        return Study(made, people.schema, epsilon=epsilon, confidence=CONFIDENCE)

    seed = int.from_bytes(f"{learner} {epsilon} {name}".encode(), "big")
    done = simulate(study, law, fleet="columns", trials=trials, seed=seed, workers=1)
    return sum(trial.assessment.success is True for trial in done.trials)


def rows(
    trials: int,
    missing_shares: Sequence[float],
    cells: Sequence[int],
    epsilons: Sequence[str],
    seed: str = "",
) -> Iterator[Row]:
    """Measure every setting: means by share of users without a value, then shares of cells."""
    for missing in missing_shares:
        for epsilon in epsilons:
            numbers = {name: number_law(name, missing) for name in NUMBERS}
            yield measured("mean", epsilon, numbers, trials, missing=missing, seed=seed)
    for many in cells:
        for epsilon in epsilons:
            shares = {name: category_law(name, many) for name in SHARES}
            yield measured("frequency", epsilon, shares, trials, cells=many, seed=seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few trials and at most 63 cells")
    parser.add_argument("--most-cells", type=int, default=CELLS[-1], help="leave out more cells")
    parser.add_argument("--cells", type=int, nargs="+", choices=CELLS, help="these, no means")
    parser.add_argument("--epsilons", nargs="+", choices=EPSILONS, default=EPSILONS)
    parser.add_argument("--trials", type=int, help=f"of each law ({TRIALS})")
    parser.add_argument("--seed", default="", help="a text; another one draws other trials")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    trials = given.trials or (QUICK_TRIALS if given.quick else TRIALS)
    most = 63 if given.quick else given.most_cells
    cells = given.cells or [many for many in CELLS if many <= most]
    missing = () if given.cells else MISSING
    table = []
    if not given.json:
        print("learner    epsilon  cells  missing  trials   rate  interval        worst law")
    for row in rows(trials, missing, cells, given.epsilons, given.seed):
        table.append(row)
        if not given.json:
            sign = "" if row.holds else "  OUTSIDE"
            print(
                f"{row.learner:<10} {row.epsilon:>7} {row.cells or '':>6} {row.missing:>8.2f}"
                f" {row.trials:>7} {row.rate:>6.4f}  {row.low:.4f}..{row.high:.4f}"
                f"  {row.worst}{sign}",
                flush=True,
            )
    if given.json:
        print(json.dumps([asdict(row) | {"holds": row.holds} for row in table]))
    return 0 if all(row.holds for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
