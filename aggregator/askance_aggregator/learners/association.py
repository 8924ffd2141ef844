"""Association of two columns: a chi-square test of independence, and Cramér's V."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt
from typing import Annotated, Any, ClassVar

import numpy as np

from askance_aggregator.learners.assessments import (
    ALL_COVER,
    NO_VALUES,
    Assessment,
    Users,
    assess,
    covers,
    only_query,
)
from askance_aggregator.learners.decisions import AssociationFound
from askance_aggregator.learners.encodings import Cells, columns_of, joint
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.independence import (
    Estimate,
    IndependenceTest,
    cramers_v,
    estimate_v,
    independence_test,
)
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.marginals import Marginal
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.parameters import (
    Parameter,
    ParameterKind,
    Tau,
    two_of,
)
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import some_fields
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.learners.shapes import Effect
from askance_aggregator.learners.shares import nearest_distribution
from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bit, Category, QueryKind, Schema

MAX_TABLE = 256
"""Cells of a table, at most: its covariance is inverted, and few users are in each of more."""

_V_PART = 0.5  # of alpha for the interval of V; the rest is for those of the cells


@hypothesis_of("association")
@dataclass(frozen=True, slots=True)
class Association(JsonObject):
    """Test of independence of two columns, Cramér's V, and the table of joint shares.

    Args:
        table: joint shares with their intervals, the share of missing values last.
        test: None: the answer has no law, so that nothing is known of its chance errors.
        v: Cramér's V of the users who have both values, with its interval; it and all intervals
            of the table hold together.
    """

    json_name: ClassVar = "association"
    json_keys: ClassVar = (
        "summary",
        "statistic=test.statistic",
        "degrees_of_freedom=test.degrees",
        "p_value=test.p_value",
        "estimate=v.value",
        "low=v.low",
        "high=v.high",
        "table",
        "missing",
    )

    table: Marginal
    test: IndependenceTest | None
    v: Estimate

    @property
    def missing(self) -> MissingShare:
        """Share of users without one of the values, or both."""
        return MissingShare.of_cell(self.table.answer, len(self.table.answer.values) - 1)

    def present(self) -> Presentation:
        """Return one row, Cramér's V, and the test as a line."""
        return Presentation(
            (EstimateRow("Cramér's V", self.v.value, self.v.low, self.v.high),),
            lines=(self._test_text(),),
            notes=self.missing.notes(),
            subject=" and ".join(self.table.columns),
        )

    def to_shape(self) -> Effect:
        """Return Cramér's V against no association."""
        first, second = self.table.columns
        return Effect(
            f"Association of {first} and {second}", "Cramér's V", 0.0, "no association", (0.0, 1.0)
        )

    def _test_text(self) -> str:
        if self.test is None:
            return "no test: the answer has no law"
        degrees = f"{self.test.degrees} degree{'s' if self.test.degrees > 1 else ''} of freedom"
        return f"chi-square {self.test.statistic:.4g}, {degrees}, p = {self.test.p_value:.2g}"

    def __str__(self) -> str:
        first, second = self.table.columns
        told = f"association of {first} and {second}: Cramér's V {self.v.value:.3g}"
        return f"{told} ({self.v.low:.3g} .. {self.v.high:.3g}); {self._test_text()}"


@catalogued(
    summary="whether two columns are independent, and Cramér's V",
    error="distance of the estimated Cramér's V from the population's",
    guess="no association",
    success=ALL_COVER,
    example=traits_schema,
    population="traits",
    small=SmallSettings(
        oracles={"columns": "member,y", "tau": "1/20"}, fleets={"columns": "member,y"}
    ),
)
@non_adaptive("association", version=1)
def association(
    schema: Schema,
    columns: Annotated[
        Sequence[str],
        Parameter(
            "two fields by name, with a comma (default: the first two categories or bits)",
            ParameterKind.FIELDS,
            read=two_of(Category, Bit),
        ),
    ],
    bins: Annotated[int, "into how many bins a number falls"] = 4,
    tau: Tau = None,
    effect: Annotated[
        Rational | None, "Cramér's V that the test is to find; sizes the plan"
    ] = None,
    level: Annotated[Rational, "of that test: its chance to find what is not there"] = Fraction(
        1, 20
    ),
) -> tuple[Batch, Callable[[Answers], Association]]:
    """Test whether two columns are independent, and estimate how much they go together.

    One categorical question of all users for their joint cell; users who lack one of the values
    are in a cell of their own and no part of the test.

    Utility: the statistic has the covariance of the sample and of the randomizer in it, so its law
    under independence is asymptotically chi-square whatever epsilon is (`independence`); the
    p-value is asymptotic, and so is the interval of V. The cells' intervals hold for every number
    of users. All intervals hold together; the p-value is a statement of its own. Type-I errors and
    coverage were measured from 1,000 users on (`benchmarks/association.py`).

    Args:
        schema: of the records.
        columns: two fields, of which each is cells by the schema; a number falls into bins.
        bins: of equal width between a number's bounds in the schema.
        tau: how exactly each share is wanted; None: as exactly as the population allows.
        effect: Cramér's V, in (0, 1], that the test is to find: independence is to be rejected at
            `level` except with the study's beta. It sizes the plan for two columns whose cells
            have about equally many users, and no p-value relies on it. Not with tau.
        level: of the test that `effect` is planned for, in (0, 1).

    Raises:
        InvalidParameter: not two columns of cells, more than 256 joint cells, or a parameter out
            of range.

    Source: Gaboardi and Rogers 2018.

    Example:
        >>> schema = ask.Schema("people", colour=ask.Category(["red", "green"]), smokes=ask.Bit())
        >>> learner = ask.learners.association(schema, ["colour", "smokes"], effect="0.2")
        >>> ask.Study(learner, schema, epsilon=2).plan().users_needed > 100
        True
    """
    parts = _two_columns(schema, columns, bins)
    shape = (len(parts[0]), len(parts[1]))
    question = _planned(Question(joint(*parts)[0]), shape, tau, effect, rational(level, "level"))

    def conclude(answers: Answers) -> Association:
        (answer,) = answers
        return _concluded(parts, answer)

    return Batch([question]), conclude


