"""k-means: Lloyd's algorithm by the count and the sums of every cluster, one vector per user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import cluster_rounds
from askance_aggregator.learners.assessments import Assessment, Users, assess
from askance_aggregator.learners.centres import (
    MAX_CENTRES,
    WITHIN,
    Points,
    balanced,
    clusters_schema,
    in_units,
    number_schema,
    on_grid,
    sample_in_units,
    scaled,
    scaled_rows,
    shown,
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
from askance_aggregator.queries import EncodedColumns, category, dot, first, index_of, maximum
from askance_aggregator.queries import where as either
from askance_client.errors import InvalidParameter
from askance_client.queries import Expression, Schema, constant


@hypothesis_of("k-means")
@dataclass(frozen=True, slots=True)
class Clusters(JsonObject):
    """A row belongs to the nearest centre, in the box that the schema's bounds scale to [-1, 1].

    Args:
        centres: of the box, a point each.
        shares: raw estimates of the shares of users who have all numbers, one a centre.
        missing: estimated share of users who lack one of the numbers; they are in no cluster.
    """

    json_name: ClassVar = "clusters"
    json_keys: ClassVar = (
        "summary",
        "centres=centres_in_units",
        "shares",
        "scaled=centres",
        "missing",
        "schema",
    )

    schema: Schema
    centres: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]
    missing: MissingShare | None = None

    def __post_init__(self) -> None:
        width = len(scaled(self.schema))
        sizes = {len(centre) for centre in self.centres}
        if sizes != {width} or len(self.shares) != len(self.centres):
            raise InvalidParameter(
                f"clusters expect centres of {width} numbers and a share each,"
                f" got centres of {sorted(sizes)} and {len(self.shares)} shares"
            )

    @property
    def cluster_centers_(self) -> NDArray[np.float64]:
        """The centres in the fields' own units, shape (k, d)."""
        units = in_units(self.schema, self.centres)
        return np.array([list(point.values()) for point in units])

    def points(self, rows: Rows) -> NDArray[np.float64]:
        """Rows as points of the box, shape (n, d); a number that is missing is 0, the middle."""
        return scaled_rows(self.schema, rows)

    def distances(self, rows: Rows) -> NDArray[np.float64]:
        """The squared distance of each row to each centre in the box, shape (n, k)."""
        apart = self.points(rows)[:, None, :] - np.array(self.centres)[None]
        return np.asarray((apart**2).sum(axis=2))

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        """The number of the nearest centre, shape (n,)."""
        return np.asarray(self.distances(rows).argmin(axis=1))

    @property
    def centres_in_units(self) -> list[dict[str, float]]:
        """Centres by field, in the fields' units."""
        return in_units(self.schema, self.centres)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per centre: its share of users, and its place in fields' units."""
        pairs = zip(self.shares, in_units(self.schema, self.centres), strict=True)
        return [{"share": share, "centre": centre} for share, centre in pairs]

    def present(self) -> Presentation:
        """Return a line per centre, the one with the most users first."""
        return Presentation(lines=tuple(str(self).split("; ")), missing=named_share(self.missing))

    def to_shape(self) -> Centres:
        """Return the centres in the fields' units."""
        names = tuple(part.name for part in scaled(self.schema))
        return Centres(names, tuple(map(tuple, self.cluster_centers_.tolist())), self.shares)

    def tested_shape(self, rows: EncodedColumns) -> Centres:
        """Return the centres over some rows."""
        return replace(self.to_shape(), points=sample_in_units(self.schema, rows))

    def __str__(self) -> str:
        points = in_units(self.schema, self.centres)
        pairs = sorted(zip(points, self.shares, strict=True), key=lambda pair: -pair[1])
        return "; ".join(
            f"{min(max(share, 0.0), 1.0):.1%} at {shown(point)}" for point, share in pairs
        )


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    given, k = cluster_rounds.RoundSettings.of(arguments), arguments["k"]
    parts = scaled(number_schema("k-means", arguments["schema"], arguments["columns"]))
    centres = np.zeros((k, len(parts)))
    return cluster_rounds.settled_rounds(
        given, k, lambda clip: _sums(parts, centres, clip), conditions
    )


