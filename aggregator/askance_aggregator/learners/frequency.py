"""The share of users in each cell of a category: a histogram."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from askance_aggregator.learners import assessments
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, named_rows
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.parameters import Parameter, ParameterKind, field_named
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.shares import nearest_distribution
from askance_aggregator.numbers import Rational, rational, whole_within
from askance_aggregator.queries import as_query, category
from askance_client.errors import InvalidQuery
from askance_client.queries import Category, Expression, Integer, Query, QueryKind, Schema
from askance_client.queries.categories import cell_names
from askance_client.queries.limits import MAX_CELLS, MAX_LABELS


@hypothesis_of("frequency")
@dataclass(frozen=True, slots=True)
class FrequencyEstimate(JsonObject):
    """The raw, unbiased share of each cell, with intervals that hold together.

    Raw shares may be negative and need not sum to 1; `projected` has a distribution.
    """

    json_name: ClassVar = "frequency"

    cells: tuple[str, ...]
    answer: Answer

    def projected(self) -> tuple[float, ...]:
        """The distribution that is nearest to the raw shares: not negative, of sum 1.

        Utility: by Euclidean distance over all cells never farther from the truth than the raw
        shares, and much nearer where users are few: over 1,024 cells at epsilon 1 with 10^4 users
        about a twentieth of the squared error. It is biased (no share is left negative, and all
        others pay for that alike), so it has no intervals: `answer` has those.
        """
        return tuple(nearest_distribution(self.answer.values).tolist())

    def to_json(self) -> dict[str, Any]:
        """Return {CELL: {"estimate": ..., "low": ..., "high": ..., "projected": ...}}."""
        answer = self.answer
        return named_rows(
            self.cells,
            estimate=answer.values,
            low=answer.lows,
            high=answer.highs,
            projected=self.projected(),
        )

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the estimates, which have the names of the cells."""
        return cls(tuple(document.data), Answer(*document.columns("estimate", "low", "high")))

    def present(self) -> Presentation:
        """Return a row per cell, the projected shares beside the raw ones."""
        answer = self.answer
        rows = zip(
            self.cells, answer.values, answer.lows, answer.highs, self.projected(), strict=True
        )
        return Presentation(tuple(EstimateRow(*row) for row in rows), shares=True)

    def __str__(self) -> str:
        rows = zip(self.cells, self.answer.values, self.answer.lows, self.answer.highs, strict=True)
        return "\n".join(
            f"{cell}: {value:.4g} ({low:.4g} .. {high:.4g})" for cell, value, low, high in rows
        )


def _cells_schema(
    cells: Annotated[int, "how many cells, to plan without data (16)"] = 16,
) -> Schema:
    """A category of so many cells; a number's values, where a category has not as many."""
    whole_within(cells, 2, MAX_CELLS, "cells")
    if cells > MAX_LABELS:
        return Schema("frequency", 1, cell=Integer(0, cells - 1))
    return Schema("frequency", 1, cell=Category(range(cells)))


def _category(learner: str, schema: Schema, asked: str | None) -> Query | Expression:
    """Return the category asked for; of a schema to plan with, the values of its number."""
    if asked is None and [*map(type, schema.fields.values())] == [Integer]:
        (cell,) = schema.fields
        return category(schema[cell])
    return schema[field_named(learner, schema, (Category,), asked)]


@catalogued(
    summary="the share of users in each cell of a category",
    error="greatest distance of an estimated share from the population's, over cells",
    guess="the same share for every cell",
    success=assessments.ALL_COVER,
    example=_cells_schema,
    population="categories",
    small=SmallSettings(oracles={"tau": "1/10"}, fleets={"tau": "1/5"}),
)
@non_adaptive("frequency", version=1)
def frequency(
    query: Annotated[
        Query | Expression,
        Parameter(
            "the category (default: the label, or the only one)",
            ParameterKind.FIELD,
            name="column",
            read=_category,
        ),
    ],
    tau: Annotated[
        Rational | None, "tolerance of each share (default: what the users allow)"
    ] = None,
) -> tuple[Batch, Callable[[Answers], FrequencyEstimate]]:
    """Ask one categorical question of all users.

    Utility: unbiased for every cell; the interval of each holds jointly with all others.

    Raises:
        InvalidQuery: it is not a category: a field, `bucketize`, `first`, or a query made of one.

    Example:
        >>> schema = ask.Schema("people", colour=ask.Category(["red", "green"]))
        >>> oracle = ask.ExactOracle(schema, {"colour": ["red", "green", "red", "red"]})
        >>> ask.learn(ask.learners.frequency("colour"), oracle).answer.values
        (0.75, 0.25)
    """
    asked = as_query(query)
    if asked.kind is not QueryKind.CATEGORY:
        raise InvalidQuery(f"frequency expects a category, found a {asked.kind.name} query")
    question = Question(asked, None if tau is None else rational(tau, "tau"))

    def conclude(answers: Answers) -> FrequencyEstimate:
        return FrequencyEstimate(tuple(cell_names(asked)), answers[0])

    return Batch([question]), conclude


@assessments.assess.register
def _(
    hypothesis: FrequencyEstimate, learner: Learner[Any], users: assessments.Users
) -> assessments.Assessment:
    query = assessments.only_query(learner, QueryKind.CATEGORY)
    if query is None:
        return assessments.Assessment(None, None)
    answer = hypothesis.answer
    even = 1 / len(answer.values)
    guess = (even,) * len(answer.values)
    (truth,) = users.totals([query])
    return assessments.covers(answer.values, answer.lows, answer.highs, truth.shares(), guess, even)
