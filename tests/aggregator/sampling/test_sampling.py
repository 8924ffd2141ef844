"""Exact draws: decided by integers where floats cannot, and distributed as they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_aggregator.sampling import (
    FloatDraws,
    SystemWords,
    Words,
    discrete_gaussian,
    discrete_laplace,
    exp_minus,
    happens,
    happens_exp_minus,
    integers_below,
    logistic,
    permutation,
)
from askance_client.errors import InvalidParameter
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6
DRAWS = 200_000


class Script:
    """Source of chosen words."""

    def __init__(self, words: Sequence[int]) -> None:
        self.left = list(words)

    def take(self, count: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def words(name: str) -> SeededWords:
    return SeededWords(Seed.of(1) / name)


def fits(drawn: NDArray[np.int64], weight: Callable[[int], float]) -> bool:
    """Run Pearson's test over the integers that are expected at least 20 times, and the rest."""
    reach = range(-3000, 3001)
    total = math.fsum(weight(k) for k in reach)
    kept = [k for k in reach if weight(k) / total * drawn.size >= 20]
    expected = [weight(k) / total * drawn.size for k in kept]
    observed = [int((drawn == k).sum()) for k in kept]
    rest = drawn.size - math.fsum(expected)
    if rest > 5:
        expected.append(rest)
        observed.append(drawn.size - sum(observed))
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return bool(stats.chi2.sf(statistic, len(expected) - 1) > ALPHA)


class TestTheBounds:
    @pytest.mark.parametrize(
        "x", [Fraction(1, 7), Fraction(3), Fraction(41, 2), Fraction(1, 10**6)]
    )
    @pytest.mark.parametrize("bits", [64, 128])
    def test_they_hold_the_exponential(self, x: Fraction, bits: int) -> None:
        with localcontext(prec=80):
            true = (-Decimal(x.numerator) / x.denominator).exp()
            for (low, high), real in (
                (exp_minus(x)(bits), true),
                (logistic(x)(bits), true / (1 + true)),
            ):
                assert low <= real * 2**bits <= high
                assert high - low <= 2

    def test_what_is_far_below_a_unit_is_bounded_without_computing_it(self) -> None:
        assert exp_minus(Fraction(10**30))(64) == (0, 1)


