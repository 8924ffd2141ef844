"""Verdicts on a hypothesis: against the population's law, or against the users in it.

What predicts is judged by rows whose users were not asked, where the population has such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import (
    Classifier,
    Clusters,
    Conjunction,
    FrequencyEstimate,
    GaussianMixture,
    HeavyHitters,
    Learner,
    LinearModel,
    Marginals,
    MaskedParity,
    MeanEstimate,
    MeanVector,
    NonAdaptive,
    PrincipalComponents,
    Quantiles,
    Ranges,
)
from askance_aggregator.learners.prefixes import Domain
from askance_aggregator.queries import EncodedColumns, evaluate_columns, evaluate_vectors, vector
from askance_aggregator.studies import Cohort
from askance_client.queries import (
    Category,
    Integer,
    Query,
    QueryKind,
    Real,
)
from askance_simulation.populations import Population

_UNSEEN = 1 << 16  # rows to judge by: a share of them is off by 0.002 at most, one standard error


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a hypothesis: right or wrong, its error, and the truth if it is a number.

    It is right if it is the target; for estimates, if all intervals cover the truth. The
    learner's entry says what its error measures.
    """

    success: bool | None
    error: float | None
    truth: tuple[float, ...] = ()


@singledispatch
def judge(hypothesis: object, learner: Learner[Any], population: Population) -> Verdict:
    """Judge a hypothesis; one without a rule of its own is compared with the target.

    A classifier's error is the share of rows that it gets wrong; it is the target, written in this
    way or another, if it gets none wrong.
    """
    if isinstance(hypothesis, Classifier) and population.unseen is not None:
        error = _wrong_share(hypothesis, population, population.unseen(_UNSEEN))
        if error is None:
            return Verdict(None, None)
        return Verdict(None if population.target is None else error == 0, error)
    if population.target is None:
        return Verdict(None, None)
    right = hypothesis == population.target
    return Verdict(right, float(not right))


@judge.register
def _(hypothesis: MaskedParity, learner: Learner[Any], population: Population) -> Verdict:
    """Return the share of the uniform domain that is labelled wrongly, exactly."""
    target = population.target
    if not isinstance(target, MaskedParity):
        return Verdict(None, None)
    wrong = sum(one != other for one, other in zip(hypothesis.r, target.r, strict=True))
    shown = wrong / len(target.r)  # the half with b = 1
    hidden = 0.5 if wrong else float(hypothesis.a != target.a)  # two different parities: half
    return Verdict(hypothesis == target, (shown + hidden) / 2)


@judge.register
def _(hypothesis: Conjunction, learner: Learner[Any], population: Population) -> Verdict:
    """Return the share of uniform rows on which two conjunctions differ, exactly."""
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
    answer = hypothesis.answer
    return _covers(answer.values, answer.lows, answer.highs, _shares(query, population))


@judge.register
def _(hypothesis: MeanEstimate, learner: Learner[Any], population: Population) -> Verdict:
    query = _query(learner, QueryKind.PREDICATE, QueryKind.REAL)
    if query is None:
        return Verdict(None, None)
    total = sum(sum(values.tolist()) for values in _values(query, population))  # of any size
    scale = 1 if query.kind is QueryKind.PREDICATE else 1 << query.frac
    truth = (float(Fraction(total, scale * population.size)),)
    return _covers((hypothesis.estimate,), (hypothesis.low,), (hypothesis.high,), truth)


@judge.register
def _(hypothesis: MeanVector, learner: Learner[Any], population: Population) -> Verdict:
    """Judge an l2 mean by the length of its error, right if within the radius.

    Else by the greatest.
    """
    query = vector([population.schema[name] for name in hypothesis.fields])
    total = sum(evaluate_vectors(query, columns).sum(axis=0) for columns in _chunks(population))
    truth = tuple((np.ldexp(total, -query.frac) / population.size).tolist())
    covered = _covers(hypothesis.estimates, hypothesis.lows, hypothesis.highs, truth)
    if hypothesis.radius is None:
        return covered
    error = float(np.linalg.norm(np.array(hypothesis.estimates) - np.array(truth)))
    return Verdict(error <= hypothesis.radius, error, truth)


