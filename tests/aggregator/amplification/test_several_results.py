"""Guarantee over epochs: against all populations of up to four users, by exact enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp

import pytest

from askance_aggregator.amplification import epsilon_ends
from askance_aggregator.amplification.outer import OuterBatch, outer_of
from askance_aggregator.amplification.several_results import (
    Cohort,
    FixedSteps,
    cohort_of,
    outer_of_epochs,
    outer_of_signed,
)
from askance_aggregator.families import best_for

BIT = best_for(2, 10**9)
QUIET = best_for(2, 5 * 10**8)
MILLIONTH = Fraction(1, 10**6)
ALL_HONEST = Fraction(0)
_SAYS_ONE = exp(1) / (1 + exp(1))


def tally_law(ones: int, users: int) -> list[float]:
    """Return the law of a one-bit tally at epsilon 1, by the binomial sums themselves."""
    law = [1.0]
    for user in range(users):
        chance = _SAYS_ONE if user < ones else 1 - _SAYS_ONE
        longer = [0.0] * (len(law) + 1)
        for tally, mass in enumerate(law):
            longer[tally] += mass * (1 - chance)
            longer[tally + 1] += mass * chance
        law = longer
    return law


def exact_delta(epsilons: list[list[float]], first: int, second: list[int]) -> float:
    """Return the worst mass beyond stated epsilons of two epochs with one user in both.

    The second epoch has `second[t]` users after the tally t of the first, and `epsilons[t][s]` is
    stated of the tallies t and s.
    """
    worst = 0.0
    for others, share in product(range(first), (0.0, 0.5, 1.0)):
        laws = tally_law(others + 1, first), tally_law(others, first)
        for one, same in product((0, 1), (0, 1)):
            mass = 0.0
            for t, users in enumerate(second):
                ones = round(share * (users - 1))
                after = tally_law(ones + 1, users), tally_law(ones, users)
                for s in range(users + 1):
                    p = laws[one][t] * after[same][s]
                    q = laws[1 - one][t] * after[1 - same][s]
                    mass += max(0.0, p - exp(epsilons[t][s]) * q)
            worst = max(worst, mass)
    return worst


def worst_delta(epsilon: float, users: int) -> float:
    stated = [[epsilon] * (users + 1)] * (users + 1)
    return exact_delta(stated, users, [users] * (users + 1))


def epoch(answers: int) -> list[Cohort]:
    return [cohort_of([OuterBatch(BIT, answers)])]


@pytest.mark.parametrize("users", [2, 3, 4])
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 5)])
def test_two_epochs_hold_for_every_population(users: int, delta: Fraction) -> None:
    fixed = FixedSteps.of([[BIT]], users)
    outer = outer_of_epochs([epoch(users)] * 2, 2, fixed, delta, ALL_HONEST)
    assert outer is not None
    assert worst_delta(outer.epsilon, users) <= delta
    steps = fixed.epsilon(2, delta, ALL_HONEST)
    assert steps is not None
    assert worst_delta(steps, users) <= delta


def test_the_bound_by_loss_distributions_is_close() -> None:
    """At the epsilon that is stated for two users at delta .1 the worst population has .0994."""
    steps = FixedSteps.of([[BIT]], 2).epsilon(2, Fraction(1, 10), ALL_HONEST)
    assert steps is not None
    assert 0.097 <= worst_delta(steps, 2) <= 0.1


def test_an_epoch_left_out_would_be_found() -> None:
    one = outer_of([OuterBatch(BIT, 4)], Fraction(1, 5), ALL_HONEST)
    assert one is not None
    assert worst_delta(one.epsilon, 4) > 0.2


def test_a_user_too_many_would_be_found() -> None:
    steps = FixedSteps.of([[BIT]], 3).epsilon(2, Fraction(1, 10), ALL_HONEST)
    assert steps is not None
    assert worst_delta(steps, 2) > 0.1


def test_a_filter_holds_where_a_tally_chooses_the_next_epoch() -> None:
    """After a tally of 2 all four are asked again, after another only two of them."""
    delta = Fraction(1, 5)
    second = [2, 2, 4, 2, 2]
    none = FixedSteps.of([[BIT]], 0)
    stated = []
    for users in second:
        outer = outer_of_epochs([epoch(4), epoch(users)], 2, none, delta, ALL_HONEST)
        stated.append([2.0 if outer is None else outer.epsilon] * (users + 1))
    assert stated[2][0] < 2
    assert exact_delta(stated, 4, second) <= delta


def stopped_delta(first: float, both: float, users: int) -> float:
    """Return the worst mass beyond what is stated if the first tally ends the study, or not.

    It ends it where more mass is then beyond `first` than beyond `both` after the second.
    """
    worst = 0.0
    for others, again in product(range(users), repeat=2):
        laws = tally_law(others + 1, users), tally_law(others, users)
        after = tally_law(again + 1, users), tally_law(again, users)
        for one, same in product((0, 1), (0, 1)):
            mass = 0.0
            for t in range(users + 1):
                p, q = laws[one][t], laws[1 - one][t]
                ended = max(0.0, p - exp(first) * q)
                second = zip(after[same], after[1 - same], strict=True)
                mass += max(ended, sum(max(0.0, p * r - exp(both) * q * s) for r, s in second))
            worst = max(worst, mass)
    return worst


def test_results_hold_where_a_tally_ends_the_study() -> None:
    delta = Fraction(1, 100)
    fixed = FixedSteps.of([[BIT]], 12)
    stated = [outer_of_epochs([epoch(12)] * n, 2, fixed, delta, ALL_HONEST) for n in (1, 2)]
    assert stated[0] is not None
    assert stated[1] is not None
    assert stopped_delta(stated[0].epsilon, stated[1].epsilon, 12) <= delta


def test_a_number_of_results_that_a_tally_chooses_would_be_found() -> None:
    """The whole delta for one result and half of it for two: .0115 in place of .01."""
    delta = Fraction(1, 100)
    one = outer_of([OuterBatch(BIT, 12)], delta, ALL_HONEST)
    both = FixedSteps.of([[BIT]], 12).epsilon(2, delta / 2, ALL_HONEST)
    assert one is not None
    assert both is not None
    assert 0.0113 < stopped_delta(one.epsilon, both, 12) < 0.0117


@pytest.mark.slow
def test_signed_steps_cost_less_than_sums_and_a_filter() -> None:
    """Twelve epochs of one bit of 5,000: a sum of equal parts of delta is .76 (see ADR 110)."""
    signed = outer_of_epochs([epoch(5000)] * 12, 12, FixedSteps.of([[BIT]], 5000), MILLIONTH)
    filtered = outer_of_epochs([epoch(5000)] * 12, 12, FixedSteps.of([[BIT]], 0), MILLIONTH)
    assert signed is not None
    assert filtered is not None
    assert 0.197 < signed.epsilon < 0.22
    assert signed.epsilon < filtered.epsilon < 0.4
    assert (signed.delta, signed.answers, signed.liars) == (MILLIONTH, 5000, Fraction(1, 100))


def test_a_filter_shares_delta_over_all_signed_epochs() -> None:
    """The first of eight epochs is bounded at a quarter of an eighth of delta."""
    unsigned = FixedSteps.of([[BIT]], 0)
    outer = outer_of_epochs([epoch(300)], 8, unsigned, MILLIONTH)
    each = epsilon_ends(BIT, 297, MILLIONTH / 32).upper  # 300 less 1 %
    assert outer is not None
    assert outer.epsilon == pytest.approx(each, rel=1e-9)


def test_the_end_states_no_more_than_was_promised_of_all() -> None:
    fixed = FixedSteps.of([[BIT]], 5000)
    promised = outer_of_signed(12, fixed, MILLIONTH)
    in_the_end = outer_of_epochs([epoch(5000)] * 12, 12, fixed, MILLIONTH)
    assert promised is not None
    assert in_the_end is not None
    assert in_the_end.epsilon <= promised.epsilon
    assert promised.answers == 5000


def test_other_steps_than_those_fixed_are_not_covered() -> None:
    fixed = FixedSteps.of([[BIT, QUIET], [QUIET]], 100)
    assert fixed.cover(cohort_of([OuterBatch(QUIET, 100), OuterBatch(BIT, 100)]))
    assert fixed.cover(cohort_of([OuterBatch(QUIET, 100)]))
    assert not fixed.cover(cohort_of([OuterBatch(BIT, 99)]))
    assert not fixed.cover(cohort_of([OuterBatch(BIT, 100), OuterBatch(BIT, 100)]))
    assert not fixed.cover(cohort_of([OuterBatch(QUIET, 100)] * 3))
    other = best_for(2, 2 * 10**9)
    assert not fixed.cover(cohort_of([OuterBatch(other, 100)]))


@pytest.mark.slow
def test_a_pair_for_any_of_two_questions_is_that_of_the_worse_one() -> None:
    either = FixedSteps.of([[BIT], [QUIET]], 2000).epsilon(4, MILLIONTH)
    worse = FixedSteps.of([[BIT]], 2000).epsilon(4, MILLIONTH)
    assert either == pytest.approx(worse, rel=1e-6)


@pytest.mark.slow
def test_the_worst_cohort_of_each_epoch_counts() -> None:
    """A user may be in the small cohort twice: cohorts are drawn anew."""
    small, large = cohort_of([OuterBatch(BIT, 600, 0)]), cohort_of([OuterBatch(BIT, 6000, 1)])
    none = FixedSteps.of([[BIT]], 0)
    both = outer_of_epochs([[small, large], [large, small]], 2, none, MILLIONTH)
    alone = outer_of_epochs([[small]] * 2, 2, none, MILLIONTH)
    assert both is not None
    assert both == alone


def test_no_more_than_the_local_epsilons_is_stated() -> None:
    none = FixedSteps.of([[BIT]], 0)
    assert outer_of_epochs([], 3, none, MILLIONTH) is None
    assert outer_of_epochs([epoch(1)] * 2, 3, none, MILLIONTH) is None
    assert outer_of_signed(3, none, MILLIONTH) is None
    assert outer_of_signed(3, FixedSteps.of([[BIT]], 2), MILLIONTH) is None


def divided_delta(epsilon: float) -> float:
    """Return the worst mass of four answers of which two are released again, chosen by a look.

    User 0 is in all. After a tally of 2 or more the second tally is of users 0 and 1, else of 0
    and 3.
    """
    worst = 0.0
    for bits in product((0, 1), repeat=3):
        masses: dict[tuple[int, int], list[float]] = {}
        for own in (0, 1):
            for says in product((0, 1), repeat=4):
                chance = 1.0
                for said, true in zip(says, (own, *bits), strict=True):
                    chance *= _SAYS_ONE if said == true else 1 - _SAYS_ONE
                tally = sum(says)
                seen = tally, says[0] + says[1 if tally >= 2 else 3]
                masses.setdefault(seen, [0.0, 0.0])[own] += chance
        for one in (0, 1):
            beyond = (m[one] - exp(epsilon) * m[1 - one] for m in masses.values())
            worst = max(worst, sum(max(0.0, mass) for mass in beyond))
    return worst


def test_reused_answers_that_were_divided_hold_and_reuse_as_fresh_would_be_found() -> None:
    """A tally of four bits has five values: the atom is of two, at a fifth of delta."""
    delta = Fraction(1, 5)
    divided = outer_of([OuterBatch(BIT, 2, choices=5)], delta, ALL_HONEST)
    assert divided is not None
    assert divided_delta(divided.epsilon) <= delta
    fresh = outer_of([OuterBatch(BIT, 4)], delta, ALL_HONEST)
    assert fresh is not None
    assert divided_delta(fresh.epsilon) > delta
