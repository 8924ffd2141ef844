"""Principal components: the directions in which numbers vary most, from their second moments.

Second moments of numbers about a centre, all of them as one vector per user.

A record's vector has the differences u = x - centre, the squares u_i^2 - t and the products
sqrt(2) u_i u_j, i < j. The root makes it as long as the matrix u u^T: its length is |u|^2, and if
the centre is near the mean that is the spread of the numbers and not their place in the box. A
vector longer than promised is drawn back. With v n times the variance of a component of a vector of
length 1, every product has v R^2 / (2 n), R the promised |u|^2, where a question for each product
has C^2 D (D + 3) / 2 / n, C = (e^eps + 1) / (e^eps - 1).

**Clip.** R is a clip c times the spread s^2 = E|u|^2. Let Y = |u|^2 / s^2. One class of tails is
assumed of all numbers, at every epsilon and number of users:

    E max(Y - c, 0) <= e^(-c / 2),

which the numbers of iris, wine, cancer, digits, diabetes, Adult and Pima keep, and normal laws of
any covariance (the left side is convex in the variances along its axes, so that one axis alone has
the most). Beside the variance that is left of s^2, at most 1 - e^-c if Y is exponential, the
noise of a direction has the square d v / n (c / (1 - e^-c))^2 = V(c) / n. What the clip cuts off
lies mostly along the directions themselves; the rest, which turns them, is taken to be
B(c) = TURNED e^(-c / 2). The clip is the c of a fixed grid with the least V(c) / n + B(c)^2.

V rises with c, and B falls. So with c and c' the clips at noises a = v / n and a' < a, V = v g and
c the best at a, a' g(c) + B(c)^2 <= a' g(x) + B(x)^2 - (a - a') (g(c) - g(x)) for every x < c, the
subtracted part is positive, and c' is c or longer: less noise never shortens the clip. The minimum
itself falls with the noise, as each of its terms does. (`TURNED` was measured once on these sets.)

Source: notes, section 1.2 (Blum et al. 2005, SuLQ); Bhowmick et al. 2018 (vectors as one report).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import ceil, exp, expm1
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import NO_VALUES, Assessment, Users, assess, chunks
from askance_aggregator.learners.centres import on_grid
from askance_aggregator.learners.cluster_rounds import Start, sums_question
from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.encodings import SCALE_BITS, Number, numbers_of
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Learner, adaptive
from askance_aggregator.learners.learning import Allocation, Answer, Batch, Learning, Question
from askance_aggregator.learners.missing import (
    CompleteCases,
    MissingShare,
    complete_rows,
    is_excluded,
)
from askance_aggregator.learners.parameters import Columns, Missing, Present, Tau
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import Rows, encoded, some_fields
from askance_aggregator.learners.schemas import plane_schema
from askance_aggregator.learners.shapes import Components
from askance_aggregator.numbers import Rational, positive, rational, whole_within
from askance_aggregator.queries import number_of_complete, round_to, where
from askance_client.errors import InvalidParameter
from askance_client.queries import MAX_COMPONENTS, MAX_NODES, Category, Expression, Schema, constant

CLIPS = tuple(Fraction(eighths, 8) for eighths in range(4, 129))  # times the variance
LEAST_WEIGHT = Fraction(1, 64)  # of differences, beside their products
TURNED = 1 / 32  # of the variance beyond a clip: what turns directions, and does not shorten them
_REPEATS = 3  # rounds of moments to one of means


@hypothesis_of("pca")
@dataclass(frozen=True, slots=True)
class PrincipalComponents(JsonObject):
    """Orthogonal directions of scaled numbers, by falling variance.

    Args:
        mean: of each scaled number.
        components: unit vectors, a row a component; its entry of greatest magnitude is positive.
        variances: along each component, >= 0.
        total: the variance of all numbers together.
        missing: estimated share of users who lack one of the fields; all else is over the others.
            None: users who lack one count with its public default.
    """

    json_name: ClassVar = "principal components"
    json_keys: ClassVar = (
        "summary",
        "names=feature_names_in_",
        "components",
        "variances",
        "total",
        "mean",
        "missing",
        "schema",
        "encodings=columns",
    )

    schema: Schema
    mean: tuple[float, ...]
    components: tuple[tuple[float, ...], ...]
    variances: tuple[float, ...]
    total: float
    missing: MissingShare | None = None
    columns: tuple[Number, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        columns = numbers_of(self.schema)
        widths = {len(self.mean), *(len(row) for row in self.components)}
        if widths != {len(columns)} or len(self.components) != len(self.variances):
            raise InvalidParameter(
                f"PrincipalComponents expects {len(columns)} numbers per component and a variance"
                f" each, got {sorted(widths)} and {len(self.variances)} variances"
            )
        object.__setattr__(self, "columns", columns)

    @property
    def components_(self) -> NDArray[np.float64]:
        """Shape (components, numbers)."""
        return np.array(self.components)

    @property
    def mean_(self) -> NDArray[np.float64]:
        """Shape (numbers,)."""
        return np.array(self.mean)

    @property
    def explained_variance_(self) -> NDArray[np.float64]:
        """Shape (components,)."""
        return np.array(self.variances)

    @property
    def explained_variance_ratio_(self) -> NDArray[np.float64]:
        """Part of the total variance per component; 0 where nothing varies."""
        return (
            self.explained_variance_ / self.total
            if self.total > 0
            else 0 * np.array(self.variances)
        )

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """The numbers."""
        return np.array([number.name for number in self.columns])

    def transform(self, rows: Rows) -> NDArray[np.float64]:
        """The components' values, shape (n, components); a missing number is its bounds' middle."""
        grid = encoded(self.schema, rows)
        scaled = np.stack([number.of(grid) for number in self.columns], axis=1)
        return np.asarray((scaled - self.mean_) @ self.components_.T)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per component: its variance, and its weights by field."""
        names = self.feature_names_in_.tolist()
        return [
            {"variance": variance, "weight": dict(zip(names, component, strict=True))}
            for variance, component in zip(self.variances, self.components, strict=True)
        ]

    def to_shape(self) -> Components:
        """Return the explained parts of the variance and the components."""
        names, ratios = self.feature_names_in_.tolist(), self.explained_variance_ratio_.tolist()
        return Components(tuple(names), tuple(ratios), self.components)

    def __str__(self) -> str:
        names = self.feature_names_in_.tolist()
        lines = []
        ratios = self.explained_variance_ratio_.tolist()
        for ratio, row in zip(ratios, self.components, strict=True):
            order = sorted(range(len(row)), key=lambda place: -abs(row[place]))[:5]
            terms = ", ".join(f"{row[place]:+.3f} {names[place]}" for place in order)
            lines.append(f"{ratio:.1%} of the variance: {terms}")
        return "\n".join(lines)


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    """Set the clip by the noise of a second moment, once users are known."""
    if arguments["clip"] is not None or arguments["tau"] is not None:
        return {}
    if conditions.signing or not conditions.users:
        return {}
    numbers = numbers_of(_kept(arguments["schema"], arguments["columns"]))
    d = len(numbers)
    unit = SecondMoments(numbers, np.zeros(d), 0.0, Fraction(1), None)
    asked = unit.questions(None)
    noise = sum(conditions.noise(question) / float(question.length or 1) ** 2 for question in asked)
    return {"clip": best_clip(d * noise / (conditions.users * _REPEATS / (_REPEATS + 1)))}


