"""Linear models of a number as hypotheses: of linear, ridge and Huber regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import assessments
from askance_aggregator.learners.encodings import Number, numbers_of
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Learner
from askance_aggregator.learners.missing import MissingShare, complete_rows
from askance_aggregator.learners.parameters import Parameter, ParameterKind
from askance_aggregator.learners.rows import Rows, encoded, field_of
from askance_aggregator.learners.shapes import Coefficients, Predictions
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Category, Integer, Label, Real, Schema

_TERMS = 8  # shown of a longer model


@hypothesis_of("linear-regression", "ridge-regression", "huber-regression")
@dataclass(frozen=True, slots=True)
class LinearModel(JsonObject):
    """A number predicted as an intercept plus a weighted sum of scaled features.

    Args:
        outcome: the schema of what it predicts: one field with one number.
        weights: the intercept, then one a scaled feature, for the scaled outcome.
        penalty: that was put on squared weights.
        missing: estimated share of users who lack a feature or the outcome; the model is of the
            others, the complete cases. None: it was not asked for.
    """

    json_name: ClassVar = "linear model"
    json_keys: ClassVar = (
        "summary",
        "target",
        "intercept=intercept_",
        "coefficients",
        "weights",
        "penalty",
        "missing",
        "features",
        "outcome",
        "encodings",
    )

    features: Schema
    outcome: Schema
    weights: tuple[float, ...]
    penalty: float = 0.0
    missing: MissingShare | None = None
    complete_cases: ClassVar[bool] = True
    columns: tuple[Number, ...] = field(init=False, compare=False, repr=False)
    scaled: Number = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        columns, outcomes = numbers_of(self.features), numbers_of(self.outcome)
        if len(outcomes) != 1 or len(self.weights) != 1 + len(columns):
            raise InvalidParameter(
                f"LinearModel expects one number to predict and {1 + len(columns)} weights,"
                f" found {len(outcomes)} and {len(self.weights)}"
            )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "scaled", outcomes[0])

    @property
    def is_constant(self) -> bool:
        """Return whether it has one value for every row."""
        return not any(self.weights[1:])

    @property
    def target(self) -> str:
        """The field that it predicts."""
        return self.scaled.field

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """The numbers that it predicts from."""
        return np.array([number.name for number in self.columns])

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Units of the outcome per unit of each feature, shape (features,)."""
        per_scaled = np.array(self.weights[1:]) * _per_unit(self.scaled)
        return np.asarray(per_scaled / np.array([_per_unit(item) for item in self.columns]))

    @property
    def intercept_(self) -> float:
        """The prediction where every feature is 0 in its own units."""
        centres = np.array([_centre(item) for item in self.columns])
        at_centre = _centre(self.scaled) + self.weights[0] * _per_unit(self.scaled)
        return float(at_centre - self.coef_ @ centres)

    def predict(self, rows: Rows) -> NDArray[np.float64]:
        """The outcome of each row in its own units, shape (n,); not clipped.

        A feature that a row does not have counts as the middle of its bounds (a category as its
        first label), though the model is of rows that have all.
        """
        grid = encoded(self.features, rows)
        columns = [np.ones(len(grid)), *(number.of(grid) for number in self.columns)]
        return self.scaled.in_units(np.stack(columns, axis=1) @ np.array(self.weights))

    @property
    def coefficients(self) -> dict[str, float]:
        """Units of the outcome per unit of each feature, by its name."""
        return dict(zip(self.feature_names_in_.tolist(), self.coef_.tolist(), strict=True))

    @property
    def encodings(self) -> tuple[Number, ...]:
        """Numbers that it predicts from, and the one that it predicts."""
        return (*self.columns, self.scaled)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per feature, the intercept first, in the fields' own units."""
        names = ("(intercept)", *self.feature_names_in_.tolist())
        values = (self.intercept_, *self.coef_.tolist())
        pairs = zip(names, values, strict=True)
        return [{"feature": name, "coefficient": value} for name, value in pairs]

    def to_shape(self) -> Coefficients:
        """Return the weights of the scaled features."""
        return Coefficients(self.target, tuple(self.feature_names_in_.tolist()), self.weights[1:])

    def tested_shape(self, rows: EncodedColumns) -> Predictions | None:
        """Return true and predicted outcomes of the rows that the model is of."""
        kept = rows.present[self.target] & complete_rows(rows, self.features)
        if not kept.any():
            return None
        chosen = rows.take(np.flatnonzero(kept))
        truth = self.scaled.in_units(self.scaled.of(chosen))
        return Predictions(self.target, tuple(truth.tolist()), tuple(self.predict(chosen).tolist()))

    def __str__(self) -> str:
        names, weights = self.feature_names_in_.tolist(), self.coef_.tolist()
        shown = range(len(names))
        if len(names) > _TERMS:  # the greatest over the ranges of their fields
            shown = np.argsort(-np.abs(self.weights[1:]), kind="stable")[:_TERMS].tolist()
        terms = "".join(
            f" {'-' if weights[place] < 0 else '+'} {abs(weights[place]):.4g} {names[place]}"
            for place in shown
        )
        rest = len(names) - len(shown)
        more = f" and {rest} more" if rest else ""
        return f"{self.scaled.name} = {self.intercept_:.4g}{terms}{more}"


