"""Linear, ridge and Huber regression, by gradients of fresh users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.constant_checks import Decide
from askance_aggregator.learners.encodings import Number, numbers_of
from askance_aggregator.learners.glm import Clip, DescentSettings, Model, Rate, Rounds, fit, settle
from askance_aggregator.learners.glm_checks import OutcomeCheck
from askance_aggregator.learners.glm_gradients import Features, Huber, Loss, Squared, check_width
from askance_aggregator.learners.glm_rules import OUTCOMES, TWO_VALUES, Scale
from askance_aggregator.learners.learner import adaptive
from askance_aggregator.learners.learning import Learning
from askance_aggregator.learners.linear import SQUARED, LinearModel, Target, target_of
from askance_aggregator.learners.parameters import Affordable, Tau
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import features_of, some_fields
from askance_aggregator.learners.schemas import plane_schema
from askance_aggregator.numbers import Rational, positive, rational
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Kind, Schema

MOST_WIDTH = 4
WIDTH = Fraction(1, 8)  # of a Huber loss: a sixteenth of the outcome's range
WHOLE_WIDTH = Fraction(1)  # of an outcome of two values, which has no outliers

Lossy = Callable[[Expression], Loss]
"""Loss of an outcome."""
_listed = partial(
    catalogued,
    error=SQUARED,
    guess="the mean outcome of those rows",
    example=lambda: plane_schema(3),
    population="plane",
    small=SmallSettings(
        oracles={"d": "1", "tau": "1/4", "rounds": "4", "rate": "1/2", "clip": "1"},
        fleets={"d": "1", "tau": "1/2", "rounds": "2", "clip": "1", "rate": "1/2"},
    ),
    held_out=True,
)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Regression to learn: the outcome, its features, and the loss."""

    outcome: Schema
    features: Schema
    lossy: Lossy
    penalty: Fraction = Fraction(0)

    @classmethod
    def of(
        cls,
        schema: Schema,
        target: str | None,
        columns: Sequence[str] | None,
        lossy: Lossy,
        penalty: Rational | None = None,
    ) -> _Task:
        chosen = Fraction(0) if penalty is None else rational(penalty, "penalty")
        if chosen < 0:
            raise InvalidParameter(f"penalty expects a number >= 0, got {value_text(penalty)}")
        predicted = target_of(schema, target)
        features = features_of(schema, predicted, columns)
        return cls(some_fields(schema, [predicted]), features, lossy, chosen)

    def restricted(self, fields: Sequence[str]) -> _Task:
        """Return the task with some of its fields."""
        kept = some_fields(self.features, fields)
        return _Task(self.outcome, kept, self.lossy, self.penalty)

    @property
    def widths(self) -> dict[str, int]:
        """Number of features of each field."""
        found = dict.fromkeys(self.features.fields, 0)
        for number in numbers_of(self.features):
            found[number.field] += 1
        return found

    @property
    def scaled(self) -> Number:
        (number,) = numbers_of(self.outcome)
        return number

    @property
    def model(self) -> Model:
        check, loss = self.check, self.lossy(self.scaled.expression)
        return Model(check.features, loss, self.scale, check, self.penalty)

    @property
    def scale(self) -> Scale:
        return TWO_VALUES if self.scaled.expression.kind is Kind.BOOLEAN else OUTCOMES

    @property
    def check(self) -> OutcomeCheck:
        features = check_width(Features.of_numbers(numbers_of(self.features)))
        return OutcomeCheck(features, self.scaled.expression, self.scale.gain)

    def concluded(self, weights: NDArray[np.float64]) -> LinearModel:
        return LinearModel(
            self.features, self.outcome, tuple(weights.tolist()), penalty=float(self.penalty)
        )


