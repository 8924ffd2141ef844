"""Logistic regression by gradient questions to fresh users."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from askance_aggregator.learners.assessments import HELD_OUT, MOST_FREQUENT, NONE_WRONG
from askance_aggregator.learners.encodings import cells
from askance_aggregator.learners.learner import Learner, adaptive
from askance_aggregator.learners.learning import Batch, Learning
from askance_aggregator.learners.linear_classifiers import (
    LogisticModel,
    coordinates_of,
    on_weight_grid,
    score,
)
from askance_aggregator.learners.missing import CompleteCases, missing_in
from askance_aggregator.learners.parameters import (
    COLUMNS,
    LABEL,
    TAU,
    ParameterEntry,
    Text,
    columns_in,
    whole,
)
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.residuals import (
    Residual,
    gradient,
    greatest_answers,
    residual_questions,
)
from askance_aggregator.learners.rows import features_of, label_of, some_fields
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import sigmoid, where
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Schema

MAX_ROUNDS = 10_000
_LEAST_SHARE = 1 / 16  # of complete cases that a step is divided by: with fewer, steps are smaller
LEVELS = (2, 4, 8)  # of one, no record would be wrong at zero weights


@adaptive("logistic-regression", version=2, rehearsal=greatest_answers)
def logistic_regression(
    schema: Schema,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    rounds: int = 8,
    rate: Rational = 2,
    levels: int = 4,
    tau: Rational | None = None,
) -> Learning[LogisticModel]:
    """Move the weights against the mean gradient of the loss, with momentum, from zero.

    The residual y - P[second class] of a user is rounded to a multiple of 1/levels, half of them
    away from zero (see `residuals` for why). So what is minimised is the convex loss whose link
    is the logistic function rounded to 2 levels + 1 steps: the logistic loss, as levels grow.

    The loss is that over complete cases, users who have the label and all columns: the others
    answer 0, and a gradient is divided by the share of complete cases, for which the first round
    asks.

    Utility: at most `rounds` rounds; each asks, for one mean: the residual; a number: another; a
    category: `levels` questions with a sign a cell. Users are as for this many questions, each with
    a group of its own. It stops early where no coordinate of the gradient differs measurably from
    zero. With `tau` every answer is off by less than that: coordinates within tau do not move, and
    if it stops early every coordinate of the true gradient is below 2 tau there. Without one, the
    users are divided evenly over all questions of all rounds, and errors average out over rounds.
    Numbers are scaled by the schema's bounds.

    Args:
        schema: of the records; the label has two classes.
        label: what to predict; None: its only Label.
        columns: what from; None: all other fields.
        rounds: maximum number of rounds, 1 .. 10,000: the more, the fewer users for each.
        rate: the step, > 0: what the gradient is multiplied by; about 4 over the mean of |x|^2.
        levels: 2, 4 or 8.
        tau: how exactly each coordinate of the gradient is wanted; None: as the users allow.

    Raises:
        InvalidParameter: an argument is out of range, or the label has not two classes.

    Source: Chu et al. 2007 (learning by sums of gradients); the momentum is Nesterov's (1983).
    """
    target = label_of(schema, label)
    features = features_of(schema, target, columns)
    step = rational(rate, "rate")
    check_rounds(rounds)
    if not 0 < step <= 1000:
        raise InvalidParameter(f"rate expects a number in (0, 1000], got {value_text(rate)}")
    if levels not in LEVELS:
        raise InvalidParameter(f"levels expects one of {LEVELS}, got {value_text(levels)}")
    positive_class(schema, target)
    tolerance = None if tau is None else rational(tau, "tau")
    return _descend(schema, target, features, rounds, float(step), levels, tolerance)


def check_rounds(rounds: int) -> int:
    """Check the largest number of rounds.

    Raises:
        InvalidParameter: it is not in 1 .. 10,000.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MAX_ROUNDS:
        raise InvalidParameter(
            f"rounds expects a whole number in 1..{MAX_ROUNDS}, got {value_text(rounds)}"
        )
    return rounds


def positive_class(schema: Schema, label: str) -> Expression:
    """Return the predicate of the second of two classes.

    Raises:
        InvalidParameter: it has more.
    """
    (classes,) = cells(schema, label)
    if len(classes) != 2:
        known = ", ".join(classes.labels[:5])
        more = ", ..." if len(classes) > 5 else ""
        raise InvalidParameter(
            f"{label}: expected a label of two classes, found {len(classes)}: {known}{more}"
        )
    return classes.index == 1


def _descend(
    schema: Schema,
    label: str,
    features: Schema,
    rounds: int,
    rate: float,
    levels: int,
    tau: Fraction | None,
) -> Learning[LogisticModel]:
    coordinates = coordinates_of(features)
    positive = positive_class(schema, label)
    count = 1 + sum(item.count for item in coordinates)
    here, ahead = np.zeros(count), np.zeros(count)
    complete = CompleteCases(some_fields(schema, [*features.fields, label]))
    share, having = None, 1.0
    for number in range(rounds):
        likely = sigmoid(score(coordinates, ahead))
        residual = Residual(positive, _wrong(positive, likely, levels))
        asked = residual_questions(residual, coordinates, tau)  # each uses all fields
        if share is None:
            share, *answers = yield Batch([complete.share(tau), *asked])
            having = max(share.value, _LEAST_SHARE)
        else:
            answers = list((yield Batch(asked)))
        found = gradient(answers, coordinates, levels, tau)
        if not found.significant.any():
            here = ahead
            break
        moved = found.values if tau is None else np.where(found.significant, found.values, 0.0)
        before, here = here, on_weight_grid(ahead + rate / having * moved)
        ahead = on_weight_grid(here + (number + 1) / (number + 4) * (here - before))
    (classes,) = cells(schema, label)
    missing = None if share is None else missing_in(share)
    return LogisticModel(features, label, classes.labels, tuple(here.tolist()), missing)


def _wrong(positive: Expression, likely: Expression, levels: int) -> tuple[Expression, ...]:
    """|y - P| > 1/(2 levels), 3/(2 levels), ...: their number over `levels` is |y - P|, rounded."""
    steps = [Fraction(2 * place + 1, 2 * levels) for place in range(levels)]
    return tuple(where(positive, likely < 1 - step, likely > step) for step in steps)


@catalogued(
    "logistic-regression",
    version=2,
    summary="one of two classes by a weighted sum, by gradients of fresh users",
    error=HELD_OUT,
    guess=MOST_FREQUENT,
    success=NONE_WRONG,
    parameters=(
        LABEL,
        COLUMNS,
        ParameterEntry("rounds", "how many steps at most", "8"),
        ParameterEntry("rate", "what the gradient is multiplied by", "2"),
        ParameterEntry("levels", "how finely a residual is told: 2, 4 or 8", "4"),
        TAU,
    ),
    population="traits",
    small=SmallSettings(
        oracles={"columns": "height", "rounds": "4", "rate": "6", "levels": "2", "tau": "1/10"},
        fleets={"columns": "member", "rounds": "2", "tau": "1/6"},
    ),
    held_out=True,
)
def listed_logistic_regression(schema: Schema | None, parameters: Text) -> Learner[Any]:
    """Build the learner from text."""
    return logistic_regression(
        traits_schema() if schema is None else schema,
        parameters.get("label"),
        columns_in(parameters),
        whole("rounds", parameters["rounds"]),
        parameters["rate"],
        whole("levels", parameters["levels"]),
        parameters.get("tau"),
    )
