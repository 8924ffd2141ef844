"""Assessments of a hypothesis: against the law of the users, or against the users themselves.

A learner's module registers the rule for its hypothesis with `assess.register`. The rule states
three figures by one measure: the error, the error of a constant guess (`Assessment.baseline`), and
whether it is a success. The learner's catalogue entry says in words what each means (`error`,
`guess`, `success`). The same learner with exact answers needs no rule: a simulation runs it on
`askance_aggregator.oracles.ExactOracle` and judges it by the same rule.
`askance_aggregator.reports.verdict` puts the figures into sentences.

A hypothesis that predicts is judged by rows of users who were not asked, where there are such,
without a rule of its own. The rules read users through the protocol `Users`, which simulated
populations satisfy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial, singledispatch
from math import sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.hypotheses import Classifier
from askance_aggregator.learners.learner import Learner, NonAdaptive
from askance_aggregator.learners.missing import complete_rows, of_complete_cases
from askance_aggregator.learners.registry import catalogued
from askance_aggregator.learners.totals import AnswerTotals
from askance_aggregator.queries import EncodedColumns, has_missing_level, values_of
from askance_client.queries import Category, Query, QueryKind, Schema

_SAMPLED = 1 << 20  # values, of all fields, that show how wide they lie
_BLOCKS = 16  # stretches of a large population that they are taken from
_REST = 0.01  # of the values beyond each end of the span whose middle is guessed
_ROUNDING = 1e-12  # of floats, and of their size; an interval of exact answers has no width
UNSEEN_ROWS = 1 << 16  # a share of them is off by 0.002 at most, one standard error
HELD_OUT = "share of labels that the hypothesis gets wrong, on rows whose users were not asked"
MOST_FREQUENT = "the most frequent class of those rows"
NONE_WRONG = "no label of those rows wrong"
ALL_COVER = "all intervals contain the truth"
CONSTANT = "a constant: so few users at this epsilon can tell no more"
THE_TARGET = "the hypothesis is the target"
NO_VALUES = "no row has all of the values that the estimate is over"
NO_SPREAD = "the rows that the estimate is over have one value only"

catalogued_classifier = partial(catalogued, error=HELD_OUT, guess=MOST_FREQUENT, success=NONE_WRONG)
"""`catalogued` for what is judged by the labels of users who were not asked."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Width of a hypothesis's intervals, for the verdict.

    Args:
        within: half the width of the widest interval, in the units of the error.
        unasked: the same before any user is asked: half of a number's range; 1 / cells of shares.
        spread: half of the span of nearly all values; None: not known.
    """

    within: float
    unasked: float
    excludes_guess: bool
    spread: float | None = None


class Measure(Enum):
    """Quantity that an error is."""

    LABELS = auto()  # share of labels that are wrong
    UNEXPLAINED = auto()  # share of an outcome's variance that is left: 1 - R^2
    OTHER = auto()  # the learner's entry says what it is


@dataclass(frozen=True, slots=True)
class JointInterval:
    """Interval of the same joint statement that is not one of the estimates shown."""

    name: str  # of what, after "that of"
    held: bool  # whether it holds the truth


MISSING = "the share of users without a value"
"""Name of an interval beside the estimates."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """Assessment of a hypothesis: right or wrong, its error, and the truth if it is a number.

    It is right if it is the target; for estimates, if all intervals cover the truth. The
    learner's entry says in words what its error, its constant guess and its success are.

    Args:
        success: whether it is right; None: there is nothing that it could be.
        error: by the learner's measure; None: it cannot be measured.
        baseline: error of the learner's constant guess, by the same measure; None: not known.
        margin: by how much the errors may be off, as they are measured on a sample of rows.
        details: lists of what is right and what is not, as JSON; empty for most.
        summary: the details in a few words, or why the error cannot be measured; empty for most.
        measure: quantity that the error is.
        beside: intervals besides those of the estimates shown; a success takes these, too.
        absent: true shares of users without a value, in the order of `Presentation.missing`; none:
            not known.
    """

    success: bool | None
    error: float | None
    truth: tuple[float, ...] = ()
    baseline: float | None = None
    margin: float = 0.0
    reach: Reach | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    measure: Measure = Measure.OTHER
    beside: tuple[JointInterval, ...] = ()
    absent: tuple[float, ...] = ()

    def with_intervals(self, *beside: JointInterval, absent: Sequence[float] = ()) -> Assessment:
        """Return the assessment with intervals besides, which a success takes, too."""
        held = bool(self.success) and all(one.held for one in beside)
        return replace(
            self, success=held, beside=(*self.beside, *beside), absent=(*self.absent, *absent)
        )


class Users(Protocol):
    """Interface of the users that a hypothesis is about."""

    @property
    def schema(self) -> Schema:
        """Schema of their records."""

    @property
    def size(self) -> int:
        """Number of users."""

    @property
    def target(self) -> Any:
        """Hypothesis that their labels follow; None if there is none."""

    @property
    def unseen(self) -> Callable[[int], EncodedColumns] | None:
        """Maker of so many rows of users who were not asked; None if there are none."""

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Generate stretches of ordinals: the first one of each and the one past it."""

    def columns(self, start: int, stop: int) -> EncodedColumns:
        """Return the records of a stretch."""

    def totals(self, queries: Sequence[Query]) -> list[AnswerTotals]:
        """Return the exact totals of queries over all users."""


