"""Halfspaces with a margin: the perceptron by statistical queries.

Of a user with label sign s (1 for the second class, else -1) and `levels` statements w_1, w_2, ...
of being wrong, each weaker than the next one, the residual is s (number of those that hold) /
levels, between -1 and 1. What is learned is E[residual x] for every coordinate x of the score:

- A number takes one question for the mean of residual times number.
- A category has one coordinate a cell, and a user is in one cell only. So a statement takes one
  question with a sign a cell, for the users of a few means, however many cells there are. The
  mean of a category's `levels` answers is E[residual x] exactly, for all its cells at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from math import ceil, sqrt
from operator import add
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import learning, linear_classifiers
from askance_aggregator.learners.assessments import catalogued_classifier
from askance_aggregator.learners.conditions import Conditions, narrowest
from askance_aggregator.learners.encodings import Cells, Number, cells
from askance_aggregator.learners.learner import adaptive
from askance_aggregator.learners.missing import CompleteCases, missing_in
from askance_aggregator.learners.parameters import Accuracy, Affordable, LabelName, check_rounds
from askance_aggregator.learners.registry import SmallSettings
from askance_aggregator.learners.rows import features_of, label_of, some_fields
from askance_aggregator.numbers import Rational, positive, rational
from askance_aggregator.queries import predicate, real, signed, where
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Schema, constant


@dataclass(frozen=True, slots=True)
class Residual:
    """A residual as expressions; the statements of being wrong are a power of two."""

    positive: Expression
    wrong: tuple[Expression, ...]

    @property
    def number(self) -> Expression:
        """The residual, on a grid that holds it exactly."""
        levels = len(self.wrong)
        part = constant(Fraction(1, levels), levels.bit_length() - 1)
        return where(self.positive, part, -part) * reduce(add, self.wrong)


def residual_questions(
    residual: Residual, coordinates: Sequence[linear_classifiers.Coordinates], tau: Fraction | None
) -> Iterator[learning.Question]:
    """For E[residual], then for E[residual x] of all coordinates, in order."""
    number = residual.number
    yield learning.Question(real(number, default=0), tau)
    for item in coordinates:
        if isinstance(item.part, Number):
            yield learning.Question(real(number * item.part.expression, default=0), tau)
        else:
            yield from _by_cell(residual, item.part, tau)


def _by_cell(residual: Residual, part: Cells, tau: Fraction | None) -> Iterator[learning.Question]:
    pair = 2 * part.index + ~residual.positive
    for wrong in residual.wrong:
        yield learning.Question(signed(where(wrong, pair, 2 * len(part))), tau)


@dataclass(frozen=True, slots=True)
class Gradient:
    """E[residual x] of all coordinates x.

    Args:
        values: raw estimates, shape (coordinates,).
        reach: how far each may be off: less than what was promised, or, by chance, by about two
            standard deviations; same shape.
    """

    values: NDArray[np.float64]
    reach: NDArray[np.float64]

    @property
    def significant(self) -> NDArray[np.bool_]:
        """Mask of the residuals that are known not to be zero."""
        return np.asarray(np.abs(self.values) > self.reach)


def gradient(
    answers: Sequence[learning.Answer],
    coordinates: Sequence[linear_classifiers.Coordinates],
    levels: int,
    tau: Fraction | None,
) -> Gradient:
    """The answers to `residual_questions`."""
    values = [answers[0].value]
    reach = [learning.reach_of(answers[0], tau)]
    place = 1
    for item in coordinates:
        count = 1 if isinstance(item.part, Number) else levels
        own = answers[place : place + count]
        place += count
        values.extend(np.mean([answer.values for answer in own], axis=0))
        shrunk = 1.0 if tau is not None else sqrt(count)  # of independent errors
        reach.extend([max(learning.reach_of(answer, tau) for answer in own) / shrunk] * item.count)
    return Gradient(np.array(values), np.array(reach))


def greatest_answers(batch: learning.Batch) -> learning.Answers:
    """Answers that never say to stop, for a rehearsal: every value is the greatest possible."""
    answers = []
    for question in batch.questions:
        values = (float(question.bounds[1]),) * question.values
        answers.append(learning.Answer(values, values, values))
    return tuple(answers)


_GRID = 1 << 30
MOST_NOISE = 1 / 3  # of a step's length


@dataclass(frozen=True, slots=True)
class _Tolerances:
    """Tolerances of the error and of the mean mistake; None: the best that the users allow."""

    error: Fraction | None
    mistake: Fraction | None


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    """Set the columns where users are known, and neither columns nor a margin is given."""
    # Fields are kept while the error of a step, the mean of the mistakes, has a length of at most
    # `MOST_NOISE` (`narrowest`); the mean itself is no longer than the longest example.
    open_ = arguments["columns"] is None and arguments["margin"] is None
    if conditions.users is None or not open_:
        return {}
    schema, users, rounds = arguments["schema"], conditions.users, arguments["rounds"]
    target = label_of(schema, arguments["label"])
    features = features_of(schema, target)
    names = tuple(features.fields)
    parts = [linear_classifiers.coordinates_of(some_fields(features, [name])) for name in names]
    residual = Residual(
        linear_classifiers.positive_class(schema, target),
        (linear_classifiers.positive_class(schema, target),),
    )

    @cache
    def variance(place: int) -> float:
        _, *asked = residual_questions(residual, parts[place], None)
        return sum(conditions.noise(question) * question.values for question in asked)

    def affordable(places: Sequence[int]) -> bool:
        questions = 1 + rounds * (2 + sum(len(parts[place]) for place in places))
        length = sqrt(sum(map(variance, places)) * questions / users)
        return length <= MOST_NOISE

    kept = narrowest([sum(item.count for item in own) for own in parts], affordable)
    return {} if len(kept) == len(names) else {"columns": tuple(names[place] for place in kept)}


@catalogued_classifier(
    summary="a halfspace, by the mean of the examples on its wrong side",
    example=lambda: linear_classifiers.halfspaces_schema(3),
    population="halfspaces",
    small=SmallSettings(
        oracles={"d": "1", "gap": "20", "rounds": "4"},
        fleets={"d": "1", "gap": "20", "rounds": "2", "accuracy": "1/2"},
        fleet_users=600,  # its tolerances are open: as many as there are
    ),
    held_out=True,
)
@adaptive("perceptron", version=2, rehearsal=greatest_answers, settle=_settle)
def perceptron(
    schema: Schema,
    label: LabelName = None,
    columns: Affordable = None,
    accuracy: Accuracy = "1/10",
    margin: Annotated[
        Rational | None, "of the examples (default: not known, nothing promised)"
    ] = None,
    rounds: Annotated[int, "how many corrections at most"] = 8,
) -> learning.Learning[linear_classifiers.Halfspace]:
    """Add the mean of misclassified examples (their sign times x) to the weights, from zero.

    Examples are the complete cases, users who have the label and all columns; the first round asks
    for their share q. All other users are in no question: "the error" below is the share of all
    users who are misclassified examples, so of the examples it is at most 1/q times as much.

    Utility: at most `rounds` rounds; each asks for the share of misclassified examples, for the
    mean of their signs, and a question a number (its mean over them, signed) or a category (a sign
    a cell); users are as for this many questions. It stops where the share is at most 3/4
    `accuracy`, and returns the weights that had the smallest share. With a margin, and if every
    answer is within its tolerance: where it stops early, the error is below `accuracy` under any
    distribution; and if some unit vector w has sign w.x >= margin R for all examples, R^2 = 1 +
    (numbers) + (categories) the greatest |x|^2, it stops within `perceptron_rounds(margin)` rounds.
    The share has tau = accuracy/4, the others accuracy margin R / (9 sqrt(coordinates)). Without a
    margin nothing is promised: the users are divided evenly over all questions.

    Derivation: in a round that does not stop the share e is over accuracy/2 and its estimate f
    between 3e/4 and 3e/2. The step is u = (the answers)/f: its product with w is at least
    (2/3 - 1/6) margin R, as errors and rounding add up to less than margin R / 6 in length; its
    product with the weights v is at most |v| margin R / 6, and |u| <= (4/3 + margin/6) R =: S. So
    w.v grows by margin R / 2 a round, and |v|, once it is 3 S^2/(margin R), by at most
    margin R / 3: since w.v <= |v|, there are at most (18 (S/R)^2/margin + 6 S/R)/margin rounds.

    The margin, in (0, 1], is over the greatest length.

    Raises:
        InvalidParameter: an argument is out of range (accuracy in (0, 1), rounds in 1 .. 10,000),
            or the label has not two classes.

    Source: Blum, Frieze, Kannan and Vempala 1998 (the perceptron by averages), simplified to data
        with a margin; Blum et al. 2005 ("SuLQ").

    Example:
        >>> people = ask.Population.generated("halfspaces", users=2_000, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> len(ask.learn(ask.learners.perceptron(), oracle).weights)
        3
    """
    target = label_of(schema, label)
    features = features_of(schema, target, columns)
    linear_classifiers.positive_class(schema, target)
    allowed = rational(accuracy, "accuracy")
    if not 0 < allowed < 1:
        raise InvalidParameter(f"accuracy expects an error in (0, 1), got {value_text(accuracy)}")
    check_rounds(rounds)
    tolerances = _Tolerances(None, None)
    if margin is not None:
        mistake = (
            allowed
            * positive(margin, "margin", 1)
            * _reach(linear_classifiers.coordinates_of(features))
        )
        tolerances = _Tolerances(allowed / 4, mistake)
    return _correct(schema, target, features, allowed, rounds, tolerances)


def perceptron_rounds(margin: Rational) -> int:
    """Compute a sufficient number of rounds for examples with this margin."""
    gap = float(positive(margin, "margin", 1))
    length = 4 / 3 + gap / 6
    return ceil((18 * length * length / gap + 6 * length) / gap)


def _reach(coordinates: Sequence[linear_classifiers.Coordinates]) -> Fraction:
    """R / (9 sqrt(coordinates)), rounded down."""
    count = 1 + sum(item.count for item in coordinates)
    longest = sqrt(1 + len(coordinates))
    return Fraction(int(longest / (9 * sqrt(count)) * _GRID), _GRID)


def _correct(
    schema: Schema,
    label: str,
    features: Schema,
    accuracy: Fraction,
    rounds: int,
    tolerances: _Tolerances,
) -> learning.Learning[linear_classifiers.Halfspace]:
    coordinates = linear_classifiers.coordinates_of(features)
    positive = linear_classifiers.positive_class(schema, label)
    weights = np.zeros(1 + sum(item.count for item in coordinates))
    best, least, having = weights, np.inf, None
    complete = CompleteCases(some_fields(schema, [*features.fields, label]))
    for _ in range(rounds):
        value = linear_classifiers.score(coordinates, weights)
        wrong = where(positive, value <= 0, value >= 0)  # a record on the plane counts too
        asked = residual_questions(Residual(positive, (wrong,)), coordinates, tolerances.mistake)
        batch = [
            learning.Question(predicate(wrong), tolerances.error),
            *asked,
        ]  # each uses all fields
        if having is None:
            having, share, *mistakes = yield learning.Batch(
                [complete.share(tolerances.error), *batch]
            )
        else:
            share, *mistakes = yield learning.Batch(batch)
        if share.value < least:
            best, least = weights, share.value
        if share.value <= 3 * accuracy / 4:
            break
        found = gradient(tuple(mistakes), coordinates, 1, tolerances.mistake)
        weights = linear_classifiers.on_weight_grid(weights + found.values / share.value)
    (classes,) = cells(schema, label)
    missing = None if having is None else missing_in(having)
    return linear_classifiers.Halfspace(
        features, label, classes.labels, tuple(best.tolist()), missing
    )
