"""k-means: Lloyd's algorithm by the count and the sums of every cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import Assessment, Users, assess
from askance_aggregator.learners.centres import (
    WITHIN,
    Points,
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
    within_clusters,
)
from askance_aggregator.learners.encodings import SCALE_BITS, Number
from askance_aggregator.learners.hypotheses import Document, hypothesis_of
from askance_aggregator.learners.learner import Learner, adaptive
from askance_aggregator.learners.learning import Answer, Batch, Learning, Question
from askance_aggregator.learners.missing import MissingShare, share_from, share_json
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
    category,
    dot,
    first,
    index_of,
    maximum,
    real,
)
from askance_aggregator.queries import where as either
from askance_client.errors import InvalidParameter
from askance_client.queries import Expression, Schema


@hypothesis_of("k-means")
@dataclass(frozen=True, slots=True)
class Clusters:
    """A row belongs to the nearest centre, in the box that the schema's bounds scale to [-1, 1].

    Args:
        schema: of the numbers.
        centres: of the box, a point each.
        shares: raw estimates of the shares of users who have all numbers, one a centre.
        missing: estimated share of users who lack one of the numbers; they are in no cluster.

    Raises:
        InvalidParameter: there is no centre, or the parts have different sizes.
    """

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

    def to_json(self) -> dict[str, Any]:
        """Return {"summary", "centres" (in fields' units), "shares", "scaled", ..., "schema"}."""
        return {
            "summary": str(self),
            "centres": in_units(self.schema, self.centres),
            "shares": list(self.shares),
            "scaled": [list(centre) for centre in self.centres],
            "missing": share_json(self.missing),
            "schema": schema_to_json(self.schema),
        }

    @classmethod
    def from_json(cls, data: Any) -> Clusters:
        """The clusters that `to_json` wrote.

        Raises:
            InvalidParameter: the data is not of that form.
        """
        document = Document("clusters", data)
        return cls(
            schema_in(document),
            document.table("scaled"),
            document.numbers("shares"),
            share_from(document),
        )

    def present(self) -> Presentation:
        """Return a line per centre, the one with the most users first."""
        notes = () if self.missing is None else self.missing.notes()
        return Presentation(lines=tuple(str(self).split("; ")), notes=notes)

    def __str__(self) -> str:
        points = in_units(self.schema, self.centres)
        pairs = sorted(zip(points, self.shares, strict=True), key=lambda pair: -pair[1])
        return "; ".join(
            f"{min(max(share, 0.0), 1.0):.1%} at {shown(point)}" for point, share in pairs
        )


@adaptive("k-means", version=1)
def k_means(
    schema: Schema,
    k: int = 3,
    columns: Sequence[str] | None = None,
    rounds: int = 5,
    tau: Rational | None = None,
) -> Learning[Clusters]:
    """Run Lloyd's algorithm from points that are spread over the schema's bounds.

    Users who lack one of the numbers are in no cluster: centres and shares are over the others, and
    how many lack one is estimated by the last round.

    Utility: at most `rounds` rounds of 1 + k d questions: which cluster (k + 1 cells), and for each
    cluster and number the mean of the number where the user is in the cluster, else 0. Users are as
    for this many questions, each with a group of its own. A centre whose share cannot be
    distinguished from none goes half of the way to that of the greatest share. It stops early where
    there is no such centre and none is found to be off its cluster's mean. With `tau` every answer
    is off by less than that, and if it stops early, E[(x - c) 1[x in the cluster of c]] is below 4
    tau in every coordinate. Without one the users are divided evenly over all questions. There is
    no promise about the distance to the best k centres: Lloyd's algorithm has none.

    Args:
        schema: of the records.
        k: how many centres, 1 .. 64.
        columns: numbers; None: all Integer and Real fields.
        rounds: maximum number of rounds, 1 .. 10,000.
        tau: how exactly shares and sums are wanted, in the box; None: as the users allow.

    Raises:
        InvalidParameter: an argument is out of range.

    Source: Blum et al. 2005 ("SuLQ"), k-means; Lloyd 1982.
    """
    features = number_schema("k-means", schema, columns)
    check_count("k-means", k)
    check_rounds(rounds)
    return _lloyd(features, k, rounds, None if tau is None else rational(tau, "tau"))


def _lloyd(schema: Schema, k: int, rounds: int, tau: Fraction | None) -> Learning[Clusters]:
    parts = scaled(schema)
    centres = spread_points(k, len(parts))
    for _ in range(rounds):
        count, *sums = yield Batch(_questions(parts, centres, tau))
        moved = _moved(centres, count, sums, tau)
        if moved is None:
            break
        centres = moved
    having = 1 - count.values[k]
    shares = np.array(count.values[:k]) / having if having > 0 else np.zeros(k)
    missing = MissingShare.of_cell(count, k)
    points = tuple(tuple(row) for row in centres.tolist())
    return Clusters(schema, points, tuple(shares.tolist()), missing)


def nearest(parts: Sequence[Number], centres: Points) -> Expression:
    """The number of the nearest centre, the first of equals: a category of k cells.

    |x - c|^2 is least where c.x - |c|^2/2 is greatest.
    """
    scores = [
        dot([*centre, -float(centre @ centre) / 2], [*(p.expression for p in parts), 1], _FINE)
        for centre in centres
    ]
    best = balanced(maximum, scores)
    return first([value >= best for value in scores[:-1]] or [scores[0] >= best])


_FINE = 2 * SCALE_BITS + 1  # |c|^2/2 lies on it


def _questions(
    parts: Sequence[Number], centres: Points, tau: Fraction | None
) -> Iterator[Question]:
    k = len(centres)
    cell = index_of(nearest(parts, centres))
    yield Question(category(either(cell >= 0, cell, k), default=k), tau)  # k: users without numbers
    for place in range(k):
        for part in parts:
            yield Question(real(either(cell == place, part.expression, 0), default=0), tau)


def _moved(
    centres: Points, count: Answer, sums: Sequence[Answer], tau: Fraction | None
) -> Points | None:
    """Compute the means of the clusters; None if no centre has moved beyond its error."""
    k, d = centres.shape
    shares = np.array(count.values[:k])
    totals = np.array([answer.value for answer in sums]).reshape(k, d)
    off = np.array([reach_of(answer, tau) for answer in sums]).reshape(k, d)
    known = shares > reach_of(count, tau)
    gap = np.abs(totals - centres * shares[:, None])
    told = known[:, None] & (gap > off + np.abs(centres) * reach_of(count, tau))
    if known.all() and not told.any():
        return None
    means = totals / np.where(known, shares, 1.0)[:, None]
    nearer = (centres + centres[shares.argmax()]) / 2
    return on_grid(np.where(known[:, None], means, nearer))


@assess.register
def _(hypothesis: Clusters, learner: Learner[Any], users: Users) -> Assessment:
    return within_clusters(hypothesis, users)


@catalogued(
    "k-means",
    version=1,
    summary="centres of clusters of numbers (Lloyd)",
    error=WITHIN,
    guess="the mean row as the only centre",
    parameters=(
        ParameterEntry("k", "how many centres", "3", kind=ParameterKind.WHOLE),
        COLUMNS,
        ParameterEntry("rounds", "how many steps at most", "5", kind=ParameterKind.WHOLE),
        TAU,
    ),
    population="clusters",
    small=SmallSettings(
        oracles={"clumps": "2", "d": "1", "k": "2", "rounds": "2", "tau": "1/4"},
        fleets={"clumps": "2", "d": "1", "k": "2", "rounds": "2", "tau": "1/2"},
    ),
    held_out=True,
)
def listed_k_means(schema: Schema | None, parameters: Text) -> Learner[Any]:
    """Build the learner from text."""
    return k_means(
        clusters_schema(2) if schema is None else schema,
        whole("k", parameters["k"]),
        columns_in(parameters),
        whole("rounds", parameters["rounds"]),
        parameters.get("tau"),
    )
