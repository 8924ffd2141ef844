"""The Laplace mechanism on whole numbers."""

from __future__ import annotations

from askance_aggregator.numbers import Rational, rational, read_epsilon
from askance_aggregator.oracles.laplace import Laplace
from askance_aggregator.sampling import Words
from askance_papers.curator.mechanisms.grid import l1_in_steps, read_step
from askance_papers.curator.mechanisms.release import Additive, Calibration, Release, release


def laplace(
    answers: object,
    *,
    sensitivity: Rational,
    epsilon: Rational,
    words: Words,
    step: Rational = 1,
    rounded: int = 0,
) -> Release:
    """Release a number or a vector of numbers of stated L1 sensitivity.

    Privacy: epsilon-DP, if the answer as it is handed over (floats included, with whatever their
    summation has rounded) has the stated sensitivity. `sums` and `means` need no such trust: they
    sum whole numbers.

    Args:
      answers: a number or shape (answers,): integers, floats or Fractions.
      sensitivity: the most that replacing one record moves the entries, in L1.
      epsilon: nats.
      words: source of random words.
      step: the granularity; the answer is rounded onto its multiples before the draw.
      rounded: how many entries one record may change that do not lie on the grid by themselves; 0
        (the default): all lie on it, which is checked. The noise pays for it (see `grid`).

    Raises:
      InvalidParameter: a number outside these ranges.
      InvalidRecord: an answer that is none, or off the grid. Nothing has been drawn.
    """
    budget, grain = read_epsilon(epsilon), read_step(step)
    l1 = l1_in_steps(rational(sensitivity, "sensitivity"), grain, rounded)
    return release(answers, Laplace(budget, l1), grain, rounded, words)


def laplace_at(epsilon: Rational) -> Calibration:
    """Laplace mechanisms of this epsilon, whatever the sensitivity."""
    budget = read_epsilon(epsilon)

    def calibrated(l1: int, l2_squared: int) -> Additive:
        return Laplace(budget, l1)

    return calibrated
