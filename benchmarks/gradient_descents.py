"""Descents of models by gradients on numbers: the learner's own steps, with normal errors.

`gradients.py` measures by them; tests/benchmarks compares them with the learners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.encodings import numbers_of
from askance_aggregator.learners.glm_gradients import Features
from askance_aggregator.learners.linear_classifiers import coordinates_of
from askance_aggregator.learners.rows import some_fields
from askance_aggregator.queries import EncodedColumns, evaluate_vectors, vector
from askance_client.queries import Schema

Numbers = NDArray[np.float64]
CLASSIFIERS = ("logistic-regression", "linear-svm")


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Records as numbers.

    Args:
        x: shape (records, weights), the constant 1 first.
        outcome: shape (records,), as the loss has it.
    """

    x: NDArray[np.float64]
    outcome: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss by its residual; `width` of Huber's is where it turns linear.

    Args:
        residual: from scores and outcomes.
        encode: a class or an outcome as the loss has it.
    """

    residual: Callable[[Numbers, Numbers], Numbers]
    encode: Callable[[Numbers], Numbers] = lambda outcome: outcome


LOSSES = {
    "logistic-regression": Loss(lambda s, y: 1 / (1 + np.exp(-s)) - y),
    "linear-svm": Loss(lambda s, y: -y * np.clip(1 - y * s, 0, 1), lambda y: 2 * y - 1),
    "linear-regression": Loss(lambda s, y: s - y),
    "ridge-regression": Loss(lambda s, y: s - y),
    "huber-regression": Loss(lambda s, y: np.clip(s - y, -1, 1)),  # of an outcome of two values
}


@dataclass(frozen=True, slots=True)
class Descent:
    """Descent of `learners.glm` on numbers: rounds to parts of the users, with a normal error.

    Args:
        loss: of a record.
        rounds, rate, clip, penalty: settings of the learner.
        variance: n times the variance of a component of a round's gradient, n its users.
    """

    loss: Loss
    rounds: int
    rate: float
    clip: float
    penalty: float
    variance: float

    def weights(
        self, inputs: Inputs, limit: Numbers, order: NDArray[np.int64], rng: np.random.Generator
    ) -> Numbers:
        """Return the mean of the last half of the weights.

        Args:
            inputs: of the records.
            limit: shape (records,), the most that a residual may be.
            order: shape (users,), the record of each user; a round asks the next part.
            rng: of the errors.
        """
        size, count = len(order) // self.rounds, inputs.x.shape[1]
        spread = sqrt(self.variance / size)
        pull = np.full(count, self.penalty)
        pull[0] = 0.0
        weights, total, counted = np.zeros(count), np.zeros(count), 0
        for number in range(self.rounds):
            part = order[number * size : (number + 1) * size]
            x, most = inputs.x[part], limit[part]
            residual = self.loss.residual(x @ weights, inputs.outcome[part])
            gradient = np.clip(residual, -most, most) @ x / size
            gradient += rng.normal(0, spread, count) + pull * weights
            weights = weights - self.rate * gradient
            if 2 * number >= self.rounds - 1:
                total, counted = total + weights, counted + 1
        return total / counted


def features_and_inputs(
    name: str, schema: Schema, target: str, columns: Sequence[str], rows: EncodedColumns
) -> tuple[Features, Inputs]:
    """Return the features of a learner and the records as its numbers."""
    loss, kept = LOSSES[name], some_fields(schema, columns)
    if name in CLASSIFIERS:
        coordinates = coordinates_of(kept)
        features = Features.of_coordinates(coordinates)
        parts = [item.values(rows) for item in coordinates]
        outcome = np.asarray(rows.values[target], dtype=np.float64)
    else:
        numbers = numbers_of(kept)
        features = Features.of_numbers(numbers)
        parts = [number.of(rows)[:, None] for number in numbers]
        (scaled,) = numbers_of(some_fields(schema, [target]))
        outcome = scaled.of(rows)
    x = np.concatenate([np.ones((rows.rows, 1)), *parts], axis=1)
    return features, Inputs(x, loss.encode(outcome))


def limits(features: Features, clip: Fraction, rows: EncodedColumns) -> Numbers:
    """Return the most that each record's residual may be, by the learner's own expression."""
    query = vector([features.limit(clip)], -clip, clip, 0)
    values = np.asarray(evaluate_vectors(query, rows), dtype=np.float64).reshape(-1)
    return np.ldexp(values, -query.frac)
