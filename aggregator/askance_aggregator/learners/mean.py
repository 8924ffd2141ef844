"""The mean of a number over users, or the share of users with a property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from askance_aggregator.learners import assessments
from askance_aggregator.learners.aims import Aim, PopulationMean, SampleMean, prior_in
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of, written
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answers, Batch, Question
from askance_aggregator.learners.missing import (
    MissingShare,
    RequiredDefault,
    excludes_missing,
    named_share,
    required_notes,
)
from askance_aggregator.learners.parameters import (
    Missing,
    Parameter,
    ParameterKind,
    Present,
    field_named,
)
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.shapes import NoShape
from askance_aggregator.learners.totals import AnswerTotals
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import among_present, as_query, has_missing_level
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Bit, Expression, Integer, Query, QueryKind, Real, Schema

POPULATION = "population"
SAMPLE = "sample"
PRESENT_STEPS = 16
"""Steps that a number's range is divided into, for objectives that ask for more than two levels."""


@hypothesis_of("mean")
@dataclass(frozen=True, slots=True)
class MeanEstimate(JsonObject):
    """A mean in real units, with its interval.

    Args:
        of: whose mean the interval is about: of the "population" that users were drawn from, or of
            the "sample", the users who answered.
        missing: estimated share of users without a value, with its interval; the mean is over the
            others, and both intervals hold together. None: users without a value count with the
            query's public default.
        required: that default, of a number whose fields are all required; None: they are not.
        raw: the estimate before it was clamped to the number's range, which biases it; None: it
            lies in the range.
    """

    json_name: ClassVar = "mean"
    json_keys: ClassVar = ("estimate", "low", "high", "of?", "missing", "required?", "raw?")

    estimate: float
    low: float
    high: float
    of: str = POPULATION
    missing: MissingShare | None = None
    required: RequiredDefault | None = None
    raw: float | None = None

    def __post_init__(self) -> None:
        if self.of not in (POPULATION, SAMPLE):
            raise InvalidParameter(f"mean: expected of to be {POPULATION} or {SAMPLE}")

    def to_json(self) -> dict[str, Any]:
        """Return the parts; "required" and "raw" only where there is one."""
        return {
            key: part
            for key, part in written(self).items()
            if key not in ("required", "raw") or part is not None
        }

    def present(self) -> Presentation:
        """Return one row, and the share of users without a value."""
        notes: tuple[str, ...] = ()
        if self.of == SAMPLE:
            notes = ("the interval is for the mean of those who answered, not of a population",)
        if self.raw is not None:
            raw = f"the raw one is {self.raw:.4g}"
            notes += (f"the estimate is at the bound of the range, and so biased: {raw}",)
        return Presentation(
            (EstimateRow("mean", self.estimate, self.low, self.high),),
            notes=notes + required_notes([self.required]),
            missing=named_share(self.missing),
        )

    def to_shape(self) -> NoShape:
        """Return the reason why there is none."""
        told = f"{self.estimate:.4g} ({self.low:.4g} .. {self.high:.4g})"
        return NoShape(f"one mean is one number, {told}; mean-vector draws several")

    def __str__(self) -> str:
        of = " of the sample" if self.of == SAMPLE else ""
        missing = "" if self.missing is None else f"; {self.missing}"
        return f"{self.estimate:.5g}{of} ({self.low:.5g} .. {self.high:.5g}){missing}"


def _number(learner: str, schema: Schema, asked: str | None) -> Expression:
    return schema[field_named(learner, schema, (Integer, Real, Bit), asked)]


