"""First and second moments of numbers in [-1, 1], for regressions and principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.encodings import Number
from askance_aggregator.learners.learning import Answers, Batch, Question
from askance_aggregator.learners.missing import CompleteCases, MissingShare, missing_in
from askance_aggregator.learners.reach import half_width
from askance_aggregator.queries import predicate, real, where
from askance_client.queries import Query

Place = tuple[int, int]

_LEAST_SHARE = 2.0**-20  # of complete cases that a matrix is divided by, where answers are exact


@dataclass(frozen=True, slots=True)
class SecondMoments:
    """The questions for E[v v^T], v = (1, z_1, ..., z_D), and the matrix that their answers make.

    D means and at most D (D + 1) / 2 products; what is known is not asked: the square of a truth
    is itself, and two labels of one category never hold together. A question about two truths is
    a predicate; a square lies in [0, 1], which halves the range. Over complete cases every question
    is 0 elsewhere, entry (0, 0) is asked for too, their share, and the matrix is divided by it.

    Args:
        batch: a question a place.
        places: the entries (row <= column) that were asked for.
        truths: the entries of the diagonal that equal those of row 0.
        order: D + 1.
        complete: the users that the expectation is over; None: all, with public defaults.
    """

    batch: Batch
    places: tuple[Place, ...]
    truths: tuple[int, ...]
    order: int
    complete: CompleteCases | None

    def matrix(self, answers: Answers) -> NDArray[np.float64]:
        """E[v v^T] as answered: symmetric, with 1 at (0, 0); noise may leave it indefinite.

        If no user seems to be a complete case, all other entries are 0.
        """
        moments = np.zeros((self.order, self.order))
        moments[0, 0] = 1.0
        for (row, column), answer in zip(self.places, answers, strict=True):
            moments[row, column] = moments[column, row] = answer.value
        for place in self.truths:
            moments[place, place] = moments[0, place]
        if self.complete is None:
            return moments
        share = moments[0, 0]
        found = moments / share if share > 0 else np.zeros_like(moments)
        found[0, 0] = 1.0
        return np.clip(found, -1.0, 1.0)  # as all entries are

    def missing(self, answers: Answers) -> MissingShare | None:
        """The share of users who are no complete case; None where all users count."""
        return None if self.complete is None else missing_in(answers[0])

    def uncertainty(self, answers: Answers) -> float:
        """About how far the whole matrix is off, as an operator, by the answers' intervals.

        A symmetric matrix of m x m independent errors of standard deviation s has a norm near
        2 s sqrt(m); half a joint interval is about four standard deviations.
        """
        half = [(answer.high - answer.low) / 2 for answer in answers]
        off = sum(half) / len(half) / 2 * sqrt(self.order)
        if self.complete is None:
            return off
        return off / max(answers[0].value, half_width(answers[0]), _LEAST_SHARE)


def second_moments(
    numbers: Sequence[Number], tau: Fraction | None, complete: CompleteCases | None = None
) -> SecondMoments:
    """All second moments of some numbers.

    Args:
        numbers: one or more.
        tau: how exactly each is wanted; over complete cases each is asked for times their share,
            to within tau times the promised share.
        complete: the users that they are over. None: all, and a record without one of the two
            fields counts as 0, the middle of a scaled number's range.
    """
    places: list[Place] = []
    queries: list[Query] = []
    for column, number in enumerate(numbers, start=1):
        places.append((0, column))
        queries.append(_mean(number))
        for row, other in enumerate(numbers[:column], start=1):
            query = _product(other, number)
            if query is not None:
                places.append((row, column))
                queries.append(query)
    truths = tuple(place for place, number in enumerate(numbers, start=1) if number.is_truth)
    order = len(numbers) + 1
    if complete is None:
        batch = Batch(Question(query, tau=tau) for query in queries)
        return SecondMoments(batch, tuple(places), truths, order, None)
    within = complete.tolerance(tau)
    asked = [Question(complete.of(query), tau=within) for query in queries]
    batch = Batch([complete.share(within), *asked])
    return SecondMoments(batch, ((0, 0), *places), truths, order, complete)


def nearest_semidefinite(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest positive semidefinite matrix, in Frobenius norm; the truth is such a matrix.

    These matrices are convex, so the projection is no farther from the truth than what it was
    made of.
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _mean(number: Number) -> Query:
    if number.is_truth:
        return predicate(number.expression)
    return real(number.expression, default=0)


def _product(one: Number, other: Number) -> Query | None:
    """Their product's expectation as a question; None where it is known."""
    if one.is_truth and other.is_truth:
        if one is other or (one.field == other.field and "=" in one.name):
            return None
        return predicate(one.expression & other.expression)
    if one.is_truth:
        return real(where(one.expression, other.expression, 0), default=0)
    if other.is_truth:
        return real(where(other.expression, one.expression, 0), default=0)
    return real(one.expression * other.expression, default=0)
