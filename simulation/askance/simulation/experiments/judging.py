"""How right a hypothesis is: against the law that made the population, or the people in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.aggregator.learners import (
    Conjunction,
    FrequencyEstimate,
    Learner,
    MaskedParity,
    MeanEstimate,
    NonAdaptive,
)
from askance.client.queries import Query, QueryKind
from askance.simulation.populations import Population

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the hypothesis is the target (for estimates: all intervals cover the truth), its
    error (see the learner's entry for what that measures), and the truth, where it is a number."""

    success: bool | None
    error: float | None
    truth: tuple[float, ...] = ()


@singledispatch
def judge(hypothesis: object, learner: Learner[Any], population: Population) -> Verdict:
    """The verdict on a hypothesis; one without a rule of its own is compared with the target."""
    if population.target is None:
        return Verdict(None, None)
    right = hypothesis == population.target
    return Verdict(right, float(not right))


@judge.register
def _(hypothesis: MaskedParity, learner: Learner[Any], population: Population) -> Verdict:
    """The share of the uniform domain that is labelled wrongly, exactly."""
    target = population.target
    if not isinstance(target, MaskedParity):
        return Verdict(None, None)
    wrong = sum(one != other for one, other in zip(hypothesis.r, target.r, strict=True))
    shown = wrong / len(target.r)  # the half with b = 1
    hidden = 0.5 if wrong else float(hypothesis.a != target.a)  # two different parities: half
    return Verdict(hypothesis == target, (shown + hidden) / 2)


@judge.register
def _(hypothesis: Conjunction, learner: Learner[Any], population: Population) -> Verdict:
    """The share of uniform rows on which two conjunctions differ, exactly."""
    target = population.target
    if not isinstance(target, Conjunction):
        return Verdict(None, None)
    one, other = set(hypothesis.variables), set(target.variables)
    both = 0.5 ** len(one | other)
    return Verdict(hypothesis == target, 0.5 ** len(one) + 0.5 ** len(other) - 2 * both)


@judge.register
def _(hypothesis: FrequencyEstimate, learner: Learner[Any], population: Population) -> Verdict:
    query = _query(learner, QueryKind.CATEGORY)
    if query is None:
        return Verdict(None, None)
    counts = np.zeros(query.cells, np.int64)
    for values in _values(query, population):
        counts += np.bincount(values, minlength=query.cells)
    truth = tuple(float(count) / population.size for count in counts)
    answer = hypothesis.answer
    return _covers(answer.values, answer.lows, answer.highs, truth)


@judge.register
def _(hypothesis: MeanEstimate, learner: Learner[Any], population: Population) -> Verdict:
    query = _query(learner, QueryKind.PREDICATE, QueryKind.REAL)
    if query is None:
        return Verdict(None, None)
    total = sum(sum(values.tolist()) for values in _values(query, population))  # of any size
    scale = 1 if query.kind is QueryKind.PREDICATE else 1 << query.frac
    truth = (float(Fraction(total, scale * population.size)),)
    return _covers((hypothesis.estimate,), (hypothesis.low,), (hypothesis.high,), truth)


def _covers(
    estimates: tuple[float, ...],
    lows: tuple[float, ...],
    highs: tuple[float, ...],
    truth: tuple[float, ...],
) -> Verdict:
    covered = all(low <= true <= high for low, true, high in zip(lows, truth, highs, strict=True))
    error = max(abs(value - true) for value, true in zip(estimates, truth, strict=True))
    return Verdict(covered, error, truth)


def _query(learner: Learner[Any], *kinds: QueryKind) -> Query | None:
    """The one question that an estimate answers; None where it was reached in another way."""
    if not isinstance(learner, NonAdaptive) or len(learner.batch.questions) != 1:
        return None
    query = learner.batch.questions[0].query
    return query if query.kind in kinds else None


def _values(query: Query, population: Population) -> Iterator[NDArray[np.int64]]:
    """What every user's exact answer would be, chunk by chunk."""
    for start in range(0, population.size, _CHUNK):
        stop = min(start + _CHUNK, population.size)
        yield np.asarray(query.evaluate(population.columns(start, stop)))
