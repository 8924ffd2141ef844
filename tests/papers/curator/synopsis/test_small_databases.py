"""Arbitrary queries: their sensitivity is looked at, and a small database answers them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb, exp, log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from askance_aggregator.composition import BoundedRange
from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis import (
    Histogram,
    LowSensitivityQueries,
    SmallDatabaseGenerator,
    Universe,
    boosted_search,
    tight_plan,
)
from askance_papers.curator.synopsis.small_databases import every_database
from askance_simulation.randomness import SeededWords

TERNARY = Universe((3,))
N = 40


def middles(databases: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute no means: the larger of two shares, their distance, and a share that is capped."""
    shares = databases / databases.sum(axis=1, keepdims=True)
    return np.stack(
        [
            np.maximum(shares[:, 0], shares[:, 1]),
            np.abs(shares[:, 0] - shares[:, 2]) / 2,
            np.minimum(shares[:, 2], 0.5),
        ],
        axis=1,
    )


def data() -> Histogram:
    return Histogram(TERNARY, np.array([24, 12, 4]))


class TestEveryDatabase:
    @pytest.mark.parametrize(("cells", "records"), [(1, 4), (3, 5), (4, 1)])
    def test_all_multisets_once(self, cells: int, records: int) -> None:
        found = every_database(cells, records)
        assert len({tuple(one) for one in found.tolist()}) == comb(records + cells - 1, records)
        assert (found.sum(axis=1) == records).all()
        assert found.min() >= 0


class TestSensitivity:
    def test_what_is_stated_is_enough(self) -> None:
        queries = LowSensitivityQueries(TERNARY, N, Fraction(1, N), middles)
        assert queries.query_set.size == 3
        assert queries.query_set.unit * (queries.query_set.sensitivity - 1) == Fraction(1, N)

    def test_less_is_found_out(self) -> None:
        with pytest.raises(
            InvalidParameter, match=r"query 0: expected a sensitivity .* 1\.25 times"
        ):
            LowSensitivityQueries(TERNARY, N, Fraction(4, 5 * N), middles)

    def test_a_query_that_jumps_is_found_out(self) -> None:
        """The query is the majority of cell 0: one record decides, between 20 and 21 of 40."""
        with pytest.raises(InvalidParameter, match="query 0: expected a sensitivity"):
            LowSensitivityQueries(
                TERNARY, N, Fraction(1, N), lambda some: (2 * some[:, :1] > N).astype(float)
            )

    def test_values_are_numbers(self) -> None:
        with pytest.raises(InvalidParameter, match="query 0: expected finite values"):
            LowSensitivityQueries(
                TERNARY, N, Fraction(1, N), lambda some: np.full((len(some), 1), np.nan)
            )

    @pytest.mark.parametrize("sensitivity", [0, -1])
    def test_it_is_above_zero(self, sensitivity: int) -> None:
        with pytest.raises(InvalidParameter, match="sensitivity: expected above 0"):
            LowSensitivityQueries(TERNARY, N, sensitivity, middles)

    def test_a_universe_too_large_to_look_at_is_refused(self) -> None:
        with pytest.raises(InvalidParameter, match="search: expected at most 262144 databases"):
            LowSensitivityQueries(Universe.of_bits(5), N, Fraction(1, N), middles)


class TestTheGenerator:
    def test_it_draws_databases_by_their_errors(self, words: Callable[[str], SeededWords]) -> None:
        """Utility: within 2 rho ln(candidates/beta) / range of the best, beta aside."""
        queries = LowSensitivityQueries(TERNARY, N, Fraction(1, N), middles)
        truth = queries.truth(data())
        generator = SmallDatabaseGenerator(queries, truth, 10, Fraction(1))
        (event,) = generator.events
        assert isinstance(event, BoundedRange)
        assert float(event.epsilon) == pytest.approx(8**0.5)
        best, candidates = 0.0, comb(12, 2)  # ten records have these shares exactly
        for place in range(50):
            synopsis, answers = generator.generate(np.arange(3), words(f"search {place}"))
            assert synopsis.weights.sum() == pytest.approx(1)
            error = np.abs(answers - truth * float(queries.query_set.unit)).max()
            assert error <= best + 2 / N * log(candidates / 1e-8) / float(event.epsilon) + 1e-3

    def test_boosting_runs_on_it(self, words: Callable[[str], SeededWords]) -> None:
        queries = LowSensitivityQueries(TERNARY, N, Fraction(1, N), middles)
        plan = tight_plan(queries.query_set, 60, "1e-6", samples=3)
        found, events = boosted_search(data(), queries, 10, plan, words("boosted"))
        truth = queries.truth(data()) * float(queries.query_set.unit)
        assert np.abs(found.answers - truth).max() < 0.06
        assert len(found.synopses) == plan.schedule.rounds
        assert len(events) == plan.schedule.rounds + 3 * (plan.schedule.rounds - 1)

    def test_data_of_another_size_are_refused(self, no_words: SeededWords) -> None:
        queries = LowSensitivityQueries(TERNARY, N, Fraction(1, N), middles)
        plan = tight_plan(queries.query_set, 1, "1e-6")
        other = Histogram(TERNARY, np.array([1, 1, 1]))
        with pytest.raises(InvalidParameter, match="histogram: expected 40 records"):
            boosted_search(other, queries, 10, plan, no_words)


def test_a_database_is_drawn_with_the_exponential_mechanisms_probability(
    words: Callable[[str], SeededWords],
) -> None:
    """Databases of one record of two cells say 0 or 1 where 0.3 is true: four of rho less wrong."""
    bits = Universe((2,))
    shares = LowSensitivityQueries(
        bits, 10, Fraction(1, 10), lambda some: some[:, 1:] / some.sum(axis=1, keepdims=True)
    )
    truth = shares.truth(Histogram(bits, np.array([7, 3])))
    generator = SmallDatabaseGenerator(shares, truth, 1, Fraction(1, 32))
    assert generator.events == (BoundedRange(Fraction(1, 2)),)
    drawn = words("one record")
    noughts = sum(
        generator.generate(np.zeros(1, dtype=np.int64), drawn)[0].weights[0] == 1
        for _ in range(400)
    )
    behind = 4 * 1024  # units; an answer moves by 1025 of them, and half of the range may favour it
    expected = 1 / (1 + exp(-0.5 / 2 * behind / 1025))
    assert binomtest(int(noughts), 400, expected).pvalue > 1e-6
