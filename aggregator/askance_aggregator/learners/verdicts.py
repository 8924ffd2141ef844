"""Verdicts on a hypothesis: against the law of the users, or against the users themselves.

A learner's module registers the rule for its hypothesis with `judge.register`; a hypothesis that
predicts is judged by rows of users who were not asked, where there are such, without a rule of its
own. The rules read users through the protocol `Users`, which simulated populations satisfy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.hypotheses import Classifier
from askance_aggregator.learners.learner import Learner, NonAdaptive
from askance_aggregator.queries import EncodedColumns, evaluate_columns
from askance_client.queries import Category, Query, QueryKind, Schema

UNSEEN_ROWS = 1 << 16  # a share of them is off by 0.002 at most, one standard error
HELD_OUT = "share of labels that the hypothesis gets wrong, on rows of which nobody was asked"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a hypothesis: right or wrong, its error, and the truth if it is a number.

    It is right if it is the target; for estimates, if all intervals cover the truth. The
    learner's entry says what its error measures.
    """

    success: bool | None
    error: float | None
    truth: tuple[float, ...] = ()


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


@singledispatch
def judge(hypothesis: object, learner: Learner[Any], users: Users) -> Verdict:
    """Judge a hypothesis; one without a rule of its own is compared with the target.

    A classifier's error is the share of rows that it gets wrong; it is the target, written in this
    way or another, if it gets none wrong.

    Args:
        hypothesis: conclusion of a run.
        learner: learner that concluded it.
        users: users that it is about.
    """
    if isinstance(hypothesis, Classifier) and users.unseen is not None:
        error = _wrong_share(hypothesis, users, users.unseen(UNSEEN_ROWS))
        if error is None:
            return Verdict(None, None)
        return Verdict(None if users.target is None else error == 0, error)
    if users.target is None:
        return Verdict(None, None)
    right = hypothesis == users.target
    return Verdict(right, float(not right))


def covers(
    estimates: tuple[float, ...],
    lows: tuple[float, ...],
    highs: tuple[float, ...],
    truth: tuple[float, ...],
) -> Verdict:
    """Judge estimates by their intervals; the error is the greatest distance from the truth."""
    covered = all(low <= true <= high for low, true, high in zip(lows, truth, highs, strict=True))
    error = max(abs(value - true) for value, true in zip(estimates, truth, strict=True))
    return Verdict(covered, error, truth)


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


def values_of(query: Query, users: Users) -> Iterator[NDArray[np.int64]]:
    """Generate every user's exact answer, chunk by chunk."""
    for columns in chunks(users):
        yield np.asarray(evaluate_columns(query, columns))


def counts_of(query: Query, users: Users) -> NDArray[np.int64]:
    """Count the users in each cell of a query, shape (cells,)."""
    counts = np.zeros(query.cells, np.int64)
    for values in values_of(query, users):
        counts += np.bincount(values, minlength=query.cells)
    return counts


def shares_of(query: Query, users: Users) -> tuple[float, ...]:
    """Compute the share of users in each cell of a query."""
    return tuple((counts_of(query, users) / users.size).tolist())


def _wrong_share(hypothesis: Classifier, users: Users, rows: EncodedColumns) -> float | None:
    """Return the part of the rows with a label that get another one; None where no row has one."""
    kind = users.schema.fields[hypothesis.label]
    labels, present = np.asarray(rows.values[hypothesis.label]), rows.present[hypothesis.label]
    classes: Sequence[Any] = hypothesis.classes_.tolist()
    predicted = hypothesis.predict(rows)
    wrong = np.ones(len(rows), dtype=np.bool_)
    for name in classes:
        index = kind.encode(name) if isinstance(kind, Category) else int(name)
        wrong &= ~((predicted == name) & (labels == index))
    return float(wrong[present].mean()) if present.any() else None
