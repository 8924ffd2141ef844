"""Users for all shares of a category: planned with beta / k for each cell, together, and needed.

For each number of cells and epsilon, tau = 1/20 and beta = 1/20:

- `each`: `best_for` with beta / k for each cell; `together`: the same randomizer, sized for all
  shares together (`planning.cells`); `plan`: the plan, which may take a larger set;
- `needed`: the least n from which on at most 5 % and 1 % of studies have a share that is off by
  tau or more, of the worst of five populations, by the law of each cell's count, cells taken as
  independent;
- `fail`, `fail .7`: the worst part of studies with such a share at the planned n and at .7 of it,
  measured in drawn tallies (of linear hashing: in counts drawn cell by cell);
- `cover`: the least part of studies whose intervals (95 %, joint) hold all shares; `within`: the
  mean of half the widest interval at the planned n, the greatest over populations.

    python benchmarks/cell_sizes.py [--quick] [--trials 400] [--seed 1]

Exit code 1: a plan fails more often than beta, or intervals cover less than 95 %, by more than four
standard errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from askance_aggregator.estimation import estimate
from askance_aggregator.families import best_for, family_of
from askance_aggregator.learners import Question
from askance_aggregator.planning import JointShares, candidates, tail_of
from askance_aggregator.queries import category
from askance_client.queries import Integer, Schema
from askance_client.randomizers import LinearHashing, Randomizer
from askance_simulation.counts import sample_levels, sample_tally

TAU, BETA = 0.05, 0.05
CELLS, EPSILONS = (2, 16, 64, 1000), ("0.25", "1", "4", "8")
QUICK_CELLS, QUICK_EPSILONS, QUICK_TRIALS = (16,), ("4",), 100
CLEAR = 4.0  # standard errors

Reals = NDArray[np.float64]


class Row(NamedTuple):
    """Figures of one number of cells and one epsilon."""

    cells: int
    epsilon: str
    each: int
    together: int
    planned: int
    needed_5: int
    needed_1: int
    failing: float
    failing_with_less: float
    covering: float
    within: float


def populations(cells: int) -> dict[str, Reals]:
    """Five populations: two halves, even, one cell, falling as 1 / rank, half evenly spread."""
    halves, one, spread = np.zeros((3, cells))
    halves[:2] = 0.5
    one[0] = 1.0
    spread[0] = 0.5
    spread[1:] = 0.5 / (cells - 1)
    ranks = 1 / np.arange(1, cells + 1)
    even = np.full(cells, 1 / cells)
    return {"halves": halves, "even": even, "one": one, "zipf": ranks / ranks.sum(), "half": spread}


def by_law(n: int, tail: JointShares, shares: Reals) -> float:
    """Compute the chance that a share is off by TAU or more, cells taken as independent."""
    distinct, numbers = np.unique(shares, return_counts=True)
    s, shift = tail.of_cell.low + distinct * tail.of_cell.gap, n * TAU * tail.of_cell.gap
    off = binom.sf(np.ceil(n * s + shift - 1e-9) - 1, n, s)
    off += binom.cdf(np.floor(n * s - shift + 1e-9), n, s)
    if tail.alike:
        return float(off.max())
    return float(-np.expm1((numbers * np.log1p(-np.minimum(off, 1 - 1e-12))).sum()))


def needed(tail: JointShares, most: int, chance: float) -> int:
    """Return the least n from which on the worst population fails with at most this chance."""
    laws = populations(tail.cells).values()
    steps = [most * step // 200 for step in range(200, 0, -1)]
    for n, fewer in pairwise(steps):
        if max(by_law(fewer, tail, law) for law in laws) > chance:
            for each in range(n, fewer, -max(1, (n - fewer) // 50)):
                if max(by_law(each, tail, law) for law in laws) > chance:
                    return each + 1
            return fewer + 1
    return 1


def draw(
    randomizer: Randomizer, shares: Reals, n: int, trials: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw tallies of n users of a population, shape (trials, cells)."""
    if isinstance(randomizer, LinearHashing):
        rates = family_of(randomizer).inclusion(0)
        assert rates is not None
        chances = float(rates.other) + shares * float(rates.own - rates.other)
        return rng.binomial(n, chances, size=(trials, len(shares)))
    return sample_tally(randomizer, sample_levels(shares, n, rng, trials), rng, trials)


def row(cells: int, epsilon: str, trials: int, rng: np.random.Generator) -> Row:
    """Compute and measure the figures of one row."""
    question = Question(category(Schema("s", 1, cell=Integer(0, cells - 1))["cell"]), "1/20")
    nano, users = int(float(epsilon) * 10**9), {}
    for offered in candidates(question, nano, best_for):
        tail = tail_of(question, offered)
        assert isinstance(tail, JointShares)
        users[tail.users(TAU, BETA / cells)] = (tail, offered)
    usual = tail_of(question, best_for(cells, nano))
    assert isinstance(usual, JointShares)
    each, together = usual.of_cell.users(TAU, BETA / cells), usual.users(TAU, BETA / cells)
    planned = min(users)
    tail, randomizer = users[planned]
    failing, covering, within = {1.0: 0.0, 0.7: 0.0}, 1.0, 0.0
    for shares in populations(cells).values():
        for part in failing:
            n = int(part * planned)
            answers = [
                estimate(question, randomizer, counts, n, BETA)
                for counts in draw(randomizer, shares, n, trials, rng)
            ]
            values, lows, highs = (
                np.array([getattr(answer, name) for answer in answers])
                for name in ("values", "lows", "highs")
            )
            off = (np.abs(values - shares) >= TAU - 1e-12).any(axis=1).mean()
            failing[part] = max(failing[part], float(off))
            held = ((lows <= shares + 1e-12) & (shares - 1e-12 <= highs)).all(axis=1).mean()
            covering = min(covering, float(held))
            if part == 1.0:
                within = max(within, float(((highs - lows).max(axis=1) / 2).mean()))
    least = [needed(tail, 2 * planned, chance) for chance in (0.05, 0.01)]
    return Row(
        cells,
        epsilon,
        each,
        together,
        planned,
        least[0],
        least[1],
        failing[1.0],
        failing[0.7],
        covering,
        within,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    trials = QUICK_TRIALS if options.quick else options.trials
    rng = np.random.default_rng(options.seed)
    print(
        "  cells  epsilon        each    together        plan  needed 5 %  needed 1 %   fail   .7"
        "  cover within"
    )
    missed = False
    for cells in QUICK_CELLS if options.quick else CELLS:
        for epsilon in QUICK_EPSILONS if options.quick else EPSILONS:
            found = row(cells, epsilon, trials, rng)
            print(
                f"{cells:>7} {epsilon:>8} {found.each:>11,} {found.together:>11,}"
                f" {found.planned:>11,} {found.needed_5:>11,} {found.needed_1:>11,}"
                f" {found.failing:>6.3f} {found.failing_with_less:>5.3f} {found.covering:>6.3f}"
                f" {found.within:.4f}",
                flush=True,
            )
            error = CLEAR * sqrt(BETA * (1 - BETA) / trials)
            missed |= found.failing > BETA + error or found.covering < 1 - BETA - error
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
