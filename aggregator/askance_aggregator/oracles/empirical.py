"""The oracle of a sample: SQ learning becomes PAC learning (notes, Theorem 6)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, log

from askance_aggregator.learners import Answer, Answers, Batch, Question
from askance_aggregator.oracles.expectations import expectations
from askance_aggregator.oracles.shares import Shares
from askance_aggregator.queries import EncodedColumns

Sampler = Callable[[int], EncodedColumns]
"""So many fresh, independent rows of a distribution."""


class EmpiricalOracle:
    """Answers each question by the mean over a fresh sample.

    Utility: all answers together are valid with probability at least 1 - beta, divided by `Shares`.
    A question takes ln(2/share) range^2 / (2 tau^2) rows; an interval is the value -+ tau, clipped
    to the range. A question with an open tolerance is answered within 1/20 of its range.

    Args:
        sampler: the distribution; it holds the randomness.
        beta: the probability of failure, in (0, 1).
        values: how many values will be asked for in all, if it is known.

    Source: notes, Theorem 6, which assumes values in [0, 1]: otherwise x range^2.
    """

    def __init__(self, sampler: Sampler, beta: float | Fraction, values: int | None = None) -> None:
        self._sampler = sampler
        self._shares = Shares(beta, values)
        self._drawn = 0

    @property
    def drawn(self) -> int:
        """Number of rows drawn so far."""
        return self._drawn

    def answer(self, batch: Batch) -> Answers:
        """The means over fresh samples."""
        return tuple(self._answer(question) for question in batch.questions)

    def _answer(self, question: Question) -> Answer:
        share = self._shares.spend(question.values)
        tau, spread = float(question.working_tau), float(question.spread)
        rows = ceil(log(2 / share) * spread * spread / (2 * tau * tau))
        self._drawn += rows
        values = [float(value) for value in expectations(question, self._sampler(rows))]
        low, high = (float(bound) for bound in question.bounds)
        return Answer(
            tuple(values),
            tuple(max(value - tau, low) for value in values),
            tuple(min(value + tau, high) for value in values),
        )
