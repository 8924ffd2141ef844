"""Interface between a base generator and the data: answers to the sampled queries."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Concentrated, Event
from askance_aggregator.sampling import Words, discrete_gaussian
from askance_papers.curator.synopsis.queries import QueryFamily, squared_sensitivity


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
