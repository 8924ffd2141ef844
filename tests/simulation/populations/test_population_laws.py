"""The laws of tables of correlated bits, of parities and of Gaussians.

Where a law is finite, its probabilities are enumerated in fractions and frequencies are tested by
chi-square with a fixed seed at ALPHA = 1e-6.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from askance_client.errors import InvalidParameter
from askance_simulation.populations import (
    POPULATIONS,
    Population,
    correlated_bits,
    gaussian_mixture,
    latent_classes,
    parities,
)
from askance_simulation.populations.columns import draws
from askance_simulation.populations.labelled_bits import Parity
from askance_simulation.populations.points import REACH, STEPS, _edges, apart, standard_steps
from askance_simulation.populations.population import build
from askance_simulation.randomness import Seed

ALPHA = 1e-6
SEED = Seed.of(31)
USERS = 40_000

Row = tuple[int, ...]


def table(people: Population) -> NDArray[np.int64]:
    """Return all columns, shape (n_users, fields)."""
    columns = people.columns(0, people.size)
    return np.stack([np.asarray(columns.values[name]) for name in people.schema.fields], axis=1)


def assert_law(rows: NDArray[np.int64], law: Mapping[Row, Fraction]) -> None:
    """Run a chi-square test over the possible rows; check that impossible ones do not occur."""
    assert sum(law.values()) == 1
    found = dict.fromkeys(law, 0)
    for row in map(tuple, rows.tolist()):
        found[row] += 1
    possible = [row for row, share in law.items() if share]
    assert sum(found[row] for row in possible) == len(rows)
    expected = np.array([float(law[row]) for row in possible]) * len(rows)
    assert expected.min() >= 5
    counts = np.array([found[row] for row in possible])
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.isf(ALPHA, len(possible) - 1)


def correlation_squared(law: Mapping[Row, Fraction], i: int, j: int) -> tuple[Fraction, int]:
    """Return the square of the correlation of two bits under a law, and its sign."""
    one, other, both = (
        sum((share for row, share in law.items() if all(row[k] for k in places)), Fraction(0))
        for places in ((i,), (j,), (i, j))
    )
    covariance = both - one * other
    square = covariance**2 / (one * (1 - one) * other * (1 - other))
    return square, (covariance > 0) - (covariance < 0)


def chain(d: int, c: Fraction, p: Fraction) -> dict[Row, Fraction]:
    """Return a stationary Markov chain: a bit repeats the one before with chance c, or is new."""
    law = {}
    for row in product((0, 1), repeat=d):
        share = p if row[0] else 1 - p
        for before, after in pairwise(row):
            share *= c * (before == after) + (1 - c) * (p if after else 1 - p)
        law[row] = share
    return law


class TestCorrelatedBits:
    @pytest.mark.parametrize(
        ("correlation", "ones"), [(50, 50), (0, 30), (90, 20), (-25, 20), (-95, 50), (95, 50)]
    )
    def test_the_chain_has_the_law_that_it_states(self, correlation: int, ones: int) -> None:
        law = chain(3, Fraction(correlation, 100), Fraction(ones, 100))
        assert_law(table(correlated_bits(USERS, SEED, 3, correlation, ones)), law)

    @pytest.mark.parametrize(("correlation", "ones"), [(50, 50), (30, 10), (-25, 80)])
    def test_its_correlations_are_powers_of_the_neighbours(
        self, correlation: int, ones: int
    ) -> None:
        c = Fraction(correlation, 100)
        law = chain(4, c, Fraction(ones, 100))
        for i, j in combinations(range(4), 2):
            square, sign = correlation_squared(law, i, j)
            assert square == c ** (2 * (j - i))
            assert sign == (1 if c > 0 or (j - i) % 2 == 0 else -1)

    def test_all_pairs_of_many_bits(self) -> None:
        """With fair bits the mean of s_i s_j, signs for bits, has deviation below 1/sqrt(n)."""
        signs = 1 - 2 * table(correlated_bits(USERS, SEED, 16, 80))
        found = signs.T @ signs / USERS
        gaps = np.abs(np.subtract.outer(np.arange(16), np.arange(16)))
        assert np.abs(found - 0.8**gaps).max() < norm.isf(ALPHA / 2 / 120) / USERS**0.5

    @pytest.mark.parametrize(
        ("d", "correlation", "ones", "message"),
        [
            (0, 50, 50, "1 to 64 bits, got 0"),
            (65, 50, 50, "1 to 64 bits, got 65"),
            (8, 100, 50, "-99 to 99 hundredths where 50 hundredths are ones, got 100"),
            (8, -100, 50, "got -100"),
            (8, -26, 20, "-25 to 99 hundredths where 20 hundredths are ones, got -26"),
            (8, -26, 80, "got -26"),
            (8, 50, 0, "1 to 99 hundredths of ones, got 0"),
            (8, 50, 100, "1 to 99 hundredths of ones, got 100"),
        ],
    )
    def test_a_setting_out_of_range_is_refused(
        self, d: int, correlation: int, ones: int, message: str
    ) -> None:
        with pytest.raises(InvalidParameter, match=message):
            correlated_bits(10, SEED, d, correlation, ones)


class TestLatentClasses:
    @staticmethod
    def law(d: int, a: Fraction, q: Fraction) -> dict[Row, Fraction]:
        shares = {}
        for row in product((0, 1), repeat=d + 1):
            share = q if row[-1] else 1 - q
            for bit in row[:-1]:
                share *= a if bit == row[-1] else 1 - a
            shares[row] = share
        return shares

    @pytest.mark.parametrize(("agreement", "second"), [(80, 50), (60, 20), (0, 50), (50, 90)])
    def test_bits_depend_on_the_class_alone(self, agreement: int, second: int) -> None:
        people = latent_classes(USERS, SEED, 2, agreement, second)
        assert_law(table(people), self.law(2, Fraction(agreement, 100), Fraction(second, 100)))

    @pytest.mark.parametrize(("agreement", "second"), [(80, 50), (60, 20), (30, 70)])
    def test_any_two_bits_correlate_as_stated(self, agreement: int, second: int) -> None:
        a, q = Fraction(agreement, 100), Fraction(second, 100)
        law = self.law(3, a, q)
        m = q * a + (1 - q) * (1 - a)
        for i, j in combinations(range(3), 2):
            square, sign = correlation_squared(law, i, j)
            assert square == (q * (1 - q) * (2 * a - 1) ** 2 / (m * (1 - m))) ** 2
            assert sign == 1

    def test_others_of_the_same_law_are_unseen(self) -> None:
        people = latent_classes(100, SEED)
        more = latent_classes(150, SEED).columns(100, 150)
        assert people.unseen is not None
        assert np.array_equal(
            np.asarray(people.unseen(50).values["y"]), np.asarray(more.values["y"])
        )

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"d": 0}, "1 to 64 bits, got 0"),
            ({"agreement": 101}, "0 to 100 hundredths, got 101"),
            ({"second": 0}, "1 to 99 hundredths, got 0"),
        ],
    )
    def test_a_setting_out_of_range_is_refused(
        self, settings: dict[str, int], message: str
    ) -> None:
        with pytest.raises(InvalidParameter, match=message):
            latent_classes(10, SEED, **settings)


class TestParities:
    @pytest.mark.parametrize("d", [1, 5, 32, 33, 70, 200])
    def test_the_target_labels_everybody(self, d: int) -> None:
        people = parities(500, SEED, d)
        target = people.target
        assert isinstance(target, Parity)
        assert len(target.r) == d
        columns = people.columns(0, 500)
        words = columns.values["x"]
        assert isinstance(words, tuple)
        x = np.stack([words[j // 32] >> (j % 32) & 1 for j in range(d)], axis=1)
        assert np.array_equal(np.asarray(columns.values["y"]), target(x))

    def test_the_bits_are_uniform_together(self) -> None:
        x = parities(USERS, SEED, 7).columns(0, USERS).values["x"]
        assert isinstance(x, tuple)
        rows = np.stack([x[0] >> j & 1 for j in range(7)], axis=1)
        assert_law(rows, {row: Fraction(1, 128) for row in product((0, 1), repeat=7)})

    def test_every_parity_is_equally_likely(self) -> None:
        found = [parities(1, Seed.of(n), 3).target for n in range(1_000)]
        rows = np.array([one.r for one in found if isinstance(one, Parity)])
        assert_law(rows, {row: Fraction(1, 8) for row in product((0, 1), repeat=3)})

    @pytest.mark.parametrize("d", [0, 4097])
    def test_a_number_of_bits_out_of_range_is_refused(self, d: int) -> None:
        with pytest.raises(InvalidParameter, match=f"got {d}"):
            parities(10, SEED, d)


class TestGaussians:
    def test_the_table_is_the_gaussian_s(self) -> None:
        """Bounds are within one unit of 2^-64 and what scipy's own floats are off by."""
        edges = [int(edge) for edge in _edges()]
        assert edges == sorted(edges)
        assert len(edges) == 2 * REACH * STEPS
        assert all(low + high == 1 << 64 for low, high in zip(edges, edges[::-1], strict=True))
        bounds = (np.arange(-REACH * STEPS, 0) + 0.5) / STEPS
        for edge, expected in zip(edges, norm.cdf(bounds) * 2.0**64, strict=False):
            assert abs(edge - expected) <= 1 + 1e-13 * expected

    def test_words_at_the_ends_are_the_ends(self) -> None:
        last = (1 << 64) - 1
        ends = standard_steps(np.array([0, 1 << 63, last], np.uint64))
        assert ends.tolist() == [-REACH * STEPS, 0, REACH * STEPS]

    def test_draws_follow_it(self) -> None:
        """Chi-square over 14 cells of half a standard deviation; mean and variance by z."""
        n = 400_000
        x = standard_steps(draws(SEED, 0, n, 1)[:, 0]) / STEPS
        cuts = (np.arange(-6, 7) * STEPS / 2 + 0.5) / STEPS
        expected = np.diff([0.0, *norm.cdf(cuts), 1.0]) * n
        counts = np.bincount(np.searchsorted(cuts, x), minlength=14)
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALPHA, 13)
        z = norm.isf(ALPHA / 2)
        assert abs(x.mean()) < z / n**0.5
        assert abs(x.var() - 1) < z * (2 / n) ** 0.5 + 1 / 12 / STEPS**2

    def test_a_clump_is_its_centre_and_as_wide_as_it_says(self) -> None:
        people = gaussian_mixture(USERS, SEED, 4, 2, 16)
        x = np.ldexp(table(people).astype(np.float64), -16)
        centres = apart(SEED / "concept", 4, 2, 1 - REACH * 16 / 512)
        place = np.linalg.norm(x[:, None] - centres[None], axis=2).argmin(axis=1)
        z = norm.isf(ALPHA / 2 / 16)
        for one in range(4):
            own = x[place == one]
            assert abs(len(own) - USERS / 4) < z * (USERS * 3 / 16) ** 0.5
            deviation = 16 / 512
            assert np.abs(own.mean(axis=0) - centres[one]).max() < z * deviation / len(own) ** 0.5
            spread = np.abs(own.var(axis=0) / deviation**2 - 1).max()
            assert spread < z * (2 / len(own)) ** 0.5 + 1e-4
        assert np.abs(np.corrcoef((x - centres[place]).T)[0, 1]) < z / USERS**0.5

    @pytest.mark.parametrize("spread", [1, 32])
    def test_nobody_is_clipped(self, spread: int) -> None:
        """The farthest centre and the farthest draw are within the bounds together."""
        for seed in range(20):
            centres = apart(Seed.of(seed) / "concept", 16, 2, 1 - REACH * spread / 512)
            assert np.abs(centres).max() + REACH * spread / 512 <= 1

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"clumps": 17}, "1 to 16 clumps, got 17"),
            ({"d": 17}, "number in 1..16, got 17"),
            ({"spread": 33}, "spread of 1 to 32, got 33"),
        ],
    )
    def test_a_setting_out_of_range_is_refused(
        self, settings: dict[str, int], message: str
    ) -> None:
        with pytest.raises(InvalidParameter, match=message):
            gaussian_mixture(10, SEED, **settings)


