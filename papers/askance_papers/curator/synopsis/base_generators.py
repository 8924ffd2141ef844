"""Base synopsis generators: from a sample of queries to a synopsis for most of them (DRV10 V-B).

Between a generator and the data stand answers to the sampled queries (`Answering`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Concentrated, Event
from askance_aggregator.sampling import Words, discrete_gaussian
from askance_papers.curator.synopsis.fitting import Rows, mirror_descent
from askance_papers.curator.synopsis.queries import QueryFamily, squared_sensitivity
from askance_papers.curator.synopsis.synopses import Distribution

S_co = TypeVar("S_co", covariant=True)

_STEPS = 100  # twice as many gain little up to 10^5 records, where noise is what is left


class BaseGenerator(Protocol[S_co]):
    """Generator of a synopsis that is accurate on the chosen queries and most similar ones."""

    @property
    def events(self) -> tuple[Event, ...]:
        """Cost of one call."""
        ...

    def generate(self, chosen: NDArray[np.int64], words: Words) -> tuple[S_co, NDArray[np.float64]]:
        """A synopsis, and its answers to the whole family, shape (size,).

        None of the chosen queries comes twice.
        """
        ...


class CountingGenerator:
    """For counting queries: a distribution that is fitted to answers by mirror descent.

    Privacy: the answering's; the fit sees nothing else.

    Source: DRV10 Theorem V.3 takes a generator of Dwork, Naor, Reingold, Rothblum, Vadhan (STOC
      2009); the entropic fit instead of theirs is ours.
    """

    def __init__(self, family: QueryFamily, answering: Answering) -> None:
        self._family = family
        self._answering = answering
        self._uniform = Distribution.uniform(family.universe)

    @property
    def events(self) -> tuple[Event, ...]:
        """Those of one batch of answers."""
        return self._answering.events

    def generate(
        self, chosen: NDArray[np.int64], words: Words
    ) -> tuple[Distribution, NDArray[np.float64]]:
        """Ask, and fit."""
        answers = self._answering.answers(chosen, words)
        rows = Rows(self._family.rows(chosen), self._family.scale)
        weights = mirror_descent(rows, answers, self._uniform.weights, _STEPS)
        synopsis = Distribution(self._family.universe, weights)
        return synopsis, synopsis.answers(self._family)


class Answering(Protocol):
    """Answers some queries of a family, privately or exactly."""

    @property
    def events(self) -> tuple[Event, ...]:
        """Cost of one call, in events on the curator's records."""
        ...

    def answers(self, chosen: NDArray[np.int64], words: Words) -> NDArray[np.float64]:
        """Answer each chosen query, shape (len(chosen),); no query is chosen twice."""
        ...


class GaussianAnswers:
    """True answers and exact discrete Gaussians, on the grid of the true answers.

    Privacy: rho-zCDP a call. The variance is that of the batch: its squared L2 sensitivity, which
    is a function of which queries were chosen, over 2 rho.

    Args:
      truth: the family's answers in units of 1/(n scale), shape (size,).
      n: how many records there are.
      rho: above 0, of each call.
    """

    def __init__(
        self, family: QueryFamily, truth: NDArray[np.int64], n: int, rho: Fraction
    ) -> None:
        self._family = family
        self._truth = truth
        self._units = n * family.scale
        self._rho = rho

    @property
    def events(self) -> tuple[Event, ...]:
        """Cost of one call: a concentrated release."""
        return (Concentrated(self._rho),)

    def answers(self, chosen: NDArray[np.int64], words: Words) -> NDArray[np.float64]:
        """Noisy answers; they may lie outside [0, 1]."""
        squared = squared_sensitivity(self._family.rows(chosen), self._family.scale)
        if not squared:  # queries that are 0 everywhere reveal nothing
            return np.zeros(len(chosen))
        drawn = discrete_gaussian(words, squared / (2 * self._rho), len(chosen))
        return (self._truth[chosen] + drawn) / self._units
