"""Users of a mean: planned by a bound and by exact tails, of a required field, and needed.

    nice -n 10 python benchmarks/required_users.py      # --quick: two epsilons, 40 simulations

The tolerance is a twentieth of the range, with beta .01 and .05. A row is an epsilon and a share of
users without the number, which the plan is promised. "failed" is the share of 20,000 simulations
(reports drawn by the table's integers) in which the estimate is off by the tolerance or more, for
the worst of five populations, at the users planned by exact tails and at .7 of them. "needed" is
the least number whose exact tails are at most beta for all five. "covered" is the least share, over
the populations, of simulations at the planned users whose two intervals (95 %) both hold.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import least_whole
from askance_aggregator.estimation import estimate
from askance_aggregator.families import best_for
from askance_aggregator.learners import Question
from askance_aggregator.planning.precision import tail_of
from askance_aggregator.planning.present import PresenceCells, Present
from askance_aggregator.planning.sizing import Choice, choices, need
from askance_aggregator.queries import among_present, real
from askance_client.queries import Real, Schema
from askance_client.randomizers import COIN_SPACE, Channel

NUMBER = Schema("numbers", 1, x=Real(-1, 1)).x
EPSILONS = (0.25, 1.0, 4.0, 8.0)
MISSING = (Fraction(0), Fraction(3, 10))
BETAS = (0.01, 0.05)
TAU = Fraction(1, 10)
DRAWS = 20_000

Reals = NDArray[np.float64]


def populations() -> Mapping[str, float]:
    """Means of the numbers, on -1 .. 1, of five populations.

    A report is of a number that is rounded at random onto -1 or 1, so that its law depends on the
    mean alone.
    """
    rng = np.random.default_rng(0)
    incomes = np.minimum(rng.lognormal(10.2, 0.7, 1_000_000), 200_000) / 100_000 - 1
    return {
        "halves at both ends": 0.0,
        "all at one end": -1.0,
        "skewed: log-normal incomes": float(incomes.mean()),
        "lattice: three of eight at 1": -0.25,
        "nine of ten at 1": 0.8,
    }


def law_of(table: Channel, mean: float, missing: float) -> Reals:
    """Return the chances of a report of one user."""
    rows = np.array([[entry / COIN_SPACE for entry in line] for line in table.table])
    high = (1 + mean) / 2
    law = rows.T @ np.array([(1 - high) * (1 - missing), high * (1 - missing), missing])
    return np.asarray(law / law.sum())


def failed(choice: Choice, mean: float, missing: float, users: int, seed: int) -> float:
    """Return the share of simulations whose estimate is off by the tolerance or more."""
    assert isinstance(choice.randomizer, Channel)
    assert choice.decode is not None
    law = law_of(choice.randomizer, mean, missing)
    counts = np.random.default_rng(seed).multinomial(users, law, DRAWS)
    scores = np.array([float(score) for score in choice.decode]).reshape(2, -1)
    number, presence = counts @ scores[0], counts @ scores[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(presence > 0, np.clip(number / presence, -1, 1), 0.0)
    return float(np.mean(np.abs(means - mean) >= float(TAU) - 1e-12))


def needed(tail: Present, beta: float, most: int) -> int:
    """Return about the least users whose exact tails are at most beta for the five populations."""
    means = np.array([*populations().values()])
    none = np.zeros_like(means)
    cells = PresenceCells(means, none, np.full_like(means, tail.share), none)

    def enough(users: int) -> bool:
        return not (cells.failure(tail.law, float(TAU), users, beta) > beta).any()

    return least_whole(enough, most // 3, most, part=1 << 8)


def covered(question: Question, choice: Choice, mean: float, users: int, trials: int) -> float:
    """Return the share of simulations whose intervals hold, those of mean and missing share."""
    assert isinstance(choice.randomizer, Channel)
    share = float(question.present)
    law = law_of(choice.randomizer, mean, 1 - share)
    held = 0
    for counts in np.random.default_rng(1).multinomial(users, law, trials):
        answer = estimate(question, choice.randomizer, counts, users, 0.05, choice.decode)
        seen = answer.present
        assert seen is not None
        held += answer.low <= mean <= answer.high and seen.low <= share <= seen.high
    return held / trials


def row(epsilon: float, missing: Fraction, beta: float, trials: int) -> dict[str, object]:
    """Return the figures of one epsilon, one share of users without the number, and one beta."""
    question = Question(among_present(NUMBER), TAU, present=1 - missing)
    (choice,) = choices(question, round(epsilon * 1e9), best_for)
    tail = tail_of(question, choice.randomizer, choice.decode)
    assert isinstance(tail, Present)
    plain = Question(real(NUMBER), TAU)
    (bit,) = choices(plain, round(epsilon * 1e9), best_for)
    before = replace(tail, exact=False).users(float(TAU), beta)
    now = tail.users(float(TAU), beta)
    means = populations().values()
    worst = {
        part: max(
            failed(choice, mean, float(missing), round(part * now), seed)
            for seed, mean in enumerate(means)
        )
        for part in (1.0, 0.7)
    }
    return {
        "epsilon": epsilon,
        "missing": float(missing),
        "beta": beta,
        "planned before": before,
        "planned": now,
        "needed": needed(tail, beta, now),
        "planned, required": need(plain, bit, beta),
        "failed": worst[1.0],
        "failed at .7": worst[0.7],
        "covered": min(covered(question, choice, mean, now, trials) for mean in means),
    }


def main() -> None:
    """Print a row for every epsilon, share and beta."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    for epsilon in EPSILONS[1:3] if given.quick else EPSILONS:
        for missing in MISSING:
            for beta in BETAS:
                found = row(epsilon, missing, beta, 40 if given.quick else 400)
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
