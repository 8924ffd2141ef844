"""Difference of two groups of users: of their means of a number, or of their shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

from askance_aggregator.learners.assessments import (
    ALL_COVER,
    NO_VALUES,
    Assessment,
    Users,
    assess,
    covers,
)
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, parts_in
from askance_aggregator.learners.learner import Learner, NonAdaptive, non_adaptive
from askance_aggregator.learners.learning import Allocation, Answer, Answers, Batch, Question
from askance_aggregator.learners.mean import MeanEstimate
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.parameters import (
    Parameter,
    ParameterKind,
    field_named,
    first_fields,
)
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import field_of
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.learners.shapes import Effect
from askance_aggregator.learners.two_means import (
    MeanCurve,
    apart,
    difference_interval,
    equality_p_value,
)
from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import among
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bit, Category, Expression, Integer, Label, Real, Schema
from askance_client.records import NOTHING

_CELLS = ("0", "1")  # of a bit
_DIFFERENCE_PART = 0.75  # of alpha for the difference; the rest is for both means and shares


@hypothesis_of("difference")
@dataclass(frozen=True, slots=True)
class Difference(JsonObject):
    """Difference of the second group's mean and the first's, with its interval.

    Args:
        groups: their names.
        means: one per group; `missing` is the share of users who are in another group or lack a
            value.
        low: low end of the difference's interval.
        high: high end.
        p_value: of the hypothesis that both means are equal; None: the answers have no law.
    """

    json_name: ClassVar = "difference"
    json_keys: ClassVar = ("summary", "estimate", "low", "high", "p_value", "groups=named_means")

    groups: tuple[str, str]
    means: tuple[MeanEstimate, MeanEstimate]
    low: float
    high: float
    p_value: float | None

    @property
    def estimate(self) -> float:
        """The second mean less the first."""
        return self.means[1].estimate - self.means[0].estimate

    @property
    def named_means(self) -> list[dict[str, Any]]:
        """Groups with their names and means."""
        pairs = zip(self.groups, self.means, strict=True)
        return [{"name": name, "mean": mean} for name, mean in pairs]

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the difference; each group has its name and its mean."""
        groups = document.parts("groups")
        if len(groups) != 2:
            raise InvalidParameter(f"difference: expected two groups, got {len(groups)}")
        first, second = groups
        return cls(
            groups=(first.text("name"), second.text("name")),
            means=(first.read("mean", MeanEstimate), second.read("mean", MeanEstimate)),
            **parts_in(cls, document),
        )

    def present(self) -> Presentation:
        """Return one row, the difference; both means and the p-value as lines."""
        first, second = self.groups
        lines = [
            f"{name}: {mean.estimate:.4g} ({mean.low:.4g} .. {mean.high:.4g}){_share_text(mean)}"
            for name, mean in zip(self.groups, self.means, strict=True)
        ]
        if self.p_value is not None:
            lines.append(f"equal means: p <= {self.p_value:.2g}")
        row = EstimateRow(f"{second} less {first}", self.estimate, self.low, self.high)
        return Presentation((row,), lines=tuple(lines))

    def to_shape(self) -> Effect:
        """Return the difference against none."""
        first, second = self.groups
        heading = f"Difference of two groups' means: {second} less {first}"
        return Effect(heading, "difference of the means", 0.0, "no difference")

    def __str__(self) -> str:
        (first, second), (one, two) = self.groups, self.means
        told = f"{second} less {first}: {self.estimate:.4g} ({self.low:.4g} .. {self.high:.4g})"
        if self.p_value is not None:
            told = f"{told}, p <= {self.p_value:.2g}"
        parts = [
            f"{name} {mean.estimate:.4g} ({mean.low:.4g} .. {mean.high:.4g}){_share_text(mean)}"
            for name, mean in ((first, one), (second, two))
        ]
        return f"{told}; {'; '.join(parts)}"


def _share_text(mean: MeanEstimate) -> str:
    return "" if mean.missing is None else f", {1 - mean.missing.share:.1%} of users"


def _number(learner: str, schema: Schema, asked: str | None) -> str:
    if asked is None:
        return first_fields(learner, schema, (Integer, Real), 1)[0]
    return field_named(learner, schema, (Integer, Real, Bit), asked)


def _group(learner: str, schema: Schema, asked: str | None) -> str:
    if asked is not None:
        return asked
    labels = [name for name, kind in schema.fields.items() if isinstance(kind, Label)]
    return labels[0] if len(labels) == 1 else first_fields(learner, schema, (Category,), 1)[0]


