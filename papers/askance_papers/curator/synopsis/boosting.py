"""Boosting for queries (DRV10 Figure 1), and the base synopsis generators that it boosts (V-B).

Between a generator and the data stand answers to the sampled queries (`Answering`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Concentrated, Event
from askance_aggregator.sampling import Words, discrete_gaussian, integers_below
from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis.accounting import TWO_ALPHA, BoostingPlan, QuerySet, Schedule
from askance_papers.curator.synopsis.fitting import Rows, mirror_descent
from askance_papers.curator.synopsis.queries import QueryFamily, squared_sensitivity
from askance_papers.curator.synopsis.sampling import exponential_draws
from askance_papers.curator.synopsis.small_databases import (
    LowSensitivityQueries,
    SearchGenerator,
    SmallDatabaseGenerator,
)
from askance_papers.curator.synopsis.synopses import Answered, Distribution, MedianSynopsis
from askance_papers.curator.synopsis.universe import Histogram

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


S = TypeVar("S")


@dataclass(frozen=True, slots=True, eq=False)
class Boosted(Generic[S]):
    """Result of all rounds.

    Args:
      synopses: one a round.
      answers: the median of their answers, query by query, shape (size,); of an even number the
        mean of both medians.
    """

    synopses: tuple[S, ...]
    answers: NDArray[np.float64]


class QueryWeights:
    """Distribution over queries that Figure 1 keeps: badly answered ones weigh more.

    Errors are whole units, so is everything that a query's weight is made of: with the shortfall
    s = clip(err - lambda, 0, mu), Figure 1's a = 1 - 2 s/mu, and exp(-alpha sum a) is proportional
    to exp(2 alpha sum s / mu). Queries are drawn from exactly that distribution.

    Privacy: replacing a record moves a shortfall by at most rho, so after t reweightings any
      query's log-probability by at most 4 alpha t rho/mu, over a range of as much (Claim IV.2).
    """

    def __init__(self, size: int, schedule: Schedule) -> None:
        self._shortfalls = np.zeros(size, dtype=np.int64)
        self._schedule = schedule
        self._rate = TWO_ALPHA / schedule.slack
        self._reweightings = 0

    def reweight(self, errors: NDArray[np.int64]) -> None:
        """Add a round's absolute errors, in units, shape (size,)."""
        self._shortfalls += np.clip(errors - self._schedule.accurate, 0, self._schedule.slack)
        self._reweightings += 1

    def draw(self, words: Words, count: int) -> NDArray[np.int64]:
        """Draw queries independently, shape (count,)."""
        if not self._reweightings:
            return integers_below(words, len(self._shortfalls), count)
        return exponential_draws(words, self._shortfalls, self._rate, count)

    def log_probabilities(self) -> NDArray[np.float64]:
        """The distribution's logarithms, in floats, shape (size,); not private."""
        logs = float(self._rate) * (self._shortfalls - self._shortfalls.max())
        return np.asarray(logs - np.log(np.exp(logs).sum()))


def boost(
    truth: NDArray[np.int64], generator: BaseGenerator[S], schedule: Schedule, words: Words
) -> Boosted[S]:
    """Figure 1: each round's sample favours the queries that were answered badly (`QueryWeights`).

    Privacy: what the generator spends in T calls, and the draws, as `BoostingPlan` says.
    Utility: within lambda + mu on every query whenever each synopsis is lambda-accurate on more
      than 1/2 + eta = 5/6 of its round's distribution (Theorem IV.1).

    Errors are measured against `truth`, in units, shape (size,).

    Source: DRV10 Figure 1, eta = 1/3. Deviations: its step 1 says (1+eta)/2 where the analysis
      needs 1/2 + eta; samples are deduplicated before they are answered; the median is defined for
      an even T; alpha is rounded down at the 13th decimal.
    """
    weights = QueryWeights(len(truth), schedule)
    synopses, rounds = [], []
    for _ in range(schedule.rounds):
        drawn = weights.draw(words, schedule.samples)
        synopsis, answers = generator.generate(np.unique(drawn), words)
        units = np.rint(answers / float(schedule.unit)).astype(np.int64)
        weights.reweight(np.abs(truth - units))
        synopses.append(synopsis)
        rounds.append(answers)
    return Boosted(tuple(synopses), np.asarray(np.median(rounds, axis=0)))


def boosted_counting(
    histogram: Histogram, family: QueryFamily, plan: BoostingPlan, words: Words
) -> Answered:
    """Boosting over Gaussian answers and entropic fits.

    Privacy: `plan.rho()`-zCDP, and what the plan was made for.
    Utility: `plan.schedule.bound` where the base synopses are as good as Theorem IV.1 asks; that is
      below 1 only for large n. Measured errors are far smaller (`askance reproduce boosting`).

    `plan` is one of `tight_plan` or `printed_plan`, for this family and this n.

    Raises:
      InvalidParameter: a plan for other queries, or a family over another universe; nothing is
        drawn.
    """
    truth = family.counts(histogram)
    _check_plan(plan, QuerySet.counting(family, histogram.n))
    answering = GaussianAnswers(family, truth, histogram.n, plan.answer_rho)
    generator = CountingGenerator(family, answering)
    found = boost(truth, generator, plan.schedule, words)
    synopsis = MedianSynopsis(found.synopses, family)
    name = f"boosting ({plan.accounting})"
    return Answered(name, found.answers, _events(plan, generator), synopsis)


def boosted_search(
    histogram: Histogram,
    queries: LowSensitivityQueries,
    records: int,
    plan: BoostingPlan,
    words: Words,
    searching: SearchGenerator = SmallDatabaseGenerator,
) -> tuple[Boosted[Distribution], tuple[Event, ...]]:
    """Boosting over databases of `records` records that are searched for; for small universes.

    Privacy: `plan.rho()`-zCDP, and what the plan was made for.

    `records` is the size of a candidate, and `plan` one of `tight_plan` or `printed_plan` for these
    queries. Of the base generators for `searching`, `NoisySearchGenerator` is Theorem V.2's own.

    Returns:
      The synopses (each a small database) with their median answers; and the events.

    Raises:
      InvalidParameter: a plan for other queries, another universe, or too many databases; nothing
        is drawn.
    """
    truth = queries.truth(histogram)
    _check_plan(plan, queries.query_set)
    generator = searching(queries, truth, records, plan.answer_rho)
    return boost(truth, generator, plan.schedule, words), _events(plan, generator)


def _events(plan: BoostingPlan, generator: BaseGenerator[Distribution]) -> tuple[Event, ...]:
    return generator.events * plan.schedule.rounds + plan.sampling_events()


def _check_plan(plan: BoostingPlan, queries: QuerySet) -> None:
    if plan.queries != queries:
        raise InvalidParameter(
            f"plan: expected one for {_text(queries)}, found one for {_text(plan.queries)}"
        )


def _text(queries: QuerySet) -> str:
    rho = Fraction(queries.sensitivity) * queries.unit
    return f"{queries.size} queries of sensitivity {float(rho):.6g}"
