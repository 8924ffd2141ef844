"""The lower bounds hold against the best possible test, computed exactly, and below every plan."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from askance_aggregator.families import best_for
from askance_aggregator.learners import Question
from askance_aggregator.planning import least_users, tail_of
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    signed,
)
from askance_client.queries import (
    Integer,
    Query,
    QueryKind,
    Real,
    Schema,
)

SCHEMA = Schema("s", 1, n=Integer(0, 8), t=Real(-10, 10))
PREDICATE = predicate(SCHEMA["n"] == 1)
CELLS = category(SCHEMA["n"])
SIGNED = signed(SCHEMA["n"])
REAL = real(SCHEMA["t"])


@pytest.mark.parametrize("mass", [None, Fraction(1, 5)])
@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
@pytest.mark.parametrize("beta", [0.1, 0.01])
def test_fewer_coins_do_not_tell_the_two_populations_apart(
    beta: float, epsilon: float, mass: Fraction | None
) -> None:
    """With one user less than the bound the best test errs, in sum, more than 2 beta."""
    tau = 0.05
    users = least_users(Question(PREDICATE, cell_mass=mass), tau, epsilon, beta) - 1
    high = 0.2 if mass else 0.5 + tau
    lie = 1 / (exp(epsilon) + 1)
    one, two = (lie + share * (1 - 2 * lie) for share in (high - 2 * tau, high))
    counts = np.arange(users + 1)
    errors = np.minimum(binom.pmf(counts, users, one), binom.pmf(counts, users, two)).sum()
    assert users > 0
    assert errors > 2 * beta


@given(st.lists(st.tuples(*[st.floats(0.01, 1)] * 3), min_size=2, max_size=8), st.floats(0.01, 1))
def test_reports_of_populations_at_distance_t_diverge_by_at_most_the_lemma(
    columns: list[tuple[float, float, float]], t: float
) -> None:
    """KL + KL <= 2 t^2 (e-1)^2/(e+1), for any table of three rows and e its own ratio."""
    table = np.array(columns).T
    table /= table.sum(axis=1, keepdims=True)
    ratio = float((table.max(axis=0) / table.min(axis=0)).max())
    common, one, two = table
    first, second = (1 - t) * common + t * one, (1 - t) * common + t * two
    divergences = float(((first - second) * np.log(first / second)).sum())
    assert divergences <= 2 * t * t * (ratio - 1) ** 2 / (ratio + 1) + 1e-12


@pytest.mark.parametrize("tau", [Fraction(1, 100), Fraction(1, 10), Fraction(1, 4)])
@pytest.mark.parametrize("mass", [None, Fraction(1, 2), Fraction(1, 10)])
@pytest.mark.parametrize("epsilon", [1, 2, 8])
@pytest.mark.parametrize("query", [PREDICATE, CELLS, SIGNED, REAL])
def test_no_plan_is_below_the_bound(
    query: Query, epsilon: int, mass: Fraction | None, tau: Fraction
) -> None:
    question = Question(query, tau=tau, cell_mass=mass)
    levels = 2 if query.kind is QueryKind.REAL else query.cells
    tail = tail_of(question, best_for(levels, epsilon * 10**9))
    for beta in (0.2, 0.01, 1e-6):
        least = least_users(question, float(tau), epsilon, beta)
        assert 0 <= least <= tail.users(float(tau), beta)


def test_the_plan_for_one_predicate_is_within_a_small_factor_of_the_bound() -> None:
    """At most 2 ln(2/beta) / ln(1/(4 beta)) asymptotically: about 3.3 at one percent."""
    question = Question(PREDICATE, tau=Fraction(1, 100))
    least = least_users(question, 0.01, 1, 0.01)
    planned = tail_of(question, best_for(2, 10**9)).users(0.01, 0.01)
    assert planned < 3.5 * least


def test_where_a_constant_would_do_nobody_is_needed() -> None:
    """No two populations within the promise are 2 tau apart, or a guess is good enough."""
    assert least_users(Question(PREDICATE, cell_mass=Fraction(1, 10)), 0.06, 1, 0.01) == 0
    assert least_users(Question(SIGNED, cell_mass=Fraction(1, 10)), 0.11, 1, 0.01) == 0
    assert least_users(Question(PREDICATE), 0.01, 1, 0.25) == 0


def test_the_bound_of_a_real_value_is_in_its_units() -> None:
    assert least_users(Question(REAL), 0.2, 1, 0.01) == least_users(
        Question(PREDICATE), 0.01, 1, 0.01
    )


@pytest.mark.parametrize("kind", [PREDICATE, REAL, SIGNED])
def test_a_tolerance_below_a_float_s_resolution_takes_more_users_all_the_same(kind: Query) -> None:
    """Two shares that are equal as floats are apart as populations; users grow as 1/tau^2."""
    fine, finer = (least_users(Question(kind), tau, 1, 0.01) for tau in (1e-20, 1e-60))
    assert finer / fine == pytest.approx(1e80, rel=1e-9)
    coarse = least_users(Question(kind), 1e-6, 1, 0.01)
    assert fine / coarse == pytest.approx(1e28, rel=1e-3)