class TestDecisions:
    def test_a_tie_of_64_bits_is_broken_by_more(self) -> None:
        third = (1 << 64) // 3
        assert happens(Script([third, (1 << 64) // 3 - 1]), Fraction(1, 3), 1).tolist() == [True]
        assert happens(Script([third, (1 << 64) // 3 + 1]), Fraction(1, 3), 1).tolist() == [False]

    def test_beside_a_tie_one_word_decides(self) -> None:
        third = (1 << 64) // 3
        script = Script([third - 1, third + 1])
        assert happens(script, Fraction(1, 3), 2).tolist() == [True, False]
        assert not script.left

    def test_a_tie_of_an_exponential_is_broken_by_integers(self) -> None:
        x = Fraction(1, 3)
        low, _ = exp_minus(x)(128)
        first, second = low >> 64, low & ((1 << 64) - 1)
        guess = np.array([float(x)])
        for extra, expected in ((-3, True), (3, False)):
            script = Script([first, second + extra])
            assert happens_exp_minus(script, guess, lambda _: x).tolist() == [expected]

    @pytest.mark.parametrize(("p", "expected"), [(Fraction(0), False), (Fraction(1), True)])
    def test_what_is_certain_is_certain(self, p: Fraction, expected: bool) -> None:
        for word in (0, (1 << 64) - 1):
            assert happens(Script([word]), p, 1).tolist() == [expected]

    @pytest.mark.parametrize("p", [Fraction(-1, 2), Fraction(3, 2)])
    def test_a_probability_is_one(self, p: Fraction) -> None:
        with pytest.raises(InvalidParameter, match="probability: expected 0"):
            happens(words("p"), p, 1)


class TestIntegers:
    def test_words_that_would_favour_small_numbers_are_drawn_anew(self) -> None:
        assert integers_below(Script([(1 << 64) - 1, 5]), 3, 1).tolist() == [2]
        assert integers_below(Script([(1 << 64) - 1]), 1 << 62, 1).tolist() == [(1 << 62) - 1]

    def test_every_order_comes_up(self) -> None:
        source = words("orders")
        counts = {(0, 1, 2): 0}
        for _ in range(6000):
            order = tuple(permutation(source, 3).tolist())
            counts[order] = counts.get(order, 0) + 1
        assert len(counts) == 6
        assert stats.chisquare(list(counts.values())).pvalue > ALPHA

    def test_equal_keys_are_drawn_anew(self) -> None:
        assert permutation(Script([7, 7, 9, 8]), 2).tolist() == [1, 0]

    @pytest.mark.parametrize("bound", [0, -1, 1 << 63])
    def test_a_bound_is_checked(self, bound: int) -> None:
        with pytest.raises(InvalidParameter, match="bound"):
            integers_below(words("b"), bound, 1)


class TestDiscreteLaplace:
    @pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1), Fraction(10, 3), Fraction(90)])
    def test_it_is_distributed_as_it_says(self, scale: Fraction) -> None:
        drawn = discrete_laplace(words(f"laplace {scale}"), scale, DRAWS)
        assert fits(drawn, lambda k: math.exp(-abs(k) / float(scale)))

    def test_the_rare_tail_is_reached_by_the_loop(self) -> None:
        """Digits all 0, then twice "beyond" (e^-64, which takes two words), and a sign."""
        digits, never = 6, (1 << 64) - 1  # 45 nats of scale 1 take 6 digits
        script = Script([*[never] * digits, 0, 0, 0, 0, never, never])
        assert discrete_laplace(script, Fraction(1), 1).tolist() == [2 << digits]

    @pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(1 << 49)])
    def test_a_scale_is_checked(self, scale: Fraction) -> None:
        with pytest.raises(InvalidParameter, match="scale"):
            discrete_laplace(words("s"), scale, 1)


class TestDiscreteGaussian:
    @pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(2), Fraction(401, 3)])
    def test_it_is_distributed_as_it_says(self, variance: Fraction) -> None:
        drawn = discrete_gaussian(words(f"gaussian {variance}"), variance, DRAWS)
        assert fits(drawn, lambda k: math.exp(-k * k / 2 / float(variance)))

    def test_a_large_one_has_its_variance(self) -> None:
        drawn = discrete_gaussian(words("large"), Fraction(10**16), DRAWS)
        spread = drawn.astype(float).var() / 1e16
        assert abs(spread - 1) < 6 * math.sqrt(2 / DRAWS)

    @pytest.mark.parametrize("variance", [Fraction(0), Fraction(1 << 81)])
    def test_a_variance_is_checked(self, variance: Fraction) -> None:
        with pytest.raises(InvalidParameter, match="variance"):
            discrete_gaussian(words("v"), variance, 1)


class TestFloatDraws:
    def test_the_same_words_give_the_same_draws(self) -> None:
        one, two = (FloatDraws(words("floats")) for _ in range(2))
        assert one.gammavariate(3, 2) == two.gammavariate(3, 2)
        assert one.gaussians(4).tolist() == two.gaussians(4).tolist()
        assert one.getrandbits(100) == two.getrandbits(100) < 1 << 100

    def test_directions_are_of_length_one(self) -> None:
        assert np.linalg.norm(FloatDraws(words("sphere")).direction(20)) == pytest.approx(1)

    def test_the_norm_of_gaussians_is_theirs(self) -> None:
        drawn = FloatDraws(words("normal")).gaussians(20_000)
        assert stats.kstest(drawn, "norm").pvalue > ALPHA

    def test_gamma_is_gamma(self) -> None:
        draws = FloatDraws(words("gamma"))
        drawn = [draws.gammavariate(20, 0.5) for _ in range(20_000)]
        assert stats.kstest(drawn, "gamma", args=(20, 0, 0.5)).pvalue > ALPHA


@pytest.mark.parametrize("source", [SystemWords(), words("seeded")])
def test_words_are_words(source: Words) -> None:
    taken = source.take(1000)
    assert taken.dtype == np.uint64
    assert len(set(taken.tolist())) == 1000
    assert not np.array_equal(taken, source.take(1000))
