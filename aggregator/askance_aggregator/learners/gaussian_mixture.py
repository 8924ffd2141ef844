"""Gaussian mixtures: expectation-maximisation by the moments of all components, as one vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import log, sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator import queries
from askance_aggregator.learners import cluster_rounds
from askance_aggregator.learners.assessments import Assessment, Users, assess
from askance_aggregator.learners.centres import (
    WITHIN,
    balanced,
    clusters_schema,
    in_units,
    number_schema,
    on_grid,
    sample_in_units,
    scaled,
    scaled_rows,
    shown,
    squared_length,
    within_clusters,
)
from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.encodings import SCALE_BITS, Number
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Learner, adaptive
from askance_aggregator.learners.learning import Batch, Learning, Question, reach_of
from askance_aggregator.learners.missing import MissingShare, named_share
from askance_aggregator.learners.parameters import Columns, Tau
from askance_aggregator.learners.presentation import Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import Rows
from askance_aggregator.learners.shapes import Centres
from askance_aggregator.numbers import whole_within
from askance_client.errors import InvalidParameter
from askance_client.queries import Expression, Schema, constant

COEFFICIENT_BITS = 8
LEAST_VARIANCE = 2.0**-9  # of the box; narrower bells need finer numbers than it has
MAX_COMPONENTS = 16
LEAST_WEIGHT = 2.0**-10
_SUM_BITS = 16
_FINE = 2 * SCALE_BITS + 1  # |c|^2/2 lies on it
_TANGENTS = (0.0, 0.6, 1.265, 2.084, 3.618)  # where lines touch ln(1 + e^-u)
_LIFT = 0.008  # half of the greatest gap that would be left between them and the curve


@hypothesis_of("gaussian-mixture")
@dataclass(frozen=True, slots=True)
class GaussianMixture(JsonObject):
    """A sum of round bells, in the box that the schema's bounds scale to [-1, 1].

    Args:
        weights: of the components, positive, of sum 1.
        means: points of the box.
        variances: one a component, the same in every direction.
        missing: estimated share of users who lack one of the numbers; the mixture is of the others.
    """

    json_name: ClassVar = "Gaussian mixture"
    json_keys: ClassVar = (
        "summary",
        "weights",
        "means=means_in_units",
        "scaled=means",
        "variances",
        "missing",
        "schema",
    )

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

        They are on the grid that a question has them on.
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

    @property
    def means_in_units(self) -> list[dict[str, float]]:
        """Means by field, in the fields' units."""
        return in_units(self.schema, self.means)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per component: weight, variance (scaled), means in fields' units."""
        columns = zip(self.weights, self.variances, in_units(self.schema, self.means), strict=True)
        return [
            {"weight": weight, "variance": variance, "mean": mean}
            for weight, variance, mean in columns
        ]

    def present(self) -> Presentation:
        """Return a line per component, the one with the greatest weight first."""
        return Presentation(lines=tuple(str(self).split("; ")), missing=named_share(self.missing))

    def to_shape(self) -> Centres:
        """Return the means in the fields' units, with the deviations of the components."""
        parts = scaled(self.schema)
        means = (tuple(point.values()) for point in in_units(self.schema, self.means))
        halves = [float(part.high - part.low) / 2 for part in parts]
        deviations = (tuple(variance**0.5 * half for half in halves) for variance in self.variances)
        names = tuple(part.name for part in parts)
        return Centres(names, tuple(means), self.weights, tuple(deviations))

    def tested_shape(self, rows: queries.EncodedColumns) -> Centres:
        """Return the components over some rows."""
        return replace(self.to_shape(), points=sample_in_units(self.schema, rows))

    def __str__(self) -> str:
        parts = sorted(
            zip(self.weights, in_units(self.schema, self.means), self.variances, strict=True),
            key=lambda part: -part[0],
        )
        return "; ".join(
            f"{weight:.1%} about {shown(mean)} (scaled deviation {variance**0.5:.2g})"
            for weight, mean, variance in parts
        )


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    given, k = cluster_rounds.RoundSettings.of(arguments), arguments["k"]
    schema = number_schema("gaussian-mixture", arguments["schema"], arguments["columns"])
    d = len(scaled(schema))
    bells = GaussianMixture(schema, (1 / k,) * k, ((0.0,) * d,) * k, (1.0,) * k)
    return cluster_rounds.settled_rounds(given, k, lambda clip: _sums(bells, clip), conditions)


