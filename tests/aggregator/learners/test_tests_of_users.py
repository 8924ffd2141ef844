"""Association, difference and correlation: their arithmetic, from answers that are given."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.estimation import ReportsLaw, TalliedReports
from askance_aggregator.families import (
    HypercubeFamily,
    family_of,
    hypercube_response,
    k_ary_response,
)
from askance_aggregator.learners import (
    Answer,
    AssociationFound,
    Question,
    association,
    correlation,
    difference,
    find,
)
from askance_aggregator.learners.association import cramers_v, estimate_v, independence_test
from askance_aggregator.learners.asymptotic import noncentrality
from askance_aggregator.learners.correlation import (
    LEAST,
    Interval,
    Moments,
    mean_products,
    p_value,
)
from askance_aggregator.learners.difference import (
    _LEVELS,
    Difference,
    MeanCurve,
    difference_interval,
    equality_p_value,
    fisher,
    fisher_product,
)
from askance_aggregator.learners.learning import END_PART, ScoredReports
from askance_aggregator.planning.decided import miss_chance
from askance_aggregator.queries import among, block_of, encode_columns, evaluate_columns, number_in
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Category, Integer, Real, Schema

USERS = 4_000
SCHEMA = Schema(
    "shop", 1, size=Category(["s", "m", "l"]), paid=Bit(), age=Integer(0, 99), sum=Real(0, 8)
)
ONE = Schema("one", 1, age=Integer(0, 99))


def multinomial(shares: np.ndarray) -> np.ndarray:
    """Return the covariance of counted shares, without any randomizer."""
    return (np.diag(shares) - np.outer(shares, shares)) / USERS


class NormalLaw:
    """Law of a normal estimate of a mean, for which all intervals are known."""

    look_share = 1.0

    def __init__(self, value: float, deviation: float, alpha: float = 0.05) -> None:
        self.value, self.deviation, self.alpha = value, deviation, alpha

    def at(self, alpha: float) -> Answer:
        from scipy.special import ndtri

        half = -float(ndtri(END_PART * alpha)) * self.deviation
        half = max(half, 0.0)
        return Answer((self.value,), (self.value - half,), (self.value + half,))

    def covariance(self, shares: object) -> None:
        return None

    def sums(self, weights: object, most: float) -> None:
        return None

    def scored(self) -> ScoredReports | None:
        return None

    def ratios(self, pairs: int) -> None:
        return None

    def sum_law(self, weights: object, means: object, products: object) -> None:
        return None


def curve(value: float, deviation: float) -> MeanCurve:
    return MeanCurve.of(NormalLaw(value, deviation), (-100.0, 100.0))


class TestIndependence:
    def test_counts_without_noise_give_the_chi_square_of_textbooks(self) -> None:
        """Near independence the minimum chi-square is Pearson's."""
        table = np.array([[0.30, 0.21, 0.09], [0.18, 0.15, 0.07]])
        shares = np.append(table.ravel(), 0.0)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0))
        pearson = USERS * float((np.square(table - expected) / expected).sum())
        found = independence_test(shares, (2, 3), multinomial)
        assert found.degrees == 2
        assert found.statistic == pytest.approx(pearson, rel=0.02)

    def test_a_product_has_no_statistic_even_with_empty_cells(self) -> None:
        rows, columns = np.array([0.6, 0.4, 0.0]), np.array([0.7, 0.3])
        shares = np.append(0.9 * np.outer(rows, columns).ravel(), 0.1)

        def noisy(truth: np.ndarray) -> np.ndarray:
            return multinomial(truth) + np.eye(len(truth)) / USERS

        found = independence_test(shares, (3, 2), noisy)
        assert found.statistic == pytest.approx(0.0, abs=1e-9)
        assert found.p_value == pytest.approx(1.0)
        assert cramers_v(shares, (3, 2)) == pytest.approx(0.0, abs=1e-12)

    def test_shares_below_zero_are_no_reason_to_fail(self) -> None:
        shares = np.array([0.7, -0.05, -0.1, 0.4, 0.05])

        def noisy(truth: np.ndarray) -> np.ndarray:
            return multinomial(truth) + np.eye(len(truth)) / 100

        found = independence_test(shares, (2, 2), noisy)
        assert 0 < found.p_value < 1
        v = estimate_v(shares, (2, 2), noisy, 0.05)
        assert 0 <= v.low <= v.value <= v.high <= 1

    def test_v_of_a_perfect_association_is_one(self) -> None:
        assert cramers_v(np.array([0.5, 0, 0, 0.4, 0.1]), (2, 2)) == pytest.approx(1.0)

    def test_the_interval_of_v_is_the_delta_methods_far_from_zero(self) -> None:
        """A 2 x 2 table's V is the correlation of two bits, with (1 - V^2) / sqrt(n) here."""
        v = 0.5
        table = np.array([(1 + v) / 4, (1 - v) / 4, (1 - v) / 4, (1 + v) / 4, 0.0])
        found = estimate_v(table, (2, 2), multinomial, 0.05)
        deviation = sqrt((1 - v * v) / USERS)  # of a phi coefficient with even margins
        assert found.value == pytest.approx(v, abs=1e-3)
        assert found.high - found.low == pytest.approx(2 * 1.96 * deviation, rel=0.02)

    def test_v_is_not_told_where_a_row_could_be_empty(self) -> None:
        shares = np.array([0.5, 0.49, 0.0001, 0.0099, 0.0])

        def noisy(truth: np.ndarray) -> np.ndarray:
            return multinomial(truth) + np.eye(len(truth)) / 1000

        found = estimate_v(shares, (2, 2), noisy, 0.05)
        assert (found.low, found.high) == (0.0, 1.0)


