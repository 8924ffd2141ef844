"""Means over users who have the number: coverage, width and users, by epsilon and share missing.

    nice -n 10 python benchmarks/missing_numbers.py --trials 400

For every epsilon and share the numbers are log-normal incomes, clipped to the range, and each user
has one with a chance. Reports are drawn by the designed table's integers. A trial is covered if the
interval of the mean holds the population's mean over those who have a number *and* the interval of
the missing share holds that share. "plan" is the number of users for a tolerance of a twentieth of
the range, with the share promised; "plan, none missing" is that of one bit with a public default.
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction

import numpy as np

from askance_aggregator.estimation import estimate
from askance_aggregator.families import best_for
from askance_aggregator.learners import Question
from askance_aggregator.planning.sizing import choices, need
from askance_aggregator.queries import among_present, real
from askance_client.queries import Real, Schema
from askance_client.randomizers import COIN_SPACE, Channel

SCHEMA = Schema("incomes", 1, income=Real(0, 200_000, frac_bits=0))
HIGH = 200_000
EPSILONS = (0.1, 0.7, 2.7, 9.0)
MISSING = (Fraction(0), Fraction(1, 20), Fraction(2, 5))
USERS = {0.1: 200_000, 0.7: 20_000, 2.7: 5_000, 9.0: 5_000}
BETA = 0.05


def row(
    epsilon: float, missing: Fraction, trials: int, rng: np.random.Generator
) -> dict[str, object]:
    """Simulate one epsilon and one share of users without a number."""
    tau, nano, users = HIGH / 20, round(epsilon * 1e9), USERS[epsilon]
    question = Question(among_present(SCHEMA["income"]), tau, present=1 - missing)
    (choice,) = choices(question, nano, best_for)
    plain = Question(real(SCHEMA["income"]), tau)
    (bit,) = choices(plain, nano, best_for)
    assert isinstance(choice.randomizer, Channel)
    table = np.array([[entry / COIN_SPACE for entry in line] for line in choice.randomizer.table])
    # The population's law: the mean of 10^6 draws is its mean.
    incomes = np.minimum(np.random.default_rng(0).lognormal(10.2, 0.7, 1_000_000), HIGH)
    mean = float(incomes.mean())
    top, absent = mean / HIGH, float(missing)
    law = table.T @ np.array([(1 - top) * (1 - absent), top * (1 - absent), absent])
    held, errors, widths = 0, [], []
    for _ in range(trials):
        counts = rng.multinomial(users, law / law.sum())
        answer = estimate(question, choice.randomizer, counts, users, BETA, choice.decode)
        share = answer.present
        assert share is not None
        held += answer.low <= mean <= answer.high and share.low <= 1 - absent <= share.high
        errors.append(answer.value - mean)
        widths.append((answer.high - answer.low) / 2)
    return {
        "epsilon": epsilon,
        "missing": absent,
        "users": users,
        "covered": held / trials,
        "bias": float(np.mean(errors)),
        "deviation": float(np.std(errors)),
        "half_width": float(np.mean(widths)),
        "plan": need(question, choice, BETA),
        "plan_none_missing": need(plain, bit, BETA),
    }


def main() -> None:
    """Print a row for every epsilon and share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    for epsilon in EPSILONS:
        for missing in MISSING:
            print(json.dumps(row(epsilon, missing, given.trials, rng)), flush=True)


if __name__ == "__main__":
    main()
