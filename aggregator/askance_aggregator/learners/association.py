"""Association of two columns: a chi-square test of independence, and Cramér's V.

Shares are estimates with a known covariance, of the sample and of the randomizer together. Two
columns are independent if the table of their joint shares, without the users who lack a value, is
a product of two vectors: it has rank one.

- **Test.** The statistic is the least (y - u v^T)' S^-1 (y - u v^T) over all vectors u and v, y the
  raw shares and S their covariance under independence. It has asymptotically a chi-square law with
  (rows - 1)(columns - 1) degrees of freedom. Shares may be negative and cells empty: nothing is
  divided by a share. u and v are not held to be positive, so the statistic is never greater than
  with that restriction, and p-values never less.
- **Cramér's V.** sqrt(phi^2 / (min(rows, columns) - 1)), phi the length of the vector D of
  (p_ij - p_i p_j) / sqrt(p_i p_j). The estimate of D is D + N, N normal with a covariance C by the
  delta method, which D itself, unlike V, allows at V = 0. The interval has all lengths L for which
  |D + N|^2 as seen is no rare event. Its law depends on the variance of N along D: the greatest one
  that the estimate's direction does not contradict by two standard errors. So the interval
  is that of the delta method where V is known well, and holds at V = 0 too. Lengths below a fixed
  one are rejected by great squares only, at the whole chance; others at half of it on each side.

  The triangle inequality, | |D + N| - |D| | <= |N|, gives an interval too, with the quantile of
  |N| as half width. It holds, but adds the noise of all directions where only that along D counts:
  it is 1.4 times as wide for 3 x 3 cells, and twice for 4 x 5 (ADR 89).

Source: Gaboardi and Rogers 2018 (minimum chi-square with the covariance of private answers);
Guggenberger, Kleibergen, Mavroeidis and Chen 2012 (the same law bounds the statistic where the
vectors are barely identified). Deviations: the covariance is exact for each randomizer, and the
table has a cell for users without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt, sqrt
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved
from askance_aggregator.learners import assessments
from askance_aggregator.learners.asymptotic import IN_WAVES, POWER, STANDS, noncentrality
from askance_aggregator.learners.decisions import AssociationFound
from askance_aggregator.learners.encodings import Cells, columns_of, joint
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.marginals import Marginal
from askance_aggregator.learners.missing import MissingShare, named_share
from askance_aggregator.learners.parameters import Parameter, ParameterKind, Tau, two_of
from askance_aggregator.learners.presentation import EstimateRow, Null, Presentation
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

_RARE = f"the share of a row or a column is less than {STANDS:.0f} standard errors above 0"
_V_PART = 0.75  # of alpha for the interval of V; the rest is for those of the cells


@hypothesis_of("association")
@dataclass(frozen=True, slots=True)
class Association(JsonObject):
    """Test of independence of two columns, Cramér's V, and the table of joint shares.

    Args:
        table: joint shares with their intervals, the share of missing values last.
        test: None: the answer has no law, so that nothing is known of its chance errors.
        v: Cramér's V of the users who have both values, with its interval; it and all intervals
            of the table hold together.
        detectable: V that the test finds with a chance of 80 %, whatever cells have it; None: not
            known.
        undetermined: reason for which V's interval is 0 .. 1; empty: it has one.
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
        "detectable?",
        "undetermined?",
        "table",
        "missing",
    )

    table: Marginal
    test: IndependenceTest | None
    v: Estimate
    detectable: float | None = None
    undetermined: str = ""

    @property
    def missing(self) -> MissingShare:
        """Share of users without one of the values, or both."""
        return MissingShare.of_cell(self.table.answer, len(self.table.answer.values) - 1)

    def present(self) -> Presentation:
        """Return one row, Cramér's V, and the test's statistic as a line."""
        return Presentation(
            (EstimateRow("Cramér's V", self.v.value, self.v.low, self.v.high),),
            lines=(self._statistic_text(),),
            missing=named_share(self.missing),
            null=Null(
                "Cramér's V",
                p_value=None if self.test is None else self.test.p_value,
                asymptotic=True,
                detectable=self.detectable,
                undetermined=self.undetermined,
            ),
            asymptotic=self.test is not None and not self.undetermined,
            whole=(0.0, 1.0),
            subject=" and ".join(self.table.columns),
        )

    def to_shape(self) -> Effect:
        """Return Cramér's V against no association."""
        first, second = self.table.columns
        return Effect(
            f"Association of {first} and {second}", "Cramér's V", 0.0, "no association", (0.0, 1.0)
        )

    def _statistic_text(self) -> str:
        if self.test is None:
            return "no test: the answer has no law"
        degrees = f"{self.test.degrees} degree{'s' if self.test.degrees > 1 else ''} of freedom"
        return f"chi-square {self.test.statistic:.4g}, {degrees}"

    def __str__(self) -> str:
        first, second = self.table.columns
        told = f"association of {first} and {second}: Cramér's V {self.v.value:.3g}"
        sure = "" if self.test is None else f", p = {self.test.p_value:.2g}"
        return f"{told} ({self.v.low:.3g} .. {self.v.high:.3g}); {self._statistic_text()}{sure}"


