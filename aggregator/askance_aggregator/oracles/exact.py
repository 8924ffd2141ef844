"""The oracle of a distribution: it answers with the expectation itself."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from askance_aggregator.learners import Answer, Answers, Batch
from askance_aggregator.oracles.expectations import Weights, expectations, presence_of
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.queries import Schema


class ExactOracle:
    """Expectations over a finite population, by integer arithmetic; valid for every tolerance.

    A value is exact until it is rounded to a float, once; its interval is that one point.

    Args:
        columns: the population: raw columns, or encoded ones.
        weights: integers >= 0, one a row: the distribution; None: every row counts once.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> oracle = ask.ExactOracle(schema, {"age": [20, 40, 60, 80]})
        >>> (answer,) = oracle.answer(ask.Batch([ask.Question(ask.predicate(schema.age > 50))]))
        >>> answer.value
        0.5
    """

    def __init__(
        self,
        schema: Schema,
        columns: EncodedColumns | Mapping[str, ArrayLike],
        weights: Weights | None = None,
    ) -> None:
        encoded = (
            columns if isinstance(columns, EncodedColumns) else encode_columns(schema, columns)
        )
        self.schema = schema
        self._columns = encoded
        self._weights = weights

    def answer(self, batch: Batch) -> Answers:
        """The expectations."""
        answers = []
        for question in batch.questions:
            exact = expectations(question, self._columns, self._weights)
            values = tuple(float(value) for value in exact)
            present = presence_of(question, self._columns, self._weights)
            answers.append(Answer(values, values, values, present=present))
        return tuple(answers)
