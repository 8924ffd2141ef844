"""Promises of all accountants; a new one is checked by being in ACCOUNTANTS."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.composition import (
    ACCOUNTANTS,
    Accountant,
    Approximate,
    BoundedRange,
    Concentrated,
    Event,
    EventCounts,
    Pure,
)
from askance_client.errors import InvalidParameter

DELTA = Fraction(1, 10**6)
SAME = 1e-6  # relative: what two computations of one bound may differ by
KINDS: tuple[Event, ...] = (
    Pure(Fraction(1, 5)),
    BoundedRange(Fraction(1, 5)),
    Approximate(Fraction(1, 5), Fraction(1, 10**8)),
    Concentrated(Fraction(1, 50)),
)

# Multiples of a step, as operators write budgets: a coarse one keeps convolutions small.
epsilons = st.integers(1, 40).map(lambda tenths: Fraction(tenths, 20))
with_an_epsilon = st.one_of(
    epsilons.map(Pure),
    epsilons.map(BoundedRange),
    epsilons.map(lambda e: Approximate(e, Fraction(1, 10**9))),
)
some = st.lists(with_an_epsilon, min_size=1, max_size=12)
deltas = st.sampled_from([Fraction(1, 10**9), DELTA, Fraction(1, 100)])


@pytest.fixture(params=list(ACCOUNTANTS.values()), ids=list(ACCOUNTANTS))
def accountant(request: pytest.FixtureRequest) -> Accountant:
    chosen: Accountant = request.param
    return chosen


def counted(accountant: Accountant) -> list[Event]:
    return [event for event in KINDS if accountant.counts(event)]


def close(one: float, other: float) -> bool:
    return one == other or abs(one - other) <= SAME * max(one, other)


class TestEveryAccountant:
    def test_its_name_finds_it(self, accountant: Accountant) -> None:
        assert ACCOUNTANTS[accountant.name] is accountant

    def test_nothing_costs_nothing(self, accountant: Accountant) -> None:
        for delta in (Fraction(0), DELTA):
            assert accountant.epsilon(EventCounts(), delta) == 0

    def test_one_pure_release_costs_its_epsilon_at_most(self, accountant: Accountant) -> None:
        found = accountant.epsilon(EventCounts.of([Pure(Fraction(1))]), DELTA)
        assert 0.99 < found <= 1

    @settings(max_examples=15, deadline=None)
    @given(events=some, delta=deltas)
    @pytest.mark.parametrize("name", ACCOUNTANTS)
    def test_it_is_never_above_the_sum(
        self, name: str, events: list[Event], delta: Fraction
    ) -> None:
        totals = EventCounts.of(events)
        found = ACCOUNTANTS[name].epsilon(totals, delta)
        total = totals.sum_of_epsilons()
        assert total is not None
        if totals.sum_of_deltas() <= delta:
            assert 0 <= found <= total * (1 + Fraction(1, 2**50))
        else:
            assert found == inf

    @settings(max_examples=15, deadline=None)
    @given(events=some, more=with_an_epsilon, delta=deltas)
    @pytest.mark.parametrize("name", ACCOUNTANTS)
    def test_one_release_more_never_costs_less(
        self, name: str, events: list[Event], more: Event, delta: Fraction
    ) -> None:
        accountant = ACCOUNTANTS[name]
        before = accountant.epsilon(EventCounts.of(events), delta)
        after = accountant.epsilon(EventCounts.of([*events, more]), delta)
        assert after >= before * (1 - SAME)

    @settings(max_examples=15, deadline=None)
    @given(events=some, place=st.integers(0, 11), delta=deltas)
    @pytest.mark.parametrize("name", ACCOUNTANTS)
    def test_a_weaker_guarantee_never_costs_less(
        self, name: str, events: list[Event], place: int, delta: Fraction
    ) -> None:
        accountant = ACCOUNTANTS[name]
        place %= len(events)
        weaker: Event
        match events[place]:
            case Pure(epsilon) | BoundedRange(epsilon) | Approximate(epsilon, _):
                weaker = Approximate(epsilon + Fraction(1, 20), Fraction(1, 10**9))
            case Concentrated(rho):
                weaker = Concentrated(2 * rho)
        changed = [*events[:place], weaker, *events[place + 1 :]]
        before = accountant.epsilon(EventCounts.of(events), delta)
        assert accountant.epsilon(EventCounts.of(changed), delta) >= before * (1 - SAME)

    @settings(max_examples=15, deadline=None)
    @given(events=some, data=st.data())
    @pytest.mark.parametrize("name", ACCOUNTANTS)
    def test_order_does_not_matter(
        self, name: str, events: list[Event], data: st.DataObject
    ) -> None:
        other = data.draw(st.permutations(events))
        accountant = ACCOUNTANTS[name]
        assert accountant.epsilon(EventCounts.of(events), DELTA) == accountant.epsilon(
            EventCounts.of(other), DELTA
        )

    def test_a_larger_delta_never_costs_more(self, accountant: Accountant) -> None:
        for event in counted(accountant):
            totals = EventCounts({event: 60})
            found = [accountant.epsilon(totals, Fraction(1, 10**k)) for k in range(1, 12)]
            assert found == sorted(found)

    def test_a_pure_release_needs_no_delta(self, accountant: Accountant) -> None:
        totals = EventCounts({Pure(Fraction(1, 10)): 30})
        assert accountant.epsilon(totals, Fraction(0)) == 3
        assert accountant.epsilon(totals, Fraction(1, 10**300)) <= 3

    def test_a_delta_that_does_not_cover_the_deltas_is_no_bound(
        self, accountant: Accountant
    ) -> None:
        totals = EventCounts({Approximate(Fraction(1, 10), Fraction(1, 10**7)): 11})
        assert accountant.epsilon(totals, DELTA) == inf
        assert accountant.epsilon(totals, 2 * DELTA) < 1.2

    def test_many_small_ones_cost_far_less_than_their_sum(self, accountant: Accountant) -> None:
        found = accountant.epsilon(EventCounts({Pure(Fraction(1, 10)): 1000}), DELTA)
        assert found == 100 if accountant.name == "sum" else 19.3 < found < 22

    @pytest.mark.parametrize("delta", [Fraction(-1, 10), Fraction(1), Fraction(2)])
    def test_a_delta_is_below_one(self, accountant: Accountant, delta: Fraction) -> None:
        with pytest.raises(InvalidParameter, match="delta"):
            accountant.epsilon(EventCounts(), delta)

    def test_what_it_does_not_count_is_refused(self, accountant: Accountant) -> None:
        for event in KINDS:
            if accountant.counts(event):
                assert accountant.epsilon(EventCounts.of([event]), DELTA) < inf
            else:
                with pytest.raises(InvalidParameter, match=type(event).__name__):
                    accountant.epsilon(EventCounts.of([KINDS[0], event]), DELTA)

    def test_huge_and_tiny_budgets_are_bounded(self, accountant: Accountant) -> None:
        for epsilon in (Fraction(10**6), Fraction(800), Fraction(1, 10**9)):
            found = accountant.epsilon(EventCounts({Pure(epsilon): 3}), DELTA)
            assert 0 <= found <= 3 * epsilon * (1 + Fraction(1, 2**50))
