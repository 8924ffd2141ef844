"""The oracle of a sample: SQ learning becomes PAC learning (notes, Theorem 6)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, log

import numpy as np

from askance_aggregator.learners import Answer, Answers, Batch, Question
from askance_aggregator.oracles.expectations import expectations, presence_of
from askance_aggregator.oracles.oracle import Shares
from askance_aggregator.queries import EncodedColumns, evaluate_columns, joined_rows
from askance_client.errors import InvalidAnswer

_FEWEST = 1000  # rows, of which one has the number at least

Sampler = Callable[[int], EncodedColumns]
"""So many fresh, independent rows of a distribution."""


class EmpiricalOracle:
    """Answers each question by the mean over a fresh sample.

    Utility: all answers together are valid with probability at least 1 - beta, divided by `Shares`.
    A question takes ln(2/share) range^2 / (2 tau^2) rows; an interval is the value -+ tau, clipped
    to the range. A question with an open tolerance is answered within 1/20 of its range. Of a query
    with a missing level so many rows that have the number are taken, and `present` is the share in
    the rows drawn.

    Args:
        sampler: the distribution; it holds the randomness.

    Source: notes, Theorem 6, which assumes values in [0, 1]: otherwise x range^2.

    Example:
        >>> people = ask.Population.generated("categories", users=10_000, cells=4)
        >>> oracle = ask.EmpiricalOracle(lambda count: people.columns(0, count), beta=0.01)
        >>> question = ask.Question(ask.category(people.schema["category"]), tau="0.1")
        >>> len(oracle.answer(ask.Batch([question]))[0].values)
        4
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
        sample = self._sampler(rows)
        self._drawn += rows
        if question.over_present:
            sample = self._with_number(question, sample, rows)
        values = [float(value) for value in expectations(question, sample)]
        low, high = (float(bound) for bound in question.bounds)
        return Answer(
            tuple(values),
            tuple(max(value - tau, low) for value in values),
            tuple(min(value + tau, high) for value in values),
            present=presence_of(question, sample),
        )

    def _with_number(self, question: Question, sample: EncodedColumns, rows: int) -> EncodedColumns:
        """Draw on until so many rows have the number: the mean is over those."""
        # When to stop depends on who has a number and not on which, so the mean is as of that many
        # rows drawn from those who have it.
        while (has := _having(question, sample)) < rows:
            if has * _FEWEST < sample.rows:
                raise InvalidAnswer(
                    f"expected a number in 1 of {_FEWEST} rows at least, found {has} in"
                    f" {sample.rows}"
                )
            more = self._sampler(ceil((rows - has) * sample.rows / has))
            self._drawn += more.rows
            sample = joined_rows(sample, more)
        return sample


def _having(question: Question, sample: EncodedColumns) -> int:
    found = evaluate_columns(question.query, sample)
    return int(np.count_nonzero(found != question.query.default))