@catalogued(
    summary="centres of clusters of numbers (Lloyd)",
    error=WITHIN,
    guess="the mean row as the only centre",
    example=lambda: clusters_schema(2),
    population="clusters",
    small=SmallSettings(
        oracles={"clumps": "2", "d": "1", "k": "2", "rounds": "2", "tau": "1/4"},
        fleets={"clumps": "2", "d": "1", "k": "2", "rounds": "2", "tau": "1/2"},
    ),
    held_out=True,
)
@adaptive("k-means", version=2, settle=_settle)
def k_means(
    schema: Schema,
    k: Annotated[int, "how many centres"] = 3,
    columns: Columns = None,
    rounds: cluster_rounds.Rounds = None,
    tau: Tau = None,
    clip: cluster_rounds.Clip = None,
) -> Learning[Clusters]:
    """Run Lloyd's algorithm from points about the users' mean, by one vector question per round.

    Users who lack one of the numbers are in no cluster: centres and shares are over the others, and
    how many lack one is estimated by the last round.

    Utility: `rounds` + 2 rounds of one question each, to users of its own: means and variances of
    the numbers; then per step a vector of k (d + 1) components, the count and the differences from
    the centre of the user's own cluster; at last the cluster itself (k + 1 cells), of which the
    shares are. A centre whose share cannot be distinguished from none goes half of the way to that
    of the greatest share. What is concluded is the mean of the centres of the last half of the
    steps. With `tau` every component is off by less than that; if a step then shows no empty
    cluster and no centre off its cluster's mean, it stops and concludes these centres, whose
    E[(x - c) 1[x in the cluster of c]], drawn back to the clip, is below 4 tau in every coordinate.
    There is no promise about the distance to the best k centres: Lloyd's algorithm has none.

    `clip`, in (0, 8], is the distance from its centre beyond which only a record's direction
    counts; there is none where the noise is unknown. There are 16 rounds where users are unknown.

    Raises:
        InvalidParameter: an argument is out of range: k in 1 .. 64, with d columns at most
            1,024 / (d + 1), and rounds in 1 .. 10,000.

    Source: Blum et al. 2005 ("SuLQ"), k-means; Lloyd 1982.

    Example:
        >>> people = ask.Population.generated("clusters", users=2_000, clumps=2, d=2)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> learner = ask.learners.k_means(k=2, rounds=2, tau="1/100")
        >>> ask.learn(learner, oracle).cluster_centers_.shape
        (2, 2)
    """
    features = number_schema("k-means", schema, columns)
    whole_within(k, 1, MAX_CENTRES, "k-means: k")
    return _lloyd(features, k, cluster_rounds.RoundSettings(rounds, clip, tau))


def _lloyd(schema: Schema, k: int, given: cluster_rounds.RoundSettings) -> Learning[Clusters]:
    parts, tau = scaled(schema), given.tolerance
    (answer,) = yield Batch([cluster_rounds.start_question(schema, tau)])
    centres = cluster_rounds.Start.of(answer, tau).points(k)
    shares = np.full(k, 1 / k)
    late: list[Points] = []
    for number in range(given.steps):
        (answer,) = yield Batch([_sums(parts, centres, given.reach(len(parts)), tau)])
        table = np.array(answer.values).reshape(k, -1)
        step = cluster_rounds.Step.of(table[:, 0], table[:, 1:], shares, reach_of(answer, tau))
        if tau is not None and step.settled:
            late = [centres]
            break
        centres, shares = step.taken(centres), step.shares
        if cluster_rounds.is_late(number, given.steps):
            late.append(centres)
    centres = on_grid(np.mean(late, axis=0))
    (count,) = yield Batch([_cell_question(parts, centres, tau)])
    having = 1 - count.values[k]
    found = np.array(count.values[:k]) / having if having > 0 else np.zeros(k)
    missing = MissingShare.of_cell(count, k)
    points = tuple(tuple(row) for row in centres.tolist())
    return Clusters(schema, points, tuple(found.tolist()), missing)


def nearest(parts: Sequence[Number], centres: Points) -> Expression:
    """The number of the nearest centre, the first of equals: a category of k cells."""
    # |x - c|^2 is least where c.x - |c|^2/2 is greatest.
    scores = [
        dot([*centre, -float(centre @ centre) / 2], [*(p.expression for p in parts), 1], _FINE)
        for centre in centres
    ]
    best = balanced(maximum, scores)
    return first([value >= best for value in scores[:-1]] or [scores[0] >= best])


_FINE = 2 * SCALE_BITS + 1  # |c|^2/2 lies on it


def _cell_question(parts: Sequence[Number], centres: Points, tau: Fraction | None) -> Question:
    """Ask for the cluster; users without a number have the last cell."""
    k, cell = len(centres), index_of(nearest(parts, centres))
    return Question(category(either(cell >= 0, cell, k), default=k), tau)


def _sums(
    parts: Sequence[Number], centres: Points, clip: Fraction, tau: Fraction | None = None
) -> Question:
    """Ask for the count and the differences of every cluster, as one vector."""
    cell = index_of(nearest(parts, centres))
    components: list[Expression] = []
    for place, centre in enumerate(centres.tolist()):
        own = cell == place
        components.append(either(own, constant(cluster_rounds.COUNT, 1), 0))
        for part, value in zip(parts, centre, strict=True):
            apart = part.expression - constant(value, SCALE_BITS)
            components.append(either(own, apart, 0))
    return cluster_rounds.sums_question(components, cluster_rounds.COUNT**2 + clip**2, tau)


@assess.register
def _(hypothesis: Clusters, learner: Learner[Any], users: Users) -> Assessment:
    return within_clusters(hypothesis, users)
