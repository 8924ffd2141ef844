"""Linear classifiers of two classes as hypotheses: halfspaces, and logistic models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import CONSTANT, Assessment, Users, assess
from askance_aggregator.learners.encodings import Cells, Number, cells, numbers
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, parts_in
from askance_aggregator.learners.learner import Learner
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.rows import Rows, encoded
from askance_aggregator.learners.shapes import Coefficients
from askance_aggregator.numbers import whole_within
from askance_aggregator.queries import EncodedColumns, dot
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, Expression, Label, Real, Schema, constant

WEIGHT_BITS = 12  # weights lie on multiples of 2^-12, as they stand in a question
MAX_WEIGHT = 4096.0
MAX_HALFSPACE = 32


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """Coordinates of a field or of a component: a number, or one 0/1 value per category cell.

    Args:
        start: its first coordinate; 0 is the constant 1.
    """

    part: Number | Cells
    start: int

    @property
    def count(self) -> int:
        """Number of coordinates."""
        return len(self.part) if isinstance(self.part, Cells) else 1

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        if isinstance(self.part, Number):
            return (self.part.name,)
        return tuple(f"{self.part.name}={label}" for label in self.part.labels)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Their values in a query."""
        if isinstance(self.part, Number):
            return (self.part.expression,)
        return tuple(self.part.index == cell for cell in range(len(self.part)))

    def values(self, columns: EncodedColumns) -> NDArray[np.float64]:
        """Their values on columns, shape (n, count); 0 where the field is not present."""
        if isinstance(self.part, Number):
            return self.part.of(columns)[:, None]
        hot = self.part.of(columns)[:, None] == np.arange(len(self.part))[None, :]
        return np.asarray(hot, dtype=np.float64)


def coordinates_of(schema: Schema) -> tuple[Coordinates, ...]:
    """The coordinates of all fields, in order: numbers scaled by the schema, categories by cell."""
    found: list[Coordinates] = []
    start = 1
    for name, kind in schema.fields.items():
        encoder = cells if isinstance(kind, Category) else numbers
        for part in encoder(schema, name):
            found.append(Coordinates(part, start))
            start += found[-1].count
    return tuple(found)


def halfspaces_schema(d: int) -> Schema:
    """Numbers x0 .. x(d-1) in [-1, 1] with their label y; d is in 1..32."""
    whole_within(d, 1, MAX_HALFSPACE, "d")
    features = {f"x{place}": Real(-1, 1) for place in range(d)}
    return Schema.of("halfspaces", 1, {**features, "y": Label(["no", "yes"])})