@judge.register
def _(hypothesis: LinearModel, learner: Learner[Any], population: Population) -> Verdict:
    """Return the mean squared error, as a part of the outcome's variance: 1 - R^2."""
    if population.unseen is None:
        return Verdict(None, None)
    rows = population.unseen(_UNSEEN)
    present = rows.present[hypothesis.target]
    if not present.any():
        return Verdict(None, None)
    truth = hypothesis.scaled.in_units(hypothesis.scaled.of(rows))[present]
    missed = np.square(hypothesis.predict(rows)[present] - truth).mean()
    variance = truth.var()
    return Verdict(None, float(missed / variance) if variance > 0 else None)


@judge.register
def _(hypothesis: PrincipalComponents, learner: Learner[Any], population: Population) -> Verdict:
    """Return the variance that as many best directions hold beyond these, as a part of all."""
    count = len(hypothesis.columns)
    sums, products = np.zeros(count), np.zeros((count, count))
    for columns in _chunks(population):
        scaled = np.stack([number.of(columns) for number in hypothesis.columns], axis=1)
        sums, products = sums + scaled.sum(axis=0), products + scaled.T @ scaled
    mean = sums / population.size
    covariance = products / population.size - np.outer(mean, mean)
    axes = hypothesis.components_
    best = np.linalg.eigvalsh(covariance)[-len(axes) :].sum()
    total = float(np.trace(covariance))
    held = float(np.trace(axes @ covariance @ axes.T))
    return Verdict(None, max(float(best) - held, 0.0) / total if total > 0 else 0.0)


@judge.register
def _(hypothesis: Marginals, learner: Learner[Any], population: Population) -> Verdict:
    if not isinstance(learner, NonAdaptive):
        return Verdict(None, None)
    truth: list[float] = []
    for question in learner.batch.questions:
        truth += _shares(question.query, population)
    answers = [table.answer for table in hypothesis.tables]
    return _covers(
        tuple(value for answer in answers for value in answer.values),
        tuple(low for answer in answers for low in answer.lows),
        tuple(high for answer in answers for high in answer.highs),
        tuple(truth),
    )


@judge.register
def _(hypothesis: Quantiles, learner: Learner[Any], population: Population) -> Verdict:
    """Judge each level by its distance to the ranks of its cell's ends; right if within tau."""
    found = hypothesis.quantiles
    below, up_to = np.zeros(len(found)), np.zeros(len(found))
    kind = population.schema.fields[hypothesis.column]
    if not isinstance(kind, Integer | Real):
        return Verdict(None, None)
    ends = [float(item.high) for item in found]
    for columns in _chunks(population):
        present = columns.present[hypothesis.column]
        grid = np.asarray(columns.values[hypothesis.column], dtype=np.float64)
        values = np.ldexp(grid, -kind.type.frac)[present]
        below += [(values < item.low).sum() for item in found]
        closed = [isinstance(kind, Integer) or end >= Fraction(kind.high) for end in ends]
        pairs = zip(ends, closed, strict=True)
        up_to += [((values <= end) if last else (values < end)).sum() for end, last in pairs]
    levels = np.array([float(item.level) for item in found])
    missed = np.maximum(levels - up_to / population.size, below / population.size - levels)
    error = float(max(missed.max(), 0.0))
    return Verdict(error < float(Fraction(learner.parameters["tau"])), error)


@judge.register
def _(hypothesis: Ranges, learner: Learner[Any], population: Population) -> Verdict:
    """Judge shares from the first cell up to another's end: of whole numbers, so that all is 1."""
    if not isinstance(learner, NonAdaptive):
        return Verdict(None, None)
    cells = _counts(learner.batch.questions[-1].query, population)[:-1]
    told = [hypothesis.share(hypothesis.ends[0], end) for end in hypothesis.ends[1:]]
    return _covers(
        tuple(answer.value for answer in told),
        tuple(answer.low for answer in told),
        tuple(answer.high for answer in told),
        tuple((np.cumsum(cells) / population.size).tolist()),
    )


