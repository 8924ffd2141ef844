"""Difference of two groups of users: of their means of a number, or of their shares.

**Asymptotic.** A report of group g has the scores a and b, whose means are m_g q_g and q_g: q_g is
the group's share of users and m_g its mean. If the means differ by d, the terms a - m b of the
first group and a - (m + d) b of the second have the mean 0 for m = m_1. With T_g their means over
the reports and V_g the mean of their squares over n_g, the statistic

    J(d) = min over m of T_1(m)^2 / V_1(m) + T_2(m + d)^2 / V_2(m + d)

has asymptotically a chi-square law with one degree of freedom. J(0) tests equal means: a score
test, whose variances are those at the common mean. The interval has all d that are not rejected.
No mean is divided by an estimated share, so that the law holds for small groups, too.

**For every number of users.** Let P be the least chance at which an end of an interval excludes the
true mean. It is a p-value: P is at most x with a chance of at most x. For two independent ones,
P1 P2 is at most x with a chance of at most x (1 - ln x) (Fisher 1925). So a difference is rejected,
on one side, if every pair of means that has it has a product P1 P2 of at most x, where
x (1 - ln x) is half of alpha. With normal intervals of equal width the difference's is 1.1 times as
wide as the normal law's, where the sum of both is 1.6 times as wide.

Intervals are known on a grid of levels. Between two of them the wider interval counts, so that a
grid costs width and never coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import log, sqrt
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved
from askance_aggregator.learners.assessments import (
    ALL_COVER,
    NO_VALUES,
    Assessment,
    JointInterval,
    Users,
    assess,
    covers,
)
from askance_aggregator.learners.asymptotic import (
    IN_WAVES,
    MOST_SKEW,
    STANDS,
    TOO_FEW,
    ForEverySize,
    chance_of,
    detectable,
    quantile,
)
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, parts_in
from askance_aggregator.learners.learner import Learner, NonAdaptive, non_adaptive
from askance_aggregator.learners.learning import (
    END_PART,
    Allocation,
    Answer,
    Answers,
    Batch,
    Question,
    SamplingLaw,
    ScoredReports,
)
from askance_aggregator.learners.mean import MeanEstimate
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.parameters import (
    Parameter,
    ParameterKind,
    field_named,
    first_fields,
)
from askance_aggregator.learners.presentation import EstimateRow, Null, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import field_of
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.learners.shapes import Effect
from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import among
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bit, Category, Expression, Integer, Label, Real, Schema
from askance_client.records import NOTHING

_CELLS = ("0", "1")  # of a bit
DIFFERENCE_PART = 0.75  # of alpha for the difference; the rest is for both means and shares


@hypothesis_of("difference")
@dataclass(frozen=True, slots=True)
class Difference(JsonObject):
    """Difference of the second group's mean and the first's, with its interval.

    Args:
        means: one per group; `missing` is the share of users who are in another group or lack a
            value.
        p_value: of the hypothesis that both means are equal; None: the answers have no law.
        every_size: interval and p-value that hold for every number of users, where `low`, `high`
            and `p_value` are asymptotic; None: they hold for every number themselves.
        detectable: difference that so many users find with a chance of 80 %; None: not known.
        undetermined: reason for which nothing is asymptotic; empty: it is, or there is no law.
    """

    json_name: ClassVar = "difference"
    json_keys: ClassVar = (
        "summary",
        "estimate",
        "low",
        "high",
        "p_value",
        "every_size?",
        "detectable?",
        "undetermined?",
        "groups=named_means",
    )

    groups: tuple[str, str]
    means: tuple[MeanEstimate, MeanEstimate]
    low: float
    high: float
    p_value: float | None
    every_size: ForEverySize | None = None
    detectable: float | None = None
    undetermined: str = ""
    complete_cases: ClassVar[bool] = True

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
        """Return one row, the difference; both means as lines."""
        first, second = self.groups
        lines = [
            f"{name}: {mean.estimate:.4g} ({mean.low:.4g} .. {mean.high:.4g}){_share_text(mean)}"
            for name, mean in zip(self.groups, self.means, strict=True)
        ]
        row = EstimateRow(f"{second} less {first}", self.estimate, self.low, self.high)
        null = Null(
            "the difference",
            p_value=self.p_value,
            asymptotic=self.every_size is not None,
            detectable=self.detectable,
            undetermined=self.undetermined,
        )
        return Presentation((row,), lines=tuple(lines), null=null, asymptotic=null.asymptotic)

    def to_shape(self) -> Effect:
        """Return the difference against none."""
        first, second = self.groups
        heading = f"Difference of two groups' means: {second} less {first}"
        return Effect(heading, "difference of the means", 0.0, "no difference")

    def __str__(self) -> str:
        (first, second), (one, two) = self.groups, self.means
        told = f"{second} less {first}: {self.estimate:.4g} ({self.low:.4g} .. {self.high:.4g})"
        if self.p_value is not None:
            sure = (
                f"= {self.p_value:.2g}, asymptotic" if self.every_size else f"<= {self.p_value:.2g}"
            )
            told = f"{told}, p {sure}"
        parts = [
            f"{name} {mean.estimate:.4g} ({mean.low:.4g} .. {mean.high:.4g}){_share_text(mean)}"
            for name, mean in ((first, one), (second, two))
        ]
        return f"{told}; {'; '.join(parts)}"


def _share_text(mean: MeanEstimate) -> str:
    """Format the share of users in a group by its interval: those of both add up to 1 at most."""
    if mean.missing is None:
        return ""
    least, most = 100 * (1 - mean.missing.high), 100 * (1 - mean.missing.low)
    return f", {least:.0f} to {most:.0f} % of users"


def _number(learner: str, schema: Schema, asked: str | None) -> str:
    if asked is None:
        return first_fields(learner, schema, (Integer, Real), 1)[0]
    return field_named(learner, schema, (Integer, Real, Bit), asked)


def _group(learner: str, schema: Schema, asked: str | None) -> str:
    if asked is not None:
        return field_named(learner, schema, (Category, Bit), asked, "group")
    labels = [name for name, kind in schema.fields.items() if isinstance(kind, Label)]
    return labels[0] if len(labels) == 1 else first_fields(learner, schema, (Category,), 1)[0]


@non_adaptive("difference", version=1)
def _difference(
    schema: Schema,
    column: str,
    group: str,
    first: str | None,
    second: str | None,
    tau: Rational | None,
    present: Rational | None,
) -> tuple[Batch, Callable[[Answers], Difference]]:
    """Ask for the mean over each group; see `difference`."""
    kind = field_of(schema, column)
    if not isinstance(kind, Integer | Real | Bit) or column == group:
        raise InvalidParameter(
            f"difference: column: expected a number or a bit beside the group, got"
            f" {value_text(column)}"
        )
    names = _groups(_cells(schema, group), group, first, second)
    members = [_members(schema, group, name) for name in names]
    # Each mean within half of it.
    each = None if tau is None else rational(tau, "tau") / 2
    share = Fraction(1, 2) if present is None else rational(present, "present")
    questions = [Question(among(schema[column], one), each, present=share) for one in members]
    batch = Batch(questions, Allocation.FRESH)  # independent estimates

    def conclude(answers: Answers) -> Difference:
        return _concluded(names, batch, answers)

    return batch, conclude


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
    made_by=_difference,
)
def difference(
    schema: Schema,
    column: Annotated[
        str,
        Parameter(
            "the number or bit (default: the first number)", ParameterKind.FIELD, read=_number
        ),
    ],
    by: Annotated[
        str,
        Parameter(
            "the category or bit that groups users (default: the only label or the first category)",
            ParameterKind.FIELD,
            name="group",
            read=_group,
        ),
    ],
    first: Annotated[str | None, "a value of the group (default: its first)"] = None,
    second: Annotated[
        str | None, "another, whose mean is taken less the first's (its second)"
    ] = None,
    tau: Annotated[
        Rational | None,
        "tolerance of the difference, in the column's own unit, of a bit as a share (default: what"
        " the users allow)",
    ] = None,
    present: Annotated[
        Rational | None,
        "the share of users in each group, at least: sizes the plan, no interval relies on it"
        " (default: 1/2)",
    ] = None,
) -> NonAdaptive[Difference]:
    """Compare the means of two groups of users, or their shares of a property.

    One question per group. A user answers "missing" who is not in the group, or lacks a value:
    which group a user is in, and how large the groups are, is as private as the number.

    Utility: intervals of both means, of the groups' shares and of the difference hold together.
    The difference's interval and the p-value of equal means are those of a score test, and
    asymptotic: where each group's share is five standard errors above 0, no report weighs too much
    (`asymptotic.MOST_SKEW`) and all users were asked at once. An interval and a p-value that hold
    for every population and every number of users stand beside them in JSON, and take their place
    elsewhere: they are made of the intervals of both means at all levels, whose questions have
    users of their own, so that the estimates are independent. `benchmarks/association.py` has the
    power and the errors of both. The difference is consistent, not unbiased.

    The first and the second value of the group are by default its own first and second,
    "(missing)" left out. Means of a bit are shares; a number is clamped to its range. `tau` is in
    real units. `present` is a promise from public knowledge.

    Raises:
        InvalidParameter: no such field or value, one of an unfitting type, or a parameter out of
            range.

    Example:
        >>> people = ask.read("census")
        >>> learner = ask.learners.difference("hours", by="sex")
        >>> study = ask.Study(learner, people.schema, epsilon=4)
        >>> study
        <Study: difference of census, epsilon 4, schema census>
    """
    made = _difference(schema, column, by, first, second, tau, present)
    return replace(made, compared=_compared(schema, by, first, second))


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
    means = [_mean_of(law.at(law.alpha * (1 - DIFFERENCE_PART))) for law in laws]
    part = alpha * DIFFERENCE_PART
    ends = difference_interval(first, second, part)
    chance = equality_p_value(first, second)
    pair = (means[0], means[1])
    found = score_test(names, laws)
    if isinstance(found, str):
        return Difference(names, pair, *ends, chance, undetermined=found)
    widest = float(max(question.spread for question in batch.questions))
    return Difference(
        names,
        pair,
        *found.interval(part, widest),
        chance_of(sqrt(found.statistic(0.0))),
        every_size=ForEverySize(*ends, chance),
        detectable=detectable(found.deviation, alpha),
    )


def score_test(names: tuple[str, str], laws: Sequence[SamplingLaw]) -> ScoreTest | str:
    """Return the test of equal means, or the reason for which it is not determined."""
    if any(law.look_share < 1 for law in laws):
        return IN_WAVES
    scored = [law.scored() for law in laws]
    groups = [GroupTerms.of(reports) for reports in scored if reports is not None]
    if len(groups) < len(laws):
        return "the randomizer has no scores"
    for name, group in zip(names, groups, strict=True):
        if not group.stands:
            return f"the share of users in {name} is less than {STANDS:.0f} standard errors above 0"
    found = ScoreTest(groups[0], groups[1])
    skews = (group.skew(found.common_mean) for group in (found.one, found.two))
    return found if max(skews) <= MOST_SKEW else TOO_FEW


def _mean_of(answer: Answer) -> MeanEstimate:
    missing = MissingShare.of(answer)
    return MeanEstimate(answer.value, answer.low, answer.high, missing=missing)


def _cells(schema: Schema, group: str) -> tuple[str, ...]:
    """Return the values of a group; "(missing)" is the last of them."""
    kind = field_of(schema, group)
    if not isinstance(kind, Category | Bit):
        raise InvalidParameter(
            f"difference: group: expected a category or a bit, got {value_text(group)}"
        )
    cells = tuple(kind.labels) if isinstance(kind, Category) else _CELLS
    return tuple(sorted(cells, key=lambda cell: cell == NOTHING))


def _groups(
    cells: Sequence[str], group: str, first: str | None, second: str | None
) -> tuple[str, str]:
    """Return the names of both groups: "(missing)" is none unless it is named."""
    one, other = cells[0], cells[len([cell for cell in cells[:2] if cell != NOTHING]) - 1]
    first = first or (other if second == one else one)
    second = second or (one if first == other else other)
    for name in (first, second):
        if name not in cells:
            raise unknown_name(f"difference: value of {group}", name, cells)
    if first == second:
        raise InvalidParameter(f"difference: expected two groups, got {value_text(first)} twice")
    return first, second


def _members(schema: Schema, group: str, name: str) -> Expression:
    """Return who is in a group."""
    of = schema[group]
    if isinstance(schema.fields[group], Category):
        return of == name
    return of if name == "1" else ~of


def _compared(schema: Schema, group: str, first: str | None, second: str | None) -> str:
    """Note which groups are compared, if there are more and the caller named no two of them."""
    cells = _cells(schema, group)
    values = [cell for cell in cells if cell != NOTHING]
    if len(values) == len(cells) < 3 or (first and second):
        return ""
    one, two = _groups(cells, group, first, second)
    is_outside = len(values) < len(cells) and NOTHING not in (one, two)
    outside = f"; users without a value of {group} are in neither group" if is_outside else ""
    more = "" if len(values) < 3 else f", two of the {len(values):,} values of {group}"
    help_ = "; name others by --first and --second" if more else ""
    return f"compared: {two} less {one}{more}{help_}{outside}"


@assess.register
def _(hypothesis: Difference, learner: Learner[Any], users: Users) -> Assessment:
    """Judge by the difference; right if it and both means and shares are in their intervals."""
    if not isinstance(learner, NonAdaptive):
        return Assessment(None, None)
    truth: list[float] = []
    widths: list[float] = []
    beside: list[JointInterval] = []
    questions = learner.batch.questions
    totals = users.totals([question.query for question in questions])
    parts = zip(hypothesis.groups, hypothesis.means, questions, totals, strict=True)
    for name, mean, question, group in parts:
        found = group.mean(question.query)
        if found is None:
            return Assessment(None, None, summary=NO_VALUES)
        truth.append(found[0])
        widths.append(float(question.spread))
        held = covers((mean.estimate,), (mean.low,), (mean.high,), found[:1]).success
        beside.append(JointInterval(f"the mean of {name}", bool(held)))
        if mean.missing is not None:
            held = mean.missing.holds(1 - found[1])
            beside.append(JointInterval(f"the share of users in {name}", held))
    true = (truth[1] - truth[0],)
    ends = (hypothesis.low,), (hypothesis.high,)
    judged = covers((hypothesis.estimate,), *ends, true, (0.0,), max(widths))
    return judged.with_intervals(*beside)


Reals = NDArray[np.float64]

_LEVELS = np.concatenate([np.geomspace(1e-12, 1e-3, 8)[:-1], np.geomspace(1e-3, 0.999, 18)])
_CHANCES = END_PART * _LEVELS  # of each end
_UP_TO = np.append(_CHANCES[1:], 1.0)
"""Of a mean that an end at a level does not exclude, and at the next does: its P, at most."""
_HALVINGS = 60


@dataclass(frozen=True, eq=False, slots=True)
class MeanCurve:
    """Ends of a mean's intervals at the levels of the grid, least level first.

    Args:
        lows: shape (levels,), not falling.
        highs: shape (levels,), not rising.
        whole: the range of the mean.
    """

    lows: Reals
    highs: Reals
    whole: tuple[float, float]

    @classmethod
    def of(cls, law: SamplingLaw, whole: tuple[float, float]) -> MeanCurve:
        """The curve of an answer of one value."""
        answers = [law.at(level) for level in _LEVELS.tolist()]
        lows = np.maximum.accumulate([answer.low for answer in answers])
        highs = np.minimum.accumulate([answer.high for answer in answers])
        return cls(lows, highs, whole)


def difference_interval(one: MeanCurve, two: MeanCurve, alpha: float) -> tuple[float, float]:
    """Compute the interval of the second mean less the first.

    Utility: it misses with a chance of at most alpha, half on each side, if the estimates are
    independent.
    """
    product = fisher_product(alpha / 2)
    # The first mean's P is up to each of `_UP_TO`; the second's is then above this.
    places = np.searchsorted(_CHANCES, product / _UP_TO, side="right") - 1
    known, possible = places >= 0, product < _UP_TO  # else no second P is large enough
    lows = np.where(known, two.lows[places], two.whole[0]) - one.highs
    highs = np.where(known, two.highs[places], two.whole[1]) - one.lows
    return float(lows[possible].min()), float(highs[possible].max())


def equality_p_value(one: MeanCurve, two: MeanCurve) -> float:
    """Compute the p-value of equal means, both sides counted.

    Utility: valid if the estimates are independent: it is at most x with a chance of at most x.
    """
    # Were both means m, at most the first's high end and at least the second's low one.
    above = _greatest_product(one.highs, two.lows)
    below = _greatest_product(-one.lows, -two.highs)
    return min(2 * min(fisher(above), fisher(below)), 1.0)


def _greatest_product(highs: Reals, lows: Reals) -> float:
    """Return the greatest P1 P2 of a common mean, that of the first no more than its high ends."""
    places = np.searchsorted(lows, highs, side="right")  # the first level whose low end is above m
    seconds = np.append(_CHANCES, 1.0)[places]
    return float((_UP_TO * seconds).max())


def fisher(product: float) -> float:
    """Return P[P1 P2 <= product] for independent uniform P1 and P2."""
    return product * (1 - log(product)) if product > 0 else 0.0


@lru_cache(maxsize=64)
def fisher_product(chance: float) -> float:
    """Return the product that `fisher` gives this chance, rounded down."""
    return halved(lambda product: fisher(product) > chance, 0.0, 1.0, _HALVINGS)[0]


@dataclass(frozen=True, eq=False, slots=True)
class GroupTerms:
    """Scores a and b of a group's reports; for the mean m the terms a - m b have the mean 0.

    Args:
        moments: mean squares of a and b and their mean product, over the number of reports.
    """

    reports: ScoredReports
    means: tuple[float, float]
    moments: tuple[float, float, float]

    @classmethod
    def of(cls, reports: ScoredReports) -> GroupTerms:
        """Return the means and the mean squares of the scores."""
        a, b, part = reports.numbers, reports.presences, reports.shares
        squares = (float(part @ each) / reports.answered for each in (a * a, a * b, b * b))
        first, mixed, second = squares
        return cls(reports, (float(part @ a), float(part @ b)), (first, mixed, second))

    @property
    def stands(self) -> bool:
        """Return whether the group's share is above zero by some standard errors."""
        share = self.means[1]
        variance = max(self.moments[2] - share**2 / self.reports.answered, 0.0)
        return share > 0 and share >= STANDS * sqrt(variance)

    @property
    def ratio(self) -> float:
        """The estimated mean, not clipped."""
        return self.means[0] / self.means[1]

    def square(self, means: Reals) -> Reals:
        """Compute T^2 / V at each mean."""
        total = self.means[0] - means * self.means[1]
        return np.asarray(total**2 / self.variance(means))

    def variance(self, means: Reals) -> Reals:
        """Compute V at each mean: the terms' mean square over the number of reports."""
        first, mixed, second = self.moments
        # A sum of squares; floats may leave less than zero where all terms are zero.
        return np.maximum(first - 2 * means * mixed + means**2 * second, _TINY * (first + second))

    def skew(self, mean: float) -> float:
        """Return E|a|^3 / (sigma^3 sqrt(n)) of the terms at a mean."""
        reports = self.reports
        sizes = np.abs(reports.numbers - mean * reports.presences)
        deviation = sqrt(float(reports.shares @ sizes**2))
        third = float(reports.shares @ sizes**3)
        return third / (deviation**3 * sqrt(reports.answered)) if deviation > 0 else np.inf


