"""Checks of a fitted model against the constant, by a fifth of the users.

The users of a check had no part in the model, so the advantage that they show is unbiased (but for
the clipping of gains). It decides by its sign.

**What a wrong decision costs.** Let the model be better than the constant by a, negative if it is
worse, and let the answer have standard deviation s. The wrong one is concluded with probability
Phi(-|a| / s), which costs |a| Phi(-|a| / s) <= 0.17 s on the mean, by the normal law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.constant_checks import CHECKED, Confusion, confusion_of
from askance_aggregator.learners.glm import DescentSettings, of_a_fifth
from askance_aggregator.learners.glm_gradients import RESIDUAL_BITS, Features
from askance_aggregator.learners.learning import Answer, Learning, Question
from askance_aggregator.learners.linear_classifiers import on_weight_grid
from askance_aggregator.queries import among_present, clip, predicate, real, round_to, where
from askance_client.queries import Expression

_CELLS = 5  # predicted class and class, and incomplete records
_LEAST_SHARE = 1 / 64  # of a class, for the constant's log-odds
_FARTHEST = 2  # of a score, where its squared error is compared with a constant's


@dataclass(frozen=True, slots=True, eq=False)
class ClassCheck:
    """Check of a classifier: the share of rows that it labels rightly, less the constant's.

    Args:
        positive: predicate of the second class.
    """

    features: Features
    positive: Expression

    def variance(self, conditions: Conditions) -> float:
        """Return n times the variance of the advantage, n all users."""
        # The advantage is a difference of two cells' shares. Estimates of cells add to 1 and have
        # equal variances, so their noise has 2 k / (k - 1) times a cell's; a record adds at most 1.
        noise = conditions.noise(self.question(np.zeros(self.features.count)))
        return CHECKED * (2 * _CELLS / (_CELLS - 1) * noise + 1)

    def question(self, weights: NDArray[np.float64]) -> Question:
        """Return the question for the shares of predicted class and class."""
        predicted = where(self.features.score(weights) > 0, 1, 0)
        return Question(confusion_of(predicted, where(self.positive, 1, 0), 2))

    def constant(
        self, weights: NDArray[np.float64], given: DescentSettings
    ) -> Learning[NDArray[np.float64] | None]:
        """Return the constant's weights if it is no worse; None: the model is better.

        Both are of complete records.
        """
        found = Confusion.of((yield of_a_fifth(self.question(weights), given)), 2)
        if found.advantage > 0:
            return None
        complete, positive = float(found.actual.sum()), float(found.actual[1])
        return self._log_odds(positive / complete if complete > 0 else 0.0)

    @property
    def mean(self) -> Question:
        """The question for the second class's share."""
        return Question(predicate(self.positive))

    def constants(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """Return the weights of the log-odds of the share that was answered."""
        (answer,) = answers
        return self._log_odds(answer.value)

    def _log_odds(self, share: float) -> NDArray[np.float64]:
        weights = np.zeros(self.features.count)
        inside = min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE)
        weights[0] = log(inside / (1 - inside))
        return on_weight_grid(weights)


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeCheck:
    """Check of a regression: the mean squared error less the mean outcome's.

    Args:
        outcome: a number in [-1, 1], or a truth.
        bound: of a record's gain; greater ones are clipped.
    """

    features: Features
    outcome: Expression
    bound: Fraction

    def variance(self, conditions: Conditions) -> float:
        """Return n times the variance of the advantage, n all users: half of a fifth tell it."""
        weights = np.zeros(self.features.count)
        return 2 * CHECKED * conditions.noise(self.gain(weights, weights))

    def constant(
        self, weights: NDArray[np.float64], given: DescentSettings
    ) -> Learning[NDArray[np.float64] | None]:
        """Return the mean outcome's weights if it is no worse; None: the model is better."""
        means = yield of_a_fifth(self.mean, given, parts=2)
        constants = self.constants(means)
        gains = yield of_a_fifth(self.gain(constants, weights), given, parts=2)
        return None if np.mean([answer.value for answer in gains]) > 0 else constants

    @property
    def mean(self) -> Question:
        """The question for the mean outcome."""
        return Question(among_present(self.outcome))

    def constants(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """Return the weights of a constant, the mean of answers in the interval's range."""
        inside = [min(max(answer.value, -1.0), 1.0) for answer in answers]
        weights = np.zeros(self.features.count)
        weights[0] = float(np.mean(inside))
        return on_weight_grid(weights)

    def gain(self, constants: NDArray[np.float64], weights: NDArray[np.float64]) -> Question:
        """Return the question for the constant's squared error, less the model's."""
        gain = self._squared(constants) - self._squared(weights)
        return Question(
            real(clip(round_to(gain, RESIDUAL_BITS), -self.bound, self.bound), default=0)
        )

    def _squared(self, weights: NDArray[np.float64]) -> Expression:
        """Return a record's squared error, of a score within [-2, 2]."""
        score = round_to(self.features.score(weights), RESIDUAL_BITS)
        missed = clip(score, -_FARTHEST, _FARTHEST) - self.outcome
        return missed * missed
