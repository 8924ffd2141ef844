"""Second moments of numbers about a centre, all of them as one vector per user.

A record's vector has the differences u = x - centre, the squares u_i^2 - t and the products
sqrt(2) u_i u_j, i < j. The root makes it as long as the matrix u u^T: its length is |u|^2, and if
the centre is near the mean that is the spread of the numbers and not their place in the box. A
vector longer than promised is drawn back. With v n times the variance of a component of a vector of
length 1, every product has v R^2 / (2 n), R the promised |u|^2, where a question for each product
has C^2 D (D + 3) / 2 / n, C = (e^eps + 1) / (e^eps - 1).

Source: notes, section 1.2 (Blum et al. 2005, SuLQ); Bhowmick et al. 2018 (vectors as one report).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.cluster_rounds import sums_question
from askance_aggregator.learners.encodings import SCALE_BITS, Number
from askance_aggregator.learners.learning import Answer, Question
from askance_aggregator.queries import of_complete, round_to, where
from askance_client.queries import MAX_COMPONENTS, Expression, constant

_ROOT_BITS = 12
ROOT = Fraction(round(2**0.5 * (1 << _ROOT_BITS)), 1 << _ROOT_BITS)
_BITS = 20  # squares of scaled numbers lie on it
MAX_NUMBERS = 250  # a length of 4 D on that grid is then allowed


@dataclass(frozen=True, slots=True, eq=False)
class SecondMoments:
    """Questions for E[u] and E[u u^T], u the differences from a centre.

    Args:
        numbers: D of them.
        centre: shape (D,), on the grid of scaled numbers.
        middle: t, subtracted from squares, which makes them shorter; a multiple of 2^-10.
        squared: R, the greatest |u|^2 that counts in full.
        fields: all of which a record needs to count; None: what is missing counts as 0, and the
            centre and t are 0.
    """

    numbers: tuple[Number, ...]
    centre: NDArray[np.float64]
    middle: float
    squared: Fraction
    fields: Mapping[str, Expression] | None

    def questions(self, tau: Fraction | None) -> tuple[Question, ...]:
        """Return the vector in as many questions as it needs; each has at most 1,024 components."""
        parts = self._components()
        blocks = [
            parts[first : first + MAX_COMPONENTS] for first in range(0, len(parts), MAX_COMPONENTS)
        ]
        asked = [sums_question(block, self.squared**2 + self.squared, tau) for block in blocks]
        if self.fields is None:
            return tuple(asked)
        return tuple(
            Question(of_complete(question.query, self.fields), tau, length=question.length)
            for question in asked
        )

    def covariance(self, answers: Sequence[Answer], having: float) -> NDArray[np.float64]:
        """Compute the covariance, shape (D, D), from the answers; it may be indefinite.

        Args:
            answers: one per question.
            having: share of the users who count, which all answers are divided by.
        """
        values = np.concatenate([answer.values for answer in answers]) / having
        d = len(self.numbers)
        apart, squares, products = values[:d], values[d : 2 * d], values[2 * d :]
        matrix = np.zeros((d, d))
        matrix[np.triu_indices(d, 1)] = products / float(ROOT)
        matrix += matrix.T
        matrix[np.diag_indices(d)] = squares + self.middle
        return np.asarray(matrix - np.outer(apart, apart))

    def _components(self) -> list[Expression]:
        apart = [
            as_number(number) - constant(value, SCALE_BITS)
            for number, value in zip(self.numbers, self.centre.tolist(), strict=True)
        ]
        middle = constant(self.middle, SCALE_BITS)
        squares = [round_to(part * part - middle, _BITS) for part in apart]
        root = constant(ROOT, _ROOT_BITS)
        products = [round_to(one * other * root, _BITS) for one, other in combinations(apart, 2)]
        return [*apart, *squares, *products]


def as_number(number: Number) -> Expression:
    """Return a number as an expression of kind NUMBER; a truth is 0 or 1."""
    return where(number.expression, 1, 0) if number.is_truth else number.expression


def nearest_semidefinite(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest positive semidefinite matrix, in Frobenius norm; the truth is such a matrix.

    These matrices are convex, so the projection is no farther from the truth than what it was
    made of.
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