class TestEffect:
    def test_a_plan_for_an_effect_is_for_the_noncentrality_of_the_test(self) -> None:
        """The textbook's: 80 % power at level .05 with one degree of freedom takes 7.85."""
        assert noncentrality(1, 0.05, 0.2) == pytest.approx(7.849, abs=0.001)
        decision = AssociationFound(5, 1, Fraction(1, 20))
        assert miss_chance(decision, 0.2 / 5) > 0.2 / 5

    @pytest.mark.parametrize(("effect", "tau"), [("0", None), ("2", None), ("1/5", "1/10")])
    def test_an_effect_out_of_range_or_with_a_tolerance_is_refused(
        self, effect: str, tau: str | None
    ) -> None:
        with pytest.raises(InvalidParameter, match="expected an effect in"):
            association(SCHEMA, ["size", "paid"], effect=effect, tau=tau)


class TestDifference:
    def test_fishers_product_has_the_chance_that_is_stated(self) -> None:
        rng = np.random.default_rng(0)
        product = fisher_product(0.05)
        assert fisher(product) == pytest.approx(0.05)
        draws = rng.random((2, 400_000)).prod(axis=0)
        # 400,000 draws: a standard deviation of 0.00034, and 6 of them.
        assert (draws <= product).mean() == pytest.approx(0.05, abs=0.0021)

    def test_normal_means_have_an_interval_near_the_normal_laws(self) -> None:
        low, high = difference_interval(curve(1.0, 0.1), curve(3.0, 0.1), 0.05)
        normal = 1.96 * 0.1 * sqrt(2)
        assert low + high == pytest.approx(4.0)  # around 2
        assert normal < (high - low) / 2 < 1.3 * normal

    def test_an_uncertain_mean_does_not_widen_the_interval_twice(self) -> None:
        low, high = difference_interval(curve(0.0, 0.001), curve(0.0, 1.0), 0.05)
        assert 1.96 < high < 1.96 * 1.5
        assert low == pytest.approx(-high)

    def test_the_p_value_is_the_level_at_which_the_interval_excludes_zero(self) -> None:
        for shift in (0.3, 0.45, 0.6, 1.0):
            one, two = curve(0.0, 0.1), curve(shift, 0.1)
            chance = equality_p_value(one, two)
            # The grid of levels makes one of them wider than the other by a step at most.
            low, _ = difference_interval(one, two, min(chance * 3, 0.999))
            wide, _ = difference_interval(one, two, chance / 3)
            assert wide < 0 < low, shift

    def test_equal_means_are_not_rejected(self) -> None:
        assert equality_p_value(curve(0.2, 0.1), curve(0.2, 0.1)) == 1.0

    def test_misses_of_normal_means_are_no_more_than_stated(self) -> None:
        """4,000 pairs; at a chance of .05 more than 275 misses have a chance of 1e-7."""
        rng = np.random.default_rng(1)
        missed = rejected = 0
        from scipy.special import ndtri

        halves = np.maximum(-ndtri(END_PART * _LEVELS), 0.0)
        for a, b in rng.standard_normal((4_000, 2)):
            one, two = (MeanCurve(x - halves, x + halves, (-99.0, 99.0)) for x in (a, 3 * b))
            two = replace(two, lows=3 * b - 3 * halves, highs=3 * b + 3 * halves)
            low, high = difference_interval(one, two, 0.05)
            missed += not low <= 0 <= high
            rejected += equality_p_value(one, two) <= 0.05
        assert missed <= 275
        assert rejected <= 275
        assert missed >= 20  # and not because intervals are as wide as can be

    def test_a_group_is_asked_with_all_others_missing(self) -> None:
        query = among(SCHEMA["age"], SCHEMA["size"] == "m")
        rows = encode_columns(
            SCHEMA,
            {
                "size": ["s", "m", "m", "l"],
                "age": [10, 20, 99, 40],
                "paid": [0] * 4,
                "sum": [0] * 4,
            },
        )
        assert evaluate_columns(query, rows).tolist() == [198, 20, 99, 198]
        assert query.default == query.high == 198
        assert number_in(query).high == 99
        share = among(SCHEMA["paid"], SCHEMA["size"] == "m")
        assert evaluate_columns(share, rows).tolist() == [2, 0, 0, 2]

    def test_users_without_a_group_are_none_of_the_default_groups(self) -> None:
        """Before: an inferred category's first label is "(missing)", which was the first group."""
        schema = Schema("s", 1, size=Category(("(missing)", "s", "m")), age=Integer(0, 99))
        made = difference(schema, "age", "size")
        members = [question.query for question in made.batch.questions]
        wanted = [among(schema["age"], schema["size"] == name) for name in ("s", "m")]
        assert [repr(query) for query in members] == [repr(query) for query in wanted]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            (
                {"column": "size", "group": "paid"},
                "expected a number or a bit, got 'size'",
            ),
            ({"column": "age", "group": "sum"}, "expected a category or a bit, got 'sum'"),
            ({"column": "age", "group": "size", "first": "xs"}, "value of size: expected one of"),
            ({"column": "age", "group": "size", "first": "s", "second": "s"}, "got 's' twice"),
            ({"column": "paid", "group": "paid"}, "beside the group, got 'paid'"),
        ],
    )
    def test_what_is_no_pair_of_groups_is_refused(
        self, settings: dict[str, str], message: str
    ) -> None:
        with pytest.raises(InvalidParameter, match=message):
            difference(SCHEMA, **settings)


