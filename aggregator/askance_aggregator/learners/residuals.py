"""Questions about the examples that a linear score gets wrong: what moves its weights.

Of a user with label sign s (1 for the second class, else -1) and `levels` statements w_1, w_2, ...
of being wrong, each weaker than the next one, the residual is s (number of those that hold) /
levels, between -1 and 1. What is learned is E[residual x] for every coordinate x of the score:

- A number takes one question for the mean of residual times number.
- A category has one coordinate a cell, and a user is in one cell only. So a statement takes one
  question with a sign a cell, for the users of a few means, however many cells there are. The
  mean of a category's `levels` answers is E[residual x] exactly, for all its cells at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import sqrt
from operator import add

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.encodings import Cells, Number
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.linear_classifiers import Coordinates
from askance_aggregator.learners.reach import reach_of
from askance_aggregator.queries import real, signed, where
from askance_client.queries import Expression, constant


@dataclass(frozen=True, slots=True)
class Residual:
    """A residual as expressions.

    Args:
        positive: whether the label is the second class.
        wrong: the statements; a power of two of them.
    """

    positive: Expression
    wrong: tuple[Expression, ...]

    @property
    def number(self) -> Expression:
        """The residual, on a grid that holds it exactly."""
        levels = len(self.wrong)
        part = constant(Fraction(1, levels), levels.bit_length() - 1)
        return where(self.positive, part, -part) * reduce(add, self.wrong)


def residual_questions(
    residual: Residual, coordinates: Sequence[Coordinates], tau: Fraction | None
) -> Iterator[Question]:
    """For E[residual], then for E[residual x] of all coordinates, in order."""
    number = residual.number
    yield Question(real(number, default=0), tau)
    for item in coordinates:
        if isinstance(item.part, Number):
            yield Question(real(number * item.part.expression, default=0), tau)
        else:
            yield from _by_cell(residual, item.part, tau)


def _by_cell(residual: Residual, part: Cells, tau: Fraction | None) -> Iterator[Question]:
    pair = 2 * part.index + ~residual.positive
    for wrong in residual.wrong:
        yield Question(signed(where(wrong, pair, 2 * len(part))), tau)


@dataclass(frozen=True, slots=True)
class Gradient:
    """E[residual x] of all coordinates x.

    Args:
        values: raw estimates, shape (coordinates,).
        reach: how far each may be off: less than what was promised, or, by chance, by about two
            standard deviations; same shape.
    """

    values: NDArray[np.float64]
    reach: NDArray[np.float64]

    @property
    def significant(self) -> NDArray[np.bool_]:
        """Mask of the residuals that are known not to be zero."""
        return np.asarray(np.abs(self.values) > self.reach)


def gradient(
    answers: Sequence[Answer], coordinates: Sequence[Coordinates], levels: int, tau: Fraction | None
) -> Gradient:
    """The answers to `residual_questions`."""
    values = [answers[0].value]
    reach = [reach_of(answers[0], tau)]
    place = 1
    for item in coordinates:
        count = 1 if isinstance(item.part, Number) else levels
        own = answers[place : place + count]
        place += count
        values.extend(np.mean([answer.values for answer in own], axis=0))
        shrunk = 1.0 if tau is not None else sqrt(count)  # of independent errors
        reach.extend([max(reach_of(answer, tau) for answer in own) / shrunk] * item.count)
    return Gradient(np.array(values), np.array(reach))


def greatest_answers(batch: Batch) -> Answers:
    """Answers that never say to stop, for a rehearsal: every value is the greatest possible."""
    answers = []
    for question in batch.questions:
        values = (float(question.bounds[1]),) * question.values
        answers.append(Answer(values, values, values))
    return tuple(answers)
