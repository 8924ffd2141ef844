"""MWEM: the exponential mechanism finds what is answered badly, multiplicative weights learn it."""

from __future__ import annotations

import numpy as np

from askance_aggregator.composition import BoundedRange, Event, Pure
from askance_aggregator.numbers import Rational, read_epsilon
from askance_aggregator.sampling import MAX_SCALE, Words, discrete_laplace
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_papers.curator.synopsis.fitting import Rows, mirror_descent
from askance_papers.curator.synopsis.queries import QueryFamily
from askance_papers.curator.synopsis.sampling import exponential_draws
from askance_papers.curator.synopsis.synopses import Answered, Distribution
from askance_papers.curator.synopsis.universe import Histogram

_ROUNDS = 30
_MAX_ROUNDS = 1000
_STEPS = 20  # a round's fit begins where the last one ended


def mwem(
    histogram: Histogram,
    family: QueryFamily,
    epsilon: Rational,
    words: Words,
    rounds: int = _ROUNDS,
) -> Answered:
    """A distribution that learns one query a round: the one that it answers about worst.

    Privacy: epsilon-DP: in each of T rounds epsilon/2T for choosing (errors move by at most 1/n)
      and epsilon/2T for the chosen query's Laplace answer.
    Utility: no delta is needed, and it is good where few queries say all; the noise of an answer
      has the scale 2T / (epsilon n).

    `epsilon` is for all rounds together, whose number T is 1 .. 1000.

    Raises:
      InvalidParameter: epsilon or T out of range, or another universe; nothing is drawn.

    Source: Hardt, Ligett, McSherry, "A simple and practical algorithm for differentially private
      data release" (NIPS 2012). Deviation: each round fits all answers so far, by mirror descent,
      and the last distribution is released instead of the mean of all.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= _MAX_ROUNDS:
        raise InvalidParameter(
            f"rounds: expected a whole number 1 .. {_MAX_ROUNDS}, got {value_text(rounds)}"
        )
    part = read_epsilon(epsilon) / (2 * rounds)
    if family.scale / part > MAX_SCALE:  # the first round's choice is drawn before any Laplace
        raise InvalidParameter("epsilon: expected more for so many rounds, found too little")
    truth = family.counts(histogram)
    units = histogram.n * family.scale
    synopsis = Distribution.uniform(family.universe)
    chosen, measured = np.zeros(rounds, dtype=np.int64), np.zeros(rounds)
    for place in range(rounds):
        errors = np.abs(truth - np.rint(synopsis.answers(family) * units).astype(np.int64))
        (chosen[place],) = exponential_draws(words, errors, part / (2 * family.scale), 1)
        (drawn,) = discrete_laplace(words, family.scale / part, 1)
        measured[place] = (truth[chosen[place]] + drawn) / units
        rows = Rows(family.rows(chosen[: place + 1]), family.scale)
        answers = measured[: place + 1]
        weights = mirror_descent(rows, answers, synopsis.weights, _STEPS)
        synopsis = Distribution(family.universe, weights)
    events: tuple[Event, ...] = (BoundedRange(part), Pure(part)) * rounds
    return Answered("mwem", synopsis.answers(family), events, synopsis)
