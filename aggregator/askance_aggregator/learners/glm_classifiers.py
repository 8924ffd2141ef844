"""Logistic regression and linear support vector machines, by gradients of fresh users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import catalogued_classifier
from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.constant_checks import Decide
from askance_aggregator.learners.encodings import cells
from askance_aggregator.learners.glm import Clip, DescentSettings, Model, Rate, Rounds, fit, settle
from askance_aggregator.learners.glm_checks import ClassCheck
from askance_aggregator.learners.glm_gradients import (
    Features,
    Logistic,
    Loss,
    SmoothHinge,
    check_width,
)
from askance_aggregator.learners.glm_rules import CLASSES, MARGINS, Scale
from askance_aggregator.learners.learner import adaptive
from askance_aggregator.learners.learning import Learning
from askance_aggregator.learners.linear_classifiers import (
    LinearClassifier,
    LogisticModel,
    SupportVectorModel,
    coordinates_of,
    positive_class,
)
from askance_aggregator.learners.parameters import Affordable, LabelName, Tau
from askance_aggregator.learners.registry import SmallSettings
from askance_aggregator.learners.rows import features_of, label_of, some_fields
from askance_aggregator.learners.schemas import traits_schema
from askance_client.queries import Expression, Schema

C = TypeVar("C", bound=LinearClassifier)
_listed = partial(
    catalogued_classifier,
    example=traits_schema,
    population="traits",
    small=SmallSettings(
        oracles={"columns": "height", "rounds": "4", "rate": "8", "clip": "1", "tau": "1/4"},
        fleets={"columns": "member", "rounds": "2", "rate": "1", "clip": "1", "tau": "1/3"},
    ),
    held_out=True,
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Kind of classifier: its loss by the predicate of the second class, and its scale."""

    loss: Callable[[Expression], Loss]
    scale: Scale


_LOGISTIC = _Kind(Logistic, CLASSES)
_HINGE = _Kind(SmoothHinge, MARGINS)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Classification to learn: the label, its features, and the loss."""

    schema: Schema
    label: str
    features: Schema
    kind: _Kind

    @classmethod
    def of(cls, arguments: Mapping[str, Any], kind: _Kind) -> _Task:
        schema = arguments["schema"]
        label = label_of(schema, arguments["label"])
        return cls(schema, label, features_of(schema, label, arguments["columns"]), kind)

    def restricted(self, fields: Sequence[str]) -> _Task:
        """Return the task with some of its fields, in the schema's order."""
        names = [name for name in self.features.fields if name in fields]
        return _Task(self.schema, self.label, some_fields(self.features, names), self.kind)

    @property
    def widths(self) -> dict[str, int]:
        """Number of features of each field."""
        found = dict.fromkeys(self.features.fields, 0)
        for item in coordinates_of(self.features):
            found[item.part.field] += item.count
        return found

    @property
    def positive(self) -> Expression:
        return positive_class(self.schema, self.label)

    @property
    def model(self) -> Model:
        check = self.check
        return Model(check.features, self.kind.loss(self.positive), self.kind.scale, check)

    @property
    def check(self) -> ClassCheck:
        features = check_width(Features.of_coordinates(coordinates_of(self.features)))
        return ClassCheck(features, self.positive)

    def concluded(self, kind: type[C], weights: NDArray[np.float64]) -> C:
        (classes,) = cells(self.schema, self.label)
        return kind(self.features, self.label, classes.labels, tuple(weights.tolist()))


@_listed(summary="one of two classes by a weighted sum, and its probability")
@adaptive(
    "logistic-regression",
    version=2,
    settle=lambda arguments, conditions: _settle(arguments, conditions, _LOGISTIC),
)
def logistic_regression(
    schema: Schema,
    label: LabelName = None,
    columns: Affordable = None,
    rounds: Rounds = None,
    rate: Rate = None,
    clip: Clip = None,
    decide: Decide = None,
    tau: Tau = None,
) -> Learning[LogisticModel]:
    """Minimise the logistic loss by gradients, one vector question per round (`glm`).

    Utility: see `glm` for the promise with `tau`, and `glm_rules` for what is set where it is not
    given. Without `tau` the users are divided evenly over the rounds, and errors average out over
    rounds. Numbers are scaled by the schema's bounds; a category has one feature per label. A
    record without one of the fields has no part: the model is of complete records.

    Raises:
        InvalidParameter: an argument is out of range (rounds in 1 .. 10,000, rate in (0, 1000],
            clip in (0, 8]), or the label has not two classes.

    Source: Chu et al. 2007 (learning by sums of gradients); Duchi, Jordan and Wainwright 2018
        (locally private stochastic gradients).

    Example:
        >>> people = ask.Population.generated("halfspaces", users=2_000, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.logistic_regression(
        ...     rounds=2, tau="1/100", rate="1/2", clip=1
        ... )
        >>> [row["feature"] for row in ask.learn(learner, oracle).to_rows()]
        ['(intercept)', 'x0', 'x1']
    """
    given = DescentSettings(rounds, rate, clip, decide, tau)
    task = _Task.of({"schema": schema, "label": label, "columns": columns}, _LOGISTIC)
    return _learn(LogisticModel, task, task.model, given)


@_listed(summary="one of two classes by a weighted sum, with a wide margin")
@adaptive(
    "linear-svm",
    version=1,
    settle=lambda arguments, conditions: _settle(arguments, conditions, _HINGE),
)
def linear_svm(
    schema: Schema,
    label: LabelName = None,
    columns: Affordable = None,
    rounds: Rounds = None,
    rate: Rate = None,
    clip: Clip = None,
    decide: Decide = None,
    tau: Tau = None,
) -> Learning[SupportVectorModel]:
    """Minimise the smoothed hinge loss by gradients, one vector question per round (`glm`).

    Utility: as `logistic_regression`; the margin of a record is its signed score.

    Errors are as of `logistic_regression`.

    Source: Rennie and Srebro 2005 (the smooth hinge).

    Example:
        >>> people = ask.Population.generated("halfspaces", users=2_000, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.linear_svm(
        ...     rounds=2, tau="1/100", rate="1/2", clip=1
        ... )
        >>> [row["feature"] for row in ask.learn(learner, oracle).to_rows()]
        ['(intercept)', 'x0', 'x1']
    """
    given = DescentSettings(rounds, rate, clip, decide, tau)
    task = _Task.of({"schema": schema, "label": label, "columns": columns}, _HINGE)
    return _learn(SupportVectorModel, task, task.model, given)


def _settle(arguments: Mapping[str, Any], conditions: Conditions, kind: _Kind) -> Mapping[str, Any]:
    return settle(_Task.of(arguments, kind), arguments, conditions)


def _learn(kind: type[C], task: _Task, model: Model, given: DescentSettings) -> Learning[C]:
    return task.concluded(kind, (yield from fit(model, given)))
