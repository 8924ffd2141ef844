"""p: what it costs by the proof, and the largest that a budget allows."""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1, log, tanh

import pytest

from askance_client.errors import InvalidParameter
from askance_papers.curator.parity import (
    PrivateParity,
    even_keeping,
    likelihood_ratio,
    printed_keeping,
    sharper_keeping,
)

STEP = Fraction(1, 1 << 64)
BUDGETS = [Fraction("0.01"), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)]


def stated_loss(p: float, runs: int) -> float:
    """Return the weaker bound: any q from 1/2 to 1, and no relation to it but q' >= q / (1 + p)."""

    def passes(q: float) -> float:
        return sum(q**j for j in range(runs))

    worst = max(
        log(passes(q) / passes(max(0.5, q / (1 + p))))
        for q in (0.5 + k / 2000 for k in range(1001))
    )
    return max(runs * log(1 + p), log((1 + p) / (1 - p)) + worst)


@pytest.mark.parametrize("epsilon", BUDGETS)
def test_one_run_keeps_tanh(epsilon: Fraction) -> None:
    p = sharper_keeping(epsilon, 1)
    assert p == even_keeping(epsilon, 1)
    assert float(p) == pytest.approx(tanh(float(epsilon) / 2), rel=1e-14)


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("runs", [2, 7, 60])
def test_an_even_split_keeps_tanh_of_its_part(epsilon: Fraction, runs: int) -> None:
    assert float(even_keeping(epsilon, runs)) == pytest.approx(
        tanh(float(epsilon) / (2 * runs)), rel=1e-14
    )


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("runs", [1, 2, 3, 4, 8, 12])
def test_it_is_the_largest_multiple_of_a_word_that_fits(epsilon: Fraction, runs: int) -> None:
    p = sharper_keeping(epsilon, runs)
    assert (p / STEP).denominator == 1
    nano = Fraction(1, 10**9)
    assert PrivateParity(epsilon, runs, p).loss <= epsilon
    with pytest.raises(InvalidParameter, match="expected a loss of at most"):
        PrivateParity(epsilon, runs, p + STEP)
    assert PrivateParity(epsilon, runs, p).loss > epsilon - 2 * nano


@pytest.mark.parametrize(("epsilon", "runs"), [("1", 4), ("0.5", 4), ("2", 5), ("4", 8)])
def test_giving_up_is_the_dearest_from_so_many_runs(epsilon: str, runs: int) -> None:
    exact = expm1(float(epsilon) / runs)
    assert float(sharper_keeping(Fraction(epsilon), runs)) == pytest.approx(exact, rel=1e-14)


def test_more_runs_and_less_epsilon_keep_less() -> None:
    for runs in range(1, 12):
        mine = sharper_keeping(Fraction(1), runs)
        assert sharper_keeping(Fraction(1), runs + 1) < mine
        assert sharper_keeping(Fraction("0.99"), runs) < mine


@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("runs", [1, 2, 5, 20])
def test_the_proven_loss_is_never_above_the_weaker_bound(p: float, runs: int) -> None:
    assert log(likelihood_ratio(Fraction(p), runs)) <= stated_loss(p, runs) + 1e-12


@pytest.mark.parametrize("p", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("runs", [1, 2, 5, 20])
def test_half_is_the_worst_chance_of_giving_up(p: Fraction, runs: int) -> None:
    """The module proves this by a derivative; here it is checked at a thousand points."""

    def passes(q: Fraction) -> Fraction:
        return sum((q**j for j in range(runs)), Fraction(0))

    ratios = [passes((1 - p) * b + p) / passes(b) for b in (Fraction(k, 40) for k in range(20, 41))]
    assert ratios == sorted(ratios, reverse=True)
    said = (1 + p) / (1 - p) * ratios[0]
    assert likelihood_ratio(p, runs) == max(said, (1 + p) ** runs)


@pytest.mark.parametrize("runs", [1, 4, 10])
@pytest.mark.parametrize("epsilon", ["0.5", "2", "3.8"])
def test_the_printed_p_is_paid_for(epsilon: str, runs: int) -> None:
    budget = Fraction(epsilon)
    mechanism = PrivateParity(budget, runs, printed_keeping(budget, runs))
    assert mechanism.keep == budget / 4 / runs
    assert mechanism.event.epsilon == mechanism.loss < budget


@pytest.mark.parametrize("epsilon", ["3.84", "3.9", "4", "8"])
def test_the_printed_p_is_refused_where_it_costs_more(epsilon: str) -> None:
    with pytest.raises(InvalidParameter, match="parity: expected"):
        PrivateParity.once(epsilon, printed_keeping)


def test_a_budget_beyond_all_coins_keeps_nearly_everything() -> None:
    mechanism = PrivateParity.once(1000)
    assert mechanism.keep == 1 - STEP
    assert exp(46) > likelihood_ratio(mechanism.keep, 1)


@pytest.mark.parametrize(
    ("keep", "runs", "match"),
    [(Fraction(1), 1, "keep"), (Fraction(-1, 2), 1, "keep"), (Fraction(1, 2), 0, "runs")],
)
def test_what_is_no_probability_and_no_run_is_refused(
    keep: Fraction, runs: int, match: str
) -> None:
    with pytest.raises(InvalidParameter, match=match):
        likelihood_ratio(keep, runs)


@pytest.mark.parametrize("keep", [Fraction(0), Fraction(1)])
def test_a_mechanism_keeps_some_and_not_all(keep: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="between 0 and 1"):
        PrivateParity(Fraction(1), 1, keep)
