"""Intervals of a mean under a prior: their width beside the normal law's, and how often they hold.

Every setting draws tallies by the law of the planned table for users like the prior, and forms the
interval of each as a study does. A width is half of the interval's; the normal one has the
deviation of the reports at hand.

    python benchmarks/prior_intervals.py [--draws 400] [--answers 200000] [--epsilons E ...]

Exit code 1: the rate at which intervals hold is, beyond doubt, below what is stated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import sqrt

import numpy as np
from scipy.stats import binom, norm

from askance_aggregator.estimation import estimate
from askance_aggregator.estimation.designed import prior_weights
from askance_aggregator.families import best_for
from askance_aggregator.learners import PriorMean, Question
from askance_aggregator.planning import choices
from askance_aggregator.queries import real
from askance_client.accounting import parse_epsilon
from askance_client.queries import Real, Schema
from askance_client.randomizers import COIN_SPACE, Channel

ALPHA = 0.05
DOUBT = 1e-4  # a rate is below what is stated if so many misses are less likely than this
EPSILONS = ("5", "6", "8", "9")
PRIORS = {
    "one point": ((Fraction(1, 10), Fraction(1)),),
    "11 points": tuple((Fraction(k, 5) - 1, Fraction(1)) for k in range(11)),
}


def row(name: str, epsilon: str, answers: int, draws: int) -> dict[str, float | str]:
    """Measure one prior at one epsilon."""
    number = Schema("prior", 1, x=Real(-1, 1, 16))["x"]
    question = Question(real(number, -1, 1), aim=PriorMean(PRIORS[name]))
    (choice,) = choices(question, parse_epsilon(epsilon), best_for)
    table = choice.randomizer
    if not isinstance(table, Channel) or choice.decode is None:
        raise TypeError(f"a prior expects a designed table, got {table}")
    rows = np.array([[entry / COIN_SPACE for entry in row] for row in table.table])
    weights = np.array([float(w) for w in prior_weights(question, table.levels)])
    law, values = weights @ rows, np.array([float(value) for value in choice.decode])
    truth = sum(at * w for at, w in PRIORS[name]) / sum(w for _, w in PRIORS[name])
    rng = np.random.default_rng(15)
    widths, held = [], 0
    for _ in range(draws):
        counts = rng.multinomial(answers, law / law.sum())
        found = estimate(question, table, counts.tolist(), answers, ALPHA, choice.decode)
        mean = counts @ values / answers
        deviation = sqrt(max(counts @ values**2 / answers - mean**2, 1e-300))
        normal = norm.ppf(1 - ALPHA / 2) * deviation / sqrt(answers)
        widths.append((found.high - found.low) / 2 / normal)
        held += bool(found.low <= truth <= found.high)
    return {"prior": name, "epsilon": epsilon, "width": float(np.median(widths)), "held": held}


def rows(epsilons: Sequence[str], answers: int, draws: int) -> Iterator[dict[str, float | str]]:
    """Measure every prior at every epsilon."""
    for name in PRIORS:
        for epsilon in epsilons:
            yield row(name, epsilon, answers, draws)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--answers", type=int, default=200_000)
    parser.add_argument("--epsilons", nargs="+", default=EPSILONS)
    given = parser.parse_args(arguments)
    print("prior      epsilon  width over normal   held")
    sound = True
    for found in rows(given.epsilons, given.answers, given.draws):
        missed = given.draws - int(found["held"])
        possible = binom.sf(missed - 1, given.draws, ALPHA) > DOUBT
        sound &= bool(possible)
        print(
            f"{found['prior']:<10} {found['epsilon']:>7} {found['width']:>18.2f}"
            f"   {found['held']} of {given.draws}{'' if possible else '  BELOW'}",
            flush=True,
        )
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