def best_clip(noise: float) -> Fraction:
    """Return the clip with the least squared error of a direction (see the module).

    Args:
        noise: d v / n, n the users who are asked for moments.
    """

    def error(clip: Fraction) -> float:
        c = float(clip)
        return noise * (c / -expm1(-c)) ** 2 + (TURNED * exp(-c / 2)) ** 2

    return min(CLIPS, key=error)


@catalogued(
    summary="the directions in which numbers vary most",
    error="the part of the population's variance that the best directions hold beyond those found",
    guess="directions at random, which hold their number's share of the variance on average",
    example=lambda: plane_schema(3),
    population="plane",
    small=SmallSettings(
        oracles={"d": "1", "components": "1", "tau": "1/4"}, fleets={"d": "1", "tau": "1/2"}
    ),
)
@adaptive("pca", version=4, settle=_settle)
def principal_components(
    schema: Schema,
    columns: Columns = None,
    components: Annotated[int, "how many directions"] = 2,
    tau: Tau = None,
    missing: Missing = None,
    present: Present = None,
    clip: Annotated[
        Rational | None,
        "squared distance that counts in full, times the variance (default: by noise)",
    ] = None,
) -> Learning[PrincipalComponents]:
    """The leading eigenvectors of the covariance of scaled numbers, over complete cases.

    Utility: two rounds of one vector question each, to users of its own: means and variances of
    the D numbers, then, of three quarters of the users, D (D + 3) / 2 moments: about these means
    and clipped if there is a clip, else about 0. If every component is within tau < 1/2 times the
    promised share of complete cases, and their share is that or more, the share is off by 2 tau,
    without a clip each moment by less than t = 3 tau / (1 - 2 tau) (missing="default": t = tau)
    and each covariance by less than 3 t + t^2, so k components hold at least the variance of the k
    best directions less 2 k D (3 t + t^2).

    With missing="default" what is missing counts as the middle of its bounds. `clip` is a part of
    the variance of all numbers together: the squared distance from the mean beyond which only a
    record's direction counts; there is none where the noise is unknown. A clipped moment is smaller
    than the true one.

    Raises:
        InvalidParameter: no such field, or a number out of range.

    Source: notes, section 1.2 (Blum et al. 2005, SuLQ); the scales come from the schema.

    Example:
        >>> people = ask.Population.generated("plane", users=2_000, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.principal_components(components=1, tau="1/100")
        >>> ask.learn(learner, oracle).components_.shape
        (1, 3)
    """
    kept = _kept(schema, columns)
    numbers = numbers_of(kept)
    count = len(numbers)
    whole_within(components, 1, count, "components", f", as there are {count} numbers")
    if len(numbers) > MAX_NUMBERS:
        raise InvalidParameter(
            f"columns expects fields of at most {MAX_NUMBERS} numbers, got {len(numbers)}"
        )
    complete = CompleteCases.promised(kept, present) if is_excluded("pca", missing) else None
    wanted = None if tau is None else rational(tau, "tau")
    if complete is not None:
        wanted = complete.tolerance(wanted)
    limit = None if clip is None else positive(clip, "clip")
    return _components(kept, components, wanted, complete is not None, limit)


