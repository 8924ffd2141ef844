"""Marginals: the joint shares of every k of some fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from math import comb, prod
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import ALL_COVER, Assessment, Users, assess, covers
from askance_aggregator.learners.encodings import columns_of, joint
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, parts_in
from askance_aggregator.learners.learner import Learner, NonAdaptive, non_adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.parameters import Columns, Tau
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import some_fields
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.learners.shapes import Intervals, ResultShape, Tables, TwoWayTable
from askance_aggregator.learners.shares import nearest_distribution
from askance_aggregator.numbers import rational, whole_within
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Schema

MAX_TABLES = 4096


@dataclass(frozen=True, slots=True)
class Marginal(JsonObject):
    """The joint shares of some columns of cells.

    Args:
        answer: the raw, unbiased share of each joint cell in C order, the last column varying
            fastest; then, last, the share of users without a value of a field.
    """

    json_keys: ClassVar = (
        "columns=named_cells",
        "estimates=answer.values",
        "lows=answer.lows",
        "highs=answer.highs",
    )

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    answer: Answer

    def __post_init__(self) -> None:
        count = prod(self.shape) + 1
        if len(self.labels) != len(self.columns) or len(self.answer.values) != count:
            raise InvalidParameter(
                f"Marginal expects labels per column and {count} shares,"
                f" got {len(self.labels)} labels and {len(self.answer.values)} shares"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each column."""
        return tuple(len(labels) for labels in self.labels)

    @property
    def table(self) -> NDArray[np.float64]:
        """The raw shares; some may be negative."""
        return np.array(self.answer.values[:-1]).reshape(self.shape)

    @property
    def distribution(self) -> NDArray[np.float64]:
        """The nearest shares that could be: none negative, of sum 1 with those who are missing."""
        return nearest_distribution(self.answer.values)[:-1].reshape(self.shape)

    @property
    def missing(self) -> float:
        """The share of records that lack a field."""
        return self.answer.values[-1]

    @property
    def named_cells(self) -> list[dict[str, Any]]:
        """Columns with the names of their cells."""
        pairs = zip(self.columns, self.labels, strict=True)
        return [{"name": name, "cells": cells} for name, cells in pairs]

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the marginal; each column has its name and its cells."""
        columns = document.parts("columns")
        return cls(
            columns=tuple(column.text("name") for column in columns),
            labels=tuple(column.read("cells", tuple[str, ...]) for column in columns),
            **parts_in(cls, document),
        )

    def two_way(self) -> TwoWayTable:
        """Return the nearest distribution; the cells of all columns but the last go up."""
        *up, across = self.columns
        *cells, last = self.labels
        values = self.distribution.reshape(-1, len(last)).tolist()
        names = tuple(map(", ".join, product(*cells)))
        return TwoWayTable(", ".join(up), across, names, last, tuple(map(tuple, values)))

    def rows(self) -> tuple[EstimateRow, ...]:
        """Return a row per cell, and one for the users who lack a field."""
        answer, table = self.answer, " x ".join(self.columns)
        names = (*map(", ".join, product(*self.labels)), "(a value is missing)")
        projected = nearest_distribution(answer.values).tolist()
        parts = zip(names, answer.values, answer.lows, answer.highs, projected, strict=True)
        return tuple(EstimateRow(*part, group=table) for part in parts)

    def __str__(self) -> str:
        lines = [" x ".join(self.columns)]
        cells = zip(product(*self.labels), self.answer.values, strict=False)
        lines += [f"  {', '.join(names)}: {share:.4g}" for names, share in cells]
        return "\n".join(lines)


@hypothesis_of("marginals")
@dataclass(frozen=True, slots=True)
class Marginals(JsonObject):
    """Several marginals of one population."""

    json_name: ClassVar = "marginals"
    json_keys: ClassVar = ("summary", "marginals=tables")

    tables: tuple[Marginal, ...]

    def of(self, *columns: str) -> Marginal:
        """The marginal of these columns, in this order.

        Raises:
            InvalidParameter: it was not asked for.
        """
        for table in self.tables:
            if table.columns == columns:
                return table
        raise InvalidParameter(
            f"expected columns of a marginal, got {value_text(', '.join(columns))}"
        )

    def present(self) -> Presentation:
        """Return a row per cell of every table, and one for the users who lack a field of it."""
        return Presentation(
            tuple(row for table in self.tables for row in table.rows()), shares=True
        )

    def to_shape(self) -> ResultShape:
        """Return the tables; of single columns the rows."""
        if any(len(table.columns) < 2 for table in self.tables):
            return Intervals()
        tables = tuple(table.two_way() for table in self.tables)
        return Tables("Shares of users by two or more columns", "share of users", tables)

    def __str__(self) -> str:
        return "\n".join(map(str, self.tables))


@catalogued(
    summary="the joint shares of every few of some fields",
    error="greatest distance of an estimated share from the population's, over all cells",
    guess="the same share for every cell of a table, none for a missing value",
    success=ALL_COVER,
    example=traits_schema,
    population="traits",
    small=SmallSettings(
        oracles={"columns": "member,colour,age", "bins": "2", "tau": "1/5"},
        fleets={"columns": "member,colour,y", "tau": "1/4"},
    ),
)
@non_adaptive("marginals", version=1)
def marginals(
    schema: Schema,
    columns: Columns = None,
    way: Annotated[int, "how many fields at a time"] = 2,
    bins: Annotated[int, "into how many bins a number falls"] = 4,
    tau: Tau = None,
) -> tuple[Batch, Callable[[Answers], Marginals]]:
    """The joint shares of the cells of every `way` of some columns.

    Utility: one categorical question a choice of columns, C(D, way) of them for D columns of
    cells, in one round; raw shares are unbiased, each within tau, and their intervals hold
    jointly over all tables. The distribution that a table is projected to is off by less than
    tau sqrt(cells) in Euclidean distance. Users: of the order C(D, way) log(cells) /
    (epsilon tau)^2, about 167,000 for 28 tables at tau = 1/20, epsilon = 2, beta = 1/100.

    Raises:
        InvalidParameter: no such field, `way` outside 1 .. D, bins out of range, or more than 4096
            tables.
        InvalidQuery: a table of more than 2^20 cells.

    Source: notes, section 1.2; KLNRS08 section 4 (histograms).

    Example:
        >>> schema = ask.Schema("people", colour=ask.Category(["red", "green"]), smokes=ask.Bit())
        >>> oracle = ask.ExactOracle(
        ...     schema, {"colour": ["red", "green", "red"], "smokes": [1, 0, 1]}
        ... )
        >>> found = ask.learn(ask.learners.marginals(), oracle)
        >>> [(row.name, round(row.estimate, 3)) for row in found.present().rows][:2]
        [('red, 0', 0.0), ('red, 1', 0.667)]
    """
    parts = columns_of(some_fields(schema, schema.fields if columns is None else columns), bins)
    whole_within(way, 1, len(parts), "way", f", as there are {len(parts)} columns")
    if comb(len(parts), way) > MAX_TABLES:
        raise InvalidParameter(
            f"expected at most {MAX_TABLES} marginals, found {comb(len(parts), way)}"
        )
    chosen = list(combinations(parts, way))
    tolerance = None if tau is None else rational(tau, "tau")
    batch = Batch(Question(joint(*together)[0], tau=tolerance) for together in chosen)

    def conclude(answers: Answers) -> Marginals:
        return Marginals(
            tuple(
                Marginal(
                    columns=tuple(part.name for part in together),
                    labels=tuple(part.labels for part in together),
                    answer=answer,
                )
                for together, answer in zip(chosen, answers, strict=True)
            )
        )

    return batch, conclude


@assess.register
def _(hypothesis: Marginals, learner: Learner[Any], users: Users) -> Assessment:
    if not isinstance(learner, NonAdaptive):
        return Assessment(None, None)
    totals = users.totals([question.query for question in learner.batch.questions])
    truth = [share for table in totals for share in table.shares()]
    answers = [table.answer for table in hypothesis.tables]
    return covers(
        tuple(value for answer in answers for value in answer.values),
        tuple(low for answer in answers for low in answer.lows),
        tuple(high for answer in answers for high in answer.highs),
        tuple(truth),
        *_even(hypothesis),
    )


def _even(hypothesis: Marginals) -> tuple[tuple[float, ...], float]:
    """Return the constant guess, even shares of a table's cells, and the greatest of them."""
    guess: list[float] = []
    for table in hypothesis.tables:
        cells = len(table.answer.values) - 1
        guess += [*[1 / cells] * cells, 0.0]
    return tuple(guess), max(guess)
