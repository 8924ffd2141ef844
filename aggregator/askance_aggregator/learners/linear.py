"""Linear and ridge regression: second moments by questions, normal equations by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import (
    NO_SPREAD,
    NO_VALUES,
    UNSEEN_ROWS,
    Assessment,
    Users,
    assess,
)
from askance_aggregator.learners.encodings import Number, numbers_of
from askance_aggregator.learners.hypotheses import Document, hypothesis_of
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answers, Batch
from askance_aggregator.learners.missing import (
    CompleteCases,
    MissingShare,
    complete_rows,
    is_excluded,
    share_from,
    share_json,
)
from askance_aggregator.learners.parameters import (
    COLUMNS,
    MISSING,
    PRESENT,
    TAU,
    ParameterEntry,
    Text,
    columns_in,
)
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import (
    Rows,
    encoded,
    features_of,
    field_of,
    schema_in,
    schema_to_json,
    some_fields,
)
from askance_aggregator.learners.schemas import plane_schema
from askance_aggregator.learners.second_moments import nearest_semidefinite, second_moments
from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Category, Integer, Label, Real, Schema

_RANK = 1e-9  # eigenvalues below this part of the greatest are directions without variation


@hypothesis_of("linear-regression", "ridge-regression")
@dataclass(frozen=True, slots=True)
class LinearModel:
    """A number predicted as an intercept plus a weighted sum of scaled features.

    Args:
        features: the schema of what it predicts from.
        outcome: the schema of what it predicts: one field with one number.
        weights: the intercept, then one a scaled feature, for the scaled outcome.
        penalty: that was put on squared weights.
        missing: estimated share of users who lack a feature or the outcome; the model is of the
            others, the complete cases. None: users who lack one count with its public default.

    Raises:
        InvalidParameter: the parts do not fit together.
    """

    features: Schema
    outcome: Schema
    weights: tuple[float, ...]
    penalty: float = 0.0
    missing: MissingShare | None = None
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

    def to_json(self) -> dict[str, Any]:
        """Coefficients in the fields' own units for reading; scaled weights for predicting."""
        coefficients = dict(zip(self.feature_names_in_.tolist(), self.coef_.tolist(), strict=True))
        return {
            "summary": str(self),
            "target": self.target,
            "intercept": self.intercept_,
            "coefficients": coefficients,
            "weights": list(self.weights),
            "penalty": self.penalty,
            "missing": share_json(self.missing),
            "features": schema_to_json(self.features),
            "outcome": schema_to_json(self.outcome),
            "encodings": [str(number) for number in (*self.columns, self.scaled)],
        }

    @classmethod
    def from_json(cls, data: Any) -> LinearModel:
        """The hypothesis that `to_json` wrote.

        Raises:
            InvalidParameter: the data is not of that form.
        """
        document = Document("linear model", data)
        features, outcome = schema_in(document, "features"), schema_in(document, "outcome")
        return cls(
            features,
            outcome,
            document.numbers("weights"),
            document.number("penalty"),
            share_from(document),
        )

    def __str__(self) -> str:
        names = self.feature_names_in_.tolist()
        terms = "".join(
            f" {'-' if weight < 0 else '+'} {abs(weight):.4g} {name}"
            for name, weight in zip(names, self.coef_.tolist(), strict=True)
        )
        return f"{self.scaled.name} = {self.intercept_:.4g}{terms}"


@non_adaptive("linear-regression", version=2)
def linear_regression(
    schema: Schema,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    tau: Rational | None = None,
    missing: str | None = None,
    present: Rational | None = None,
) -> tuple[Batch, Callable[[Answers], LinearModel]]:
    """Least squares: `ridge_regression` without a penalty.

    Utility: as `ridge_regression`, with penalty 0: as many questions, and the same promise.
    Directions in which the answers see no variance get no weight. Noise makes a direction that
    hardly varies look like one that varies a little, and a weight there is large and random: with
    features that go together, or hardly vary within their bounds, prefer the ridge.

    Args:
        schema: of the records.
        target: the field to predict; None: see `target_of`.
        columns: what from; None: all other numbers and bits.
        tau: how exactly each moment is wanted; None: as exactly as the population allows.
        missing: as for the ridge.
        present: as for the ridge.

    Raises:
        InvalidParameter: no such field, or a number out of range.

    Source: notes, section 1.2 (SuLQ, second moments).
    """
    complete = _complete("linear-regression", schema, target, columns, missing, present)
    return _regression(schema, target, columns, Fraction(0), tau, complete)