class ScoredLaw(NormalLaw):
    """Law of a group's reports that are known: numbers 0 and 1, and those of other users.

    Args:
        counts: of users with 1, with 0 and of others; nothing is randomized.
    """

    def __init__(self, *counts: int, look_share: float = 1.0) -> None:
        ones, zeros, _ = counts
        super().__init__(ones / (ones + zeros), 0.1, alpha=0.025)
        self.counts, self.look_share = np.array(counts, dtype=float), look_share

    def scored(self) -> ScoredReports:
        users = int(self.counts.sum())
        scores = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0])
        return ScoredReports(*scores, self.counts / users, users)


def compared(one: ScoredLaw, two: ScoredLaw) -> Difference:
    """Conclude on two groups of the share of ones."""
    schema = Schema("s", 1, paid=Bit(), size=Category(["s", "m"]))
    learner = difference(schema, "paid", "size")
    answers = (replace(law.at(law.alpha), law=law) for law in (one, two))
    return learner.conclude(tuple(answers))


class TestScoreTest:
    def test_it_is_the_textbooks_test_of_two_shares(self) -> None:
        """500 of 1,000 and 600 of 1,000: 0.1^2 / (.55 .45 2 / 1,000) = 20.2, p = 7.0e-6."""
        found = compared(ScoredLaw(500, 500, 0), ScoredLaw(600, 400, 0))
        assert found.p_value == pytest.approx(7.0e-6, rel=0.03)
        # Wilson's and others' intervals at .0375 lie within .0005 of .1 -+ 2.08 x .0222.
        assert found.low == pytest.approx(0.1 - 0.0460, abs=0.001)
        assert found.high == pytest.approx(0.1 + 0.0460, abs=0.001)
        # (1.960 + .842) sqrt(.55 .45 2 / 1,000)
        assert found.detectable == pytest.approx(0.0623, rel=0.01)
        assert found.every_size is not None
        assert found.every_size.low < found.low < found.high < found.every_size.high
        assert "asymptotic" in str(found)

    def test_users_of_other_groups_change_nothing(self) -> None:
        """Their terms are 0: a - m b of a user without a number."""
        found = compared(ScoredLaw(500, 500, 9_000), ScoredLaw(600, 400, 3_000))
        assert found.p_value == pytest.approx(7.0e-6, rel=0.05)

    @pytest.mark.parametrize(
        ("one", "two", "reason"),
        [
            (
                ScoredLaw(500, 500, 0, look_share=0.5),
                ScoredLaw(500, 500, 0),
                "users were asked in waves",
            ),
            (
                ScoredLaw(10, 14, 9_976),  # sqrt(24) is 4.9
                ScoredLaw(500, 500, 0),
                "the share of users in s is less than 5 standard errors above 0",
            ),
            (
                ScoredLaw(60, 40, 0),
                ScoredLaw(30, 40, 0),  # 1 / sqrt(70) is .12
                "single reports weigh too much for the normal law",
            ),
            (
                ScoredLaw(0, 500, 0),
                ScoredLaw(0, 500, 0),  # no terms but zeros
                "single reports weigh too much for the normal law",
            ),
        ],
    )
    def test_where_the_normal_law_is_not_near_the_other_statement_is_made(
        self, one: ScoredLaw, two: ScoredLaw, reason: str
    ) -> None:
        found = compared(one, two)
        assert found.undetermined == reason
        assert (found.every_size, found.detectable) == (None, None)
        assert "asymptotic" not in str(found)
        assert found.p_value is not None

    def test_a_document_of_before_is_read(self) -> None:
        found = compared(ScoredLaw(500, 500, 0), ScoredLaw(600, 400, 0)).to_json()
        for key in ("every_size", "detectable", "undetermined"):
            del found[key]
        read = Difference.from_json(found)
        assert (read.every_size, read.detectable, read.undetermined) == (None, None, "")