_TINY = 1e-24
_POINTS = 17  # means that are looked at together
_STEPS = 30  # halvings of an end's distance from the estimate
_ZOOMS = 4  # each between the neighbours of the best


@dataclass(frozen=True, eq=False, slots=True)
class ScoreTest:
    """Score test of the difference of two groups' means (see the module)."""

    one: GroupTerms
    two: GroupTerms

    @property
    def common_mean(self) -> float:
        """The mean that fits both groups best."""
        return self._fit(0.0)[0]

    @property
    def deviation(self) -> float:
        """Standard deviation of the estimated difference, if both means are equal."""
        mean = np.array([self.common_mean])
        parts = (
            float(group.variance(mean)[0]) / group.means[1] ** 2 for group in (self.one, self.two)
        )
        return sqrt(sum(parts))

    def statistic(self, difference: float) -> float:
        """Compute J, of the second mean less the first."""
        return self._fit(difference)[1]

    def interval(self, alpha: float, widest: float) -> tuple[float, float]:
        """Return the differences that a test of this level does not reject."""
        most = quantile(alpha / 2) ** 2
        centre = min(max(self.two.ratio - self.one.ratio, -widest), widest)

        def end(outer: float) -> float:
            if self.statistic(outer) <= most:
                return outer
            return halved(lambda each: not self.statistic(each) <= most, centre, outer, _STEPS)[1]

        return end(-widest), end(widest)

    def _fit(self, difference: float) -> tuple[float, float]:
        """Return the first mean that fits best, and the statistic there."""
        ends = sorted((self.one.ratio, self.two.ratio - difference))
        low, high = ends
        mean, least = low, np.inf
        for _ in range(_ZOOMS):
            points = np.linspace(low, high, _POINTS)
            found = self.one.square(points) + self.two.square(points + difference)
            place = int(np.argmin(found))
            mean, least = float(points[place]), float(found[place])
            low, high = points[max(place - 1, 0)], points[min(place + 1, _POINTS - 1)]
        return mean, least


def apart(answers: tuple[Answer, Answer]) -> tuple[float, float]:
    """Return the interval of the difference that two joint intervals leave."""
    one, two = answers
    return two.low - one.high, two.high - one.low
