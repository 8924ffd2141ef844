"""Logistic regression on random features of standardised numbers: a classifier of curved classes.

A tenth of the users tell the means and the variances of the numbers (`cluster_rounds.Start`). Each
feature is a line of few standardised numbers z, clipped to [-1, 1]: z / 2 of each number, and
units clip(g (+-z_i +-z_j +- ..) + b, -1, 1) of `INPUTS` numbers, whose places, signs and offsets b
are public and drawn by SHA-256. The rest of the users fit the weights by gradients (`glm`).

Standardised numbers are what a descent of few rounds needs: bounds of a schema are wide, and in
their scale some numbers hardly vary. Units bend the boundary between the classes. Both cost noise:
a gradient has a component per feature, so there are as many units as keep the relative noise of a
gradient at `MOST_NOISE`, 256 at most. The figures were chosen once on cancer and digits at epsilon
4 and 10^5 users, where the error is flat about them.

Source: Rahimi and Recht 2008 (random features); the gradients are those of `glm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from math import ceil, sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import glm
from askance_aggregator.learners.assessments import catalogued_classifier
from askance_aggregator.learners.centres import on_grid
from askance_aggregator.learners.cluster_rounds import Start
from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.constant_checks import Decide
from askance_aggregator.learners.encodings import SCALE_BITS, Number, cells, numbers_of
from askance_aggregator.learners.glm_checks import ClassCheck
from askance_aggregator.learners.glm_gradients import Features, Logistic
from askance_aggregator.learners.glm_rules import CLASSES
from askance_aggregator.learners.hypotheses import hypothesis_of
from askance_aggregator.learners.learner import adaptive
from askance_aggregator.learners.learning import Allocation, Answer, Batch, Learning
from askance_aggregator.learners.linear_classifiers import ScoredClassifier, positive_class
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.parameters import Columns, LabelName, Tau
from askance_aggregator.learners.pca import as_number
from askance_aggregator.learners.registry import SmallSettings
from askance_aggregator.learners.rows import Rows, encoded, features_of, label_of, some_fields
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.learners.shapes import NoShape
from askance_aggregator.numbers import rational, whole_within
from askance_aggregator.queries import clip as clipped
from askance_aggregator.queries import dot, round_to
from askance_client.errors import InvalidParameter
from askance_client.queries import Expression, Schema, constant

INPUTS = 4  # numbers of a unit
GAIN = 1.2 / sqrt(INPUTS)  # of each; numbers that differ then fill the unit's range
MOST_NUMBERS = 128
MOST_UNITS = 256
EXACT_UNITS = 64  # where nothing is known of users and noise
MOST_NOISE = 0.04  # relative noise of a gradient
_SCALE = replace(CLASSES, rate=2.0, multiple=64.0, noisy_multiple=64.0)  # features are clipped
_OWN = 0.5  # of a number's own feature
_MOMENTS = 9  # users of gradients per user of means and variances
_BITS = 8  # of a feature's coefficients


@dataclass(frozen=True, slots=True)
class Unit:
    """A feature: numbers by place, their signed gains, and an offset."""

    places: tuple[int, ...]
    gains: tuple[float, ...]
    offset: float


@cache
def units_of(numbers: int, count: int) -> tuple[Unit, ...]:
    """Return the feature of each number and `count` units, the same on every machine."""
    own = [Unit((place,), (_OWN,), 0.0) for place in range(numbers)]
    return (*own, *(_unit(numbers, number) for number in range(count)))


def _unit(numbers: int, number: int) -> Unit:
    """Draw a unit: ranks by hash of all places, the lowest chosen; signs and offset by another."""
    ranks = [sha256(f"place {number} {place}".encode()).digest() for place in range(numbers)]
    places = tuple(sorted(range(numbers), key=ranks.__getitem__)[:INPUTS])
    drawn = sha256(f"unit {number}".encode()).digest()
    gains = tuple(GAIN if drawn[place] & 1 else -GAIN for place in range(len(places)))
    return Unit(places, gains, int.from_bytes(drawn[8:12], "big") / (1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class Standard:
    """Means of the numbers and reciprocals of their deviations, in scaled units."""

    means: tuple[float, ...]
    scales: tuple[float, ...]

    @classmethod
    def of(cls, start: Start) -> Standard:
        """Return those of a first round."""
        scales = np.round(64 / np.sqrt(start.variances)) / 64
        return cls(tuple(on_grid(start.mean).tolist()), tuple(scales.tolist()))

    def line(self, unit: Unit) -> tuple[list[float], float]:
        """Return a unit's coefficients of the numbers and its constant, on their grid."""
        raw = [
            gain * self.scales[place] for place, gain in zip(unit.places, unit.gains, strict=True)
        ]
        gains = [round(gain * (1 << _BITS)) / (1 << _BITS) for gain in raw]
        middle = sum(
            gain * self.means[place] for place, gain in zip(unit.places, gains, strict=True)
        )
        return gains, round((unit.offset - middle) * (1 << _BITS)) / (1 << _BITS)


