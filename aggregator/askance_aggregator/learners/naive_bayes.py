"""Naive Bayes: the joint shares of the label and each feature, and Bayes' rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import catalogued_classifier
from askance_aggregator.learners.conditions import Conditions, narrowest
from askance_aggregator.learners.encodings import Cells, cells, columns_of, joint
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, parts_in
from askance_aggregator.learners.learner import non_adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.parameters import Affordable, LabelName, Tau
from askance_aggregator.learners.registry import SmallSettings
from askance_aggregator.learners.rows import Rows, encoded, features_of, label_of
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.learners.shapes import Tables, TwoWayTable
from askance_aggregator.learners.shares import nearest_distribution
from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Schema

_LEAST_SMOOTHING = 1e-3
MOST_NOISE = 4  # of all tables (`_noise`): on Adult at epsilon 1 and less about the best
FULL_NOISE = 0.5  # of a table: smoothing by half an error bounds what a cell can say
Table = tuple[tuple[float, ...], ...]


@hypothesis_of("naive-bayes")
@dataclass(frozen=True, slots=True)
class NaiveBayes(JsonObject):
    """P[class | row] proportional to P[class] times the product of P[cell | class].

    Args:
        classes: its labels, in the schema's order.
        priors: P[class], one a class.
        tables: for each column of cells P[cell | class]: a row a class, positive, of sum 1.
        smoothing: the share that each joint cell got more.
        missing: estimated shares of users who lack the label, then, for each column, the label or
            the field. Priors are over the users who have the label, a table is over those who have
            its field too. None: not known.
    """

    json_name: ClassVar = "naive Bayes"
    json_keys: ClassVar = (
        "summary",
        "label",
        "classes",
        "priors",
        "tables=named_tables",
        "bins",
        "smoothing",
        "missing",
        "schema",
        "encodings=columns",
    )

    schema: Schema
    label: str
    classes: tuple[str, ...]
    bins: int
    priors: tuple[float, ...]
    tables: tuple[Table, ...]
    smoothing: float
    missing: tuple[MissingShare, ...] | None = None
    columns: tuple[Cells, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        columns = columns_of(self.schema, self.bins)
        object.__setattr__(self, "columns", columns)
        count = len(self.classes)
        shapes = [tuple(len(row) for row in table) for table in self.tables]
        if len(self.priors) != count or shapes != [(len(part),) * count for part in columns]:
            raise InvalidParameter(
                "NaiveBayes expects a prior per class, and a table per column with a row per class"
                f" and a number per cell; got {len(self.priors)} priors and rows of"
                f" {value_text(shapes)}"
            )
        least = min([*self.priors, *(p for table in self.tables for row in table for p in row)])
        if least <= 0:
            raise InvalidParameter(
                f"NaiveBayes expects positive probabilities, got {value_text(least)}"
            )

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The labels, in the schema's order."""
        return np.array(self.classes)

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """The columns of cells."""
        return np.array([part.name for part in self.columns])

    def predict_joint_log_proba(self, rows: Rows) -> NDArray[np.float64]:
        """Return ln P[class] + the sum of ln P[cell | class], shape (n, classes).

        A feature that a row does not have says nothing about it.
        """
        grid = encoded(self.schema, rows)
        total = np.tile(np.log(self.priors), (len(grid), 1))
        for part, table in zip(self.columns, self.tables, strict=True):
            nothing = np.zeros((1, len(self.classes)))
            by_cell = np.concatenate([np.log(np.array(table)).T, nothing])  # cell -1 is the last
            total += by_cell[part.of(grid)]
        return total

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """P[class | row], shape (n, classes)."""
        joint_log = self.predict_joint_log_proba(rows)
        likely = np.exp(joint_log - joint_log.max(axis=1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    def predict(self, rows: Rows) -> NDArray[np.str_]:
        """The likeliest class of each row, shape (n,)."""
        return np.asarray(self.classes_[self.predict_joint_log_proba(rows).argmax(axis=1)])

    @property
    def named_tables(self) -> dict[str, Table]:
        """Tables by column of cells."""
        names = (part.name for part in self.columns)
        return dict(zip(names, self.tables, strict=True))

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the hypothesis; its tables have the names of the columns."""
        kept, tables = parts_in(cls, document), document.part("tables")
        columns = columns_of(kept["schema"], kept["bins"])
        return cls(tables=tuple(tables.read(part.name, Table) for part in columns), **kept)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per field, cell and class: P[cell | class]."""
        return [
            {"field": part.name, "cell": cell, "class": label, "probability": float(share)}
            for part, table in zip(self.columns, self.tables, strict=True)
            for label, row in zip(self.classes, table, strict=True)
            for cell, share in zip(part.labels, row, strict=True)
        ]

    def to_shape(self) -> Tables:
        """Return the shares of the cells within each class."""
        tables = (
            TwoWayTable(self.label, part.name, self.classes, tuple(part.labels), table)
            for part, table in zip(self.columns, self.tables, strict=True)
        )
        heading = f"Shares of values within each class of {self.label}"
        return Tables(heading, "share of the class", tuple(tables))

    def __str__(self) -> str:
        shares = zip(self.classes, self.priors, strict=True)
        told = ", ".join(f"{name} {share:.3g}" for name, share in shares)
        return f"naive Bayes for {self.label} ({told}) over {self._strongest()}"

    def _strongest(self) -> str:
        """Return the columns by mean distance of their rows, the greatest first."""
        apart = [
            float(np.abs(np.array(table) - np.mean(table, axis=0)).sum(axis=1).mean())
            for table in self.tables
        ]
        order = sorted(range(len(apart)), key=lambda place: -apart[place])
        shown = ", ".join(self.columns[place].name for place in order[:5])
        return shown if len(order) <= 5 else f"{shown} and {len(order) - 5} more"


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    """Set the columns where users are known, and neither columns nor a tolerance is given."""
    # Fields are kept while the noise of all tables is at most `MOST_NOISE` (`narrowest`): eight
    # tables that are nothing but noise, or more of better ones. Of Adult's 14 fields and 26,049
    # users it keeps 8 at epsilon 0.5, 11 at 1, all from 2 on.
    open_ = arguments["columns"] is None and arguments["tau"] is None
    if conditions.users is None or not open_:
        return {}
    schema, users = arguments["schema"], conditions.users
    target = label_of(schema, arguments["label"])
    (classes,) = cells(schema, target)
    features = features_of(schema, target)
    parts = [cells(features, name, arguments["bins"]) for name in features.fields]

    @cache
    def variance(place: int, component: int) -> float:
        return conditions.noise(Question(joint(classes, parts[place][component])[0]))

    def affordable(places: Sequence[int]) -> bool:
        each = users / (1 + sum(len(parts[place]) for place in places))
        return (
            sum(
                _noise(variance(place, component) / each, len(classes) * len(part))
                for place in places
                for component, part in enumerate(parts[place])
            )
            <= MOST_NOISE
        )

    kept = narrowest([max(map(len, own)) for own in parts], affordable)
    names = tuple(features.fields)
    return {} if len(kept) == len(names) else {"columns": tuple(names[place] for place in kept)}


def _noise(variance: float, count: int) -> float:
    """Return the noise that a table adds to a score: the variance of a cell over its even share."""
    return min(variance * count**2, FULL_NOISE)


@catalogued_classifier(
    summary="a category from all other fields, by the joint shares of each with it",
    example=traits_schema,
    population="traits",
    small=SmallSettings(
        oracles={"columns": "member,age,answers", "bins": "2", "tau": "1/5"},
        fleets={"columns": "member,age", "bins": "2", "tau": "1/4"},
    ),
    held_out=True,
)
@non_adaptive("naive-bayes", version=2, settle=_settle)
def naive_bayes(
    schema: Schema,
    label: LabelName = None,
    columns: Affordable = None,
    bins: Annotated[int, "into how many bins a number falls"] = 8,
    smoothing: Annotated[
        Rational | None, "share that is added to each joint cell (default: by noise)"
    ] = None,
    tau: Tau = None,
) -> tuple[Batch, Callable[[Answers], NaiveBayes]]:
    """Ask for the class, and for (class, cell) for each column of cells; compute the classifier.

    A user without the label is in no table, and one without a field is not in that field's table:
    each is of the users who have both, so no field that is often missing takes users from others.

    Utility: one question more than there are columns of cells (a field each, a component of Bits
    each), of (classes x cells) + 1 cells, all in one round; users as for this many histograms, of
    the order columns log(cells) / (epsilon tau)^2: about 55,000 for 7 columns at tau = 1/20,
    epsilon = 2. If every answer is within tau, then each table of joint shares that is used is
    off by less than tau sqrt(cells) in Euclidean distance. There is no promise about the error:
    that depends on how far features are independent within a class.
    Smoothing: a raw table is projected onto the simplex; then each of its k cells a class gets
    the share `smoothing` more, P[cell | class] = (p + s) / (sum of p + k s), and a class's prior is
    its share of the users who have the label, smoothed alike. All tables use the same s: with
    s = alpha/n, and answers that are exact, they are those of add-alpha smoothing on n rows. A
    cell that noise has made empty would veto a class, so s should not lie below the noise.

    `smoothing`, above 0, is by default an eighth of what intervals reach to either side, about
    half a standard error, and at least 1/1000.

    Raises:
        InvalidParameter: no such field, or a number out of range.

    Source: notes, section 1.2 (SuLQ); the cells come from the schema, never from the data.

    Example:
        >>> people = ask.Population.generated("traits", users=2_000)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> ask.learn(ask.learners.naive_bayes(columns=["age"]), oracle).label
        'y'
    """
    target = label_of(schema, label)
    features = features_of(schema, target, columns)
    fixed = None if smoothing is None else rational(smoothing, "smoothing")
    if fixed is not None and not 0 < fixed <= 1:
        raise InvalidParameter(f"smoothing expects a share in (0, 1], got {value_text(fixed)}")
    tolerance = None if tau is None else rational(tau, "tau")
    (classes,) = cells(schema, target)
    asked = [joint(classes), *(joint(classes, part) for part in columns_of(features, bins))]
    batch = Batch(Question(query, tau=tolerance) for query, _ in asked)

    def conclude(answers: Answers) -> NaiveBayes:
        pairs = zip(answers, asked, strict=True)
        prior, *shares = [joint_shares(answer, shape) for answer, (_, shape) in pairs]
        extra = _half_an_error(answers) if fixed is None else float(fixed)
        return NaiveBayes(
            schema=features,
            label=target,
            classes=classes.labels,
            bins=bins,
            priors=_prior(prior, extra),
            tables=tuple(_rows(_smoothed(table, extra)) for table in shares),
            smoothing=extra,
            missing=tuple(MissingShare.of_cell(answer, -1) for answer in answers),
        )

    return batch, conclude


def joint_shares(answer: Answer, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The answer to `joint` as a table of shares, projected; without those who are in no cell."""
    return nearest_distribution(answer.values)[:-1].reshape(shape)


def _half_an_error(answers: Answers) -> float:
    """An eighth of the mean reach of the intervals, which joint ones have near four errors away."""
    # The longer side counts: an interval is clipped to what is possible, its value is not.
    reaches = [
        max(high - value, value - low)
        for answer in answers
        for low, value, high in zip(answer.lows, answer.values, answer.highs, strict=True)
    ]
    return max(sum(reaches) / len(reaches) / 8, _LEAST_SMOOTHING)


def _smoothed(table: NDArray[np.float64], extra: float) -> NDArray[np.float64]:
    more = table + extra
    return np.asarray(more / more.sum(axis=1, keepdims=True))


def _prior(shares: NDArray[np.float64], extra: float) -> tuple[float, ...]:
    by_class = shares + extra
    return tuple((by_class / by_class.sum()).tolist())


def _rows(table: NDArray[np.float64]) -> Table:
    return tuple(tuple(row) for row in table.tolist())