@singledispatch
def assess(hypothesis: object, learner: Learner[Any], users: Users) -> Assessment:
    """Judge a hypothesis; one without a rule of its own is compared with the target.

    A classifier's error is the share of rows that it gets wrong, its constant guess the most
    frequent class of these rows. They are rows with a label; of a classifier that was learned from
    complete cases, those that have all of its fields too. Where the users have a target, it is
    right if it gets none wrong.
    """
    if isinstance(hypothesis, Classifier) and users.unseen is not None:
        return _on_rows(hypothesis, users, users.unseen(UNSEEN_ROWS))
    if users.target is None:
        return Assessment(None, None)
    right = hypothesis == users.target
    return Assessment(right, float(not right))


def covers(
    estimates: tuple[float, ...],
    lows: tuple[float, ...],
    highs: tuple[float, ...],
    truth: tuple[float, ...],
    guess: tuple[float, ...] = (),
    unasked: float = 0.5,
    spread: float | None = None,
) -> Assessment:
    """Judge estimates by their intervals; the error is the greatest distance from the truth.

    Without a `guess` there is no constant guess; `unasked` and `spread` are those of `Reach`.
    """
    held = zip(lows, truth, highs, strict=True)
    covered = all(_inside(low, true, high) for low, true, high in held)
    error = _farthest(estimates, truth)
    if not guess:
        return Assessment(covered, error, truth)
    within = max(high - low for low, high in zip(lows, highs, strict=True)) / 2
    ends = zip(lows, guess, highs, strict=True)
    excluded = not all(low <= value <= high for low, value, high in ends)
    reach = Reach(within, unasked, excluded, spread)
    return Assessment(covered, error, truth, baseline=_farthest(guess, truth), reach=reach)


def _inside(low: float, true: float, high: float) -> bool:
    """Return whether an interval holds the truth, but for the rounding of floats."""
    slack = _ROUNDING * max(1.0, abs(low), abs(high))
    return low - slack <= true <= high + slack


def _farthest(estimates: Sequence[float], truth: Sequence[float]) -> float:
    return max(abs(value - true) for value, true in zip(estimates, truth, strict=True))


def sample_of(users: Users) -> list[EncodedColumns]:
    """Return records of users at even distances: all, or of many about `_SAMPLED` values."""
    size = users.size
    most = max(_SAMPLED // max(len(users.schema.fields), 1), _BLOCKS)
    blocks = 1 if size <= most else _BLOCKS
    length = min(size, most // blocks)
    starts = [size * place // blocks for place in range(blocks)]
    return [users.columns(start, start + length) for start in starts]


def values_in(query: Query, sample: Sequence[EncodedColumns]) -> NDArray[np.float64]:
    """Return the values of a number in real units, of the users who have it, shape (values,)."""
    values = np.concatenate([values_of(query, columns) for columns in sample])
    kept = values[values != query.default] if has_missing_level(query) else values
    return np.ldexp(kept.astype(np.float64), -query.frac)


def guess_of(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the constant guess of a mean, and half of the span whose middle it is.

    The span is that between the 1 % and the 99 % quantile of the values: bounds that are much wider
    than the data make no guess worse.
    """
    low, high = np.quantile(values, (_REST, 1 - _REST))
    return float((low + high) / 2), float((high - low) / 2)


def only_query(learner: Learner[Any], *kinds: QueryKind) -> Query | None:
    """Return the question that an estimate answers; None if it was reached in another way."""
    if not isinstance(learner, NonAdaptive) or len(learner.batch.questions) != 1:
        return None
    query = learner.batch.questions[0].query
    return query if query.kind in kinds else None


def chunks(users: Users) -> Iterator[EncodedColumns]:
    """Generate the records of all users, chunk by chunk."""
    for start, stop in users.stretches():
        yield users.columns(start, stop)


def _on_rows(hypothesis: Classifier, users: Users, rows: EncodedColumns) -> Assessment:
    """Assess a classifier on the rows that it is about; without such a row nothing is known."""
    kind = users.schema.fields[hypothesis.label]
    labels, present = np.asarray(rows.values[hypothesis.label]), rows.present[hypothesis.label]
    present = present & _counted(hypothesis, rows)
    if not present.any():
        return Assessment(None, None, summary=NO_VALUES)
    classes: Sequence[Any] = hypothesis.classes_.tolist()
    predicted = hypothesis.predict(rows)
    wrong = np.ones(len(rows), dtype=np.bool_)
    for name in classes:
        index = kind.encode(name) if isinstance(kind, Category) else int(name)
        wrong &= ~((predicted == name) & (labels == index))
    error = float(wrong[present].mean())
    _, counts = np.unique(labels[present], return_counts=True)
    counted = int(counts.sum())
    baseline = 1 - int(counts.max()) / counted
    return Assessment(
        None if users.target is None else error == 0,
        error,
        baseline=baseline,
        margin=2 * sqrt(baseline * (1 - baseline) / counted),
        measure=Measure.LABELS,
    )


def _counted(hypothesis: Classifier, rows: EncodedColumns) -> NDArray[np.bool_]:
    """Return the mask of the rows that a classifier is about, shape (n,)."""
    schema = getattr(hypothesis, "schema", None)
    if of_complete_cases(hypothesis) and isinstance(schema, Schema):
        return complete_rows(rows, schema)
    return np.ones(len(rows), np.bool_)
