"""Bounds beside what is exactly true."""

from __future__ import annotations

import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb, erfc, exp, inf, log, sqrt

import pytest

from askance_aggregator.composition import (
    Advanced,
    Approximate,
    BoundedRange,
    Concentrated,
    EventCounts,
    Optimal,
    Pure,
    Sum,
    ZeroConcentrated,
    epsilon_of_rho,
)
from askance_aggregator.composition.events import log_inverse, upward
from askance_client.errors import InvalidParameter

DELTA = Fraction(1, 10**6)


def exact_delta(each: Fraction, count: int, epsilon: float) -> Decimal:
    """Return the least delta of `count` randomized responses of this epsilon each, to 60 digits."""
    with localcontext(prec=60):
        one = (Decimal(each.numerator) / each.denominator).exp()
        target = Decimal(epsilon).exp()
        total = Decimal(0)
        for lies in range(count + 1):
            excess = one ** (count - lies) - target * one**lies
            if excess > 0:
                total += comb(count, lies) * excess
        return total / (1 + one) ** count


def gaussian_delta(rho: float, epsilon: float) -> float:
    """Compute the delta of the rho-zCDP Gaussian mechanism exactly (Balle, Wang 2018)."""
    mean = sqrt(2 * rho)

    def above(x: float) -> float:
        return erfc(x / sqrt(2)) / 2

    low = epsilon / mean - mean / 2
    return above(low) - exp(epsilon) * above(low + mean)


class TestOptimal:
    @pytest.mark.parametrize("count", [1, 2, 10, 100, 1000, 2000])
    @pytest.mark.parametrize("each", ["0.05", "0.1", "0.3", "1"])
    def test_it_is_true_and_the_least(self, each: str, count: int) -> None:
        """Held against the exact law of the worst release, in decimals."""
        totals = EventCounts({Pure(Fraction(each)): count})
        found = Optimal().epsilon(totals, DELTA)
        allowed = Decimal(1) / 10**6
        assert exact_delta(Fraction(each), count, found) <= allowed
        if found < min(700.0, Sum().epsilon(totals, DELTA)):
            assert exact_delta(Fraction(each), count, found * (1 - 1e-5)) > allowed

    @pytest.mark.parametrize(("count", "known"), [(10, 0.99937), (100, 4.77457), (1000, 19.34467)])
    def test_the_table(self, count: int, known: float) -> None:
        found = Optimal().epsilon(EventCounts({Pure(Fraction(1, 10)): count}), DELTA)
        assert found == pytest.approx(known, abs=5e-6)

    def test_budgets_without_a_common_measure_are_rounded_upward_and_little(self) -> None:
        even = EventCounts({Pure(Fraction(1, 10)): 300})
        odd = EventCounts(
            {Pure(Fraction(1, 10)): 299, Pure(Fraction(1, 10) + Fraction(1, 10**9)): 1}
        )
        one, other = (Optimal().epsilon(each, DELTA) for each in (even, odd))
        assert one < other < one * 1.002

    def test_deltas_of_releases_are_taken_from_delta(self) -> None:
        pure = EventCounts({Pure(Fraction(1, 10)): 100})
        part = EventCounts({Approximate(Fraction(1, 10), DELTA / 200): 100})
        found = Optimal().epsilon(part, DELTA)
        assert Optimal().epsilon(pure, DELTA) < found
        assert found == pytest.approx(Optimal().epsilon(pure, DELTA / 2), rel=1e-5)

    def test_it_asks_for_the_package_that_it_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
        with pytest.raises(InvalidParameter, match="expected the package dp-accounting"):
            Optimal().epsilon(EventCounts({Pure(Fraction(1, 10)): 100}), DELTA)

    def test_where_floats_would_show_another_bound_stands_in(self) -> None:
        totals = EventCounts({Pure(Fraction(1, 10)): 100})
        tiny = Fraction(1, 10**13)
        assert Optimal().epsilon(totals, tiny) == Advanced().epsilon(totals, tiny)


