"""Decisions between a model and the constant, before any user is asked and by a fifth of them.

One figure, the relative noise of a model's answers, is known before any user is asked. Where it is
small the model is concluded unseen; where it is so great that nothing can be told, the constant is,
and no user is asked for more. Between, a fifth of the users tell which is better: the deviation of
such a check is (e^epsilon + 1) / (e^epsilon - 1) / sqrt(n / 5), so it decides between the two only
where neither is clear.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.learning import Allocation, Answers, Batch, Question
from askance_aggregator.learners.parameters import Parameter
from askance_aggregator.queries import category, where
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text
from askance_client.queries import Expression, Query

Decide = Annotated[
    str | None,
    Parameter(
        "model; check: by a fifth of the users, against the constant; constant (default: by noise)",
        choices=("model", "check", "constant"),
    ),
]
CHECKED = 5  # users per user who checks


class ModelChoice(StrEnum):
    """Decision about the model before any user is asked."""

    MODEL = "model"  # concluded unseen
    CHECK = "check"  # concluded if a fifth of the users show that it is better than the constant
    CONSTANT = "constant"  # not learned


@dataclass(frozen=True, slots=True)
class Doubt:
    """Band of relative noise: below it a model is concluded unseen, above it the constant is."""

    clear: float
    hopeless: float

    def decision(self, relative: float) -> ModelChoice:
        """Return the decision at a relative noise."""
        if relative <= self.clear:
            return ModelChoice.MODEL
        return ModelChoice.CHECK if relative < self.hopeless else ModelChoice.CONSTANT


def check_decision(decide: str | None) -> str | None:
    """Return a decision as it was given, if it is a `ModelChoice` or None."""
    if decide is not None and decide not in list(ModelChoice):
        raise InvalidParameter(f"decide: {unknown_text(decide, list(ModelChoice))}")
    return decide


def asked_of_a_fifth(question: Question, asked: int, parts: int = 1) -> Batch:
    """Return a batch that repeats a question, so that it is asked of a fifth of all users."""
    # Users of open tolerances are divided about evenly over all questions of all rounds.
    #
    # `parts` is of how many such batches together a fifth is wanted.
    return Batch((question,) * ceil(asked / ((CHECKED - 1) * parts)), Allocation.FRESH)


def confusion_of(predicted: Expression, actual: Expression, classes: int) -> Query:
    """Ask for a record's predicted and actual class, numbers in 0 .. classes - 1.

    The last cell is that of records in which a field of either is missing.
    """
    found = predicted + classes * actual
    none = classes * classes
    return category(where(found >= 0, found, none), default=none)


@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """Estimated shares of records, shape (classes, classes), by actual and then predicted class."""

    shares: NDArray[np.float64]

    @classmethod
    def of(cls, answers: Answers, classes: int) -> Confusion:
        """Return the mean of the answers to `confusion_of`."""
        mean = np.mean([answer.values for answer in answers], axis=0)
        return cls(np.asarray(mean[:-1]).reshape(classes, classes))

    @property
    def actual(self) -> NDArray[np.float64]:
        """Shares of records by actual class, shape (classes,)."""
        return np.asarray(self.shares.sum(axis=1))

    @property
    def advantage(self) -> float:
        """The share that the model predicts rightly, less that of the commonest class."""
        return float(np.trace(self.shares) - self.actual.max())
