"""Principal components: the directions in which numbers vary most, from their second moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import NO_VALUES, Assessment, Users, assess, chunks
from askance_aggregator.learners.encodings import Number, numbers_of
from askance_aggregator.learners.hypotheses import Document, hypothesis_of
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answers, Batch
from askance_aggregator.learners.missing import (
    CompleteCases,
    MissingShare,
    complete_rows,
    is_excluded,
    share_from,
    share_json,
)
from askance_aggregator.learners.parameters import (
    COLUMNS,
    MISSING,
    PRESENT,
    TAU,
    ParameterEntry,
    ParameterKind,
    Text,
    columns_in,
    whole,
)
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import (
    Rows,
    encoded,
    schema_in,
    schema_to_json,
    some_fields,
)
from askance_aggregator.learners.schemas import plane_schema
from askance_aggregator.learners.second_moments import nearest_semidefinite, second_moments
from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, Schema


@hypothesis_of("pca")
@dataclass(frozen=True, slots=True)
class PrincipalComponents:
    """Orthogonal directions of scaled numbers, by falling variance.

    Args:
        schema: of the fields.
        mean: of each scaled number.
        components: unit vectors, a row a component; its entry of greatest magnitude is positive.
        variances: along each component, >= 0.
        total: the variance of all numbers together.
        missing: estimated share of users who lack one of the fields; all else is over the others.
            None: users who lack one count with its public default.

    Raises:
        InvalidParameter: the parts do not fit together.
    """

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

    def to_json(self) -> dict[str, Any]:
        """Components with their variances."""
        return {
            "summary": str(self),
            "names": self.feature_names_in_.tolist(),
            "components": [list(row) for row in self.components],
            "variances": list(self.variances),
            "total": self.total,
            "mean": list(self.mean),
            "missing": share_json(self.missing),
            "schema": schema_to_json(self.schema),
            "encodings": [str(number) for number in self.columns],
        }

    @classmethod
    def from_json(cls, data: Any) -> PrincipalComponents:
        """The hypothesis that `to_json` wrote.

        Raises:
            InvalidParameter: the data is not of that form.
        """
        document = Document("principal components", data)
        return cls(
            schema=schema_in(document),
            mean=document.numbers("mean"),
            components=document.table("components"),
            variances=document.numbers("variances"),
            total=document.number("total"),
            missing=share_from(document),
        )

    def __str__(self) -> str:
        names = self.feature_names_in_.tolist()
        lines = []
        ratios = self.explained_variance_ratio_.tolist()
        for ratio, row in zip(ratios, self.components, strict=True):
            order = sorted(range(len(row)), key=lambda place: -abs(row[place]))[:5]
            terms = ", ".join(f"{row[place]:+.3f} {names[place]}" for place in order)
            lines.append(f"{ratio:.1%} of the variance: {terms}")
        return "\n".join(lines)


@non_adaptive("pca", version=2)
def principal_components(
    schema: Schema,
    columns: Sequence[str] | None = None,
    components: int = 2,
    tau: Rational | None = None,
    missing: str | None = None,
    present: Rational | None = None,
) -> tuple[Batch, Callable[[Answers], PrincipalComponents]]:
    """The leading eigenvectors of the covariance of scaled numbers, over complete cases.

    Utility: for D numbers at most D (D + 3) / 2 + 1 questions, in one round. If every answer is
    within tau < 1 times the promised share of complete cases, and their share is that or more, a
    ratio of answers is off by less than t = 2 tau / (1 - tau) and each covariance
    E[z_i z_j] - E[z_i] E[z_j] by less than 3 t + t^2 (missing="default": t = tau), so k components
    hold at least the variance of the k best directions less 2 k D (3 t + t^2). Users: of the order
    D^2 log D / (epsilon tau)^2, about 120,000 for four numbers at tau = 1/20, epsilon = 2.

    Args:
        schema: of the records.
        columns: which fields; None: all numbers and bits.
        components: how many, 1 .. D.
        tau: how exactly each moment is wanted; None: as exactly as the population allows.
        missing: "exclude", users who lack one of the fields do not count (None means that), or
            "default", what is missing counts as the middle of its bounds.
        present: a promise that at least this share of users has all fields; it sizes the plan.
            None: all users.

    Raises:
        InvalidParameter: no such field, or a number out of range.

    Source: notes, section 1.2 (Blum et al. 2005, SuLQ); the scales come from the schema.
    """
    names = [name for name, kind in schema.fields.items() if not isinstance(kind, Category)]
    kept = some_fields(schema, names if columns is None else columns)
    numbers = numbers_of(kept)
    if isinstance(components, bool) or not 1 <= components <= len(numbers):
        raise InvalidParameter(
            f"components expects 1..{len(numbers)}, as there are numbers, found {components}"
        )
    complete = CompleteCases.promised(kept, present) if is_excluded("pca", missing) else None
    moments = second_moments(numbers, None if tau is None else rational(tau, "tau"), complete)

    def conclude(answers: Answers) -> PrincipalComponents:
        matrix = moments.matrix(answers)
        mean = matrix[0, 1:]
        covariance = nearest_semidefinite(matrix[1:, 1:] - np.outer(mean, mean))
        values, vectors = np.linalg.eigh(covariance)
        found = [_upright(vectors[:, -1 - place]) for place in range(components)]
        return PrincipalComponents(
            schema=kept,
            mean=tuple(mean.tolist()),
            components=tuple(tuple(row.tolist()) for row in found),
            variances=tuple(max(float(values[-1 - place]), 0.0) for place in range(components)),
            total=max(float(np.trace(covariance)), 0.0),
            missing=moments.missing(answers),
        )

    return moments.batch, conclude


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


@catalogued(
    "pca",
    version=2,
    summary="the directions in which numbers vary most",
    error="the part of the population's variance that the best directions hold beyond those found",
    guess="directions at random, which hold their number's share of the variance on average",
    parameters=(
        COLUMNS,
        ParameterEntry("components", "how many directions", "2", kind=ParameterKind.WHOLE),
        TAU,
        MISSING,
        PRESENT,
    ),
    population="plane",
    small=SmallSettings(
        oracles={"d": "2", "components": "1", "tau": "1/4"}, fleets={"d": "1", "tau": "1/2"}
    ),
)
def listed_principal_components(schema: Schema | None, parameters: Text) -> Learner[Any]:
    """Build the learner from text."""
    return principal_components(
        plane_schema(3) if schema is None else schema,
        columns_in(parameters),
        whole("components", parameters["components"]),
        parameters.get("tau"),
        parameters.get("missing"),
        parameters.get("present"),
    )
