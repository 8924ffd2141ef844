"""Gaussian mixtures: expectation-maximisation by the moments of every component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import Assessment, Users, assess
from askance_aggregator.learners.centres import (
    WITHIN,
    balanced,
    check_count,
    clusters_schema,
    in_units,
    number_schema,
    on_grid,
    scaled,
    scaled_rows,
    shown,
    spread_points,
    squared_length,
    within_clusters,
)
from askance_aggregator.learners.encodings import SCALE_BITS, Number
from askance_aggregator.learners.hypotheses import Document, hypothesis_of
from askance_aggregator.learners.learner import Learner, adaptive
from askance_aggregator.learners.learning import Answer, Batch, Learning, Question
from askance_aggregator.learners.missing import (
    CompleteCases,
    MissingShare,
    missing_in,
    share_from,
    share_json,
)
from askance_aggregator.learners.parameters import (
    COLUMNS,
    TAU,
    ParameterEntry,
    ParameterKind,
    Text,
    check_rounds,
    columns_in,
    whole,
)
from askance_aggregator.learners.presentation import Presentation
from askance_aggregator.learners.reach import reach_of
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import Rows, schema_in, schema_to_json
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import (
    absolute,
    dot,
    maximum,
    real,
    round_to,
    sigmoid,
)
from askance_client.errors import InvalidParameter
from askance_client.queries import Expression, Schema, constant

COEFFICIENT_BITS = 8
LEAST_VARIANCE = 2.0**-9  # of the box; narrower bells need finer numbers than it has
MAX_COMPONENTS = 16
LEAST_WEIGHT = 2.0**-10
_TANGENTS = (0.0, 0.6, 1.265, 2.084, 3.618)  # where lines touch ln(1 + e^-u)
_LIFT = 0.008  # half of the greatest gap that would be left between them and the curve


@hypothesis_of("gaussian-mixture")
@dataclass(frozen=True, slots=True)
class GaussianMixture:
    """A sum of round bells, in the box that the schema's bounds scale to [-1, 1].

    Args:
        schema: of the numbers.
        weights: of the components, positive, of sum 1.
        means: points of the box.
        variances: one a component, the same in every direction.
        missing: estimated share of users who lack one of the numbers; the mixture is of the others.

    Raises:
        InvalidParameter: the parts do not fit together.
    """

    schema: Schema
    weights: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]
    variances: tuple[float, ...]
    missing: MissingShare | None = None

    def __post_init__(self) -> None:
        width, k = len(scaled(self.schema)), len(self.weights)
        fits = k > 0 and len(self.means) == len(self.variances) == k
        if not fits or {len(mean) for mean in self.means} != {width}:
            raise InvalidParameter(
                f"a mixture expects weights, means of {width} numbers and variances, got {k},"
                f" {[len(mean) for mean in self.means]} and {len(self.variances)}"
            )
        if min(*self.weights, *self.variances, 1.0) <= 0 or abs(sum(self.weights) - 1) > 1e-6:
            raise InvalidParameter(
                "a mixture expects positive variances, and positive weights of sum 1"
            )

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """Return ln of weight times density, up to a constant: of x, |x|^2 and 1; shape (k, d + 2).

        On the grid that a question has them on.
        """
        means, variances = np.array(self.means), np.array(self.variances)
        half = 1 / (2 * variances)
        rest = np.log(self.weights) - means.shape[1] / 2 * np.log(variances)
        rest -= (means**2).sum(axis=1) * half
        raw = np.column_stack([2 * means * half[:, None], -half, rest])
        return np.asarray(
            np.ldexp(np.rint(np.ldexp(raw, COEFFICIENT_BITS)), -COEFFICIENT_BITS), np.float64
        )

    @property
    def centres(self) -> tuple[tuple[float, ...], ...]:
        """The means, as centres of clusters."""
        return self.means

    def points(self, rows: Rows) -> NDArray[np.float64]:
        """Rows as points of the box, shape (n, d); a number that is missing is 0, the middle."""
        return scaled_rows(self.schema, rows)

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """P[component | row], shape (n, k)."""
        x = self.points(rows)
        table = np.column_stack([x, (x**2).sum(axis=1), np.ones(len(x))]) @ self.coefficients.T
        likely = np.exp(table - table.max(axis=1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        """The likeliest component of each row, shape (n,)."""
        return np.asarray(self.predict_proba(rows).argmax(axis=1))

    def to_json(self) -> dict[str, Any]:
        """Return "summary", "weights", "means" (in fields' units), "scaled", "variances", ...

        Variances are those of the scaled numbers.
        """
        return {
            "summary": str(self),
            "weights": list(self.weights),
            "means": in_units(self.schema, self.means),
            "scaled": [list(mean) for mean in self.means],
            "variances": list(self.variances),
            "missing": share_json(self.missing),
            "schema": schema_to_json(self.schema),
        }

    @classmethod
    def from_json(cls, data: Any) -> GaussianMixture:
        """The mixture that `to_json` wrote.

        Raises:
            InvalidParameter: the data is not of that form.
        """
        document = Document("Gaussian mixture", data)
        return cls(
            schema_in(document),
            document.numbers("weights"),
            document.table("scaled"),
            document.numbers("variances"),
            share_from(document),
        )

    def present(self) -> Presentation:
        """Return a line per component, the one with the greatest weight first."""
        notes = () if self.missing is None else self.missing.notes()
        return Presentation(lines=tuple(str(self).split("; ")), notes=notes)

    def __str__(self) -> str:
        parts = sorted(
            zip(self.weights, in_units(self.schema, self.means), self.variances, strict=True),
            key=lambda part: -part[0],
        )
        return "; ".join(
            f"{weight:.1%} about {shown(mean)} (scaled deviation {variance**0.5:.2g})"
            for weight, mean, variance in parts
        )


@adaptive("gaussian-mixture", version=2)
def gaussian_mixture(
    schema: Schema,
    k: int = 2,
    columns: Sequence[str] | None = None,
    rounds: int = 8,
    tau: Rational | None = None,
) -> Learning[GaussianMixture]:
    """Fit a mixture of round Gaussians by expectation-maximisation, from spread starting points.

    A device computes its own responsibilities: of two components the logistic function of a
    quadratic form, of more the same with ln(e^a + e^b) by straight lines, off by less than 0.01 a
    further component (so a responsibility is off by less than (k - 2)/400, beside the table's).

    Users who lack one of the numbers count for no component: the mixture is of the others.

    Utility: at most `rounds` rounds of k (d + 2) questions: for each component the means of its
    responsibility r, of r x for each number x, and of r |x|^2; the first also asks for the share of
    users who have all numbers. Users are as for this many
    questions, each with a group of its own. A mean whose component may be empty, within the error,
    goes half of the way to that of the greatest. It stops early where there is no such component
    and no mean has moved beyond its error. With `tau` every answer is off by less than that (of r
    |x|^2: d times that), and if it stops early, E[r (x - mean)] is below 4 tau in every coordinate.
    Without one the users are divided evenly over all questions. There is no promise about the
    likelihood: expectation-maximisation has none.

    Args:
        schema: of the records.
        k: how many components, 1 .. 16: a device allows no deeper expressions.
        columns: numbers; None: all Integer and Real fields.
        rounds: maximum number of rounds, 1 .. 10,000.
        tau: how exactly the moments are wanted, in the box; None: as the users allow.

    Raises:
        InvalidParameter: an argument is out of range.

    Source: notes, section 1.2; Chu et al. 2007 (EM by sums); Dempster, Laird and Rubin 1977.
        Deviations: components are round, and variances are shrunk to the common one as far as they
        are noise.
    """
    features = number_schema("gaussian-mixture", schema, columns)
    check_count("gaussian-mixture", k, MAX_COMPONENTS)
    check_rounds(rounds)
    return _maximise(features, k, rounds, None if tau is None else rational(tau, "tau"))


def _maximise(
    schema: Schema, k: int, rounds: int, tau: Fraction | None
) -> Learning[GaussianMixture]:
    parts = scaled(schema)
    means = spread_points(k, len(parts))
    bells = GaussianMixture(
        schema,
        (1 / k,) * k,
        tuple(tuple(row) for row in means.tolist()),
        (max(1 / (3 * k ** (2 / len(parts))), LEAST_VARIANCE),) * k,
    )
    complete = CompleteCases(schema)
    (share, *answers) = yield Batch([complete.share(tau), *_questions(parts, bells, tau, complete)])
    for number in range(rounds):
        if number:
            answers = list((yield Batch(_questions(parts, bells, tau, complete))))
        moved = _moved(bells, answers, tau)
        if moved is None:
            break
        bells = moved
    return replace(bells, missing=missing_in(share))


def responsibilities(parts: Sequence[Number], bells: GaussianMixture) -> tuple[Expression, ...]:
    """P[component | record] as expressions."""
    terms = [*(part.expression for part in parts), squared_length(parts), constant(1)]
    logs = [
        round_to(dot(row, terms, COEFFICIENT_BITS), SCALE_BITS)
        for row in bells.coefficients.tolist()
    ]
    if len(logs) == 1:
        return (constant(1),)
    found = []
    for place, own in enumerate(logs):
        others = logs[:place] + logs[place + 1 :]
        found.append(sigmoid(own - balanced(_log_of_sum, others)))
    return tuple(found)


def _log_of_sum(one: Expression, other: Expression) -> Expression:
    """ln(e^one + e^other) = the greater + ln(1 + e^-u), u their distance; by lines."""
    apart = absolute(one - other)
    lines = [constant(0.0)]
    for point in _TANGENTS:
        slope = 1 / (1 + np.exp(point))
        height = log(1 + np.exp(-point)) + slope * point + (_LIFT if point else 0.0)
        lines.append(dot([-slope, height], [apart, 1], 2 * COEFFICIENT_BITS))
    curve = reduce(maximum, lines)
    return maximum(one, other) + round_to(curve, SCALE_BITS)


def _questions(
    parts: Sequence[Number], bells: GaussianMixture, tau: Fraction | None, complete: CompleteCases
) -> Iterator[Question]:
    length = squared_length(parts)
    wide = None if tau is None else tau * len(parts)
    for own in responsibilities(parts, bells):
        yield Question(complete.of(real(own, 0, 1, default=0)), tau)
        for part in parts:
            yield Question(complete.of(real(own * part.expression, -1, 1, default=0)), tau)
        yield Question(complete.of(real(own * length, 0, len(parts), default=0)), wide)


def _moved(
    bells: GaussianMixture, answers: Sequence[Answer], tau: Fraction | None
) -> GaussianMixture | None:
    """Compute the mixture with these moments; None if no mean has moved beyond its error."""
    k, d = len(bells.weights), len(bells.means[0])
    values = np.array([answer.value for answer in answers]).reshape(k, d + 2)
    reach = np.array([reach_of(answer, tau) for answer in answers]).reshape(k, d + 2)
    means, shares = np.array(bells.means), values[:, 0]
    known = shares > reach[:, 0]
    gap = np.abs(values[:, 1:-1] - means * shares[:, None])
    told = known[:, None] & (gap > reach[:, 1:-1] + np.abs(means) * reach[:, :1])
    if known.all() and not told.any():
        return None
    safe = np.where(known, shares, 1.0)
    nearer = (means + means[shares.argmax()]) / 2
    moved = on_grid(np.where(known[:, None], values[:, 1:-1] / safe[:, None], nearer))
    variances = _variances(np.array(bells.variances), known, values, reach[:, -1], moved)
    weights = np.clip(np.where(known, shares, bells.weights), LEAST_WEIGHT, None)
    return GaussianMixture(
        bells.schema,
        tuple((weights / weights.sum()).tolist()),
        tuple(tuple(row) for row in moved.tolist()),
        tuple(variances.tolist()),
    )


def _variances(
    before: NDArray[np.float64],
    known: NDArray[np.bool_],
    values: NDArray[np.float64],
    reach: NDArray[np.float64],
    means: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute each component's variance, shrunk to the common one as far as the answers are noise.

    A component that is taken to be narrower than it is loses its users and does not come back, so
    a variance falls by no more than three quarters a round.
    """
    if not known.any():
        return before
    d = means.shape[1]
    shares = np.where(known, values[:, 0], 1.0)
    left = (values[:, -1] - shares * (means**2).sum(axis=1)) / d
    common = max(float(left[known].sum() / shares[known].sum()), LEAST_VARIANCE)
    off = reach / (shares * d)
    trust = common**2 / (common**2 + off**2)
    found = trust * left / shares + (1 - trust) * common
    kept = np.where(known, np.clip(found, before / 4, 1.0), before)
    return np.asarray(np.maximum(kept, LEAST_VARIANCE))


@assess.register
def _(hypothesis: GaussianMixture, learner: Learner[Any], users: Users) -> Assessment:
    return within_clusters(hypothesis, users)


@catalogued(
    "gaussian-mixture",
    version=2,
    summary="a sum of round bells by expectation-maximisation",
    error=WITHIN,
    guess="the mean row as the only centre",
    parameters=(
        ParameterEntry("k", "how many components", "2", kind=ParameterKind.WHOLE),
        COLUMNS,
        ParameterEntry("rounds", "how many steps at most", "8", kind=ParameterKind.WHOLE),
        TAU,
    ),
    population="clusters",
    small=SmallSettings(
        oracles={"clumps": "2", "d": "1", "rounds": "2", "tau": "1/4"},
        fleets={"clumps": "2", "d": "1", "rounds": "2", "tau": "1/2"},
    ),
    held_out=True,
)
def listed_gaussian_mixture(schema: Schema | None, parameters: Text) -> Learner[Any]:
    """Build the learner from text."""
    return gaussian_mixture(
        clusters_schema(2) if schema is None else schema,
        whole("k", parameters["k"]),
        columns_in(parameters),
        whole("rounds", parameters["rounds"]),
        parameters.get("tau"),
    )
