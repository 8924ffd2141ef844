"""Base synopsis generators: from a sample of queries to a synopsis for most of them (DRV10 V-B)."""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Event
from askance_aggregator.sampling import Words
from askance_papers.curator.synopsis.answering import Answering
from askance_papers.curator.synopsis.fitting import Rows, mirror_descent
from askance_papers.curator.synopsis.queries import QueryFamily
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