@non_adaptive("ridge-regression", version=2)
def ridge_regression(
    schema: Schema,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    penalty: Rational | None = None,
    tau: Rational | None = None,
    missing: str | None = None,
    present: Rational | None = None,
) -> tuple[Batch, Callable[[Answers], LinearModel]]:
    """Least squares with a penalty on the squared weights (not on the intercept's).

    Utility: with v = (1, features, target) of m entries, scaled by the schema, at most
    m (m + 1) / 2 questions, in one round: the share of complete cases, means and products. Let J(w)
    be the expected squared error over complete cases plus penalty |w|^2, w0 free, all scaled. If
    their share is the promised one or more, and every answer is within its tolerance, tau times
    that, then J(found) < J(any w) + (m + penalty) tau (2 + |found|^2 + |any w|^2), norms with the
    intercept: the matrix of moments, times the share, is off by less than m tau times the promised
    share in Frobenius norm, and it is clipped and projected onto the semidefinite ones, which takes
    it no farther from the truth. Users: of the order m^2 log m / (epsilon tau)^2,
    about 120,000 for three features at tau = 1/20, epsilon = 2.

    Args:
        schema: of the records.
        target: the field to predict; None: see `target_of`.
        columns: what from; None: all other numbers and bits.
        penalty: lambda >= 0, on scaled features; None: about as far as the matrix of moments is
            off by the intervals of its answers, for a direction that varies less says nothing.
        tau: how exactly each moment is wanted; None: as exactly as the population allows.
        missing: "exclude", the model is of the users who have all features and the outcome (None
            means that), or "default", a number that is missing counts as the middle of its bounds
            and a category as its first label.
        present: a promise that at least this share of users has them all; it sizes the plan. None:
            all users.

    Raises:
        InvalidParameter: no such field, or a number out of range.

    Source: notes, section 1.2 (SuLQ, second moments); the scales come from the schema.
    """
    fixed = None if penalty is None else rational(penalty, "penalty")
    complete = _complete("ridge-regression", schema, target, columns, missing, present)
    return _regression(schema, target, columns, fixed, tau, complete)


def _complete(
    learner: str,
    schema: Schema,
    target: str | None,
    columns: Sequence[str] | None,
    missing: str | None,
    present: Rational | None,
) -> CompleteCases | None:
    """The users that a model is of; None: all, with public defaults."""
    if not is_excluded(learner, missing):
        return None
    predicted = target_of(schema, target)
    features = features_of(schema, predicted, number_columns(schema, predicted, columns))
    return CompleteCases.promised(some_fields(schema, [*features.fields, predicted]), present)


def _regression(
    schema: Schema,
    target: str | None,
    columns: Sequence[str] | None,
    penalty: Fraction | None,
    tau: Rational | None,
    complete: CompleteCases | None,
) -> tuple[Batch, Callable[[Answers], LinearModel]]:
    if penalty is not None and penalty < 0:
        raise InvalidParameter("penalty expects a number >= 0, found a negative one")
    predicted = target_of(schema, target)
    features = features_of(schema, predicted, number_columns(schema, predicted, columns))
    outcome = some_fields(schema, [predicted])
    asked = [*numbers_of(features), *numbers_of(outcome)]
    moments = second_moments(asked, None if tau is None else rational(tau, "tau"), complete)

    def conclude(answers: Answers) -> LinearModel:
        matrix = nearest_semidefinite(moments.matrix(answers))
        used = moments.uncertainty(answers) if penalty is None else float(penalty)
        weights = _normal_equations(matrix, used)
        return LinearModel(features, outcome, weights, used, moments.missing(answers))

    return moments.batch, conclude


