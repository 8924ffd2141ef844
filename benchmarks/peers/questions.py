"""Questions whose simulation is timed, and the measurement that peers' scripts share.

Like `measuring`, this runs in environments with nothing but the standard library and numpy. A
script gives `speeds` a function that says by what protocols its peer answers a question; none means
that the peer has no local mechanism for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from peers.measuring import SEED, Shares, cells, numbers

EPS = 1.0  # of every question and every protocol
YES = 0.3  # of the users are in the second of two cells
TOGETHER = 4  # users that one part of an error measurement has at least


@dataclass(frozen=True, slots=True)
class Question:
    """Shares of cells, or the mean of numbers in [-1, 1] of which each user has as many.

    Args:
      values: how many cells, or components of a user's vector; one component is a plain number.
      mean: a mean is asked, and not the share of every cell.
    """

    values: int
    mean: bool = False

    @property
    def degrees(self) -> int:
        """Number of errors in one answer that do not follow from the others."""
        return self.values if self.mean else self.values - 1

    @property
    def sensitivity(self) -> float:
        """Greatest l1 distance of two users' vectors; a cell is a vector with a single 1."""
        return 2.0 * self.values if self.mean else 2.0

    def drawn(self, users: int) -> Any:
        """Draw all users' records: an array of cells, of numbers, or of vectors as rows."""
        generator = np.random.default_rng(SEED)
        if self.mean:
            shape = (users, self.values)
            return numbers(users) if self.values == 1 else generator.random(shape) * 2 - 1
        if self.values == 2:
            return (generator.random(users) < YES).astype(np.int64)
        return cells(users, self.values)

    def truth(self, records: Any) -> Shares:
        """Return what an exact answer would be."""
        if self.mean:
            return np.atleast_1d(np.mean(records, axis=0))
        return np.bincount(records, minlength=self.values) / len(records)


QUESTIONS = {f"cells-{k}": Question(k) for k in (2, 16, 64, 1024, 16_384)} | {
    "mean": Question(1, mean=True),
    "vector-100": Question(100, mean=True),
}


@dataclass(frozen=True, slots=True)
class Effort:
    """Amount of measurement.

    Args:
      seconds: that a timed round of all users takes at least; their number is found by it.
      less: what first numbers of users are divided by.
      degrees: errors that are averaged at least, where there are users enough.
    """

    seconds: float
    less: int
    degrees: int


EFFORTS = {"full": Effort(0.25, 1, 4000), "quick": Effort(0.01, 10, 50)}


@dataclass(frozen=True, slots=True)
class Speed:
    """Duration of one simulated question: randomized, aggregated and decoded.

    Args:
      question: the name in `QUESTIONS`.
      protocol: the peer's own name of what it did.
      users: how many answered.
      seconds: the better of two rounds, inside the peer's process, imports and data excluded.
      n_mse: users times the mean squared error of a share or component, about their own truth.
      n_mse_se: its standard error, as of independent normal errors.
    """

    question: str
    protocol: str
    users: int
    seconds: float
    n_mse: float
    n_mse_se: float


Answer = Callable[[Any], Sequence[float] | Shares]
Offered = Callable[[Question], Iterator[tuple[str, Answer]]]


def speeds(
    offered: Offered, arguments: Sequence[str], first: int = 2_000, most: int = 4_000_000
) -> Iterator[Speed]:
    """Measure all that a peer offers.

    Args:
      offered: yields the name of each protocol for a question, and what answers it from a list of
        cells or numbers or from rows of an array.
      arguments: of the script: the effort, and the names of the questions.
      first: users of the first round; every next one has four times as many.
      most: users at most.
    """
    effort, *names = arguments
    first = max(first // EFFORTS[effort].less, TOGETHER)
    for name in names:
        for protocol, answer in offered(QUESTIONS[name]):
            yield measured(name, protocol, answer, EFFORTS[effort], first, most)


def measured(
    name: str, protocol: str, answer: Answer, effort: Effort, first: int, most: int
) -> Speed:
    """Time one protocol with enough users, and measure its error."""
    question, users = QUESTIONS[name], first
    answer(_given(question.drawn(TOGETHER)))  # not timed: what is compiled or connected once
    while True:
        records = question.drawn(users)
        seconds = _seconds(answer, records)
        if seconds >= effort.seconds or users >= most:
            break
        users = min(4 * users, most)
    seconds = min(seconds, _seconds(answer, records))
    n_mse, n_mse_se = _errors(question, answer, records, effort)
    return Speed(name, protocol, users, seconds, n_mse, n_mse_se)


def parts_for(question: Question, users: int, degrees: int) -> int:
    """Return into how many parts users are divided, so that enough errors are averaged."""
    return max(1, min(math.ceil(degrees / question.degrees), users // TOGETHER))


def averaged(question: Question, squares: Sequence[float]) -> tuple[float, float]:
    """Return the mean of n x MSE over parts of the users, and its standard error."""
    mean = float(np.mean(squares))
    return mean, mean * math.sqrt(2 / (question.degrees * len(squares)))


def _errors(
    question: Question, answer: Answer, records: Any, effort: Effort
) -> tuple[float, float]:
    """Let the same users answer in parts, and return n x MSE with its standard error."""
    parts = parts_for(question, len(records), effort.degrees)
    squares = []
    for start in range(parts):
        part = records[start::parts]
        errors = np.asarray(answer(_given(part)), float) - question.truth(part)
        squares.append(len(part) * float(np.square(errors).mean()))
    return averaged(question, squares)


def _given(records: Any) -> Any:
    """Return a list of cells or numbers; rows of vectors stay an array."""
    return records.tolist() if records.ndim == 1 else records


def _seconds(answer: Answer, records: Any) -> float:
    given = _given(records)
    began = time.perf_counter()
    answer(given)
    return time.perf_counter() - began
