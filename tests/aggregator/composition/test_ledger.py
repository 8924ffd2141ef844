"""A ledger records in order, all or nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.composition import (
    AdaptiveFilter,
    Approximate,
    BoundedRange,
    Concentrated,
    Event,
    EventCounts,
    Pure,
    ReleaseLedger,
    Sum,
    SumFilter,
)
from askance_client.errors import InvalidParameter, PlanRefused

TENTH = Pure(Fraction(1, 10))
FIFTH = Pure(Fraction(1, 5))


class TestRecording:
    def test_events_are_kept_in_order_and_counted(self) -> None:
        ledger = ReleaseLedger()
        ledger.compose(TENTH, FIFTH)
        ledger.compose(TENTH)
        assert ledger.events == (TENTH, FIFTH, TENTH)
        assert ledger.totals == EventCounts({TENTH: 2, FIFTH: 1})
        assert ledger.epsilon(Sum(), Fraction(0)) == 0.4

    def test_totals_do_not_change_when_the_ledger_does(self) -> None:
        ledger = ReleaseLedger()
        before = ledger.compose(TENTH)
        ledger.compose(TENTH)
        assert before == EventCounts.of([TENTH])
        with pytest.raises(TypeError):
            before.counts[TENTH] = 5  # type: ignore[index]  # that it cannot be done

    def test_totals_do_not_change_with_what_they_were_made_of(self) -> None:
        counts: dict[Event, int] = {TENTH: 1}
        totals = EventCounts(counts)
        counts[TENTH] = 2
        assert totals == EventCounts.of([TENTH])

    @pytest.mark.parametrize("other", ["0.1", None, Fraction(1, 10), Pure])
    def test_what_is_no_event_is_named_and_nothing_recorded(self, other: Any) -> None:
        ledger = ReleaseLedger()
        with pytest.raises(InvalidParameter, match=r"event 1: expected a release, found \w+"):
            ledger.compose(TENTH, other, FIFTH)
        assert ledger.events == ()
        assert ledger.totals == EventCounts()

    @pytest.mark.parametrize("count", [0, -1, True, 1.5])
    def test_totals_count_from_one(self, count: Any) -> None:
        with pytest.raises(InvalidParameter, match="once or more"):
            EventCounts({TENTH: count})


class TestABudget:
    def test_the_event_that_would_pass_it_is_named_and_nothing_recorded(self) -> None:
        ledger = ReleaseLedger(SumFilter(Fraction(1, 2)))
        ledger.compose(FIFTH)
        assert not ledger.admits(TENTH, TENTH, TENTH, TENTH)
        with pytest.raises(PlanRefused, match=r"after 1 releases, found event 3 \(Pure\)"):
            ledger.compose(TENTH, TENTH, TENTH, TENTH, TENTH)
        assert ledger.events == (FIFTH,)
        assert ledger.totals == EventCounts.of([FIFTH])

    def test_all_of_it_may_be_spent(self) -> None:
        ledger = ReleaseLedger(SumFilter(Fraction(1, 2)))
        assert ledger.admits(FIFTH, FIFTH, TENTH)
        ledger.compose(FIFTH, FIFTH, TENTH)
        assert ledger.epsilon(Sum(), Fraction(0)) == 0.5
        with pytest.raises(PlanRefused, match="event 0"):
            ledger.compose(Pure(Fraction(1, 10**9)))

    def test_what_the_budget_cannot_be_held_against_is_refused(self) -> None:
        ledger = ReleaseLedger(SumFilter(Fraction(1)))
        with pytest.raises(InvalidParameter, match=r"SumFilter counts, found event 1 \(Concen"):
            ledger.compose(TENTH, Concentrated(Fraction(1, 10)))
        assert ledger.events == ()

    @settings(max_examples=60, deadline=None)
    @given(
        batches=st.lists(
            st.lists(st.sampled_from([TENTH, FIFTH, BoundedRange(Fraction(1, 5))]), max_size=9),
            max_size=8,
        ),
        budget=st.sampled_from(
            [SumFilter(Fraction(1)), AdaptiveFilter(Fraction(2), Fraction(1, 10**6))]
        ),
    )
    def test_no_sequence_passes_it_and_refusals_change_nothing(
        self, batches: list[list[Event]], budget: SumFilter | AdaptiveFilter
    ) -> None:
        ledger = ReleaseLedger(budget)
        recorded: list[Event] = []
        for batch in batches:
            if ledger.admits(*batch):
                ledger.compose(*batch)
                recorded += batch
            else:
                with pytest.raises(PlanRefused) as raised:
                    ledger.compose(*batch)
                named = int(str(raised.value).split("found event ")[1].split()[0])
                assert budget.within(EventCounts.of([*recorded, *batch[:named]]))
                assert not budget.within(EventCounts.of([*recorded, *batch[: named + 1]]))
            assert ledger.events == tuple(recorded)
            assert budget.within(ledger.totals)


class TestEvents:
    @pytest.mark.parametrize("kind", [Pure, BoundedRange, Concentrated])
    def test_a_cost_is_not_negative(self, kind: type[Pure | BoundedRange | Concentrated]) -> None:
        with pytest.raises(InvalidParameter, match="0 or more"):
            kind(Fraction(-1))

    @pytest.mark.parametrize("delta", [Fraction(-1, 2), Fraction(1)])
    def test_a_delta_is_below_one(self, delta: Fraction) -> None:
        with pytest.raises(InvalidParameter, match="delta"):
            Approximate(Fraction(1), delta)

    @pytest.mark.parametrize("cost", [0.1, float("nan"), "1", True, None])
    def test_a_cost_is_exact(self, cost: Any) -> None:
        """Ten floats of 0.1 sum to less than 1, and NaN passes no budget because it compares."""
        for made in (
            lambda: Pure(cost),
            lambda: BoundedRange(cost),
            lambda: Concentrated(cost),
            lambda: Approximate(Fraction(1), cost),
            lambda: SumFilter(cost),
            lambda: AdaptiveFilter(cost, Fraction(1, 10)),
            lambda: AdaptiveFilter(Fraction(1), Fraction(1, 10), spare=cost),
        ):
            with pytest.raises(InvalidParameter, match="a whole number or a Fraction"):
                made()