@catalogued(
    summary="clusters of numbers as Gaussians, by expectation-maximisation",
    error=WITHIN,
    guess="the mean row as the only centre",
    example=lambda: clusters_schema(2),
    population="clusters",
    small=SmallSettings(
        oracles={"clumps": "2", "d": "1", "rounds": "2", "tau": "1/4"},
        fleets={"clumps": "2", "d": "1", "rounds": "2", "tau": "1/2"},
    ),
    held_out=True,
)
@adaptive("gaussian-mixture", version=3, settle=_settle)
def gaussian_mixture(
    schema: Schema,
    k: Annotated[int, "how many components"] = 2,
    columns: Columns = None,
    rounds: cluster_rounds.Rounds = None,
    tau: Tau = None,
    clip: cluster_rounds.Clip = None,
) -> Learning[GaussianMixture]:
    """Fit a mixture of round Gaussians by expectation-maximisation, from points about the mean.

    A device computes its own responsibilities: of two components the logistic function of a
    quadratic form, of more the same with ln(e^a + e^b) by straight lines, off by less than 0.01 a
    further component (so a responsibility is off by less than (k - 2)/400, beside the table's).

    Users who lack one of the numbers count for no component: the mixture is of the others.

    Utility: `rounds` + 1 rounds of one vector question each, to users of its own: means and
    variances of the numbers, and the share of users who have them all; then per step k (d + 2)
    components, the means of each responsibility r, of r (x - mean) and of r |x - mean|^2. A mean
    whose component may be empty, within the error, goes half of the way to that of the greatest.
    What is concluded is the mean of the last half of the steps (of variances: the geometric). With
    `tau` every component is off by less than that; if a step then shows no empty component and no
    mean off its place, it stops and concludes these means, whose E[r (x - mean)], drawn back to the
    clip, is below 4 tau in every coordinate. There is no promise about the likelihood:
    expectation-maximisation has none.

    `clip`, in (0, 8], is the distance from its mean beyond which only a record's direction counts;
    there is none where the noise is unknown. There are 16 rounds where users are unknown.

    Raises:
        InvalidParameter: an argument is out of range: k in 1 .. 16, as a device allows no deeper
            expressions, and rounds in 1 .. 10,000.

    Source: notes, section 1.2; Chu et al. 2007 (EM by sums); Dempster, Laird and Rubin 1977.
        Deviations: components are round, variances are shrunk to the common one as far as they are
        noise, and to that of the first round.

    Example:
        >>> people = ask.Population.generated("clusters", users=2_000, clumps=2, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.gaussian_mixture(k=2, rounds=2, tau="1/100")
        >>> len(ask.learn(learner, oracle).weights)
        2
    """
    features = number_schema("gaussian-mixture", schema, columns)
    whole_within(k, 1, MAX_COMPONENTS, "gaussian-mixture: k")
    return _maximise(features, k, cluster_rounds.RoundSettings(rounds, clip, tau))


def _maximise(
    schema: Schema, k: int, given: cluster_rounds.RoundSettings
) -> Learning[GaussianMixture]:
    parts, tau = scaled(schema), given.tolerance
    (answer,) = yield Batch([cluster_rounds.start_question(schema, tau)])
    start = cluster_rounds.Start.of(answer, tau)
    first = max(start.inner_variance(k), LEAST_VARIANCE)
    means = start.points(k).tolist()
    bells = GaussianMixture(schema, (1 / k,) * k, tuple(map(tuple, means)), (first,) * k)
    late: list[GaussianMixture] = []
    for number in range(given.steps):
        (answer,) = yield Batch([_sums(bells, given.reach(len(parts)), tau)])
        table = np.array(answer.values).reshape(k, -1)
        weights = np.array(bells.weights)
        step = cluster_rounds.Step.of(table[:, 0], table[:, 1:-1], weights, reach_of(answer, tau))
        if tau is not None and step.settled:
            late = [bells]
            break
        bells = _moved(bells, step, table[:, -1] / float(cluster_rounds.COUNT), first)
        if cluster_rounds.is_late(number, given.steps):
            late.append(bells)
    return replace(_mean_of(late), missing=start.missing)


def _mean_of(mixtures: Sequence[GaussianMixture]) -> GaussianMixture:
    """Return the mixture with the mean of weights, means and logarithms of variances."""
    means = on_grid(np.mean([bells.means for bells in mixtures], axis=0))
    weights = np.mean([bells.weights for bells in mixtures], axis=0)
    variances = np.exp(np.mean(np.log([bells.variances for bells in mixtures]), axis=0))
    return replace(
        mixtures[0],
        weights=tuple((weights / weights.sum()).tolist()),
        means=tuple(map(tuple, means.tolist())),
        variances=tuple(variances.tolist()),
    )


def responsibilities(parts: Sequence[Number], bells: GaussianMixture) -> tuple[Expression, ...]:
    """P[component | record] as expressions."""
    terms = [*(part.expression for part in parts), squared_length(parts), constant(1)]
    logs = [
        queries.round_to(queries.dot(row, terms, COEFFICIENT_BITS), SCALE_BITS)
        for row in bells.coefficients.tolist()
    ]
    if len(logs) == 1:
        return (constant(1),)
    pairs = zip(logs, _others(logs), strict=True)
    return tuple(queries.sigmoid(own - rest) for own, rest in pairs)


