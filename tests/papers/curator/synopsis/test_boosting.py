"""Figure 1: what it draws is what privacy is computed from, and it brings every query in."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import log

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.composition import Concentrated, Event
from askance_aggregator.sampling import Words, integers_below
from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis import (
    BoostingPlan,
    CountingGenerator,
    Histogram,
    MarginalFamily,
    MatrixQueries,
    QuerySet,
    Schedule,
    Universe,
    boost,
    boosted_counting,
    boosting,
    printed_plan,
    tight_plan,
)
from askance_simulation.randomness import SeededWords

BITS = Universe.of_bits(6)
PAIRS = MarginalFamily(BITS, 2)


def skewed(n: int) -> Histogram:
    """Make six bits of a chain: each is most often the one before."""
    rng = np.random.default_rng(5)
    table = np.empty((n, 6), dtype=np.int64)
    table[:, 0] = rng.random(n) < 0.7
    for column in range(1, 6):
        table[:, column] = table[:, column - 1] ^ (rng.random(n) < 0.1)
    return Histogram.of(BITS, table)


class Exactly:
    """True answers, for tests and nothing else."""

    events: tuple[Event, ...] = ()

    def __init__(self, truth: NDArray[np.int64], n: int) -> None:
        self._shares = truth / n

    def answers(self, chosen: NDArray[np.int64], words: Words) -> NDArray[np.float64]:
        return np.asarray(self._shares[chosen])


class Fixed:
    """A base generator that has its answers already."""

    events: tuple[Event, ...] = ()

    def __init__(self, rounds: list[NDArray[np.float64]]) -> None:
        self._rounds = iter(rounds)

    def generate(self, chosen: NDArray[np.int64], words: Words) -> tuple[None, NDArray[np.float64]]:
        return None, next(self._rounds)


class TestWithoutNoise:
    @pytest.mark.parametrize("slack", [40, 200])
    def test_every_query_is_within_lambda_and_mu(
        self, slack: int, words: Callable[[str], SeededWords]
    ) -> None:
        n = 2000
        histogram = skewed(n)
        truth = PAIRS.counts(histogram)
        schedule = Schedule(15, 20, 20, slack, Fraction(1, n))
        generator = CountingGenerator(PAIRS, Exactly(truth, n))
        found = boost(truth, generator, schedule, words(f"exact {slack}"))
        assert np.abs(found.answers - truth / n).max() <= float(schedule.bound)
        uniform = np.abs(truth / n - 1 / 4).max()
        assert uniform > 2 * float(schedule.bound)  # so it took learning

    def test_it_is_the_reweighting_that_does_it(
        self, words: Callable[[str], SeededWords], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A single query of 200 is independent of the others: uniform samples seldom contain it."""
        universe = Universe((201,))
        family = MatrixQueries(universe, np.eye(201, dtype=int)[:200])
        counts = np.zeros(201, dtype=np.int64)
        counts[[7, 200]] = 500
        truth = family.counts(Histogram(universe, counts))
        schedule = Schedule(19, 12, 20, 60, Fraction(1, 1000))

        def error(name: str) -> float:
            generator = CountingGenerator(family, Exactly(truth, 1000))
            found = boost(truth, generator, schedule, words(name))
            return float(np.abs(found.answers - truth / 1000).max())

        assert error("reweighted") <= float(schedule.bound)
        monkeypatch.setattr(
            boosting,
            "exponential_draws",
            lambda words, scores, rate, count: integers_below(words, scores.size, count),
        )
        assert error("uniform") > 0.3