def _two_columns(schema: Schema, columns: Sequence[str], bins: int) -> tuple[Cells, ...]:
    parts = columns_of(some_fields(schema, columns), bins)
    if len(parts) != 2:
        raise InvalidParameter(
            f"association: columns: expected two columns of cells, got {value_text(list(columns))},"
            f" which are {len(parts)}"
        )
    for part in parts:
        if len(part) < 2:
            raise InvalidParameter(f"association: {part.name}: expected two cells or more, got one")
    if len(parts[0]) * len(parts[1]) > MAX_TABLE:
        raise InvalidParameter(
            f"association: expected at most {MAX_TABLE} joint cells, got {len(parts[0])} x"
            f" {len(parts[1])}"
        )
    return parts


def _planned(
    question: Question,
    shape: tuple[int, int],
    tau: Rational | None,
    effect: Rational | None,
    level: Fraction,
) -> Question:
    """Return the question with a tolerance, or with the decision that an effect asks for."""
    if effect is None:
        return question if tau is None else Question(question.query, rational(tau, "tau"))
    size = rational(effect, "effect")
    if tau is not None or not 0 < size <= 1:
        raise InvalidParameter(
            "association: expected an effect in (0, 1] and no tau, got effect"
            f" {value_text(effect)}{'' if tau is None else f' and tau {value_text(tau)}'}"
        )
    decision = AssociationFound(question.values, (shape[0] - 1) * (shape[1] - 1), level)
    # The length of p_ij - p_i p_j where all p_i p_j are alike: V sqrt((min - 1) / cells).
    squared = size * size * (min(shape) - 1) / (shape[0] * shape[1])
    length = Fraction(isqrt(int(squared * (1 << 60))), 1 << 30)
    return Question(question.query, length * decision.part, decision=decision)


def _concluded(parts: tuple[Cells, ...], answer: Answer) -> Association:
    shape, law = (len(parts[0]), len(parts[1])), answer.law
    shares = np.array(answer.values)
    told = answer if law is None else law.at(law.alpha * (1 - _V_PART))
    table = Marginal(
        columns=tuple(part.name for part in parts),
        labels=tuple(part.labels for part in parts),
        answer=replace(told, law=None),
    )
    known = law is not None and law.covariance(nearest_distribution(shares).tolist()) is not None
    if law is None or not known:
        value = cramers_v(nearest_distribution(shares), shape)
        exact = answer.lows == answer.highs
        return Association(table, None, Estimate(value, *((value, value) if exact else (0.0, 1.0))))

    def covariance(truth: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
        return law.covariance(truth.tolist())

    test = independence_test(shares, shape, covariance)
    share = law.look_share
    chance = min(test.p_value / share, 1.0)
    v = estimate_v(shares, shape, covariance, law.alpha * share * _V_PART)
    return Association(table, test._replace(p_value=chance), v)


@assess.register
def _(hypothesis: Association, learner: Learner[Any], users: Users) -> Assessment:
    """Judge by V's distance; right if its interval and all of the table's hold the truth."""
    query = only_query(learner, QueryKind.CATEGORY)
    if query is None:
        return Assessment(None, None)
    truth = users.totals([query])[0].shares()
    if truth[-1] == 1:
        return Assessment(None, None, summary=NO_VALUES)
    shape = (hypothesis.table.shape[0], hypothesis.table.shape[1])
    v, answer = hypothesis.v, hypothesis.table.answer
    true = (cramers_v(np.array(truth), shape),)
    judged = covers((v.value,), (v.low,), (v.high,), true, (0.0,))
    cells = covers(answer.values, answer.lows, answer.highs, truth)
    return replace(judged, success=bool(judged.success and cells.success))