class TestAdvanced:
    def test_it_is_the_theorem_divided(self) -> None:
        k, eps = 100, 0.1
        formula = sqrt(2 * k * log(1e6)) * eps + k * eps * (exp(eps) - 1) / (exp(eps) + 1)
        found = Advanced().epsilon(EventCounts({Pure(Fraction(1, 10)): k}), DELTA)
        assert formula <= found <= formula * (1 + 1e-11)

    def test_budgets_may_differ(self) -> None:
        mixed = EventCounts({Pure(Fraction(1, 10)): 100, Pure(Fraction(1, 5)): 100})
        squares = 100 * 0.01 + 100 * 0.04
        means = sum(100 * x * (exp(x) - 1) / (exp(x) + 1) for x in (0.1, 0.2))
        formula = sqrt(2 * log(1e6) * squares) + means
        assert Advanced().epsilon(mixed, DELTA) == pytest.approx(formula, rel=1e-11)

    @pytest.mark.parametrize("count", [1, 5, 30, 100, 1000])
    @pytest.mark.parametrize("each", ["0.05", "0.5", "2"])
    def test_it_is_true(self, each: str, count: int) -> None:
        found = Advanced().epsilon(EventCounts({Pure(Fraction(each)): count}), DELTA)
        assert exact_delta(Fraction(each), count, found) <= Decimal(1) / 10**6

    def test_deltas_are_taken_from_delta(self) -> None:
        part = EventCounts({Approximate(Fraction(1, 10), DELTA / 200): 100})
        pure = EventCounts({Pure(Fraction(1, 10)): 100})
        assert Advanced().epsilon(part, DELTA) == Advanced().epsilon(pure, DELTA / 2)
        all_of_it = EventCounts({Approximate(Fraction(1, 10), DELTA / 100): 100})
        assert Advanced().epsilon(all_of_it, DELTA) == 10


class TestConcentration:
    @pytest.mark.parametrize("rho", ["0.0001", "0.01", "0.5", "3", "100"])
    @pytest.mark.parametrize("delta", [Fraction(1, 100), DELTA, Fraction(1, 10**12)])
    def test_it_is_true_of_the_gaussian_and_below_the_closed_form(
        self, rho: str, delta: Fraction
    ) -> None:
        found, number = epsilon_of_rho(Fraction(rho), delta), float(rho)
        assert found < number + 2 * sqrt(number * log(1 / delta))
        if 0 < found < 500:
            assert gaussian_delta(number, found) <= delta
            assert gaussian_delta(number, 0.7 * found) > delta

    def test_the_grid_of_orders_is_fine_enough(self) -> None:
        """Beside the minimum over all orders, by a search."""
        from scipy.optimize import minimize_scalar

        for rho in (1e-4, 0.01, 1.0, 50.0):

            def bound(above: float, rho: float = rho) -> float:
                order = 1 + exp(above)
                rest = log(1e6) - log(order)
                return order * rho + rest / (order - 1) + log(1 - 1 / order)

            least = minimize_scalar(bound, bounds=(-12, 15), method="bounded").fun
            assert least <= epsilon_of_rho(Fraction(rho), DELTA) * (1 + 1e-9)
            assert epsilon_of_rho(Fraction(rho), DELTA) <= max(least, 0) * (1 + 1e-4)

    def test_rhos_add_up(self) -> None:
        mixed = EventCounts.of(
            [
                Concentrated(Fraction(1, 10)),
                Pure(Fraction(1, 2)),  # 1/8
                BoundedRange(Fraction(1)),  # 1/8
                Approximate(Fraction(1, 5), Fraction(0)),  # 1/50
            ]
        )
        assert mixed.sum_of_rhos() == Fraction(37, 100)
        assert ZeroConcentrated().epsilon(mixed, DELTA) == epsilon_of_rho(Fraction(37, 100), DELTA)

    def test_it_is_nothing_without_a_delta(self) -> None:
        assert epsilon_of_rho(Fraction(1), Fraction(0)) == inf
        assert epsilon_of_rho(Fraction(0), Fraction(0)) == 0
        assert (
            ZeroConcentrated().epsilon(EventCounts.of([Concentrated(Fraction(1))]), Fraction(0))
            == inf
        )


class TestRounding:
    @pytest.mark.parametrize("exact", [Fraction(1, 3), Fraction(1, 10), Fraction(2**60 + 1), 2])
    def test_upward_is_the_least_float_that_is_not_below(self, exact: Fraction) -> None:
        found = upward(Fraction(exact))
        assert found >= exact
        assert found == exact or Fraction(found) - exact < Fraction(found) / 2**52

    def test_what_no_float_reaches_is_infinite(self) -> None:
        assert upward(Fraction(10**400)) == inf

    @pytest.mark.parametrize("power", [1, 6, 300, 400])
    def test_the_logarithm_of_a_small_delta_is_not_below(self, power: int) -> None:
        found = log_inverse(Fraction(1, 10**power))
        with localcontext(prec=40):
            true = power * Decimal(10).ln()
        assert true <= Decimal(found) <= true * (1 + Decimal("1e-11"))

    def test_nor_that_of_one_near_one(self) -> None:
        small = Fraction(1, 10**9)
        found = log_inverse(1 - small)
        with localcontext(prec=40):
            true = -(1 - Decimal("1e-9")).ln()
        assert true <= Decimal(found) <= true * (1 + Decimal("1e-11"))