class TestPrivacyOfTheDraws:
    def test_neighbours_distributions_differ_by_no_more_than_their_range(
        self, words: Callable[[str], SeededWords], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fixed synopses; answers of neighbours are a unit apart, in every combination of signs."""
        queries = QuerySet(6, Fraction(1, 100), 1)
        plan = tight_plan(queries, 3, "1e-6", samples=2)
        schedule = Schedule(6, 2, 3, 7, Fraction(1, 100))
        plan = BoostingPlan("tight", queries, schedule, plan.answer_rho)
        rng = np.random.default_rng(1)
        rounds = [rng.random(6) for _ in range(6)]
        truth = rng.integers(10, 90, 6)
        logs: list[NDArray[np.float64]] = []

        def recorded(
            words: Words, scores: NDArray[np.int64], rate: Fraction, count: int
        ) -> NDArray[np.int64]:
            weights = float(rate) * scores
            logs.append(np.asarray(weights - log(np.exp(weights).sum())))
            return np.zeros(count, dtype=np.int64)

        monkeypatch.setattr(boosting, "exponential_draws", recorded)
        boost(truth, Fixed(rounds), schedule, words("one"))
        law, worst = list(logs), np.zeros(5)
        for signs in np.ndindex(3, 3, 3, 3, 3, 3):
            logs.clear()
            boost(truth + np.array(signs) - 1, Fixed(rounds), schedule, words("other"))
            for place, (one, other) in enumerate(zip(law, logs, strict=True)):
                worst[place] = max(worst[place], np.ptp(one - other))
        allowed = [float(plan.draw_range(t)) for t in range(1, 6)]
        assert (worst <= np.array(allowed) + 1e-12).all()
        assert worst[0] == pytest.approx(allowed[0])  # and the bound is met

    def test_weights_are_those_of_the_figure(
        self, words: Callable[[str], SeededWords], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between lambda and lambda + mu, a = 1 - 2 (err - lambda)/mu; u = exp(-alpha sum a)."""
        truth = np.array([50, 50, 50, 50])
        answers = np.array([0.51, 0.55, 0.45, 0.80])
        lam, mu, alpha = 0.02, 0.10, log(5) / 2
        a = np.clip(1 - 2 * (np.abs(answers - 0.5) - lam) / mu, -1, 1)
        expected = np.exp(-alpha * 2 * a)
        seen: list[NDArray[np.float64]] = []

        def recorded(
            words: Words, scores: NDArray[np.int64], rate: Fraction, count: int
        ) -> NDArray[np.int64]:
            weights = np.exp(float(rate) * scores)
            seen.append(weights / weights.sum())
            return np.zeros(count, dtype=np.int64)

        monkeypatch.setattr(boosting, "exponential_draws", recorded)
        schedule = Schedule(3, 1, 2, 10, Fraction(1, 100))
        boost(truth, Fixed([answers] * 3), schedule, words("figure"))
        assert seen[1] == pytest.approx(expected / expected.sum())


class TestReleases:
    @pytest.mark.parametrize("make", [tight_plan, printed_plan])
    def test_events_are_answers_and_draws(
        self, make: Callable[..., BoostingPlan], words: Callable[[str], SeededWords]
    ) -> None:
        histogram = skewed(50_000)
        plan = make(QuerySet.counting(PAIRS, histogram.n), 1, "1e-6", 10)
        release = boosted_counting(histogram, PAIRS, plan, words("events"))
        rounds = plan.schedule.rounds
        assert release.events[:rounds] == (Concentrated(plan.answer_rho),) * rounds
        assert release.events[rounds:] == plan.sampling_events()

    def test_much_data_are_answered_well_and_make_a_table(
        self, words: Callable[[str], SeededWords]
    ) -> None:
        histogram = skewed(2_000_000)
        truth = PAIRS.counts(histogram) / histogram.n
        plan = tight_plan(QuerySet.counting(PAIRS, histogram.n), 1, "1e-6", 40)
        release = boosted_counting(histogram, PAIRS, plan, words("much"))
        assert np.abs(release.answers - truth).max() < 0.01
        table = release.table(30_000, words("rows"))
        made = PAIRS.counts(Histogram.of(BITS, table)) / 30_000
        assert np.abs(made - truth).max() < 0.03

    def test_a_plan_is_for_its_queries(self, no_words: SeededWords) -> None:
        histogram = skewed(100)
        plan = tight_plan(QuerySet.counting(PAIRS, 1000), 1, "1e-6")
        with pytest.raises(InvalidParameter, match="plan: expected one for 60 queries"):
            boosted_counting(histogram, PAIRS, plan, no_words)