@pytest.mark.parametrize("name", sorted(POPULATIONS))
class TestAtScale:
    def test_chunks_of_any_size_have_the_same_people(self, name: str) -> None:
        """A sum in another order for another chunk would show in some record."""
        people = build(name, 1 << 17, SEED, {})
        whole = people.columns(0, 1 << 17)
        for size in (1, 7, 1 << 12, 100_003):
            start = 3 * size % 29_989
            part = people.columns(start, start + size)
            for key, column in part.values.items():
                expected = np.asarray(whole.values[key])[..., start : start + size]
                assert np.array_equal(np.asarray(column), expected)

    def test_they_can_be_sent_to_another_process(self, name: str) -> None:
        cloudpickle = pytest.importorskip("cloudpickle")
        people = build(name, 1_000, SEED, {})
        send: Callable[[Population], bytes] = cloudpickle.dumps
        sent = pickle.loads(send(people.moving_to(build(name, 1_000, SEED / "other", {}), "0.5")))
        for key, column in sent.columns(90, 110).values.items():
            expected = people.columns(90, 110).values[key]
            assert np.array_equal(np.asarray(column), np.asarray(expected))
        assert sent.schema == people.schema
        assert sent.target == people.target
        assert len(sent.in_round(4).columns(0, 50)) == 50