@hypothesis_of("random-features")
@dataclass(frozen=True, slots=True)
class RandomFeatures(ScoredClassifier):
    """P[second class] is the logistic function of a weighted sum of features.

    Args:
        means: of the numbers, in scaled units.
        scales: reciprocals of their deviations.
        weights: of the constant 1, then of each number's own feature, then of each unit.
        missing: estimated share of users who lack the label or a field; the model is of the others.
    """

    json_name: ClassVar = "random features"
    json_keys: ClassVar = (
        "summary",
        "label",
        "classes",
        "weights",
        "means",
        "scales",
        "missing",
        "schema",
        "encodings=columns",
    )

    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    missing: MissingShare | None = None
    complete_cases: ClassVar[bool] = True
    columns: tuple[Number, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        columns = numbers_of(self.schema)
        widths = {len(self.means), len(self.scales)}
        if len(self.classes) != 2 or widths != {len(columns)} or self.units < 0:
            raise InvalidParameter(
                f"RandomFeatures expects 2 classes, a mean and a scale for each of {len(columns)}"
                f" numbers, and a weight per feature, got {len(self.classes)},"
                f" {len(self.means)}, {len(self.scales)} and {len(self.weights)}"
            )
        object.__setattr__(self, "columns", columns)

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.weights) - 1 - len(self.means)

    @property
    def is_constant(self) -> bool:
        """Return whether it has one class for every row."""
        return not any(self.weights[1:])

    def decision_function(self, rows: Rows) -> NDArray[np.float64]:
        """The score of each row, shape (n,); a field that is missing counts as the middle."""
        grid = encoded(self.schema, rows)
        numbers = np.stack([number.of(grid) for number in self.columns], axis=1)
        standard = Standard(self.means, self.scales)
        total = np.full(len(numbers), self.weights[0])
        units = units_of(len(self.columns), self.units)
        for unit, weight in zip(units, self.weights[1:], strict=True):
            gains, middle = standard.line(unit)
            line = numbers[:, list(unit.places)] @ np.array(gains) + middle
            total += weight * np.clip(line, -1.0, 1.0)
        return total

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """P[class | row], shape (n, 2)."""
        second = (1 + np.tanh(self.decision_function(rows) / 2)) / 2
        return np.stack([1 - second, second], axis=1)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per number: its mean and deviation, scaled, and its own weight."""
        parts = zip(self.columns, self.means, self.scales, self.weights[1:], strict=False)
        return [
            {"number": number.name, "mean": mean, "deviation": 1 / scale, "weight": weight}
            for number, mean, scale, weight in parts
        ]

    def to_shape(self) -> NoShape:
        """Return the reason why there is none."""
        return NoShape(
            f"a boundary of {len(self.columns)} numbers and {self.units} units is curved"
        )

    def __str__(self) -> str:
        if self.is_constant:
            return f"{self.classes[self.weights[0] > 0]} for every row"
        own = np.array(self.weights[1 : 1 + len(self.columns)])
        order = np.argsort(-np.abs(own), kind="stable")[:5]
        shown = " ".join(f"{own[place]:+.3g} [{self.columns[place].name}]" for place in order)
        more = f", {len(own) - 5} more" if len(own) > 5 else ""
        return (
            f"{self.classes[1]} if {self.weights[0]:.3g} {shown}{more} and {self.units} units > 0"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Classification to learn."""

    schema: Schema
    label: str
    features: Schema
    numbers: tuple[Number, ...]

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> _Task:
        schema = arguments["schema"]
        label = label_of(schema, arguments["label"])
        features = features_of(schema, label, arguments["columns"])
        numbers = numbers_of(features)
        if len(numbers) > MOST_NUMBERS:
            raise InvalidParameter(
                f"columns expects fields of at most {MOST_NUMBERS} numbers, got {len(numbers)}"
            )
        return cls(schema, label, features, numbers)

    @property
    def positive(self) -> Expression:
        return positive_class(self.schema, self.label)

    def model(self, standard: Standard, units: int) -> glm.Model:
        expressions = self.expressions(standard, units)
        features = Features(expressions, 0, tuple((part,) for part in expressions))
        check = ClassCheck(features, self.positive)
        return glm.Model(features, Logistic(self.positive), _SCALE, check)

    def expressions(self, standard: Standard, units: int) -> tuple[Expression, ...]:
        """Return the features as a device computes them, numbers in [-1, 1]."""
        parts = [as_number(number) for number in self.numbers]
        found = []
        for unit in units_of(len(parts), units):
            gains, middle = standard.line(unit)
            terms = [*(parts[place] for place in unit.places), constant(1)]
            line = dot([*gains, middle], terms, _BITS)
            found.append(clipped(round_to(line, SCALE_BITS), -1, 1))
        return tuple(found)

    @property
    def usual(self) -> Standard:
        """Standard of numbers that fill half of their range, before it is known."""
        count = len(self.numbers)
        return Standard((0.0,) * count, (2.0,) * count)


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    """Set the number of units by users and noise, and the descent's settings for them."""
    if conditions.signing:
        return {}
    task, units = _Task.of(arguments), arguments["units"]
    if units is None:
        units = EXACT_UNITS
        if conditions.users is not None:
            variance = task.model(task.usual, EXACT_UNITS).noise(conditions).variance
            most = MOST_NOISE**2 * conditions.users / variance if variance else MOST_UNITS
            units = min(max(int(most) - 1 - len(task.numbers), 0), MOST_UNITS)
    model = task.model(task.usual, units)
    return {"units": units, **model.settled(glm.DescentSettings.of(arguments), conditions)}


