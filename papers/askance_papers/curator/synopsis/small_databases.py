"""Arbitrary queries of low sensitivity, by search over small databases (DRV10 Theorem V.2)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from math import comb, isqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import BoundedRange, Concentrated, Event
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.sampling import Words, discrete_gaussian
from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis.accounting import QuerySet
from askance_papers.curator.synopsis.sampling import exponential_draws
from askance_papers.curator.synopsis.synopses import Distribution
from askance_papers.curator.synopsis.universe import Histogram, Universe

Values = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Of databases as counts (databases, cells), with any number of records each: every query's value,
shape (databases, queries)."""

_PARTS = 1 << 10  # of rho: the grid that answers are rounded to
_MAX_DATABASES = 1 << 18
_MAX_VALUES = 1 << 27
_MAX_KEY = 1 << 62
_MAX_ANSWER = 1 << 40  # in units
_GRID = 10**15


class LowSensitivityQueries:
    """Queries that are any functions of a database, not only means over its records.

    The stated sensitivity is verified: every pair of neighbours among the databases of n
    records is looked at, which is why the universe has to be small. Values are rounded to multiples
    of rho/1024, which adds one such unit to the sensitivity that is charged.

    Args:
      universe: a small one.
      n: how many records the data have.
      sensitivity: rho: how far replacing one of n records moves any answer at most.
      values: what the queries are; vectorised.
    """

    def __init__(self, universe: Universe, n: int, sensitivity: Rational, values: Values) -> None:
        rho = rational(sensitivity, "sensitivity")
        if rho <= 0:
            raise InvalidParameter("sensitivity: expected above 0, found a number that is not")
        self.universe = universe
        self.n = n
        self._unit = rho / _PARTS
        self._values = values
        databases = every_database(universe.cells, n)
        found = self.values(databases)
        _check_sensitivity(databases, found, n)
        self._size = found.shape[1]

    @property
    def query_set(self) -> QuerySet:
        """Facts about the queries for a plan."""
        return QuerySet(self._size, self._unit, _PARTS + 1)

    def truth(self, histogram: Histogram) -> NDArray[np.int64]:
        """The answers in units of rho/1024; not private. Shape (size,)."""
        if histogram.universe != self.universe or histogram.n != self.n:
            raise InvalidParameter(
                f"histogram: expected {self.n} records over {self.universe.sizes}, found "
                f"{histogram.n} over {histogram.universe.sizes}"
            )
        return np.asarray(self.values(histogram.counts[None, :])[0])

    def values(self, databases: NDArray[np.int64]) -> NDArray[np.int64]:
        """Every query's value in units of rho/1024, shape (len(databases), size)."""
        found = np.asarray(self._values(databases), dtype=np.float64)
        if found.ndim != 2 or len(found) != len(databases) or not found.shape[1]:
            raise InvalidParameter(
                f"queries: expected values of shape ({len(databases)}, queries), found shape "
                f"{found.shape}"
            )
        if found.size > _MAX_VALUES:
            raise InvalidParameter(f"queries: expected at most {_MAX_VALUES} values")
        units = found / float(self._unit)
        wrong = ~(np.abs(units) <= _MAX_ANSWER)
        if wrong.any():
            query = int(np.argwhere(wrong)[0][1])
            raise InvalidParameter(
                f"query {query}: expected finite values of at most 2^30 sensitivities, found others"
            )
        return np.rint(units).astype(np.int64)


