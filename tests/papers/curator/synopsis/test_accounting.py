"""Plans spend what they are given, by their accounting and in truth."""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1, inf, log, sqrt

import numpy as np
import pytest

from askance_aggregator.composition import (
    Advanced,
    BoundedRange,
    Concentrated,
    EventCounts,
    Pure,
    ZeroConcentrated,
    epsilon_of_rho,
)
from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis import (
    MarginalFamily,
    QuerySet,
    Universe,
    concentrated_within,
    per_release_epsilon,
    printed_plan,
    rounds_for,
    tight_plan,
)
from askance_papers.curator.synopsis.accounting import TWO_ALPHA

DELTA = Fraction(1, 10**6)
MANY = QuerySet(1760, Fraction(1, 10_000), 1)


def implied_delta(rho: float, epsilon: float) -> float:
    """Compute Canonne, Kamath, Steinke, Corollary 13, over a fine grid of orders."""
    orders = 1 + np.exp(np.linspace(-5, 10, 200_001))
    logs = (
        (orders - 1) * (orders * rho - epsilon)
        - np.log(orders - 1)
        + orders * np.log1p(-1 / orders)
    )
    return float(np.exp(logs.min()))


class TestConversions:
    @pytest.mark.parametrize("epsilon", [Fraction(1, 32), Fraction(1), Fraction(4)])
    def test_rho_implies_the_budget_and_little_more_would_not(self, epsilon: Fraction) -> None:
        rho = concentrated_within(epsilon, DELTA)
        assert implied_delta(float(rho), float(epsilon)) <= float(DELTA) * (1 + 1e-6)
        assert implied_delta(float(rho) * 1.0001, float(epsilon)) > float(DELTA)
        assert epsilon_of_rho(rho, DELTA) == pytest.approx(float(epsilon), rel=1e-6)

    def test_it_beats_the_simple_conversion(self) -> None:
        """Epsilon is rho + 2 sqrt(rho ln(1/delta)) (Bun, Steinke)."""
        rho = concentrated_within(Fraction(1), DELTA)
        simple = (sqrt(log(1 / DELTA) + 1) - sqrt(log(1 / DELTA))) ** 2
        assert float(rho) > 1.15 * simple

    @pytest.mark.parametrize("count", [1, 26, 1760, 5200])
    def test_each_of_many_releases_has_what_theorem_iii_3_leaves(self, count: int) -> None:
        each = per_release_epsilon(Fraction(1), DELTA, count)
        theorem = Advanced()
        assert theorem.epsilon(EventCounts({Pure(each): count}), DELTA) <= 1
        assert (
            theorem.epsilon(EventCounts({Pure(each * Fraction(10_001, 10_000)): count}), DELTA) > 1
        )


class TestSchedule:
    def test_rounds_are_those_of_the_paper(self) -> None:
        assert rounds_for(1760) == 26
        assert [rounds_for(one) for one in (1, 2, 100_000)] == [1, 3, 40]

    def test_alpha_is_a_hair_below_the_paper_s(self) -> None:
        assert 0 < log(5) - float(TWO_ALPHA) < 1e-12
        assert exp(float(TWO_ALPHA)) < 5


class TestTight:
    @pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
    @pytest.mark.parametrize("scale", [1, 1 << 15])
    def test_it_spends_all_of_its_budget(self, epsilon: str, scale: int) -> None:
        queries = QuerySet(1760, Fraction(1, 10_000 * scale), scale)
        plan = tight_plan(queries, epsilon, "1e-6")
        spent = epsilon_of_rho(plan.rho(), DELTA)
        assert 0.99 * float(epsilon) < spent <= float(epsilon)

    def test_events_are_what_rho_is_made_of(self) -> None:
        plan = tight_plan(MANY, 1, "1e-6", samples=50)
        events = plan.sampling_events()
        assert len(events) == 25 * 50  # round 1 is free
        ranges = [event.epsilon for event in events if isinstance(event, BoundedRange)]
        assert sum(one**2 for one in ranges) / 8 + 26 * plan.answer_rho == plan.rho()
        answers = (Concentrated(plan.answer_rho),) * 26
        spent = ZeroConcentrated().epsilon(EventCounts.of(answers + events), DELTA)
        assert 0.99 < spent <= 1
        mu = plan.schedule.slack * plan.schedule.unit
        assert ranges[0] == 2 * TWO_ALPHA * Fraction(1, 10_000) / mu
        assert ranges[-1] == 25 * ranges[0]

    def test_more_records_are_more_accurate_in_proportion(self) -> None:
        bounds = []
        for n in (10**4, 10**6):
            queries = QuerySet.counting(MarginalFamily(Universe.of_bits(12), 3), n)
            bounds.append(float(tight_plan(queries, 1, "1e-6").schedule.bound))
        assert bounds[0] == pytest.approx(100 * bounds[1], rel=0.01)


class TestPrinted:
    def test_it_adds_up_as_the_paper_adds(self) -> None:
        """T base synopses summed, and T k draws at 4 alpha T rho / mu by Theorem III.3."""
        plan = printed_plan(MANY, 1, "1e-6")
        draws = 26 * plan.schedule.samples
        each = 2 * float(TWO_ALPHA) * 26 / plan.schedule.slack
        mean = draws * each * expm1(each) / (exp(each) + 1)
        sampling = sqrt(2 * draws * log(2 / DELTA)) * each + mean
        base = epsilon_of_rho(plan.answer_rho, DELTA / 52)
        assert sampling + 26 * base == pytest.approx(1, abs=1e-3)
        assert sampling + 26 * base <= 1

    def test_in_truth_it_costs_a_fraction_of_that(self) -> None:
        plan = printed_plan(MANY, 1, "1e-6")
        assert epsilon_of_rho(plan.rho(), DELTA) < 0.2


@pytest.mark.parametrize("make", [tight_plan, printed_plan])
class TestWhatIsRefused:
    @pytest.mark.parametrize("epsilon", [0, -1, "x", inf])
    def test_epsilon(self, make: object, epsilon: object) -> None:
        with pytest.raises(InvalidParameter, match="epsilon"):
            make(MANY, epsilon, "1e-6")  # type: ignore[operator]  # either

    @pytest.mark.parametrize("delta", [0, 1, -1, "x"])
    def test_delta(self, make: object, delta: object) -> None:
        with pytest.raises(InvalidParameter, match="delta"):
            make(MANY, 1, delta)  # type: ignore[operator]  # either

    @pytest.mark.parametrize("budget", [("1e-7", "1e-9"), ("2e-7", "1e-12"), ("1e-6", "1e-12")])
    def test_a_budget_that_leaves_nothing_for_answers(
        self, make: object, budget: tuple[str, str]
    ) -> None:
        """A round's share is below the grid of 10^-15, though the whole is not."""
        with pytest.raises(InvalidParameter, match="budget: expected enough"):
            make(MANY, *budget)  # type: ignore[operator]  # either

    @pytest.mark.parametrize("samples", [0, 1001, 2.5, True])
    def test_samples(self, make: object, samples: object) -> None:
        with pytest.raises(InvalidParameter, match=r"samples: expected a whole number 1 \.\. 1000"):
            make(MANY, 1, "1e-6", samples)  # type: ignore[operator]  # either
