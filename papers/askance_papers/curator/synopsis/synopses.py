"""Synopses, which are released instead of the data and answer any query, and methods' results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Event
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis.fitting import WholeFamily, mirror_descent
from askance_papers.curator.synopsis.queries import QueryFamily
from askance_papers.curator.synopsis.universe import Universe

_TABLE_STEPS = 200
_MAX_ROWS = 10**7


class Synopsis(Protocol):
    """Answers counting queries about data that are no longer needed for it."""

    def answers(self, family: QueryFamily) -> NDArray[np.float64]:
        """The answer to each query of any family over the universe, shape (size,), in [0, 1]."""
        ...

    def table(self, rows: int, words: Words) -> NDArray[np.int64]:
        """A synthetic table of codes, shape (rows, columns)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """A synopsis that is a distribution over the cells.

    Args:
      weights: shape (cells,), 0 or more, summing to 1.
    """

    universe: Universe
    weights: NDArray[np.float64]

    @classmethod
    def uniform(cls, universe: Universe) -> Distribution:
        """Make the uniform distribution, the state before any answer."""
        return cls(universe, np.full(universe.cells, 1 / universe.cells))

    def answers(self, family: QueryFamily) -> NDArray[np.float64]:
        """Expectations."""
        return np.clip(WholeFamily(family).forward(self.weights), 0.0, 1.0)

    def table(self, rows: int, words: Words) -> NDArray[np.int64]:
        """Independent rows of the distribution.

        Drawn with floats: what they are drawn from is public already, so no float can reveal more.
        """
        if not 1 <= rows <= _MAX_ROWS:
            raise InvalidParameter(f"rows: expected 1 .. {_MAX_ROWS}, found {rows}")
        ends = np.cumsum(self.weights)
        uniform = (words.take(rows) >> np.uint64(11)) * 2.0**-53
        drawn = np.searchsorted(ends, uniform * ends[-1], side="right")
        return self.universe.codes(np.minimum(drawn, self.universe.cells - 1))


@dataclass(frozen=True, slots=True, eq=False)
class MedianSynopsis:
    """A synopsis that answers each query with the median of several.

    An even number has two medians, and their mean is the answer. Where fewer than half of the
    synopses are off by more than some bound, both of them are within it, and so is their mean.

    Args:
      parts: at least one.
      family: the queries that it was made for; its table is fitted to them.
    """

    parts: tuple[Distribution, ...]
    family: QueryFamily

    def answers(self, family: QueryFamily) -> NDArray[np.float64]:
        """The median, query by query."""
        return np.asarray(np.median([part.answers(family) for part in self.parts], axis=0))

    def table(self, rows: int, words: Words) -> NDArray[np.int64]:
        """Rows of the distribution that fits the medians: medians of distributions are not one."""
        return self.distribution().table(rows, words)

    def distribution(self) -> Distribution:
        """A distribution fitted to the medians of the family, beginning at the parts' mean."""
        start = np.mean([part.weights for part in self.parts], axis=0)
        operator = WholeFamily(self.family)
        weights = mirror_descent(operator, self.answers(self.family), start, _TABLE_STEPS)
        return Distribution(self.family.universe, weights)


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """The answers to a whole family of queries.

    Args:
      method: which one made them.
      answers: shape (size,), in [0, 1].
      events: everything that touched the data, each by the strongest guarantee known of it; an
        accountant says what they cost together.
      synopsis: answers any other query; None: the method has none.
    """

    method: str
    answers: NDArray[np.float64]
    events: tuple[Event, ...]
    synopsis: Synopsis | None

    def table(self, rows: int, words: Words) -> NDArray[np.int64]:
        """A synthetic table of codes, shape (rows, columns); it costs nothing more."""
        if self.synopsis is None:
            raise InvalidParameter(
                f"table: expected a release with a synopsis, found answers only ({self.method})"
            )
        return self.synopsis.table(rows, words)