def reports_of_bits(shares: tuple[float, ...], look_share: float) -> Answer:
    """Return an answer on two bits: joint cells 00, 01, 10, 11 and "missing" of 10,000 users."""
    question = association(BITS, ["a", "b"]).batch.questions[0]
    randomizer = k_ary_response(5, 2 * 10**9)
    rates = family_of(randomizer).inclusion(0)
    assert rates is not None
    own, other = float(rates.own), float(rates.other)
    counts = np.rint(10_000 * (other + (own - other) * np.array(shares))).astype(np.int64)
    counts[0] += 10_000 - counts.sum()
    law = ReportsLaw(
        question, (TalliedReports(question, randomizer, counts, 10_000),), 0.05, look_share
    )
    return replace(law.at(0.05), law=law)


BITS = Schema("bits", 1, a=Bit(), b=Bit())


@pytest.mark.parametrize(
    ("shares", "look_share", "reason"),
    [
        ((0.4, 0.1, 0.1, 0.4, 0.0), 1.0, ""),
        ((0.4, 0.1, 0.1, 0.4, 0.0), 0.5, "users were asked in waves"),
        (
            (0.96, 0.02, 0.02, 0.0, 0.0),
            1.0,
            "the share of a row or a column is less than 5 standard errors above 0",
        ),
    ],
)
def test_cramers_v_says_where_it_has_no_interval(
    shares: tuple[float, ...], look_share: float, reason: str
) -> None:
    """V of .4, .1, .1, .4 is .6."""
    found = association(BITS, ["a", "b"]).conclude((reports_of_bits(shares, look_share),))
    assert found.undetermined == reason
    if reason:
        assert (found.v.low, found.v.high, found.detectable) == (0.0, 1.0, None)
    else:
        assert 0.5 < found.v.low < 0.6 < found.v.high < 0.7
        assert found.detectable is not None
        assert 0.0 < found.detectable < 0.1
    assert found.test is not None