@catalogued(
    summary="whether two columns are independent, and Cramér's V",
    error="distance of the estimated Cramér's V from the population's",
    guess="no association",
    success=assessments.ALL_COVER,
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
    level: Annotated[
        Rational, "chance that the test finds an association where there is none"
    ] = Fraction(1, 20),
) -> tuple[Batch, Callable[[Answers], Association]]:
    """Test whether two columns are independent, and estimate how much they go together.

    One categorical question of all users for their joint cell; users who lack one of the values
    are in a cell of their own and no part of the test.

    Utility: the statistic has the covariance of the sample and of the randomizer in it, so its law
    under independence is asymptotically chi-square whatever epsilon is (`independence_test`); the
    p-value is asymptotic, and so is the interval of V. The cells' intervals hold for every number
    of users. All intervals hold together; the p-value is a statement of its own. Type-I errors and
    coverage were measured from 1,000 users on (`benchmarks/association.py`).

    `effect`, in (0, 1], is Cramér's V that the test is to find: independence is to be rejected at
    `level`, in (0, 1), except with the study's beta. It sizes the plan for two columns whose cells
    have about equally many users, and no p-value relies on it. It does not go with `tau`.

    Raises:
        InvalidParameter: not two columns of cells, more than 256 joint cells, or a parameter out
            of range.

    Source: Gaboardi and Rogers 2018.

    Example:
        >>> schema = ask.Schema("people", colour=ask.Category(["red", "green"]), smokes=ask.Bit())
        >>> learner = ask.learners.association(["colour", "smokes"], effect="0.2")
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
    test = test._replace(p_value=min(test.p_value / law.look_share, 1.0))
    if law.look_share < 1:
        value = cramers_v(nearest_distribution(shares), shape)
        return Association(table, test, Estimate(value, 0.0, 1.0), undetermined=IN_WAVES)
    v = estimate_v(shares, shape, covariance, law.alpha * _V_PART)
    least = detectable_v(shares, shape, covariance, law.alpha)
    return Association(table, test, v, least, "" if least is not None else _RARE)


@assessments.assess.register
def _(
    hypothesis: Association, learner: Learner[Any], users: assessments.Users
) -> assessments.Assessment:
    """Judge by V's distance; right if its interval and all of the table's hold the truth."""
    query = assessments.only_query(learner, QueryKind.CATEGORY)
    if query is None:
        return assessments.Assessment(None, None)
    truth = users.totals([query])[0].shares()
    if truth[-1] == 1:
        return assessments.Assessment(None, None, summary=assessments.NO_VALUES)
    shape = (hypothesis.table.shape[0], hypothesis.table.shape[1])
    v, answer = hypothesis.v, hypothesis.table.answer
    true = (cramers_v(np.array(truth), shape),)
    judged = assessments.covers((v.value,), (v.low,), (v.high,), true, (0.0,))
    cells = assessments.covers(answer.values, answer.lows, answer.highs, truth)
    return judged.with_intervals(
        assessments.JointInterval("the table's shares", bool(cells.success)), absent=[truth[-1]]
    )


Reals = NDArray[np.float64]

Covariance = Callable[[Reals], Reals]
"""Covariance of all estimated shares, the missing one last, if users have these shares."""

_UPDATES = 3  # of the covariance at the fitted product; more change the statistic by less than 1 %
_STEPS = 500  # of the alternating fit, at most
_ENOUGH = 1e-10  # relative fall of the statistic that ends the fit
_NORMAL = np.linspace(-8.0, 8.0, 801)  # the normal law beyond has 1e-15
_HALVINGS = 30
_ERRORS_ADDED = 2.0  # standard errors that a ratio of variances may be off by
_RATIOS = 257  # that are looked at
_LEAST_CHANCE = 1e-300  # a p-value is never 0


class IndependenceTest(NamedTuple):
    """Statistic, degrees of freedom, and the chance of one as great if columns are independent."""

    statistic: float
    degrees: int
    p_value: float


class Estimate(NamedTuple):
    """A value with its interval."""

    value: float
    low: float
    high: float


def independence_test(
    shares: Reals, shape: tuple[int, int], covariance: Covariance
) -> IndependenceTest:
    """Test whether two columns are independent.

    Args:
        shares: raw estimates, shape (rows * columns + 1,), the share of missing values last.
        shape: rows and columns, 2 or more each.
        covariance: of the estimates.
    """
    from askance_aggregator.special_functions import chdtrc

    table = shares[:-1].reshape(shape)
    null = _product_of(nearest_distribution(shares), shape)
    statistic = 0.0
    for _ in range(_UPDATES):
        inner = covariance(null)[:-1, :-1]
        inverse = np.asarray(np.linalg.pinv(inner, hermitian=True), dtype=np.float64)
        weights = inverse.reshape(*shape, *shape)
        starts = (_margins(null, shape), _leading(table))
        fits = [_nearest_product(table, weights, *start) for start in starts]
        statistic, fitted = min(fits, key=lambda fit: fit[0])
        raw = np.append(fitted.ravel(), shares[-1])
        null = _product_of(nearest_distribution(raw), shape)
    degrees = (shape[0] - 1) * (shape[1] - 1)
    return IndependenceTest(
        statistic, degrees, max(float(chdtrc(degrees, statistic)), _LEAST_CHANCE)
    )


def cramers_v(shares: Reals, shape: tuple[int, int]) -> float:
    """Compute Cramér's V of a distribution; 0 where a row or a column holds all users.

    The shares are as of `independence_test`, and none is negative.
    """
    table = shares[:-1].reshape(shape)
    if table.sum() <= 0:
        return 0.0
    table = table / table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    used = expected > 0
    phi = float((np.square(table - expected)[used] / expected[used]).sum())
    return min(sqrt(phi / (min(shape) - 1)), 1.0)


def estimate_v(
    shares: Reals, shape: tuple[int, int], covariance: Covariance, alpha: float
) -> Estimate:
    """Estimate Cramér's V, with an interval that misses with a chance of about alpha.

    The square of the estimate is corrected for what noise adds to it, and cut at 0. V weighs rare
    rows and columns as much as frequent ones: if a row or a column is not above zero by five
    standard errors, the interval is 0 .. 1.

    The shares are as of `independence_test`.
    """
    distribution = nearest_distribution(shares)
    inner = covariance(distribution)[:-1, :-1]
    if not _margins_stand(shares, shape, inner):
        return Estimate(cramers_v(distribution, shape), 0.0, 1.0)
    deviations, slope = _deviations(shares[:-1].reshape(shape))
    law = _LengthLaw.of(deviations, slope @ inner @ slope.T)
    square = float(np.square(deviations).sum())
    scale = sqrt(min(shape) - 1)
    value = sqrt(max(square - law.mean, 0.0)) / scale
    low, high = law.interval(square, alpha)
    return Estimate(min(value, 1.0), min(low / scale, 1.0), min(high / scale, 1.0))


def detectable_v(
    shares: Reals, shape: tuple[int, int], covariance: Covariance, alpha: float
) -> float | None:
    """Return the V that the test finds with a chance of `POWER`, whatever cells have it.

    None where a row or a column is not above zero by some standard errors.

    The shares are as of `independence_test`; alpha is the test's.
    """
    distribution = nearest_distribution(shares)
    inner = covariance(distribution)[:-1, :-1]
    if not _margins_stand(shares, shape, inner):
        return None
    _, slope = _deviations(shares[:-1].reshape(shape))
    widest = float(np.linalg.eigvalsh(slope @ inner @ slope.T)[-1])
    degrees = (shape[0] - 1) * (shape[1] - 1)
    needed = noncentrality(degrees, alpha, 1 - POWER)
    return sqrt(max(widest, 0.0) * needed / (min(shape) - 1))


def _product_of(distribution: Reals, shape: tuple[int, int]) -> Reals:
    """Return the shares with the same margins and missing share under independence."""
    rows, columns = _margins(distribution, shape)
    return np.append(np.outer(rows, columns).ravel(), distribution[-1])


def _margins(distribution: Reals, shape: tuple[int, int]) -> tuple[Reals, Reals]:
    """Return rows' shares and columns' shares, the latter of sum 1."""
    table = distribution[:-1].reshape(shape)
    total = float(table.sum())
    columns = table.sum(axis=0) / total if total > 0 else np.full(shape[1], 1 / shape[1])
    return table.sum(axis=1), columns


def _leading(table: Reals) -> tuple[Reals, Reals]:
    """Return the vectors of the nearest product, all shares weighed alike."""
    left, sizes, right = np.linalg.svd(table)
    return left[:, 0] * sizes[0], right[0]


def _nearest_product(
    table: Reals, weights: Reals, rows: Reals, columns: Reals
) -> tuple[float, Reals]:
    """Minimize the weighted square of table - rows x columns, one vector after the other."""
    best, flat = np.inf, weights.reshape(table.size, table.size)
    for _ in range(_STEPS):
        rows = _best_factor(table, weights, columns)
        columns = _best_factor(table.T, weights.transpose(1, 0, 3, 2), rows)
        off = (table - np.outer(rows, columns)).ravel()
        square = float(off @ flat @ off)
        if not square < best * (1 - _ENOUGH):
            break
        best = square
    return min(best, square), np.outer(rows, columns)


def _best_factor(table: Reals, weights: Reals, other: Reals) -> Reals:
    """Return the best row factors for given column factors: a linear fit."""
    half = np.einsum("j,ijkl->ikl", other, weights)
    normal = half @ other
    target = np.einsum("ikl,kl->i", half, table)
    return np.asarray(np.linalg.lstsq(normal, target, rcond=None)[0])


def _margins_stand(shares: Reals, shape: tuple[int, int], covariance: Reals) -> bool:
    """Return whether every row and every column is above zero by some standard errors."""
    table, inner = shares[:-1].reshape(shape), covariance.reshape(*shape, *shape)
    margins = (
        (table.sum(axis=1), np.einsum("ijil->i", inner)),
        (table.sum(axis=0), np.einsum("ijkj->j", inner)),
    )
    return all(
        bool((sums >= STANDS * np.sqrt(np.maximum(variances, 0.0))).all())
        for sums, variances in margins
    )


def _deviations(table: Reals) -> tuple[Reals, Reals]:
    """Compute D, and its derivative by the shares."""
    count, total = table.size, float(table.sum())
    part = table / total
    rows, columns = part.sum(axis=1), part.sum(axis=0)
    root = np.sqrt(np.outer(rows, columns))
    change = (np.eye(count) - part.reshape(-1, 1)) / total  # of the parts, by each share
    change = change.reshape(*table.shape, count)
    of_rows = change.sum(axis=1) / rows[:, None]
    of_columns = change.sum(axis=0) / columns[:, None]
    relative = (of_rows[:, None, :] + of_columns[None, :, :]) / 2
    slope = change / root[:, :, None] - (part / root + root)[:, :, None] * relative
    return (part / root - root).ravel(), slope.reshape(count, count)


@dataclass(frozen=True, slots=True)
class _LengthLaw:
    """Law of |D + N|^2 for a vector D of a known length and normal N."""

    # mean: of |N|^2.
    # square: half of its variance.
    # own: variance of N along D, at most.

    mean: float
    square: float
    own: float

    @classmethod
    def of(cls, estimate: Reals, covariance: Reals) -> _LengthLaw:
        """Return the law for an estimate of D, and the covariance of N."""
        sizes, directions = np.linalg.eigh(covariance)
        sizes = np.maximum(sizes, 0.0)
        squares = np.square(directions.T @ estimate)
        own = _variance_along(sizes, squares)
        return cls(float(sizes.sum()), float(np.square(sizes).sum()), own)

    def interval(self, square: float, alpha: float) -> tuple[float, float]:
        """Return the lengths of D for which a square as seen is no rare event."""
        if self.own <= 0:
            return sqrt(square), sqrt(square)
        # A square that is rarely less without any association: no length below this one's upper
        # end is rejected for being too long.
        free = self._length(self._rarely_less(alpha), alpha / 2)
        high = max(free, self._length(square, alpha / 2))
        low = self._length(square, 1 - alpha)
        return (low if low < free else max(free, self._length(square, 1 - alpha / 2))), high

    def _rarely_less(self, chance: float) -> float:
        """Return the square that |N|^2 is below with this chance."""
        return halved(
            lambda square: self._smaller(square, 0.0) >= chance, 0.0, self.mean, _HALVINGS
        )[1]

    def _length(self, square: float, chance: float) -> float:
        """Return the length of D for which a smaller square has this chance, or 0."""
        low, high = 0.0, sqrt(square) + 10 * sqrt(self.mean)
        if self._smaller(square, low) < chance:
            return 0.0
        low, high = halved(
            lambda length: self._smaller(square, length) < chance, low, high, _HALVINGS
        )
        return (low + high) / 2

    def _smaller(self, square: float, length: float) -> float:
        """Approximate P[|D + N|^2 <= square] for a D of this length."""
        # The direction of D is integrated; the square of the others' sum is taken as a scaled
        # chi-square with its mean and variance (Satterthwaite).
        from askance_aggregator.special_functions import gammainc, ndtr

        own = self.own
        deviation, mean, second = sqrt(own), self.mean - own, self.square - own * own
        if second <= mean * mean * 1e-12 or mean <= own * 1e-9:
            root = sqrt(square)
            return float(ndtr((root - length) / deviation) - ndtr((-root - length) / deviation))
        left = np.maximum(square - np.square(length + deviation * _NORMAL), 0.0)
        inside = gammainc(mean * mean / (2 * second), left * mean / (2 * second))
        density = np.exp(-np.square(_NORMAL) / 2)
        return float((inside * density).sum() / density.sum())


def _variance_along(sizes: Reals, squares: Reals) -> float:
    """Bound D' C D / |D|^2: the greatest ratio that the estimate of D does not contradict."""
    # For the true ratio r the sum of (c - r) (y^2 - c) over the principal directions has the mean
    # 0, c the variance along one and y the estimate's component there.
    #
    # sizes: c, rising, shape (directions,).
    # squares: y^2, likewise.
    ratios = np.linspace(float(sizes[-1]), 0.0, _RATIOS)[:, None]
    sums = (sizes - ratios) @ (squares - sizes)
    errors = np.sqrt(np.square(sizes - ratios) @ (4 * squares * sizes + 2 * np.square(sizes)))
    kept = np.flatnonzero(sums >= -_ERRORS_ADDED * errors)
    return float(ratios[kept[0] if len(kept) else 0, 0])
