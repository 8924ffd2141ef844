"""Random codebooks: the exact law of all seeds and coins, the sphere, agreement, and bias."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from math import isqrt, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.families import CodebookFamily, family_of, random_codebook
from askance_aggregator.families.random_codebook import (
    LENGTH,
    fitted,
    greatest_sums,
    ranked_rows,
    turned_rows,
)
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability, valid
from askance_client.randomizers import COIN_SPACE, RandomCodebook
from askance_client.randomizers.public_rotations import public_octets, turned
from askance_simulation.families import draw

NAT = 10**9
M = COIN_SPACE
Vectors = NDArray[np.int64]


def level_of(book: RandomCodebook, values: list[int]) -> int:
    return book.vector_level(values, -book.radius, book.radius, ())


def scaled(count: int) -> list[int]:
    """Return the points of 0..2^64 where (U count) >> 64 steps up."""
    return [-(-t * M // count) for t in range(count + 1)]


def law(book: RandomCodebook, level: int) -> Counter[bytes]:
    """Count the coin triples, of 2^192, that yield each report."""
    found: Counter[bytes] = Counter()
    seeds = list(pairwise(scaled(1 << book.seed_bits)))
    sides = (
        (0, book.threshold, book.near),
        (book.threshold, M, book.codes - book.near),
    )
    for seed, (start, stop, size) in product(seeds, sides):
        for rank in pairwise(scaled(size)):
            report = book.randomize(level, [seed[0], start, rank[0]])
            assert report == book.randomize(level, [seed[1] - 1, stop - 1, rank[1] - 1])
            found[report] += (seed[1] - seed[0]) * (stop - start) * (rank[1] - rank[0])
    assert found.total() == M**3
    return found


SMALL = [
    RandomCodebook(1, 1, 1, 12, 3 * (M // 4), 1),
    RandomCodebook(2, 3, 1, 1, M // 9, 0),
    RandomCodebook(3, 5, 1, 27, M - 1000, 0),  # near codes are more than far ones
    RandomCodebook(17, 2, 2, 7, M // 2, 0),
    fitted(RandomCodebook(2, 7, 1, 5, 1, 1), 2 * NAT),
]


@pytest.mark.parametrize("book", SMALL, ids=str)
def test_the_coins_follow_the_stated_law_exactly_and_no_vector_exceeds_the_loss(
    book: RandomCodebook,
) -> None:
    r = book.radius
    vectors = [[0] * book.components, [r] * book.components, [-r] * book.components]
    vectors += [[(-1) ** j * (j % (r + 1)) for j in range(book.components)]]
    laws = {level: law(book, level) for level in {level_of(book, each) for each in vectors}}
    alphabet = list(family_of(book).alphabet())
    for level, found in laws.items():
        assert set(found) == set(alphabet)
        for report, coins in found.items():
            assert probability(book, level, report) == Fraction(coins, M**3)
    worst = max(
        Fraction(max(chances), min(chances))
        for chances in ([found[report] for found in laws.values()] for report in alphabet)
    )
    stated = Fraction(book.loss.numerator, book.loss.denominator)
    assert worst <= stated <= worst * (1 + Fraction(1, 10**17))


def test_every_ranking_is_an_order_of_all_codes_whatever_the_scores() -> None:
    """The loss needs nothing else of rotations, points and inner products."""
    from askance_client.randomizers.random_codebook import ranking

    scores = [[0] * 8, [5, -5, 5, -5, 0, 0, 1, 2], [-(1 << 52)] * 8]
    for row in scores:
        assert sorted(ranking(row)) == list(range(16))
    assert ranking(scores[0]) == list(range(16))  # ties by index
    assert ranking(scores[1])[:4] == [0, 3, 4, 7]
    assert ranked_rows(np.array(scores)).tolist() == [ranking(row) for row in scores]


@pytest.mark.parametrize(("order", "bases"), [(18, 1), (18, 5), (20, 64), (66, 3), (1026, 2)])
def test_columns_are_rotated_as_a_device_rotates(order: int, bases: int) -> None:
    """Lengths reach 2^46: in one coordinate, or spread over all."""
    generator = np.random.default_rng([order, bases])
    vectors = generator.integers(-(1 << 26), 1 << 26, size=(4, order))
    vectors[1] = 0
    vectors[1, order - 1] = (1 << 46) - 1
    vectors[2] = -(1 << 46) // (isqrt(order) + 1)
    seeds = [0, 1, (1 << 40) - 1, (1 << 64) - 1]
    rows = turned_rows(vectors, seeds, bases).tolist()
    each = zip(vectors.tolist(), seeds, strict=True)
    assert rows == [turned(vector, seed, bases) for vector, seed in each]


def test_rotations_keep_lengths_exactly_and_are_orthogonal() -> None:
    for order in (8, 10, 18, 66):
        basis = np.eye(order, dtype=np.int64)
        for seed in (0, 1, (1 << 40) - 1):
            rows = turned_rows(basis, [seed] * order, 2).reshape(order, 2, order)
            for one in (rows[:, 0], rows[:, 1]):
                assert (one @ one.T == LENGTH**2 * np.eye(order, dtype=np.int64)).all()
            assert (rows[:, 0] != rows[:, 1]).any()


def test_expanded_seeds_stay_as_they_are() -> None:
    """Devices and aggregators of any release expand a seed alike."""
    assert public_octets(7, 1, 8)[:12].hex() == "0dc6e7415af5e2c41c35bd5f"
    assert public_octets(7, 3, 8)[:32] == public_octets(7, 1, 8)
    book = RandomCodebook(3, 1 << 20, 1, 5, M // 2)
    coins = [0x0123456789ABCDEF, M // 3, M // 5]
    assert book.randomize(level_of(book, [1 << 19, -7, 12345]), coins).hex() == "0028f5c28f57"


@pytest.mark.parametrize("components", [1, 2, 5, 16, 63])
@pytest.mark.parametrize("radius", [1, 5, 1 << 20, (1 << 31) - 1])
def test_points_lie_on_the_sphere(components: int, radius: int) -> None:
    """Within the grid: a step of 2^-25 of the radius per coordinate, of what is shorter."""
    generator = np.random.default_rng([components, radius])
    book = RandomCodebook(components, radius, 1, 1, 1)
    assert book.order % 2 == 0
    assert book.order.bit_count() > 1
    assert components < book.order <= max(18, components + 4)
    directions = generator.standard_normal((20, components))
    directions *= generator.random((20, 1)) / np.linalg.norm(directions, axis=1, keepdims=True)
    for values in (directions * radius).astype(np.int64).tolist():
        point = book.point(level_of(book, values))
        length = isqrt(sum(part * part for part in point))
        unit = book.point(level_of(book, [0] * components))[components]
        assert (1 << 25) - 1 <= unit < 1 << 26
        assert abs(length - unit) <= sqrt(components) + 2
        for value, part in zip(values, point, strict=False):
            assert abs(value * unit - part * radius) <= 2 * radius


def test_longer_vectors_are_drawn_back_to_the_radius() -> None:
    """Only the direction is left: both points have the same ranking."""
    book = RandomCodebook(3, 1000, 1, 5, M // 2)
    shorter, longer = (book.point(level_of(book, [v, -v, v // 2])) for v in (660, 998))
    assert shorter[3] > shorter[0] // 10
    assert longer[3] == 0
    assert level_of(book, [5000, -5000, 0]) == level_of(book, [1000, -1000, 0])


@pytest.mark.parametrize(
    ("order", "bases", "near"), [(8, 1, 3), (18, 1, 13), (18, 8, 2), (66, 2, 5), (10, 2, 9)]
)
def test_sums_of_the_greatest_are_those_of_even_points(order: int, bases: int, near: int) -> None:
    """A simulation of Gaussian directions, within 5 standard errors of 20,000."""
    points = np.random.default_rng([order, bases]).standard_normal((20_000, bases, order))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    sizes = -np.sort(-np.abs(points).reshape(len(points), -1), axis=1)[:, :near]
    for found, power in zip(greatest_sums(order, bases), (1, 2), strict=True):
        sums = (sizes**power).sum(axis=1)
        assert abs(sums.mean() - found[near]) < 5 * sums.std() / sqrt(len(sums))


@pytest.mark.parametrize(("order", "bases"), [(8, 1), (16, 4), (18, 1), (18, 16), (1002, 1)])
def test_all_sizes_together_have_the_sums_of_the_sphere(order: int, bases: int) -> None:
    """Squares sum to 1 per basis; two bases of one order have twice the sums of one."""
    sums, squares = greatest_sums(order, bases)
    assert squares[-1] == pytest.approx(bases, rel=1e-6)
    assert sums[-1] == pytest.approx(bases * greatest_sums(order, 1)[0][-1], rel=1e-6)


PRIVUNIT = {  # its exact variance per component on the sphere of that dimension
    (16, 0.5): 24.375, (16, 1): 6.1047, (16, 2): 1.5364, (16, 4): 0.39196, (16, 8): 0.10058,
    (64, 0.5): 24.976, (64, 1): 6.2730, (64, 2): 1.5963, (64, 4): 0.42420, (64, 8): 0.12425,
    (1000, 0.5): 25.167, (1000, 1): 6.3264, (1000, 2): 1.6154, (1000, 4): 0.43460,
    (1000, 8): 0.13235,
}  # fmt: skip


@pytest.mark.parametrize(
    ("components", "nats"),
    [
        pytest.param(*at, marks=[pytest.mark.slow] if at in [(1000, 0.5), (1000, 2)] else [])
        for at in PRIVUNIT
    ],
)
def test_variance_is_within_a_twentieth_of_privunits(components: int, nats: float) -> None:
    family = CodebookFamily(random_codebook(components, 1 << 20, int(nats * NAT)))
    own = family.component_variance - 1 / components  # less the square of a unit vector
    assert 1 <= own / PRIVUNIT[components, nats] <= 1.05
    assert family.randomizer.width <= 7
    assert 0 <= nats * NAT - family.randomizer.loss.nano_nats <= 1


def drawn(book: RandomCodebook, vectors: Vectors, seed: int) -> Vectors:
    coins = np.random.default_rng(seed).integers(0, M, (len(vectors), 3), dtype=np.uint64)
    return CodebookFamily(book).vectors(draw(book, vectors, coins))


DIRECTIONS: dict[str, Callable[[int], NDArray[Any]]] = {
    "along one component": lambda d: np.eye(d)[0],
    "along two": lambda d: np.eye(d)[:2].sum(axis=0) / sqrt(2),
    "even": lambda d: np.full(d, 1 / sqrt(d)),
    "falling": lambda d: 0.7 ** np.arange(d) * sqrt(0.51),
    "short": lambda d: -np.eye(d)[d - 1] / 3,
    "none": lambda d: np.zeros(d),
}


@pytest.mark.parametrize("name", DIRECTIONS)
@pytest.mark.parametrize(("components", "nats"), [(2, 1), (7, 4), (16, 2)])
def test_means_are_unbiased_and_of_the_stated_variance(
    name: str, components: int, nats: int
) -> None:
    """At n = 30,000, within 5.5 standard errors per component; variance within 5 % of stated."""
    book = random_codebook(components, 1 << 20, nats * NAT)
    family = CodebookFamily(book)
    truth = (DIRECTIONS[name](components) * book.radius).astype(np.int64)
    vectors = drawn(book, np.broadcast_to(truth, (30_000, components)), components + nats)
    means = np.array([float(mean) for mean in family.means(vectors.sum(axis=0), len(vectors))])
    estimates = vectors / LENGTH * book.radius / family.agreement
    errors = estimates.std(axis=0) / sqrt(len(vectors))
    assert (np.abs(means - truth) <= 5.5 * errors).all()
    squares = (estimates**2).mean(axis=0) / book.radius**2
    assert squares.max() <= family.greatest_variance * 1.05
    if name == "even":  # of the longest vectors the mean over components is exact
        assert squares.mean() == pytest.approx(family.component_variance, rel=0.05)


def test_half_of_the_agreement_would_be_seen() -> None:
    """The test of the mean sees a scale that is off by a twelfth: its power."""
    book = random_codebook(7, 1 << 20, 4 * NAT)
    truth = np.zeros((30_000, 7), np.int64)
    truth[:, 0] = book.radius
    vectors = drawn(book, truth, 3)[:, 0] / LENGTH / CodebookFamily(book).agreement
    assert abs(vectors.mean() * 13 / 12 - 1) > 5.5 * vectors.std() / sqrt(30_000)


def cubic_field(order: int, steps: int) -> float:
    """Follow z_l z_j^2, l = j, through the steps; return what is left beside a multiple of z.

    Of the signs only even powers have a mean. With a and b a pair that becomes (a + b, a - b) over
    the root of 2, a field sum over j of A_lj z_l z_j^2 becomes one of the same form.
    """
    field, half = np.eye(order), order // 2
    for _ in range(steps):
        pairs = (field[:, :half] + field[:, half:]) / 2
        mixed = np.repeat(np.repeat((pairs[:half] + pairs[half:]) / 2, 2, axis=0), 2, axis=1)
        for p in range(half):
            (a, b), (c, d) = field[p::half, p::half][:2, :2]
            own, cross = (a + b + c + d) / 4, (3 * a - b - c + 3 * d) / 4
            mixed[2 * p : 2 * p + 2, 2 * p : 2 * p + 2] = [[own, cross], [cross, own]]
        field = mixed
    return float(np.abs(field - field.mean()).max())


@pytest.mark.parametrize("order", [18, 20, 34, 66, 130])
def test_the_lowest_bias_of_rotations_is_below_a_two_millionth(order: int) -> None:
    """The first field that steps may leave is cubic: docs/adr/0033 has the argument."""
    assert cubic_field(order, 32) < 5e-7
    assert cubic_field(order, 8) > 1e-3  # with a quarter of the steps it would be seen


def test_parameters_out_of_range_are_refused() -> None:
    good = (16, 1 << 20, 1, 5, M // 2, 40)
    for place, value, text in (
        (0, 0, "components: expected 1..1024, got 0"),
        (0, 1025, "components: expected 1..1024, got 1025"),
        (1, 0, "radius: expected 1.."),
        (1, (1 << 40) + 1, "radius: expected 1.."),
        (2, 0, "bases: expected 1..1820, got 0"),
        (2, 1821, "bases: expected 1..1820, got 1821"),
        (3, 0, "near: expected 1..35, got 0"),
        (3, 36, "near: expected 1..35, got 36"),
        (4, 0, "threshold: expected 1.."),
        (5, 41, "seed_bits: expected 0..40, got 41"),
        (5, -1, "seed_bits: expected 0..40, got -1"),
        (3, True, "near: expected a plain int, got bool"),
    ):
        with pytest.raises(InvalidParameter, match=text):
            RandomCodebook(*(*good[:place], value, *good[place + 1 :]))


def test_what_is_no_report_is_refused() -> None:
    book = RandomCodebook(2, 3, 1, 4, M // 3, 2)
    family = family_of(book)
    assert sum(valid(book, bytes([number])) for number in range(256)) == 144
    assert not any(valid(book, each) for each in (b"", b"\0\0", b"\x90", b"\xff"))
    assert probability(book, 0, b"\x90") == 0
    with pytest.raises(InvalidParameter, match="found others"):
        family.tally(np.array([[144]], np.uint8))
    with pytest.raises(InvalidParameter, match="not shares"):
        family.frequencies([0, 0], 1)
    for sums, n in (([0, 0], 0), ([0], 1), ([0, LENGTH + 1], 1)):
        with pytest.raises(InvalidParameter, match="sums: expected"):
            CodebookFamily(book).means(sums, n)