@pytest.mark.parametrize(
    ("look_share", "users", "reason"),
    [
        (1.0, 100_000, ""),
        (0.5, 100_000, "users were asked in waves"),
        (1.0, 300, "the share of users with both numbers is less than 5 standard errors above 0"),
        (1.0, 2_400, "a variance is less than 5 standard errors above 0"),
    ],
)
def test_a_correlation_says_why_nothing_is_asymptotic(
    look_share: float, users: int, reason: str
) -> None:
    """Both numbers are -.5 or .5, at 1 nat, and have the correlation .6."""
    schema = Schema("two", 1, x=Real(-1, 1), y=Real(-1, 1))
    learner = correlation(schema, ["x", "y"])
    question = learner.batch.questions[0]
    means = (0.0, 0.0, -0.5, -0.5, 0.15, 1.0)
    reports, randomizer = [], hypercube_response(1, 10**9)
    agreement = float(HypercubeFamily(randomizer).agreement)
    for place, mean in enumerate(means):
        block = Question(block_of(question.query, place, place + 1))
        plus = np.array([round(users / 6 * (1 + agreement * mean) / 2)])
        reports.append(TalliedReports(block, randomizer, plus, users // 6))
    law = ReportsLaw(question, tuple(reports), 0.05, look_share)
    found = learner.conclude((replace(law.at(0.05), law=law),))
    assert found.undetermined == reason
    assert found.asymptotic is not bool(reason)
    assert found.estimate == pytest.approx(0.6, abs=0.01 if not reason else 0.5)
    if not reason:
        assert found.every_size is not None
        assert found.every_size.low < found.low < 0.6 < found.high <= found.every_size.high


class TestProductsOfComponents:
    @settings(max_examples=100, deadline=None)
    @given(
        st.integers(0, 2**32 - 1),
        st.sampled_from([(0, 1), (0,), (1,), ()]),
        st.floats(0.0, 0.9),
    )
    def test_no_population_has_mean_products_outside(
        self, seed: int, squares: tuple[int, ...], missing: float
    ) -> None:
        """Numbers without a square are bits, -1 and 1."""
        rng = np.random.default_rng(seed)
        x, y = rng.uniform(-1, 1, (2, 6)) ** rng.integers(1, 4)
        numbers = [v if place in squares else np.sign(v) for place, v in enumerate((x, y))]
        parts = [2 * numbers[place] ** 2 - 1 for place in squares]
        rows = np.stack([*numbers, *parts, numbers[0] * numbers[1], np.ones(6)])
        shares = (1 - missing) * rng.dirichlet(np.full(6, 0.5))
        least, most = mean_products(rows @ shares, squares)
        true = (rows * shares) @ rows.T
        assert (true >= least - 1e-9).all()
        assert (true <= most + 1e-9).all()

    @pytest.mark.parametrize(
        ("x", "y", "widest"),
        [
            ([-1.0, -1.0], [-1.0, -1.0], 0.0),  # at an end nothing is left open
            ([-1.0, -0.9], [1.0, 0.9], 0.4),  # squares have the mean .81: .62 .. 1
            ([-1.0, 1.0], [-1.0, 1.0], 2.0),
        ],
    )
    def test_numbers_near_an_end_of_their_range_leave_little_open(
        self, x: list[float], y: list[float], widest: float
    ) -> None:
        a, b = np.array(x), np.array(y)
        rows = np.stack([a, b, 2 * a * a - 1, 2 * b * b - 1, a * b, np.ones(2)])
        least, most = mean_products(rows.mean(axis=1), (0, 1))
        assert float((most - least).max()) <= widest + 1e-9


def interval(low: float, width: float) -> Interval:
    return Interval(max(low, -1.0), min(low + width, 1.0))


class TestMoments:
    @settings(max_examples=200, deadline=None)
    @given(
        st.tuples(*[st.floats(-0.9, 0.9)] * 3),
        st.tuples(*[st.floats(0.05, 1.0)] * 2),
        st.tuples(*[st.floats(0.0, 0.4)] * 5),
        st.integers(0, 2**32 - 1),
    )
    def test_no_moments_in_the_box_have_a_correlation_outside(
        self,
        centres: tuple[float, float, float],
        squares: tuple[float, float],
        widths: tuple[float, ...],
        seed: int,
    ) -> None:
        x, y, product = (interval(c, w) for c, w in zip(centres, widths, strict=False))
        of_x, of_y = (
            Interval(s, min(s + w, 1.0)) for s, w in zip(squares, widths[3:], strict=True)
        )
        low, high = Moments(x, y, of_x, of_y, product).correlation
        draws = np.random.default_rng(seed).random((5, 4_000))
        draws[:, :64] = np.round(draws[:, :64])  # corners among them
        part = [
            box.low + (box.high - box.low) * draw
            for box, draw in zip((x, y, of_x, of_y, product), draws, strict=True)
        ]
        variances = part[2] - part[0] ** 2, part[3] - part[1] ** 2
        real = (variances[0] > 1e-6) & (variances[1] > 1e-6)
        spread = np.sqrt(variances[0][real] * variances[1][real])
        found = (part[4] - part[0] * part[1])[real] / spread
        found = found[np.abs(found) <= 1]  # as all correlations are
        assert (found >= low - 1e-9).all()
        assert (found <= high + 1e-9).all()

    def test_the_ends_are_attained(self) -> None:
        """Means near zero: the extremes are at the corners of h, L and M."""
        box = Moments(
            Interval(-0.01, 0.01),
            Interval(-0.01, 0.01),
            Interval(0.2, 0.3),
            Interval(0.2, 0.3),
            Interval(0.1, 0.15),
        )
        low, high = box.correlation
        assert high == pytest.approx((0.15 + 1e-4) / (0.2 - 1e-4))
        assert low == pytest.approx((0.1 - 1e-4) / (0.3 - 1e-4))

    def test_a_variance_that_could_be_zero_between_the_corners_tells_nothing(self) -> None:
        """With a mean of -1/4 the variance is 0 and the covariance 1/64; at -1/2 it is below 0."""
        y, of_x, of_y = Interval(-0.125, -0.125), Interval(0.0625, 0.0625), Interval(1.0, 1.0)
        box = Moments(Interval(-0.5, -0.125), y, of_x, of_y, Interval(-0.34375, 0.046875))
        assert box.correlation.high == 1.0

    def test_a_variance_that_could_be_zero_tells_nothing(self) -> None:
        mean, square = Interval(-0.1, 0.1), Interval(0.1, 0.2)
        box = Moments(mean, mean, Interval(0.0, 0.3), square, square)
        assert box.correlation.high == 1.0


def test_a_p_value_is_the_least_level_that_rejects() -> None:
    """A normal estimate 2 deviations from zero, whose ends have .55 of alpha each."""
    from scipy.special import ndtr

    law = NormalLaw(2.0, 1.0)
    answer = replace(law.at(0.05), law=law)
    found = p_value((answer,), lambda each: each[0].low > 0)
    assert found is not None
    assert found == pytest.approx(float(ndtr(-2.0)) / END_PART, rel=0.005)
    assert found >= float(ndtr(-2.0)) / END_PART
    far = NormalLaw(20.0, 1.0)
    assert p_value((replace(far.at(0.05), law=far),), lambda each: each[0].low > 0) == LEAST
    assert p_value((law.at(0.05),), lambda each: True) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: association(SCHEMA, ["size"]), "expected two columns of cells"),
        (lambda: association(SCHEMA, ["age", "sum"], bins=20), "at most 256 joint cells, got 20 x"),
        (lambda: correlation(SCHEMA, ["age", "size"]), "expected two numbers or bits"),
        (lambda: correlation(SCHEMA, ["age", "sum"], tau=2), r"tau expects a number in \(0, 1\]"),
        (lambda: correlation(SCHEMA, ["age", "sum"], deviation=0), "deviation expects"),
        (lambda: find("association").build(ONE), "expected fields that suit, 2 or more, got none"),
        (lambda: find("correlation").build(ONE), "expected fields that suit, 2 or more, got age"),
        (lambda: find("difference").build(ONE), "expected fields that suit, 1 or more, got none"),
    ],
)
def test_what_cannot_be_compared_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidParameter, match=message):
        make()