def _others(logs: Sequence[Expression]) -> list[Expression]:
    """Return for each the ln of the sum of all others' exponentials."""
    # Halves share the sums of the other half: k log2 k sums and no deeper than one of all.
    if len(logs) == 2:
        return [logs[1], logs[0]]
    middle = (len(logs) + 1) // 2
    found = []
    for own, other in ((logs[:middle], logs[middle:]), (logs[middle:], logs[:middle])):
        beside = balanced(_log_of_sum, other)
        if len(own) == 1:
            found.append(beside)
        else:
            found += [_log_of_sum(rest, beside) for rest in _others(own)]
    return found


def _log_of_sum(one: Expression, other: Expression) -> Expression:
    """ln(e^one + e^other) = the greater + ln(1 + e^-u), u their distance; by lines."""
    apart = queries.absolute(one - other)
    lines = [constant(0.0)]
    for point in _TANGENTS:
        slope = 1 / (1 + np.exp(point))
        height = log(1 + np.exp(-point)) + slope * point + (_LIFT if point else 0.0)
        lines.append(queries.dot([-slope, height], [apart, 1], 2 * COEFFICIENT_BITS))
    curve = reduce(queries.maximum, lines)
    return queries.maximum(one, other) + queries.round_to(curve, SCALE_BITS)


def _sums(bells: GaussianMixture, clip: Fraction, tau: Fraction | None = None) -> Question:
    """Ask for the responsibilities, the differences and squared distances, as one vector."""
    schema, half = bells.schema, constant(cluster_rounds.COUNT, 1)
    parts = scaled(schema)
    length = squared_length(parts)
    terms = [*(part.expression for part in parts), length, constant(1)]
    components: list[Expression] = []
    for own, mean in zip(responsibilities(parts, bells), bells.means, strict=True):
        components.append(own * half)
        for part, value in zip(parts, mean, strict=True):
            apart = part.expression - constant(value, SCALE_BITS)
            components.append(queries.round_to(own * apart, _SUM_BITS))
        squares = sum(value * value for value in mean)
        row = [*(-value for value in mean), 0.5, squares / 2]  # half of the squared distance
        components.append(
            queries.round_to(
                own * queries.round_to(queries.dot(row, terms, _FINE), SCALE_BITS), _SUM_BITS
            )
        )
    asked = cluster_rounds.sums_question(
        components, cluster_rounds.COUNT**2 + clip**2 + (cluster_rounds.COUNT * clip**2) ** 2, tau
    )
    fields = {name: schema[name] for name in schema.fields}
    return Question(queries.of_complete(asked.query, fields), tau, length=asked.length)


def _moved(
    bells: GaussianMixture, step: cluster_rounds.Step, spreads: NDArray[np.float64], first: float
) -> GaussianMixture:
    """Compute the mixture after a step."""
    # `spreads` is E[r |x - mean|^2] of each component, shape (k,).
    means = step.taken(np.array(bells.means))
    variances = _variances(np.array(bells.variances), step, spreads, first)
    weights = np.clip(np.where(step.known, step.shares, bells.weights), LEAST_WEIGHT, None)
    return replace(
        bells,
        weights=tuple((weights / weights.sum()).tolist()),
        means=tuple(map(tuple, means.tolist())),
        variances=tuple(variances.tolist()),
    )


def _variances(
    before: NDArray[np.float64],
    step: cluster_rounds.Step,
    spreads: NDArray[np.float64],
    first: float,
) -> NDArray[np.float64]:
    """Compute each component's variance, shrunk to the common one as far as it is noise."""
    # The common one is shrunk to that of the first round likewise. A component that is taken to be
    # narrower than it is loses its users and does not come back, so a variance falls by no more
    # than three quarters a round, and not below what the noise lets it be told from 0.
    known, d = step.known, step.moves.shape[1]
    if not known.any():
        return before
    shares = np.where(known, step.shares, 1.0)
    left = (spreads - shares * (step.moves**2).sum(axis=1)) / d
    reach = step.reach / float(cluster_rounds.COUNT) / d
    pooled = max(float(left[known].sum() / shares[known].sum()), LEAST_VARIANCE)
    common = _shrunk(pooled, reach * sqrt(known.sum()) / shares[known].sum(), first)
    off = reach / shares
    found = _shrunk(np.maximum(left / shares, LEAST_VARIANCE), off, common)
    least = np.maximum(np.minimum(off, common), before / 4)
    kept = np.where(known, np.clip(found, np.minimum(least, 1.0), 1.0), before)
    return np.asarray(np.maximum(kept, LEAST_VARIANCE))


def _shrunk(raw: Any, off: Any, prior: float) -> Any:
    """Shrink estimates towards a positive prior by their error beside it."""
    trust = prior**2 / (prior**2 + off**2)
    return trust * raw + (1 - trust) * prior


@assess.register
def _(hypothesis: GaussianMixture, learner: Learner[Any], users: Users) -> Assessment:
    return within_clusters(hypothesis, users)
