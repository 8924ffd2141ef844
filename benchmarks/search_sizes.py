"""Users for a median by search: planned before and now, failures at the plan and below it.

A median in 64 cells, tau = 1/20 and beta = 1/20, with no value missing and with 30 % missing
(`present` .7). For each epsilon:

- `halved`: the plan that halves ranges, with every answer within tau; `now`: a study's plan;
- `fail`, and at .7, .5 and .35 of the planned users: the worst part of searches whose cell is off
  by tau or more in rank, over five populations, in drawn tallies;
- `cover`: the least part of searches whose cell is within its stated distance (95 %).

Then heavy hitters of 16 bits (threshold 1/10, tau = 1/20, beta = 1/20): the plan of six bits a
round, and a study's.

    python benchmarks/search_sizes.py [--quick] [--trials 400] [--seed 1]

Exit code 1: a plan fails more often than beta, or stated distances hold in less than 95 %, by more
than four standard errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation import estimate
from askance_aggregator.learners import Answer, Batch, Learner, heavy_hitters, quantiles
from askance_aggregator.planning import RoundPlan, StudyPlan, plan
from askance_aggregator.queries import encode_columns, evaluate_columns
from askance_aggregator.studies.study import Study
from askance_client.queries import Bits, Integer, QueryKind, Schema
from askance_simulation.counts import sample_levels, sample_tally

CELLS, TAU, BETA = 64, 0.05, 0.05
EPSILONS, PARTS = ("0.25", "1", "4", "8"), (1.0, 0.7, 0.5, 0.35)
QUICK_EPSILONS, QUICK_TRIALS = ("4",), 60
CLEAR = 4.0  # standard errors
ROUNDS = 6  # at most: the chance that an interval misses is divided over them
SCHEMA = Schema("s", 1, n=Integer(0, CELLS - 1))
RECORDS = encode_columns(SCHEMA, {"n": np.array([*range(CELLS), None], dtype=object)})

Reals = NDArray[np.float64]


class Row(NamedTuple):
    """Figures of one epsilon and share of missing values."""

    epsilon: str
    missing: float
    halved: int
    now: int
    failing: tuple[float, ...]
    covering: float


def populations(missing: float) -> dict[str, Reals]:
    """Five populations by cell, and who have no value: even, a jump, a gap, a few cells, skewed."""
    places = np.arange(CELLS)
    jump, gap, few = np.zeros((3, CELLS))
    jump[[0, 21, CELLS - 1]] = 0.5 - TAU, 2 * TAU, 0.5 - TAU  # all cuts are tau off the median
    gap[[10, 50]] = 0.5 + TAU, 0.5 - TAU
    few[[20, 21, 22]] = 0.3, 0.4, 0.3
    skewed = 0.8**places
    laws = {"even": np.ones(CELLS), "jump": jump, "gap": gap, "few": few, "skewed": skewed}
    return {name: np.append(law / law.sum() * (1 - missing), missing) for name, law in laws.items()}


def drawn(
    batch: Batch, planned: RoundPlan, shares: Reals, part: float, rng: np.random.Generator
) -> Iterator[Answer]:
    """Answer a batch by tallies of a part of the planned users."""
    for question, group in zip(batch.questions, planned.groups, strict=True):
        values = np.asarray(evaluate_columns(question.query, RECORDS))
        if question.query.kind is QueryKind.REAL:
            above = (values - question.query.low) / (question.query.high - question.query.low)
            levels = np.array([shares @ (1 - above), shares @ above])
        else:
            levels = np.bincount(values, shares, group.randomizer.levels)
        n = max(round(group.users * part), 1)
        counts = sample_tally(
            group.randomizer, sample_levels(levels / levels.sum(), n, rng, 1), rng, 1
        )
        each = (1 - 0.95) * question.values / sum(item.values for item in batch.questions)
        yield estimate(question, group.randomizer, counts[0], n, each / ROUNDS)


def search(
    learner: Learner[Any], made: StudyPlan, shares: Reals, part: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Run one search; return how far off the cell's ranks the median is, and what is stated."""
    run, place = learner.run(), 0
    batch = next(run)
    try:
        while True:
            answers = tuple(drawn(batch, made.rounds[place], shares, part, rng))
            batch, place = run.send(answers), place + 1
    except StopIteration as end:
        (item,) = end.value.quantiles
    ranks = np.cumsum(shares[:-1]) / shares[:-1].sum()
    cell = int(item.low)
    below, up_to = (ranks[cell - 1] if cell else 0.0), ranks[cell]
    return max(below - 0.5, 0.5 - up_to, 0.0), item.within


def row(epsilon: str, missing: float, trials: int, rng: np.random.Generator) -> Row:
    """Compute and measure the figures of one row."""
    present = Fraction(round(100 * (1 - missing)), 100)
    given = quantiles(SCHEMA, "n", steps=CELLS, tau=str(TAU), present=present)
    study = Study(given, SCHEMA, epsilon=epsilon, beta=str(BETA))
    made = study.plan()
    learner = study.settled(made.users_needed)
    failing, covering = [], 1.0
    for part in PARTS:
        worst = 0.0
        for shares in populations(missing).values():
            found = [search(learner, made, shares, part, rng) for _ in range(trials)]
            off, stated = np.array(found).T
            worst = max(worst, float((off >= TAU - 1e-9).mean()))
            covering = min(covering, float((off <= stated + 1e-9).mean()))
        failing.append(worst)
    halved = plan(given, int(float(epsilon) * 10**9), BETA).users_needed
    return Row(epsilon, missing, halved, made.users_needed, tuple(failing), covering)


def hitters(epsilon: str) -> tuple[int, int]:
    """Plan heavy hitters of 16 bits: by six bits a round, and as a study leaves it open."""
    schema = Schema("s", 1, word=Bits(16))
    six = heavy_hitters(schema, "word", "1/10", 6, "1/20")
    study = Study(
        heavy_hitters(schema, "word", "1/10", tau="1/20"), schema, epsilon=epsilon, beta=str(BETA)
    )
    return plan(six, int(float(epsilon) * 10**9), BETA).users_needed, study.plan().users_needed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    trials = QUICK_TRIALS if options.quick else options.trials
    rng = np.random.default_rng(options.seed)
    broken = False
    parts = "".join(f"{f'fail {part}':>10}" for part in PARTS)
    print(f"{'epsilon':>8}{'missing':>8}{'halved':>10}{'now':>10}{parts}{'cover':>8}")
    for epsilon in QUICK_EPSILONS if options.quick else EPSILONS:
        for missing in (0.0, 0.3):
            found = row(epsilon, missing, trials, rng)
            told = "".join(f"{chance:>10.4f}" for chance in found.failing)
            print(
                f"{epsilon:>8}{missing:>8.1f}{found.halved:>10,}{found.now:>10,}{told}"
                f"{found.covering:>8.4f}",
                flush=True,
            )
            room = CLEAR * sqrt(BETA * (1 - BETA) / trials)
            broken |= found.failing[0] > BETA + room or found.covering < 1 - BETA - room
    print(f"\n{'epsilon':>8}{'six bits':>12}{'now':>12}   heavy hitters of 16 bits")
    for epsilon in QUICK_EPSILONS if options.quick else EPSILONS:
        six, now = hitters(epsilon)
        print(f"{epsilon:>8}{six:>12,}{now:>12,}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
