"""The mean of a number over users, or the share of users with a property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from askance.aggregator.learners.hypotheses import Document, hypothesis_of
from askance.aggregator.learners.learner import non_adaptive
from askance.aggregator.learners.learning import Answers, Batch, Question
from askance.aggregator.learners.rationals import Rational, rational
from askance.client.errors import InvalidQuery
from askance.client.queries import Expression, Query, QueryKind, as_query


@hypothesis_of("mean")
@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean in real units, with its interval."""

    estimate: float
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """{"estimate": ..., "low": ..., "high": ...}"""
        return {"estimate": self.estimate, "low": self.low, "high": self.high}

    @classmethod
    def from_json(cls, data: Any) -> MeanEstimate:
        """The estimate that `to_json` wrote.

        Raises:
            InvalidParameter: the data is not of that form.
        """
        document = Document("mean", data)
        return cls(*(document.number(key) for key in ("estimate", "low", "high")))

    def __str__(self) -> str:
        return f"{self.estimate:.5g} ({self.low:.5g} .. {self.high:.5g})"


@non_adaptive("mean", version=1)
def mean(
    query: Query | Expression, tau: Rational | None = None
) -> tuple[Batch, Callable[[Answers], MeanEstimate]]:
    """One question to everybody.

    Args:
        query: a number, clamped to its range, or a predicate (the mean is then a share).
        tau: how exactly the mean is wanted, in real units; None: as exactly as the population
            allows.

    Raises:
        InvalidQuery: it is neither a number nor a predicate.
    """
    asked = as_query(query)
    if asked.kind not in (QueryKind.REAL, QueryKind.PREDICATE):
        raise InvalidQuery(
            f"mean expects a number or a predicate, found a {asked.kind.name} query; "
            "the shares of a category are a frequency"
        )
    question = Question(asked, None if tau is None else rational(tau, "tau"))

    def conclude(answers: Answers) -> MeanEstimate:
        (answer,) = answers
        return MeanEstimate(answer.value, answer.low, answer.high)

    return Batch([question]), conclude