def _kept(schema: Schema, columns: Sequence[str] | None) -> Schema:
    names = [name for name, kind in schema.fields.items() if not isinstance(kind, Category)]
    return some_fields(schema, names if columns is None else columns)


def _components(
    schema: Schema,
    components: int,
    tau: Fraction | None,
    excluded: bool,
    clip: Fraction | None,
) -> Learning[PrincipalComponents]:
    numbers = numbers_of(schema)
    fields = {name: schema[name] for name in schema.fields} if excluded else None
    (answer,) = yield Batch([Start.question([as_number(part) for part in numbers], fields, tau)])
    start = Start.of(answer, tau) if excluded else Start.of_all(answer)
    moments = _moments(numbers, start, fields, clip)
    questions = moments.questions(tau)
    repeats = _REPEATS if tau is None else 1
    answers = yield Batch(questions * repeats, Allocation.FRESH)
    count = len(questions)
    found = [
        moments.covariance(answers[first : first + count], start.having)
        for first in range(0, len(answers), count)
    ]
    covariance = nearest_semidefinite(np.mean(found, axis=0))
    values, vectors = np.linalg.eigh(covariance)
    axes = [_upright(vectors[:, -1 - place]) for place in range(components)]
    return PrincipalComponents(
        schema=schema,
        mean=tuple(start.mean.tolist()),
        components=tuple(tuple(row.tolist()) for row in axes),
        variances=tuple(max(float(values[-1 - place]), 0.0) for place in range(components)),
        total=max(float(np.trace(covariance)), 0.0),
        missing=start.missing,
    )


def _moments(
    numbers: tuple[Number, ...],
    start: Start,
    fields: Mapping[str, Expression] | None,
    clip: Fraction | None,
) -> SecondMoments:
    """Return the questions about the means; about 0 without a clip, and if what is missing is 0."""
    d = len(numbers)
    if clip is None:
        return SecondMoments(numbers, np.zeros(d), 0.0, Fraction(d), fields)
    centre = on_grid(start.mean) if fields is not None else np.zeros(d)
    spread = float(start.variances.sum() + ((start.mean - centre) ** 2).sum())
    squared = min(Fraction(4 * d), Fraction(ceil(clip * Fraction(spread) * 64), 64))
    middle = 0.0 if fields is None else round(spread / d * 1024) / 1024
    weight = Fraction(1)
    while weight > LEAST_WEIGHT and 4 * weight**2 > squared:
        weight /= 2
    return SecondMoments(numbers, centre, middle, squared, fields, weight)