def target_of(schema: Schema, target: str | None) -> str:
    """The field to be predicted as a number.

    None: the only Label if it has two labels, else the last Integer or Real.
    """
    names = schema.fields
    if target is None:
        labels = [name for name, kind in names.items() if isinstance(kind, Label)]
        amounts = [name for name, kind in names.items() if isinstance(kind, Integer | Real)]
        found = labels if len(labels) == 1 else amounts[-1:]
        if not found:
            raise InvalidParameter("expected target set to a number, a bit or a label, got none")
        target = found[0]
    kind = field_of(schema, target)
    two = isinstance(kind, Category) and len(kind.labels) == 2
    if not two and not isinstance(kind, Integer | Real | Bit):
        raise InvalidParameter(
            "target expects a number, a bit or a category of two labels,"
            f" got {target}{_labels_text(kind)}"
        )
    return target


def _labels_text(kind: object) -> str:
    """Say how many labels a category has, and that a label is a category, also of numbers."""
    if not isinstance(kind, Category):
        return ""
    told = f", a category of {len(kind.labels):,}"
    return f"{told}; for a number set target and no label" if isinstance(kind, Label) else told


def _per_unit(number: Number) -> float:
    """Own units per scaled unit."""
    width = float(number.high - number.low)
    return width if number.is_truth else width / 2


def _centre(number: Number) -> float:
    """Return the value, in the field's units, that 0 stands for."""
    return float(number.low if number.is_truth else (number.low + number.high) / 2)


@assessments.assess.register
def _(
    hypothesis: LinearModel, learner: Learner[Any], users: assessments.Users
) -> assessments.Assessment:
    """Return the mean squared error of complete rows, over the outcome's variance: 1 - R^2."""
    if users.unseen is None:
        return assessments.Assessment(None, None)
    rows = users.unseen(assessments.UNSEEN_ROWS)
    present = rows.present[hypothesis.target] & complete_rows(rows, hypothesis.features)
    if not present.any():
        return assessments.Assessment(None, None, summary=assessments.NO_VALUES)
    truth = hypothesis.scaled.in_units(hypothesis.scaled.of(rows))[present]
    missed = np.square(hypothesis.predict(rows)[present] - truth).mean()
    variance = truth.var()
    if variance <= 0:
        return assessments.Assessment(None, None, summary=assessments.NO_SPREAD)
    margin = 2 / sqrt(int(present.sum()))
    told = assessments.CONSTANT if hypothesis.is_constant else ""
    return assessments.Assessment(
        None,
        float(missed / variance),
        baseline=1.0,
        margin=margin,
        summary=told,
        measure=assessments.Measure.UNEXPLAINED,
    )


Target = Annotated[
    str | None,
    Parameter("what to predict (default: the label, or the last number)", ParameterKind.FIELD),
]
SQUARED = (
    "mean squared error on rows whose users were not asked, over that of the mean outcome: 1 - R^2"
)