class CandidateDatabases:
    """All multisets of m records, with their answers, for both generators below."""

    def __init__(self, queries: LowSensitivityQueries, records: int) -> None:
        self._queries = queries
        self._databases = every_database(queries.universe.cells, records)
        self._values = queries.values(self._databases)
        self._records = records

    def distances(self, chosen: NDArray[np.int64], answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Compute every candidate's greatest distance to answers of the chosen queries, in units.

        `chosen` are k indices of queries and `answers` their answers, in units.

        Returns:
          Shape (candidates,).
        """
        return np.asarray(np.abs(self._values[:, chosen] - answers).max(axis=1))

    def synopsis(self, place: int) -> tuple[Distribution, NDArray[np.float64]]:
        """Return the candidate at an index as a distribution, with its values of all queries."""
        weights = self._databases[place] / self._records
        values = self._values[place] * float(self._queries.query_set.unit)
        return Distribution(self._queries.universe, weights), values


class SmallDatabaseGenerator:
    """A base generator that draws a database of m records that answers the sample well.

    Every multiset of m records is a candidate; its score is minus its greatest error on the chosen
    queries, which replacing a record moves by at most rho.

    Privacy: the exponential mechanism, of range sqrt(8 rho'): rho'-zCDP; also pure.
    Utility: with probability 1 - beta the greatest error is within 2 rho ln(candidates/beta) /
      range of the best candidate's.

    Args:
      queries: what is asked, and of which databases.
      truth: their answers, as of `LowSensitivityQueries.truth`.
      records: m.
      rho: rho', the zCDP of each call; above 0.

    Raises:
      InvalidParameter: too many candidates.

    Source: DRV10 Theorem V.2, which adds Gaussians to the sampled answers and searches X^n for a
      database that fits them. Deviations: multisets of m instead of X^n, drawn by the exponential
      mechanism, so that no noise is added that the search has to undo: its errors are about a fifth
      of `NoisySearchGenerator`'s.
    """

    def __init__(
        self,
        queries: LowSensitivityQueries,
        truth: NDArray[np.int64],
        records: int,
        rho: Fraction,
    ) -> None:
        self._truth = truth
        self._candidates = CandidateDatabases(queries, records)
        self._range = Fraction(isqrt(int(8 * rho * _GRID**2)), _GRID)
        self._rate = self._range / (2 * queries.query_set.sensitivity)

    @property
    def events(self) -> tuple[Event, ...]:
        """Cost of one draw."""
        return (BoundedRange(self._range),)

    def generate(
        self, chosen: NDArray[np.int64], words: Words
    ) -> tuple[Distribution, NDArray[np.float64]]:
        """Draw one candidate, as a distribution, with its values."""
        errors = self._candidates.distances(chosen, self._truth[chosen])
        (place,) = exponential_draws(words, -errors, self._rate, 1)
        return self._candidates.synopsis(int(place))


class NoisySearchGenerator:
    """A base generator that answers the sample with noise, and searches a database that fits.

    Every multiset of m records is a candidate; the one whose greatest distance to the noisy answers
    is least is the synopsis, the first of several.

    Privacy: the noise's: rho'-zCDP. The search sees noisy answers only.
    Utility: where all noise of k answers is within z, so is the data's own distance if m = n; the
      synopsis is then within 2 z of the truth on the sample, and within 2 z on most queries by
      Lemma V.1 (`queries_for`).

    Arguments are as of `SmallDatabaseGenerator`.

    Source: DRV10 Theorem V.2. Deviations: multisets of m records instead of X^n; discrete
      Gaussians.
    """

    def __init__(
        self,
        queries: LowSensitivityQueries,
        truth: NDArray[np.int64],
        records: int,
        rho: Fraction,
    ) -> None:
        self._truth = truth
        self._candidates = CandidateDatabases(queries, records)
        self._sensitivity = queries.query_set.sensitivity
        self._rho = rho

    @property
    def events(self) -> tuple[Event, ...]:
        """Cost of one batch of noisy answers."""
        return (Concentrated(self._rho),)

    def variance(self, count: int) -> Fraction:
        """Variance of the noise of so many answers, in squared units: k sensitivity^2/(2 rho')."""
        return count * self._sensitivity**2 / (2 * self._rho)

    def noisy(self, chosen: NDArray[np.int64], words: Words) -> NDArray[np.int64]:
        """Answer the chosen queries with noise, in units, shape (len(chosen),)."""
        drawn = discrete_gaussian(words, self.variance(len(chosen)), len(chosen))
        return np.asarray(self._truth[chosen] + drawn)

    def generate(
        self, chosen: NDArray[np.int64], words: Words
    ) -> tuple[Distribution, NDArray[np.float64]]:
        """Answer, search, and return the found database as a distribution, with its values."""
        noisy = self.noisy(chosen, words)
        return self._candidates.synopsis(int(self._candidates.distances(chosen, noisy).argmin()))


SearchGenerator = Callable[
    [LowSensitivityQueries, NDArray[np.int64], int, Fraction],
    SmallDatabaseGenerator | NoisySearchGenerator,
]
"""Maker of a generator that searches: of queries, their true answers, records and rho'."""


def every_database(cells: int, records: int) -> NDArray[np.int64]:
    """Return all multisets of this many records as counts, shape (databases, cells)."""
    if records < 1:
        raise InvalidParameter(f"records: expected 1 or more, found {records}")
    count = comb(records + cells - 1, cells - 1)
    if count > _MAX_DATABASES:
        raise InvalidParameter(
            f"search: expected at most {_MAX_DATABASES} databases, found {count} of {records} "
            f"records in {cells} cells"
        )
    # Bars among stars: the counts are the gaps between them.
    bars = np.array(
        list(combinations(range(records + cells - 1), cells - 1)), dtype=np.int64
    ).reshape(count, cells - 1)
    ends = np.full((count, 1), records + cells - 1)
    return np.diff(np.concatenate([np.full((count, 1), -1), bars, ends], axis=1), axis=1) - 1


def _check_sensitivity(databases: NDArray[np.int64], values: NDArray[np.int64], n: int) -> None:
    """Looks at every pair of databases that differ in one record."""
    cells = databases.shape[1]
    if (n + 1) ** cells > _MAX_KEY:
        raise InvalidParameter(
            f"queries: expected a universe small enough to look at all neighbours, found {cells} "
            f"cells and {n} records"
        )
    digits = (n + 1) ** np.arange(cells, dtype=np.int64)
    keys = databases @ digits
    order = np.argsort(keys)
    for left in range(cells):
        here = np.flatnonzero(databases[:, left])
        for entered in range(left + 1, cells):
            there = keys[here] - digits[left] + digits[entered]
            neighbours = order[np.searchsorted(keys[order], there)]
            moved = np.abs(values[here] - values[neighbours]).max(axis=0)
            if (moved > _PARTS + 1).any():
                query = int(np.flatnonzero(moved > _PARTS + 1)[0])
                raise InvalidParameter(
                    f"query {query}: expected a sensitivity of at most what is stated, found "
                    f"{moved[query] / _PARTS:.3g} times as much"
                )
