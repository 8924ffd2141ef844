"""Success of every learner of the catalogue: what is called right is what a user would call right.

Each row spoils the hypothesis that exact answers lead to, by little: within a tolerance, in one
interval of many, in one bit. A learner that claims success must not claim it then; one that claims
none has no row to spoil. A new learner without a row fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from askance_aggregator.learners import Answer, find, learners
from askance_aggregator.learners.assessments import assess
from askance_aggregator.oracles import learn
from askance_simulation.experiments.references import PopulationOracle
from tests.worlds import World, world

Spoil = Callable[[Any], Any]


@cache
def exact(name: str) -> tuple[World, Any]:
    """Return a learner's small world and its hypothesis with exact answers."""
    of = world(name)
    return of, learn(of.learner, PopulationOracle(of.people))


def one_missed(answer: Answer, place: int = 0) -> Answer:
    """Return the answer with one interval a thousandth above its value."""
    low = answer.values[place] + 0.001
    lows = [*answer.lows[:place], low, *answer.lows[place + 1 :]]
    highs = [*answer.highs[:place], low + 0.1, *answer.highs[place + 1 :]]
    return Answer(answer.values, tuple(lows), tuple(highs))


def one_length_missed(found: Any) -> Any:
    """Return a mean vector whose length holds and of which one interval does not."""
    lows = (found.highs[0] + 0.001, *found.lows[1:])
    highs = (found.highs[0] + 0.1, *found.highs[1:])
    return replace(found, lows=lows, highs=highs, radius=1.0)


def inner_range_missed(found: Any) -> Any:
    """Return ranges of which the raw answer to the last level has one interval that misses."""
    return replace(found, answers=(*found.answers[:-1], one_missed(found.answers[-1], 1)))


def swapped(found: Any) -> Any:
    """Return the concept with its literals negated."""
    return replace(found, variables=found.negated, negated=found.variables)


def lowest_cell(found: Any) -> Any:
    """Return quantiles of which one is far too low."""
    first = found.quantiles[-1]
    return replace(found, quantiles=(*found.quantiles[:-1], replace(first, low=0.0, high=0.0625)))


def cell_missed(found: Any) -> Any:
    """Return an association of which one cell's interval misses."""
    return replace(found, table=replace(found.table, answer=one_missed(found.table.answer)))


def above(found: Any) -> Any:
    """Return an estimate with an interval a thousandth above the one it has."""
    return replace(found, low=found.high + 0.001, high=found.high + 0.1)


SPOILED: dict[str, Spoil | None] = {
    "association": cell_missed,
    "conjunctions": lambda found: replace(found, variables=(*found.variables, 2)[-1:]),
    "correlation": above,
    "decision-lists": lambda found: replace(found, default=1 - found.default),
    "difference": above,
    "disjunctions": swapped,
    "frequency": lambda found: replace(found, answer=one_missed(found.answer)),
    "heavy-hitters": lambda found: replace(found, found=found.found[:-1]),
    "literal-conjunctions": swapped,
    "marginals": lambda found: replace(
        found,
        tables=(
            replace(found.tables[0], answer=one_missed(found.tables[0].answer)),
            *found.tables[1:],
        ),
    ),
    "masked-parity": lambda found: replace(found, a=1 - found.a),
    "mean": above,
    "mean-vector": one_length_missed,
    "quantiles": lowest_cell,
    "ranges": inner_range_missed,
    "trend": lambda found: replace(
        found,
        lows=(found.highs[0] + 0.001, *found.lows[1:]),
        highs=(found.highs[0] + 0.1, *found.highs[1:]),
    ),
    # Of models there is no target: their error is told, and nothing is called right.
    "decision-tree": None,
    "gaussian-mixture": None,
    "huber-regression": None,
    "k-means": None,
    "linear-regression": None,
    "linear-svm": None,
    "logistic-regression": None,
    "naive-bayes": None,
    "pca": None,
    "perceptron": None,
    "random-features": None,
    "ridge-regression": None,
}


def test_every_learner_of_the_catalogue_has_a_row() -> None:
    assert set(SPOILED) == {entry.name for entry in learners()}


@pytest.mark.parametrize("name", SPOILED)
def test_exact_answers_are_a_success_or_none_is_claimed(name: str) -> None:
    of, found = exact(name)
    assessment = assess(found, of.learner, of.people)
    assert assessment.success is (None if SPOILED[name] is None else True)
    assert find(name).guess, "a learner says what its constant guess is"
    if assessment.success is not None:
        assert find(name).success, "a learner that is right says what right means"
    assert assessment.baseline is not None


@pytest.mark.parametrize("name", [name for name in SPOILED if SPOILED[name] is not None])
def test_what_is_spoiled_by_little_is_not_called_a_success(name: str) -> None:
    of, found = exact(name)
    spoil = SPOILED[name]
    assert spoil is not None
    spoiled = spoil(found)
    assert spoiled != found
    assert assess(spoiled, of.learner, of.people).success is False
