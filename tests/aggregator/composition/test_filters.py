"""Filters hold for every analyst who chooses the next budget by the earlier answers."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import exp, inf, log, sqrt
from typing import Any

import pytest

from askance_aggregator.composition import (
    AdaptiveFilter,
    Approximate,
    BoundedRange,
    Concentrated,
    EventCounts,
    Filter,
    Optimal,
    Pure,
    SumFilter,
    Unlimited,
)
from askance_client.errors import InvalidParameter

DELTA = Fraction(1, 10**6)
UNIT = Fraction(1, 4)  # the adversary's budgets are multiples of it
MENU = (1, 2, 4)


def most_distinguishing(budget: Filter, epsilon: float) -> float:
    """Return the delta of the best adversary, exactly but for floats.

    It asks randomized responses, the worst releases there are, of budgets from the menu, each
    chosen by all answers so far, as the filter lets it. What matters of those is the privacy loss
    (a multiple of the unit) and how often each budget was asked. Its gain at the end is how far the
    likelihood of what it saw passes e^epsilon times that under the neighbour: E[(1 - e^(epsilon -
    loss))+].
    """

    @cache
    def value(loss: int, asked: tuple[int, ...]) -> float:
        best = max(0.0, 1 - exp(epsilon - loss * float(UNIT)))
        for place, size in enumerate(MENU):
            then = (*asked[:place], asked[place] + 1, *asked[place + 1 :])
            if allowed(then):
                true = 1 / (1 + exp(-size * float(UNIT)))
                gained = true * value(loss + size, then) + (1 - true) * value(loss - size, then)
                best = max(best, gained)
        return best

    @cache
    def allowed(asked: tuple[int, ...]) -> bool:
        return budget.within(
            EventCounts({Pure(m * UNIT): n for m, n in zip(MENU, asked, strict=True) if n})
        )

    return value(0, (0,) * len(MENU))


def pure(count: int, epsilon: Fraction = Fraction(1, 10)) -> EventCounts:
    return EventCounts({Pure(epsilon): count}) if count else EventCounts()


def most_admitted(budget: Filter, epsilon: Fraction = Fraction(1, 10)) -> int:
    count = 0
    while budget.within(pure(count + 1, epsilon)):
        count += 1
    return count


class TestTheAdversary:
    @pytest.mark.parametrize(
        ("epsilon", "delta"), [("4", Fraction(1, 100)), ("3", Fraction(1, 10)), ("2", DELTA)]
    )
    def test_it_stays_within_what_the_adaptive_filter_promises(
        self, epsilon: str, delta: Fraction
    ) -> None:
        found = most_distinguishing(AdaptiveFilter(Fraction(epsilon), delta), float(epsilon))
        assert found <= delta

    def test_it_gains_more_than_nothing_and_would_pass_a_promise_of_half(self) -> None:
        """The adversary is effective: the same filter does not keep half of its epsilon."""
        budget = AdaptiveFilter(Fraction(4), Fraction(1, 100))
        assert most_distinguishing(budget, 4.0) > 1e-5
        assert most_distinguishing(budget, 2.0) > Fraction(1, 100)

    def test_against_sums_it_gains_nothing(self) -> None:
        budget = SumFilter(Fraction(2))
        assert most_distinguishing(budget, 2.0) <= 1e-12
        assert most_distinguishing(budget, 1.9) > 1e-3


class TestAdaptiveFilter:
    @pytest.mark.parametrize(("epsilon", "delta"), [(1, DELTA), (3, DELTA), (8, Fraction(1, 1000))])
    def test_it_admits_what_theorem_iii_3_does_and_no_more_than_the_optimum(
        self, epsilon: int, delta: Fraction
    ) -> None:
        admitted = most_admitted(AdaptiveFilter(Fraction(epsilon), delta))

        def rate(k: int) -> float:
            return sqrt(2 * log(1 / delta) * k * 0.01) + k * 0.01 / 2

        by_the_rate = max(k for k in range(2000) if rate(k) <= epsilon)
        assert by_the_rate <= admitted
        assert Optimal().epsilon(pure(admitted), delta) <= epsilon

    def test_releases_of_bounded_range_cost_a_quarter(self) -> None:
        budget = AdaptiveFilter(Fraction(3), DELTA)
        admitted = most_admitted(budget)
        quarter = EventCounts({BoundedRange(Fraction(1, 10)): 4 * admitted})
        more = EventCounts({BoundedRange(Fraction(1, 10)): 4 * admitted + 4})
        assert budget.within(quarter)
        assert not budget.within(more)

    def test_deltas_are_held_against_what_is_spared_for_them(self) -> None:
        budget = AdaptiveFilter(Fraction(3), DELTA, spare=DELTA / 2)
        part = Approximate(Fraction(1, 10), DELTA / 10)
        assert budget.within(EventCounts({part: 5}))
        assert not budget.within(EventCounts({part: 6}))
        assert not AdaptiveFilter(Fraction(3), DELTA).within(EventCounts.of([part]))

    def test_rhos_are_held_against_it(self) -> None:
        budget = AdaptiveFilter(Fraction(1), DELTA)
        assert budget.within(EventCounts.of([Concentrated(Fraction(1, 100))]))
        assert not budget.within(EventCounts.of([Concentrated(Fraction(1, 10))]))

    @pytest.mark.parametrize(
        "given",
        [
            (Fraction(0), DELTA),
            (Fraction(-1), DELTA),
            (Fraction(1), Fraction(0)),
            (Fraction(1), Fraction(1)),
            (Fraction(1), DELTA, DELTA),
            (Fraction(1), DELTA, -DELTA),
        ],
    )
    def test_its_budget_is_checked(self, given: tuple[Any, ...]) -> None:
        with pytest.raises(InvalidParameter, match="filter"):
            AdaptiveFilter(*given)


class TestSumFilter:
    def test_it_admits_exactly_its_sum(self) -> None:
        assert most_admitted(SumFilter(Fraction(1))) == 10

    def test_deltas_add_up_too(self) -> None:
        part = Approximate(Fraction(1, 100), DELTA / 10)
        assert SumFilter(Fraction(1), DELTA).within(EventCounts({part: 10}))
        assert not SumFilter(Fraction(1), DELTA).within(EventCounts({part: 11}))
        assert not SumFilter(Fraction(1)).within(EventCounts.of([part]))

    def test_it_does_not_count_what_has_no_epsilon(self) -> None:
        event = Concentrated(Fraction(1, 1000))
        assert not SumFilter(Fraction(1)).counts(event)
        assert not SumFilter(Fraction(1)).within(EventCounts.of([event]))

    @pytest.mark.parametrize("given", [(Fraction(0),), (Fraction(1), Fraction(-1, 2))])
    def test_its_budget_is_checked(self, given: tuple[Any, ...]) -> None:
        with pytest.raises(InvalidParameter, match="filter"):
            SumFilter(*given)


def test_no_limit_is_none() -> None:
    assert Unlimited().counts(Concentrated(Fraction(1)))
    assert Unlimited().within(pure(10**6, Fraction(100)))
    assert inf > Optimal().epsilon(pure(10), DELTA)