def _settle_squared(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    return _settle(arguments, conditions, Squared)


def _settle_ridge(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    """Set the penalty too, by the noise with the columns that are kept."""
    chosen = dict(_settle(arguments, conditions, Squared))
    if chosen and arguments["penalty"] is None:
        task = _Task.of(arguments["schema"], arguments["target"], chosen["columns"], Squared)
        noise = task.model.noise(conditions)
        chosen["penalty"] = noise.penalty
    return chosen


def _settle_huber(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    return _settle(arguments, conditions, _huber(arguments["width"]))


@_listed(summary="a number as a weighted sum of others, by least squares")
@adaptive("linear-regression", version=3, settle=_settle_squared)
def linear_regression(
    schema: Schema,
    target: Target = None,
    columns: Affordable = None,
    tau: Tau = None,
    rounds: Rounds = None,
    rate: Rate = None,
    clip: Clip = None,
    decide: Decide = None,
) -> Learning[LinearModel]:
    """Least squares: `ridge_regression` without a penalty.

    Utility: as `ridge_regression`, with penalty 0. Directions in which the features hardly vary get
    little weight, as a few rounds take the weights no farther.

    Errors and source are as of `ridge_regression`.

    Example:
        >>> people = ask.Population.generated("plane", users=2_000, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.linear_regression(
        ...     rounds=2, tau="1/100", rate="1/2", clip=1
        ... )
        >>> [row["feature"] for row in ask.learn(learner, oracle).to_rows()]
        ['(intercept)', 'x0', 'x1']
    """
    given = DescentSettings(rounds, rate, clip, decide, tau)
    return _learn(_Task.of(schema, target, columns, Squared), given)


@_listed(summary="least squares with a penalty on large weights")
@adaptive("ridge-regression", version=3, settle=_settle_ridge)
def ridge_regression(
    schema: Schema,
    target: Target = None,
    columns: Affordable = None,
    penalty: Annotated[
        Rational | None, "on squared weights of scaled features (default: by noise)"
    ] = None,
    tau: Tau = None,
    rounds: Rounds = None,
    rate: Rate = None,
    clip: Clip = None,
    decide: Decide = None,
) -> Learning[LinearModel]:
    """Least squares with a penalty on the squared weights (not on the intercept's), by gradients.

    Utility: one vector question per round, to users of its own (`glm`, which has the promise with
    `tau`). What is minimised is E[(w . x - outcome)^2] + penalty |w|^2, all scaled by the schema,
    but for residuals beyond the clip: those pull no more than at the clip, as with Huber's loss.
    A record without one of the fields has no part: the model is of complete records, and with a
    share q of them the penalty counts as penalty / q.

    `penalty` is by default set by the noise (`glm_rules.PENALTY_PART`).

    Raises:
        InvalidParameter: no such field, a negative penalty, or a number out of range: rounds in
            1 .. 10,000, rate in (0, 1000], clip in (0, 8].

    Source: Duchi, Jordan and Wainwright 2018 (locally private stochastic gradients).

    Example:
        >>> people = ask.Population.generated("plane", users=2_000, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.ridge_regression(
        ...     rounds=2, tau="1/100", rate="1/2", clip=1
        ... )
        >>> [row["feature"] for row in ask.learn(learner, oracle).to_rows()]
        ['(intercept)', 'x0', 'x1']
    """
    given = DescentSettings(rounds, rate, clip, decide, tau)
    return _learn(_Task.of(schema, target, columns, Squared, penalty), given)


@_listed(summary="a number as a weighted sum of others, which outliers move little")
@adaptive("huber-regression", version=1, settle=_settle_huber)
def huber_regression(
    schema: Schema,
    target: Target = None,
    columns: Affordable = None,
    width: Annotated[
        Rational | None, "where the loss turns linear (default: 1/8; two values: 1)"
    ] = None,
    tau: Tau = None,
    rounds: Rounds = None,
    rate: Rate = None,
    clip: Clip = None,
    decide: Decide = None,
) -> Learning[LinearModel]:
    """Regression by Huber's loss: records far from the model pull by no more than the width.

    Utility: as `linear_regression`; outliers move the model less.

    `width`, in (0, 4], is on the scaled outcome (-1 to 1, or 0 and 1). None: 1/8, or 1 for an
    outcome of two values: it has no outliers, and a narrow loss would fit its median. Errors are as
    of `ridge_regression`.

    Source: Huber 1964 (robust estimation of a location parameter).

    Example:
        >>> people = ask.Population.generated("plane", users=2_000, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.huber_regression(
        ...     rounds=2, tau="1/100", rate="1/2", clip=1
        ... )
        >>> [row["feature"] for row in ask.learn(learner, oracle).to_rows()]
        ['(intercept)', 'x0', 'x1']
    """
    given = DescentSettings(rounds, rate, clip, decide, tau)
    return _learn(_Task.of(schema, target, columns, _huber(width)), given)


def _huber(width: Rational | None) -> Lossy:
    chosen = None if width is None else positive(width, "width", MOST_WIDTH)

    def lossy(outcome: Expression) -> Loss:
        usual = WHOLE_WIDTH if outcome.kind is Kind.BOOLEAN else WIDTH
        return Huber(outcome, usual if chosen is None else chosen)

    return lossy


def _settle(
    arguments: Mapping[str, Any], conditions: Conditions, lossy: Lossy
) -> Mapping[str, Any]:
    task = _Task.of(arguments["schema"], arguments["target"], arguments["columns"], lossy)
    return settle(task, arguments, conditions)


def _learn(task: _Task, given: DescentSettings) -> Learning[LinearModel]:
    return task.concluded((yield from fit(task.model, given)))
