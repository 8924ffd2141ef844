"""Any prices bound every randomizer from below; the cheapest symbols are really the cheapest."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.table_design import (
    Conditional,
    Dual,
    Minimax,
    Objective,
    Prior,
    Terms,
    solve,
)

LEVELS = 5
EPSILON = 1.5
RATIO = exp(EPSILON)
DUCHI = ((RATIO + 1) / (RATIO - 1)) ** 2
OBJECTIVES: tuple[Objective, ...] = (
    Minimax(),
    Conditional(),
    Prior(tuple(map(Fraction, (0, 1, 2, 1, 0)))),
)

numbers = st.floats(-20, 20)


@st.composite
def duals(draw: st.DrawFn) -> Dual:
    rows, means = (
        np.array(draw(st.lists(numbers, min_size=LEVELS, max_size=LEVELS))) for _ in range(2)
    )
    caps = np.array(draw(st.lists(st.floats(0, 1), min_size=LEVELS, max_size=LEVELS))) + 1e-3
    return Dual(rows, means, caps / caps.sum())


def one_bit(objective: Objective) -> float:
    """Compute the objective that Duchi's bit attains on the grid: its M2 is C^2 everywhere."""
    terms = objective.terms(LEVELS, DUCHI)
    if terms.rise:
        return float(max(DUCHI - terms.caps))
    return DUCHI


@settings(max_examples=50)
@given(duals(), st.sampled_from(OBJECTIVES))
def test_any_prices_bound_a_table_that_is_known(dual: Dual, objective: Objective) -> None:
    bound = dual.lower_bound(objective.terms(LEVELS, DUCHI), RATIO)
    assert bound <= one_bit(objective) + 1e-6


@settings(max_examples=50)
@given(duals(), st.sampled_from(OBJECTIVES), st.integers(0, 2**31))
def test_no_symbol_is_cheaper(dual: Dual, objective: Objective, seed: int) -> None:
    terms = objective.terms(LEVELS, DUCHI)
    best = dual.best_columns(terms, RATIO).costs.min()
    rng = np.random.default_rng(seed)
    square = terms.weights + dual.caps
    for value in rng.uniform(-60, 60, 50):
        likelihoods = rng.uniform(1, RATIO, LEVELS)
        prices = square * value**2 - dual.means * value - dual.rows
        assert best <= likelihoods @ prices + 1e-6
        cheapest = dual.cheapest_at(terms, RATIO, np.array([value])).costs[0]
        assert best - 1e-6 <= cheapest <= likelihoods @ prices + 1e-6


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_prices_of_the_solver_meet_its_figure_where_it_had_every_value(
    objective: Objective,
) -> None:
    terms = objective.terms(LEVELS, DUCHI)
    assert terms.symmetric
    values = np.linspace(0, 1.5 * DUCHI**0.5, 400)
    solution = solve(terms, values, RATIO)
    bound = solution.dual.lower_bound(terms, RATIO)
    assert 0.98 * solution.figure <= bound <= solution.figure * (1 + 1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_half_of_a_symmetric_program_is_the_whole(objective: Objective) -> None:
    terms = objective.terms(LEVELS, DUCHI)
    half = np.linspace(0, 1.4 * DUCHI**0.5, 12)
    folded = solve(terms, half, RATIO)
    # A little more weight on one level, and the program no longer is its own image.
    weights = terms.weights.copy()
    weights[0] += 1e-12
    whole_terms = Terms(weights, terms.caps, terms.rise)
    assert not whole_terms.symmetric
    whole = solve(whole_terms, np.concatenate([-half[:0:-1], half]), RATIO)
    assert folded.figure == pytest.approx(whole.figure, rel=1e-8)
    assert np.allclose(folded.table, folded.table[::-1, ::-1])
    for solution in (folded, whole):
        assert np.allclose(solution.table.sum(axis=1), 1)
        assert np.allclose(solution.table @ solution.values, terms.grid)
        told = solution.table[:, solution.table.max(axis=0) > 1e-9]
        assert np.all(told.max(axis=0) <= told.min(axis=0) * RATIO * (1 + 1e-6))