@catalogued(
    summary="the mean of a number over users",
    error="distance of the estimated mean from the population's, in real units",
    guess="the middle of the span of 98 % of the values; of a share one half",
    success=assessments.ALL_COVER,
    example=lambda: Schema("mean", 1, value=Real(-1, 1)),
    population="numbers",
    small=SmallSettings(oracles={"tau": "1/10"}, fleets={"tau": "1/5"}),
)
@non_adaptive("mean", version=2)
def mean(
    query: Annotated[
        Query | Expression,
        Parameter(
            "the number (default: the only one)", ParameterKind.FIELD, name="column", read=_number
        ),
    ],
    tau: Annotated[
        Rational | None,
        "tolerance of the mean, in the column's own unit (default: what the users allow)",
    ] = None,
    objective: Annotated[
        str | None,
        Parameter(
            "the least variance for: minimax, the worst population (default); conditional, the"
            " mean of those who answer; prior, a population like the prior",
            choices=("minimax", "conditional", "prior"),
        ),
    ] = None,
    prior: Annotated[
        str | None,
        Parameter(
            "of objective=prior, public, never made from the data: POINT:WEIGHT with commas, or"
            " small, middle (halves with each tenth of the range)",
            ParameterKind.POINTS,
        ),
    ] = None,
    missing: Missing = None,
    present: Present = None,
) -> tuple[Batch, Callable[[Answers], MeanEstimate]]:
    """Ask one question of all users: of an expression, the mean over those who have a value.

    A report of a user without a value differs from any other by no more than epsilon allows: the
    table has a level for "missing". Which share of users that is, is estimated too. A number whose
    fields are all required by the schema has no such level, and takes fewer users, as with
    missing="default": the result says which default it cannot see.

    Utility: intervals hold for every population, that of the mean and that of the missing share
    together. The estimate is consistent; of a query, or with missing="default", it is unbiased. The
    objective says whose mean is estimated and for whom the estimate varies the least: `minimax` the
    population's, for the worst population; `conditional` the mean of those who answer, for the
    worst of them; `prior` the population's, for one like the prior.

    A number is clamped to its range; the mean of a predicate is a share. An expression is asked of
    the users who have a value; with missing="default" all others count with the middle of the
    range. A query has a public default of its own, by which users without a value answer. `tau` is
    in real units. A prior (`aims.prior_in`) must not be made from the records that are asked about.
    `present` is a promise from public knowledge: users grow with its inverse square at small
    epsilon and with its inverse at large (ADR 30).

    Raises:
        InvalidQuery: it is neither a number nor a predicate, or an objective meets a predicate.
        InvalidParameter: there is no such objective, or a prior without its objective, or missing
            is neither word, or goes with a query.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> oracle = ask.ExactOracle(schema, {"age": [20, 40, 60]})
        >>> ask.learn(ask.learners.mean("age"), oracle).estimate
        40.0
    """
    excluded = excludes_missing("mean", query, missing)
    asked = _asked(query, objective or "minimax") if excluded else as_query(query)
    if asked.kind not in (QueryKind.REAL, QueryKind.PREDICATE):
        raise InvalidQuery(
            f"mean expects a number or a predicate, found a {asked.kind.name} query; "
            "the shares of a category are a frequency"
        )
    aim = _aim(asked, objective or "minimax", prior)
    tolerance = None if tau is None else rational(tau, "tau")
    question = Question(asked, tolerance, aim=aim, present=present if excluded else None)
    of = SAMPLE if isinstance(aim, SampleMean) else POPULATION

    def conclude(answers: Answers) -> MeanEstimate:
        (answer,) = answers
        missing = MissingShare.of(answer)
        default = None if excluded else RequiredDefault.in_query(asked)
        raw = None if answer.unclamped == answer.value else answer.unclamped
        return MeanEstimate(answer.value, answer.low, answer.high, of, missing, default, raw)

    return Batch([question]), conclude


def _asked(query: Query | Expression, objective: str) -> Query:
    """Ask an expression of the users who have it, on the levels that the objective's table has."""
    kind = as_query(query).kind
    if not isinstance(query, Expression) or kind not in (QueryKind.REAL, QueryKind.PREDICATE):
        return as_query(query)
    if kind is QueryKind.PREDICATE and objective != "minimax":
        return as_query(query)  # which is refused, with its reason
    return among_present(query, 1 if objective == "minimax" else PRESENT_STEPS)


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
    high = query.expression.high if has_missing_level(query) else query.high
    return prior_in(prior, Fraction(query.low, scale), Fraction(high, scale))


@assessments.assess.register
def _(
    hypothesis: MeanEstimate, learner: Learner[Any], users: assessments.Users
) -> assessments.Assessment:
    query = assessments.only_query(learner, QueryKind.PREDICATE, QueryKind.REAL)
    if query is None:
        return assessments.Assessment(None, None)
    (truth,) = users.totals([query])
    return judge_mean(hypothesis, query, truth, users)


def judge_mean(
    hypothesis: MeanEstimate, query: Query, truth: AnswerTotals, users: assessments.Users
) -> assessments.Assessment:
    """Judge an estimate by the exact totals over all users that it is about.

    The span of the values of `users` has the constant guess.

    It is right if its interval contains the mean and that of the missing share, if there is one,
    contains that. Without any user who has a value there is no mean, and none of it is assessed.
    """
    true = truth.mean(query)
    if true is None:
        return assessments.Assessment(None, None, summary=assessments.NO_VALUES)
    ends = (hypothesis.low,), (hypothesis.high,)
    low, high = Question(query).bounds
    guess, spread = 0.5, None
    if query.kind is QueryKind.REAL:
        guess, spread = assessments.guess_of(
            assessments.values_in(query, assessments.sample_of(users))
        )
    unasked = float((high - low) / 2)
    found = assessments.covers((hypothesis.estimate,), *ends, true[:1], (guess,), unasked, spread)
    share, absent = hypothesis.missing, 1 - true[1]
    if share is None:
        return found
    return found.with_intervals(
        assessments.JointInterval(assessments.MISSING, share.holds(absent)), absent=[absent]
    )
