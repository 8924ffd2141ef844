"""The mean of a number over users, or the share of users with a property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from askance_aggregator.learners.aims import Aim, PopulationMean, SampleMean, prior_in
from askance_aggregator.learners.hypotheses import Document, hypothesis_of
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answers, Batch, Question
from askance_aggregator.learners.parameters import ParameterEntry, Text, field_named
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.verdicts import (
    ALL_COVER,
    Users,
    Verdict,
    covers,
    judge,
    only_query,
    values_of,
)
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import as_query
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Bit, Expression, Integer, Query, QueryKind, Real, Schema

POPULATION = "population"
SAMPLE = "sample"


@hypothesis_of("mean")
@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean in real units, with its interval.

    Args:
        of: whose mean the interval is about: of the "population" that users were drawn from, or of
            the "sample", the users who answered.
    """

    estimate: float
    low: float
    high: float
    of: str = POPULATION

    def to_json(self) -> dict[str, Any]:
        """Return {"estimate": ..., "low": ..., "high": ..., "of": "population" | "sample"}."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high, "of": self.of}

    @classmethod
    def from_json(cls, data: Any) -> MeanEstimate:
        """The estimate that `to_json` wrote.

        Raises:
            InvalidParameter: the data is not of that form.
        """
        document = Document("mean", data)
        of = document.data.get("of", POPULATION)
        if of not in (POPULATION, SAMPLE):
            raise InvalidParameter(f"mean: expected of to be {POPULATION} or {SAMPLE}")
        estimate, low, high = (document.number(key) for key in ("estimate", "low", "high"))
        return cls(estimate, low, high, of)

    def __str__(self) -> str:
        of = " of the sample" if self.of == SAMPLE else ""
        return f"{self.estimate:.5g}{of} ({self.low:.5g} .. {self.high:.5g})"


@non_adaptive("mean", version=1)
def mean(
    query: Query | Expression,
    tau: Rational | None = None,
    objective: str | None = None,
    prior: str | None = None,
) -> tuple[Batch, Callable[[Answers], MeanEstimate]]:
    """Ask one question of all users.

    Utility: unbiased whatever the objective, which says whose mean is estimated and for whom the
    estimate varies the least: `minimax` the population's, for the worst population; `conditional`
    the mean of those who answer, for the worst of them; `prior` the population's, for one like the
    prior. Intervals hold for every population.

    Args:
        query: a number, clamped to its range, or a predicate (the mean is then a share).
        tau: how exactly the mean is wanted, in real units; None: as exactly as the population
            allows.
        objective: "minimax", "conditional" or "prior"; None: minimax. Of a predicate, minimax.
        prior: of the objective "prior": what is publicly known of the numbers, as text
            (`aims.prior_in`). It must not be made from the records that are asked about.

    Raises:
        InvalidQuery: it is neither a number nor a predicate, or an objective meets a predicate.
        InvalidParameter: there is no such objective, or a prior without its objective.
    """
    asked = as_query(query)
    if asked.kind not in (QueryKind.REAL, QueryKind.PREDICATE):
        raise InvalidQuery(
            f"mean expects a number or a predicate, found a {asked.kind.name} query; "
            "the shares of a category are a frequency"
        )
    aim = _aim(asked, objective or "minimax", prior)
    question = Question(asked, None if tau is None else rational(tau, "tau"), aim=aim)
    of = SAMPLE if isinstance(aim, SampleMean) else POPULATION

    def conclude(answers: Answers) -> MeanEstimate:
        (answer,) = answers
        return MeanEstimate(answer.value, answer.low, answer.high, of)

    return Batch([question]), conclude


def _aim(query: Query, objective: str, prior: str | None) -> Aim:
    if objective not in ("minimax", "conditional", "prior"):
        raise InvalidParameter(
            f"mean: objective expects minimax, conditional or prior, found {objective!r}"
        )
    if (objective == "prior") != (prior is not None):
        raise InvalidParameter(
            "mean: a prior and objective=prior go together, found one without the other"
        )
    if prior is None:
        return SampleMean() if objective == "conditional" else PopulationMean()
    if query.kind is not QueryKind.REAL:
        raise InvalidQuery("mean: a prior is of a number, found a predicate")
    scale = 1 << query.frac
    return prior_in(prior, Fraction(query.low, scale), Fraction(query.high, scale))


@judge.register
def _(hypothesis: MeanEstimate, learner: Learner[Any], users: Users) -> Verdict:
    query = only_query(learner, QueryKind.PREDICATE, QueryKind.REAL)
    if query is None:
        return Verdict(None, None)
    total = sum(sum(values.tolist()) for values in values_of(query, users))  # of any size
    scale = 1 if query.kind is QueryKind.PREDICATE else 1 << query.frac
    truth = (float(Fraction(total, scale * users.size)),)
    return covers(
        (hypothesis.estimate,),
        (hypothesis.low,),
        (hypothesis.high,),
        truth,
        *middle_of(query),
    )


def middle_of(query: Query) -> tuple[tuple[float], float]:
    """Return the middle of a query's range, which is the constant guess, and half the range."""
    low, high = Question(query).bounds
    return (float((low + high) / 2),), float((high - low) / 2)


@catalogued(
    "mean",
    version=1,
    summary="the mean of a number over users",
    error="distance of the estimated mean from the population's, in real units",
    guess="the middle of the range",
    success=ALL_COVER,
    parameters=(
        ParameterEntry("column", "the number (default: the only one)"),
        ParameterEntry("tau", "how exactly the mean is wanted (default: as users allow)"),
        ParameterEntry(
            "objective",
            "the least variance for: minimax, the worst population (default); conditional, the"
            " mean of those who answer; prior, a population like the prior",
        ),
        ParameterEntry(
            "prior",
            "of objective=prior, public, never made from the data: POINT:WEIGHT with commas, or"
            " small, middle (halves with each tenth of the range)",
        ),
    ),
    population="numbers",
    small=SmallSettings(oracles={"tau": "1/10"}, fleets={"tau": "1/5"}),
)
def listed_mean(schema: Schema | None, parameters: Text) -> Learner[Any]:
    """Build the learner from text."""
    if schema is None:
        schema = Schema("mean", 1, value=Real(-1, 1))
    field = field_named("mean", schema, (Integer, Real, Bit), parameters.get("column"))
    made = mean(
        schema[field], parameters.get("tau"), parameters.get("objective"), parameters.get("prior")
    )
    return replace(made, schema=schema)