@judge.register
def _(hypothesis: HeavyHitters, learner: Learner[Any], population: Population) -> Verdict:
    """Judge shares by their distance on the wrong side of the threshold; right if below tau."""
    shares = census(hypothesis.column, population)
    found = {item.value for item in hypothesis.found}
    threshold = hypothesis.threshold
    missed = [share - threshold for value, share in shares.items() if value not in found]
    wrong = [threshold - shares.get(value, Fraction(0)) for value in found]
    error = max([Fraction(0), *missed, *wrong])
    return Verdict(error < Fraction(learner.parameters["tau"]), float(error))


@judge.register(Clusters)
@judge.register(GaussianMixture)
def _(
    hypothesis: Clusters | GaussianMixture, learner: Learner[Any], population: Population
) -> Verdict:
    """Compute the mean squared distance of rows to their centres, over that to the mean row."""
    if population.unseen is None:
        return Verdict(None, None)
    rows = population.unseen(_UNSEEN)
    points = hypothesis.points(rows)
    within = np.square(points - np.array(hypothesis.centres)[hypothesis.predict(rows)]).mean()
    variance = np.square(points - points.mean(axis=0)).mean()
    return Verdict(None, float(within / variance) if variance > 0 else None)


def judge_sample(
    hypothesis: MeanEstimate, learner: Learner[Any], population: Population, cohort: Cohort
) -> Verdict:
    """Judge an estimate of a sample's mean against the users who were asked.

    Args:
        hypothesis: estimate.
        learner: learner.
        population: users and their records.
        cohort: they, if all of them answered.
    """
    query = _query(learner, QueryKind.REAL)
    if query is None:
        return Verdict(None, None)
    total = 0
    for start, stop in population.stretches():
        values = np.asarray(evaluate_columns(query, population.columns(start, stop)))
        total += sum(values[cohort.within(start, stop) - start].tolist())
    truth = (float(Fraction(total, (1 << query.frac) * cohort.size)),)
    return _covers((hypothesis.estimate,), (hypothesis.low,), (hypothesis.high,), truth)


def census(column: str, population: Population) -> dict[str | int, Fraction]:
    """Compute the share of every value that occurs, under `heavy_hitters`'s names."""
    domain = Domain(population.schema, column)
    counts: Counter[str | int] = Counter()
    for columns in _chunks(population):
        values, present = columns.values[column], columns.present[column]
        grid = np.stack(values if isinstance(values, tuple) else [values])[:, present]
        distinct, times = np.unique(grid, axis=1, return_counts=True)
        named = [domain.named(tuple(row)) for row in distinct.T.tolist()]
        counts.update(dict(zip(named, times.tolist(), strict=True)))
    return {value: Fraction(count, population.size) for value, count in counts.items()}


def _wrong_share(
    hypothesis: Classifier, population: Population, rows: EncodedColumns
) -> float | None:
    """Return the part of the rows with a label that get another one; None where no row has one."""
    kind = population.schema.fields[hypothesis.label]
    labels, present = np.asarray(rows.values[hypothesis.label]), rows.present[hypothesis.label]
    classes: Sequence[Any] = hypothesis.classes_.tolist()
    predicted = hypothesis.predict(rows)
    wrong = np.ones(len(rows), dtype=np.bool_)
    for name in classes:
        index = kind.encode(name) if isinstance(kind, Category) else int(name)
        wrong &= ~((predicted == name) & (labels == index))
    return float(wrong[present].mean()) if present.any() else None


def _shares(query: Query, population: Population) -> tuple[float, ...]:
    return tuple((_counts(query, population) / population.size).tolist())


def _counts(query: Query, population: Population) -> NDArray[np.int64]:
    counts = np.zeros(query.cells, np.int64)
    for values in _values(query, population):
        counts += np.bincount(values, minlength=query.cells)
    return counts


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
    """Return the question that an estimate answers; None if it was reached in another way."""
    if not isinstance(learner, NonAdaptive) or len(learner.batch.questions) != 1:
        return None
    query = learner.batch.questions[0].query
    return query if query.kind in kinds else None


def _values(query: Query, population: Population) -> Iterator[NDArray[np.int64]]:
    """Generate every user's exact answer, chunk by chunk."""
    for columns in _chunks(population):
        yield np.asarray(evaluate_columns(query, columns))


def _chunks(population: Population) -> Iterator[EncodedColumns]:
    for start, stop in population.stretches():
        yield population.columns(start, stop)