@catalogued(
    summary="the difference of two groups' means or shares (A/B)",
    error="distance of the estimated difference from the population's, in real units",
    guess="no difference",
    success=ALL_COVER,
    example=traits_schema,
    population="traits",
    small=SmallSettings(
        oracles={"column": "age", "tau": "20", "present": "1/4"},
        fleets={"column": "age", "tau": "80", "present": "1/4"},
    ),
)
@non_adaptive("difference", version=1)
def difference(
    schema: Schema,
    column: Annotated[
        str,
        Parameter(
            "the number or bit (default: the first number)", ParameterKind.FIELD, read=_number
        ),
    ],
    group: Annotated[
        str,
        Parameter(
            "the category or bit that groups users (default: the only label or the first category)",
            ParameterKind.FIELD,
            read=_group,
        ),
    ],
    first: Annotated[str | None, "a value of the group (default: its first)"] = None,
    second: Annotated[
        str | None, "another, whose mean is taken less the first's (its second)"
    ] = None,
    tau: Annotated[
        Rational | None, "how exactly the difference is wanted (default: as users allow)"
    ] = None,
    present: Annotated[
        Rational | None,
        "the share of users in each group, at least: sizes the plan, no interval relies on it"
        " (default: 1/2)",
    ] = None,
) -> tuple[Batch, Callable[[Answers], Difference]]:
    """Compare the means of two groups of users, or their shares of a property.

    One question per group. A user answers "missing" who is not in the group, or lacks a value:
    which group a user is in, and how large the groups are, is as private as the number.

    Utility: intervals of both means, of the groups' shares and of the difference hold together,
    for every population and every number of users. The difference's is made of the intervals of
    both means at all levels (`two_means`): its questions have users of their own, so the estimates
    are independent. The p-value of equal means is valid in the same way: if they are equal, it is
    at most x with a chance of at most x. `benchmarks/association.py` compares the width with the
    normal law's. The difference is consistent, not unbiased.

    Args:
        schema: of the records.
        column: a number, clamped to its range, or a bit (means are then shares).
        group: the category or bit that groups users.
        first: a value of the group; None: its first, "(missing)" left out.
        second: another, whose mean is taken less the first's; None: likewise its second.
        tau: how exactly the difference is wanted, in real units; None: as exactly as the
            population allows.
        present: a promise, from public knowledge, that each group has at least this share of
            users; it sizes the plan and no interval relies on it. None: one half.

    Raises:
        InvalidParameter: no such field or value, one of an unfitting type, or a parameter out of
            range.

    Example:
        >>> people = ask.read("census")
        >>> learner = ask.learners.difference(people.schema, "hours", "sex")
        >>> study = ask.Study(learner, people.schema, epsilon=4)
        >>> study
        <Study: difference of census, epsilon 4, schema census>
    """
    kind = field_of(schema, column)
    if not isinstance(kind, Integer | Real | Bit) or column == group:
        raise InvalidParameter(
            f"difference: column: expected a number or a bit beside the group, got"
            f" {value_text(column)}"
        )
    names, members = _groups(schema, group, first, second)
    # Each mean within half of it.
    each = None if tau is None else rational(tau, "tau") / 2
    share = Fraction(1, 2) if present is None else rational(present, "present")
    questions = [Question(among(schema[column], one), each, present=share) for one in members]
    batch = Batch(questions, Allocation.FRESH)  # independent estimates

    def conclude(answers: Answers) -> Difference:
        return _concluded(names, batch, answers)

    return batch, conclude


def _concluded(names: tuple[str, str], batch: Batch, answers: Answers) -> Difference:
    one, two = answers
    laws = [answer.law for answer in answers if answer.law is not None]
    if len(laws) < len(answers):
        return Difference(names, (_mean_of(one), _mean_of(two)), *apart((one, two)), None)
    alpha = sum(law.alpha for law in laws)
    ranges = [question.bounds for question in batch.questions]
    first, second = (
        MeanCurve.of(law, (float(low), float(high)))
        for law, (low, high) in zip(laws, ranges, strict=True)
    )
    means = [_mean_of(law.at(law.alpha * (1 - _DIFFERENCE_PART))) for law in laws]
    ends = difference_interval(first, second, alpha * _DIFFERENCE_PART)
    return Difference(names, (means[0], means[1]), *ends, equality_p_value(first, second))


def _mean_of(answer: Answer) -> MeanEstimate:
    missing = MissingShare.of(answer)
    return MeanEstimate(answer.value, answer.low, answer.high, missing=missing)


def _groups(
    schema: Schema, group: str, first: str | None, second: str | None
) -> tuple[tuple[str, str], tuple[Expression, Expression]]:
    """Return the names of both groups, and who is in each."""
    kind = field_of(schema, group)
    if not isinstance(kind, Category | Bit):
        raise InvalidParameter(
            f"difference: group: expected a category or a bit, got {value_text(group)}"
        )
    cells = tuple(kind.labels) if isinstance(kind, Category) else _CELLS
    values = [cell for cell in cells if cell != NOTHING] or list(cells)
    names = (first or values[0], second or values[min(1, len(values) - 1)])
    for name in names:
        if name not in cells:
            raise unknown_name(f"difference: value of {group}", name, cells)
    if names[0] == names[1]:
        raise InvalidParameter(f"difference: expected two groups, got {value_text(names[0])} twice")
    of = schema[group]
    one, two = (
        of == name if isinstance(kind, Category) else (of if name == "1" else ~of) for name in names
    )
    return names, (one, two)


@assess.register
def _(hypothesis: Difference, learner: Learner[Any], users: Users) -> Assessment:
    """Judge by the difference; right if it and both means and shares are in their intervals."""
    if not isinstance(learner, NonAdaptive):
        return Assessment(None, None)
    truth, inside, widths = [], True, []
    questions = learner.batch.questions
    totals = users.totals([question.query for question in questions])
    for mean, question, group in zip(hypothesis.means, questions, totals, strict=True):
        found = group.mean(question.query)
        if found is None:
            return Assessment(None, None, summary=NO_VALUES)
        truth.append(found[0])
        widths.append(float(question.spread))
        inside &= bool(covers((mean.estimate,), (mean.low,), (mean.high,), found[:1]).success)
        if mean.missing is not None:
            inside &= mean.missing.low <= 1 - found[1] <= mean.missing.high
    true = (truth[1] - truth[0],)
    ends = (hypothesis.low,), (hypothesis.high,)
    judged = covers((hypothesis.estimate,), *ends, true, (0.0,), max(widths))
    return replace(judged, success=bool(judged.success and inside))