def target_of(schema: Schema, target: str | None) -> str:
    """The field to be predicted as a number.

    Args:
        schema: has the field.
        target: its name; None: the only Label if it has two labels, else the last Integer or Real.

    Raises:
        InvalidParameter: it is not one number: a category of three labels, say.
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


def number_columns(schema: Schema, but: str, columns: Sequence[str] | None) -> Sequence[str]:
    """The columns that were named; None: all numbers and bits but one field."""
    if columns is not None:
        return columns
    kinds = {name: kind for name, kind in schema.fields.items() if name != but}
    return [name for name, kind in kinds.items() if not isinstance(kind, Category)]


def _normal_equations(matrix: NDArray[np.float64], penalty: float) -> tuple[float, ...]:
    """Return the argmin over w of (w, -1) M (w, -1)^T + penalty |w without the intercept|^2."""
    gram, cross = matrix[:-1, :-1].copy(), matrix[:-1, -1]
    places = np.arange(1, len(gram))
    gram[places, places] += penalty
    weights = np.linalg.lstsq(gram, cross, rcond=_RANK)[0]
    return tuple(weights.tolist())


def _per_unit(number: Number) -> float:
    """Own units per scaled unit."""
    width = float(number.high - number.low)
    return width if number.is_truth else width / 2


def _centre(number: Number) -> float:
    """Return the value, in the field's units, that 0 stands for."""
    return float(number.low if number.is_truth else (number.low + number.high) / 2)


@assess.register
def _(hypothesis: LinearModel, learner: Learner[Any], users: Users) -> Assessment:
    """Return the mean squared error, as a part of the outcome's variance: 1 - R^2.

    Over the rows that the model is of: those that are complete, or all that have an outcome.
    """
    if users.unseen is None:
        return Assessment(None, None)
    rows = users.unseen(UNSEEN_ROWS)
    present = rows.present[hypothesis.target]
    if hypothesis.missing is not None:
        present = present & complete_rows(rows, hypothesis.features)
    if not present.any():
        return Assessment(None, None, summary=NO_VALUES)
    truth = hypothesis.scaled.in_units(hypothesis.scaled.of(rows))[present]
    missed = np.square(hypothesis.predict(rows)[present] - truth).mean()
    variance = truth.var()
    if variance <= 0:
        return Assessment(None, None, summary=NO_SPREAD)
    margin = 2 / sqrt(int(present.sum()))
    return Assessment(None, float(missed / variance), baseline=1.0, margin=margin)


TARGET = ParameterEntry("target", "what to predict (default: the label, or the last number)")
SQUARED = (
    "mean squared error on rows of which nobody was asked, over that of the mean outcome: 1 - R^2"
)


@catalogued(
    "linear-regression",
    version=2,
    summary="a number as a weighted sum of others, by least squares on second moments",
    error=SQUARED,
    guess="the mean outcome of those rows",
    parameters=(TARGET, COLUMNS, TAU, MISSING, PRESENT),
    population="plane",
    small=SmallSettings(oracles={"d": "1", "tau": "1/4"}, fleets={"d": "1", "tau": "1/2"}),
    held_out=True,
)
def listed_linear_regression(schema: Schema | None, parameters: Text) -> Learner[Any]:
    """Build the learner from text."""
    return linear_regression(
        plane_schema(3) if schema is None else schema,
        parameters.get("target"),
        columns_in(parameters),
        parameters.get("tau"),
        parameters.get("missing"),
        parameters.get("present"),
    )


@catalogued(
    "ridge-regression",
    version=2,
    summary="least squares with a penalty on large weights",
    error=SQUARED,
    guess="the mean outcome of those rows",
    parameters=(
        TARGET,
        COLUMNS,
        ParameterEntry(
            "penalty", "on squared weights of scaled features (default: as answers are unsure)"
        ),
        TAU,
        MISSING,
        PRESENT,
    ),
    population="plane",
    small=SmallSettings(oracles={"d": "1", "tau": "1/4"}, fleets={"d": "1", "tau": "1/2"}),
    held_out=True,
)
def listed_ridge_regression(schema: Schema | None, parameters: Text) -> Learner[Any]:
    """Build the learner from text."""
    return ridge_regression(
        plane_schema(3) if schema is None else schema,
        parameters.get("target"),
        columns_in(parameters),
        parameters.get("penalty"),
        parameters.get("tau"),
        parameters.get("missing"),
        parameters.get("present"),
    )