def on_weight_grid(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights as they can stand in a question."""
    bounded = np.clip(weights, -MAX_WEIGHT, MAX_WEIGHT)
    return np.asarray(np.ldexp(np.rint(np.ldexp(bounded, WEIGHT_BITS)), -WEIGHT_BITS))


def score(coordinates: Sequence[Coordinates], weights: NDArray[np.float64]) -> Expression:
    """The weighted sum of a record's coordinates; the weights lie on their grid."""
    parts = [expression for item in coordinates for expression in item.expressions]
    return dot(weights.tolist(), [constant(1), *parts], WEIGHT_BITS)


def positive_class(schema: Schema, label: str) -> Expression:
    """Return the predicate of the second of two classes."""
    (classes,) = cells(schema, label)
    if len(classes) != 2:
        known = ", ".join(classes.labels[:5])
        more = ", ..." if len(classes) > 5 else ""
        raise InvalidParameter(
            f"{label}: expected a label of two classes, found {len(classes)}: {known}{more}"
        )
    return classes.index == 1


@dataclass(frozen=True, slots=True)
class ScoredClassifier(JsonObject):
    """Predicts the second of two classes where a score is positive, else the first."""

    schema: Schema
    label: str
    classes: tuple[str, ...]

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The two classes, in the schema's order."""
        return np.array(self.classes)

    @abstractmethod
    def decision_function(self, rows: Rows) -> NDArray[np.float64]:
        """The score of each row, shape (n,)."""

    def predict(self, rows: Rows) -> NDArray[np.str_]:
        """The class of each row, shape (n,)."""
        return np.asarray(self.classes_[(self.decision_function(rows) > 0).astype(np.int64)])


@dataclass(frozen=True, slots=True)
class LinearClassifier(ScoredClassifier):
    """Predicts the second class where intercept + weights . x is positive, else the first.

    Args:
        weights: of the constant 1, then of each coordinate, in the schema's order.
        missing: estimated share of users who lack the label or a feature; it was learned from the
            others. None: it was not asked for. A row that lacks a feature is predicted for as if
            that added nothing: a number counts as the middle of its bounds, a category as none of
            its labels.
    """

    json_name: ClassVar = "linear classifier"
    json_keys: ClassVar = (
        "summary",
        "label",
        "classes",
        "intercept",
        "weights=named_weights",
        "missing",
        "schema",
        "encodings",
    )

    weights: tuple[float, ...]
    missing: MissingShare | None = None
    complete_cases: ClassVar[bool] = True
    coordinates: tuple[Coordinates, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coordinates", coordinates_of(self.schema))
        expected = 1 + sum(item.count for item in self.coordinates)
        if len(self.classes) != 2 or len(self.weights) != expected:
            raise InvalidParameter(
                f"a linear classifier expects 2 classes and {expected} weights, found"
                f" {len(self.classes)} and {len(self.weights)}"
            )

    @property
    def is_constant(self) -> bool:
        """Return whether it has one class for every row."""
        return not any(self.weights[1:])

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The weights, shape (1, coordinates)."""
        return np.array([self.weights[1:]])

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """The weight of the constant, shape (1,)."""
        return np.array(self.weights[:1])

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """The coordinates' names."""
        return np.array([name for item in self.coordinates for name in item.names])

    def decision_function(self, rows: Rows) -> NDArray[np.float64]:
        """The score of each row, shape (n,); a field that is missing adds nothing."""
        columns = encoded(self.schema, rows)
        total = np.full(columns.rows, self.weights[0])
        for item in self.coordinates:
            weights = np.array(self.weights[item.start : item.start + item.count])
            total += item.values(columns) @ weights
        return total

    @property
    def intercept(self) -> float:
        """The weight of the constant."""
        return self.weights[0]

    @property
    def named_weights(self) -> dict[str, float]:
        """Weights of the coordinates, by name."""
        return dict(zip(self.feature_names_in_.tolist(), self.weights[1:], strict=True))

    @property
    def encodings(self) -> tuple[Number | Cells, ...]:
        """Encodings that its coordinates are of."""
        return tuple(item.part for item in self.coordinates)

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the classifier; its weights have names, and the intercept a key of its own."""
        kept, weights = parts_in(cls, document), document.part("weights")
        names = [name for item in coordinates_of(kept["schema"]) for name in item.names]
        intercept = document.number("intercept")
        return cls(weights=(intercept, *(weights.number(name) for name in names)), **kept)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per feature, the intercept first; features are scaled."""
        names = ("(intercept)", *self.feature_names_in_.tolist())
        pairs = zip(names, self.weights, strict=True)
        return [{"feature": name, "weight": float(weight)} for name, weight in pairs]

    def to_shape(self) -> Coefficients:
        """Return the weights."""
        names = tuple(self.feature_names_in_.tolist())
        return Coefficients(f"{self.label} = {self.classes[1]}", names, self.weights[1:])

    def __str__(self) -> str:
        if self.is_constant:
            return f"{self.classes[self.weights[0] > 0]} for every row"
        names, weights = self.feature_names_in_, np.array(self.weights[1:])
        order = np.argsort(-np.abs(weights), kind="stable")[:5]
        shown = " ".join(f"{weights[place]:+.3g} [{names[place]}]" for place in order)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return f"{self.classes[1]} if {self.weights[0]:.3g} {shown}{more} > 0"


@hypothesis_of("perceptron")
class Halfspace(LinearClassifier):
    """Hypothesis that labels by one side of a hyperplane."""

    __slots__ = ()


@hypothesis_of("linear-svm")
class SupportVectorModel(LinearClassifier):
    """Halfspace of a linear support vector machine."""

    __slots__ = ()


@hypothesis_of("logistic-regression")
class LogisticModel(LinearClassifier):
    """P[second class] is the logistic function of the score."""

    __slots__ = ()

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """P[class | row], shape (n, 2)."""
        half = self.decision_function(rows) / 2
        second = (1 + np.tanh(half)) / 2
        return np.stack([1 - second, second], axis=1)


@assess.register
def _(hypothesis: LinearClassifier, learner: Learner[Any], users: Users) -> Assessment:
    """Judge a classifier as any other, and say so where it is a constant."""
    assessment = assess.dispatch(object)(hypothesis, learner, users)
    return replace(assessment, summary=CONSTANT) if hypothesis.is_constant else assessment