def _upright(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The direction with its entry of greatest magnitude positive: eigenvectors have no sign."""
    return vector if vector[np.abs(vector).argmax()] >= 0 else -vector


@assess.register
def _(hypothesis: PrincipalComponents, learner: Learner[Any], users: Users) -> Assessment:
    """Return the variance that as many best directions hold beyond these, as a part of all."""
    count, counted = len(hypothesis.columns), 0
    sums, products = np.zeros(count), np.zeros((count, count))
    for columns in chunks(users):
        scaled = np.stack([number.of(columns) for number in hypothesis.columns], axis=1)
        if hypothesis.missing is not None:
            scaled = scaled[complete_rows(columns, hypothesis.schema)]
        sums, products = sums + scaled.sum(axis=0), products + scaled.T @ scaled
        counted += len(scaled)
    if not counted:
        return Assessment(None, None, summary=NO_VALUES)
    mean = sums / counted
    covariance = products / counted - np.outer(mean, mean)
    axes = hypothesis.components_
    best = np.linalg.eigvalsh(covariance)[-len(axes) :].sum()
    total = float(np.trace(covariance))
    held = float(np.trace(axes @ covariance @ axes.T))
    if total <= 0:
        return Assessment(None, 0.0, baseline=0.0)
    at_random = total * len(axes) / count
    error, baseline = (max(float(best) - part, 0.0) / total for part in (held, at_random))
    return Assessment(None, error, baseline=baseline)


_ROOT_BITS = 12
ROOT = Fraction(round(2**0.5 * (1 << _ROOT_BITS)), 1 << _ROOT_BITS)
_BITS = 20  # squares of scaled numbers lie on it
MAX_NUMBERS = 250  # a length of 4 D on that grid is then allowed


@dataclass(frozen=True, slots=True, eq=False)
class SecondMoments:
    """Questions for E[u] and E[u u^T], u the differences from a centre.

    Args:
        centre: shape (D,), on the grid of scaled numbers.
        middle: t, subtracted from squares, which makes them shorter; a multiple of 2^-10.
        squared: R, the greatest |u|^2 that counts in full.
        weight: of the differences in the vector, a power of two. Near a mean they tell little.
        fields: all of which a record needs to count; None: what is missing counts as 0, and the
            centre and t are 0.
    """

    numbers: tuple[Number, ...]
    centre: NDArray[np.float64]
    middle: float
    squared: Fraction
    fields: Mapping[str, Expression] | None
    weight: Fraction = Fraction(1)

    def questions(self, tau: Fraction | None) -> tuple[Question, ...]:
        """Return the vector in as many questions as a query's nodes allow."""
        # A product takes three nodes, and a number ten at most; a vector has at most 1,024
        # components.
        parts = self._components()
        most = min((MAX_NODES - 10 * len(self.numbers)) // 3, MAX_COMPONENTS)
        blocks = [parts[first : first + most] for first in range(0, len(parts), most)]
        longest = self.squared**2 + self.weight**2 * self.squared
        return tuple(sums_question(block, longest, tau) for block in blocks)

    def covariance(self, answers: Sequence[Answer], having: float) -> NDArray[np.float64]:
        """Compute the covariance, shape (D, D), from the answers; it may be indefinite.

        `having` is the share of the users who count, which all answers are divided by.
        """
        values = np.concatenate([answer.values for answer in answers]) / having
        d = len(self.numbers)
        apart, squares, products = values[:d], values[d : 2 * d], values[2 * d :]
        apart = apart / float(self.weight)
        matrix = np.zeros((d, d))
        matrix[np.triu_indices(d, 1)] = products / float(ROOT)
        matrix += matrix.T
        matrix[np.diag_indices(d)] = squares + self.middle
        return np.asarray(matrix - np.outer(apart, apart))

    def _components(self) -> list[Expression]:
        apart = [
            as_number(number) - constant(value, SCALE_BITS)
            for number, value in zip(self.numbers, self.centre.tolist(), strict=True)
        ]
        if self.fields is not None:
            apart = [number_of_complete(part, self.fields) for part in apart]
        middle = constant(self.middle, SCALE_BITS)
        squares = [round_to(part * part - middle, _BITS) for part in apart]
        root = constant(ROOT, _ROOT_BITS)
        products = [round_to(one * other * root, _BITS) for one, other in combinations(apart, 2)]
        weight = constant(self.weight, SCALE_BITS)
        if self.weight != 1:
            apart = [round_to(part * weight, _BITS) for part in apart]
        return [*apart, *squares, *products]


def as_number(number: Number) -> Expression:
    """Return a number as an expression of kind NUMBER; a truth is 0 or 1."""
    return where(number.expression, 1, 0) if number.is_truth else number.expression


def nearest_semidefinite(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest positive semidefinite matrix, in Frobenius norm; the truth is such a matrix."""
    # The set of these matrices is convex, so the projection is no farther from the truth than what
    # it was made of.
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
