"""Releases of numeric mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Event
from askance_aggregator.numbers import Rational
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms.grid import lies_on, steps


class Additive(Protocol):
    """A mechanism that adds an independent whole number to each of an answer's entries."""

    @property
    def event(self) -> Event:
        """Cost of one release of a vector of answers."""
        ...

    def draws(self, words: Words, count: int) -> NDArray[np.int64]:
        """Draw the noise, shape (count,)."""
        ...

    def half_width(self, confidence: Rational, answers: int = 1) -> int:
        """Bound, in steps, the largest of `answers` draws, with probability `confidence`."""
        ...


class Calibration(Protocol):
    """A budget that becomes a mechanism once the sensitivity is known."""

    def __call__(self, l1: int, l2_squared: int) -> Additive:
        """The mechanism for an answer of these sensitivities, in steps."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A vector of answers, each a whole number of units plus what the mechanism drew.

    Args:
      steps: shape (answers,).
      unit: what one step is worth.
      rounding: how far an answer may have been moved when it was put on the grid, in its own units.
      mechanism: what drew.
    """

    steps: NDArray[np.int64]
    unit: Fraction
    rounding: Fraction
    mechanism: Additive

    @property
    def event(self) -> Event:
        """Cost of this release, for an accountant."""
        return self.mechanism.event

    @property
    def values(self) -> NDArray[np.float64]:
        """The answers, shape (answers,): rounded to floats after the draw, which is harmless."""
        unit = self.unit
        return np.array([k * unit.numerator / unit.denominator for k in self.steps.tolist()])

    def half_width(self, confidence: Rational, answers: int = 1) -> Fraction:
        """Bound the largest error of `answers` answers, with probability at least `confidence`.

        Args:
          confidence: between 0 and 1.
          answers: 1 for a statement about each; their number for one about all of them together.
        """
        return self.mechanism.half_width(confidence, answers) * self.unit + self.rounding

    def intervals(
        self, confidence: Rational, answers: int = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(lows, highs), each of shape (answers,); they are not clipped to what is possible."""
        width = float(self.half_width(confidence, answers))
        return self.values - width, self.values + width


def add(
    mechanism: Additive,
    answers: NDArray[np.int64],
    unit: Fraction,
    rounding: Fraction,
    words: Words,
) -> Release:
    """Draw, and add. The answers have been checked and put on the grid."""
    drawn = mechanism.draws(words, answers.size)
    return Release(answers + drawn, unit, rounding, mechanism)


def vector(answers: object, step: Fraction, rounded: int) -> NDArray[np.int64]:
    """An answer's entries in steps, shape (answers,).

    Raises:
      InvalidRecord: no number or vector of numbers, or an entry off the grid though `rounded` is 0.
    """
    found = np.atleast_1d(np.asarray(answers))
    if found.ndim != 1 or not found.size:
        raise InvalidRecord(f"answers: expected a vector of numbers, found shape {found.shape}")
    whole = steps(found, step)
    if rounded > found.size:
        raise InvalidParameter(f"rounded: expected at most {found.size} entries, found {rounded}")
    if not rounded and not lies_on(found, step):
        raise InvalidRecord(
            "answers: expected whole numbers of steps, found one between two (if it is to be"
            " rounded, state how many entries one record may change)"
        )
    return whole


def release(
    answers: object, mechanism: Additive, step: Fraction, rounded: int, words: Words
) -> Release:
    """Put answers on the grid, draw, and add.

    `mechanism` is calibrated to the answers' sensitivity in steps, rounding included; `rounded` is
    how many entries one record may change that lie off the grid.
    """
    whole = vector(answers, step, rounded)
    return add(mechanism, whole, step, step / 2 if rounded else Fraction(0), words)