@catalogued_classifier(
    summary="one of two classes by random features of standardised numbers",
    example=traits_schema,
    population="traits",
    small=SmallSettings(
        oracles={
            "columns": "height",
            "units": "4",
            "rounds": "4",
            "rate": "8",
            "clip": "1",
            "tau": "1/4",
        },
        fleets={
            "columns": "member",
            "units": "1",
            "rounds": "2",
            "rate": "1",
            "clip": "1",
            "tau": "1/3",
        },
    ),
    held_out=True,
)
@adaptive("random-features", version=1, settle=_settle)
def random_features(
    schema: Schema,
    label: LabelName = None,
    columns: Columns = None,
    units: Annotated[int | None, "how many (default: by users and noise, up to 256)"] = None,
    rounds: glm.Rounds = None,
    rate: glm.Rate = None,
    clip: glm.Clip = None,
    decide: Decide = None,
    tau: Tau = None,
) -> Learning[RandomFeatures]:
    """Standardise the numbers by a tenth of the users, and fit random features by gradients.

    Utility: one vector question per round, to users of its own; of the gradients `glm` has the
    promise with `tau`. Where users are divided evenly, a tenth of them tell means and variances.
    A record without one of the fields has no part: the model is of complete records.

    Raises:
        InvalidParameter: an argument is out of range (units in 0 .. 256, numbers at most 128,
            rounds in 1 .. 10,000, rate in (0, 1000], clip in (0, 8]), or the label has not two
            classes.

    Source: Rahimi and Recht 2008; Duchi, Jordan and Wainwright 2018.

    Example:
        >>> people = ask.Population.generated("halfspaces", users=2_000, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.random_features(units=2, rounds=2, rate="1/2", clip=1)
        >>> [row["number"] for row in ask.learn(learner, oracle).to_rows()]
        ['x0', 'x1']
    """
    task = _Task.of({"schema": schema, "label": label, "columns": columns})
    count = EXACT_UNITS if units is None else whole_within(units, 0, MOST_UNITS, "units")
    return _learn(task, count, glm.DescentSettings(rounds, rate, clip, decide, tau))


def _learn(task: _Task, units: int, given: glm.DescentSettings) -> Learning[RandomFeatures]:
    tau = None if given.tau is None else rational(given.tau, "tau")
    rounds = glm.EXACT_ROUNDS if given.rounds is None else given.rounds
    names = [*task.features.fields, task.label]
    fields = {name: task.schema[name] for name in some_fields(task.schema, names).fields}
    asked = Start.question([as_number(number) for number in task.numbers], fields, tau)
    copies = 1 if tau is not None else ceil(rounds / _MOMENTS)
    answers = yield Batch([asked] * copies, Allocation.FRESH)
    start = Start.of(_mean_of(answers), tau)
    standard = Standard.of(start)
    weights = yield from glm.fit(task.model(standard, units), given)
    (classes,) = cells(task.schema, task.label)
    return RandomFeatures(
        task.features,
        task.label,
        classes.labels,
        standard.means,
        standard.scales,
        tuple(weights.tolist()),
        start.missing,
    )


def _mean_of(answers: Sequence[Answer]) -> Answer:
    """Return the mean of answers; that of intervals which hold together holds the mean."""
    parts = (np.mean([getattr(answer, name) for answer in answers], axis=0) for name in _ENDS)
    return Answer(*(tuple(part.tolist()) for part in parts))


_ENDS = ("values", "lows", "highs")
