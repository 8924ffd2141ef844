"""Certified losses of every family, held against the exact law of coins of 3 to 6 bits.

The families run as they are, with a smaller coin space in place of 2^64: all coins of a draw are
enumerated, so that the law of the reports is exact and what a draw is short of uniform is large.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from types import FunctionType

import pytest

import askance_aggregator.families as families
import askance_client.randomizers as randomizers
from askance_aggregator.families import family_of, randomized_response
from askance_client import exact_laws
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability
from askance_client.randomizers import (
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    PrivacyLoss,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)

CoinBits = Callable[[int], None]
MODULES = [
    exact_laws,
    randomizers,
    *(
        importlib.import_module(f"{package.__name__}.{found.name}")
        for package in (randomizers, families)
        for found in pkgutil.iter_modules(package.__path__)
    ),
]


@pytest.fixture
def coin_bits(monkeypatch: pytest.MonkeyPatch) -> CoinBits:
    """Replace 64-bit coins by smaller ones, in every module of the randomizers."""

    def replace(bits: int) -> None:
        space = 1 << bits
        smaller = {"COIN_BITS": bits, "COIN_SPACE": space, "_COINS": space, "_HALF": space >> 1}
        defaults = {"coin_bits": bits, "coin_space": space}
        for module in MODULES:
            for name, value in smaller.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, value)
            for function in vars(module).values():
                if isinstance(function, FunctionType) and function.__defaults__:
                    names = [
                        parameter.name
                        for parameter in inspect.signature(function).parameters.values()
                        if parameter.default is not parameter.empty
                    ]
                    if set(names) <= set(defaults):
                        changed = tuple(defaults[name] for name in names)
                        monkeypatch.setattr(function, "__defaults__", changed)

    return replace


def law(randomizer: Randomizer, level: int, bits: int) -> Counter[bytes]:
    """Count the coin tuples that yield each report, by the device's own function."""
    draws = product(range(1 << bits), repeat=randomizer.coins)
    return Counter(randomizer.randomize(level, coins) for coins in draws)


def exact_ratio(randomizer: Randomizer, bits: int) -> Fraction:
    """The greatest ratio of two levels' chances of one report, over all levels and reports."""
    laws = [law(randomizer, level, bits) for level in range(randomizer.levels)]
    reports = set().union(*laws)
    assert reports == set(family_of(randomizer).alphabet())
    assert all(each.total() == 1 << (bits * randomizer.coins) for each in laws)
    return max(
        Fraction(max(each[report] for each in laws), min(each[report] for each in laws))
        for report in reports
    )


def uniform_ratio(randomizer: Randomizer) -> Fraction:
    """The same of the stated probabilities, of draws that are uniform."""
    chances = [
        [probability(randomizer, level, report) for level in range(randomizer.levels)]
        for report in family_of(randomizer).alphabet()
    ]
    return max(max(row) / min(row) for row in chances)


def ratio(loss: PrivacyLoss) -> Fraction:
    return Fraction(loss.numerator, loss.denominator)


def enlarged(uniform: Fraction, ranges: list[int], bits: int) -> Fraction:
    """The documented bound: M / (M - 2 S) times the ratio of uniform draws of these ranges."""
    space, total = 1 << bits, sum(ranges)
    return uniform * Fraction(space, space - 2 * total)


def some_thresholds(bits: int) -> list[int]:
    space = 1 << bits
    return sorted({1, space // 3, space // 2, 3 * space // 4, space - 1})


def exact_families(bits: int) -> Iterator[Randomizer]:
    """All small parameters of the families whose loss is an exact ratio."""
    space = 1 << bits
    for kept in range(1, space):
        yield Channel(((kept, space - kept), (space - kept, kept)))
    yield Channel(((1, 2, space - 3), (2, space - 3, 1), (space // 2, space // 2 - 1, 1)))
    for cells in (2, 3, 4):
        for other in range(1, -(-space // (cells - 1))):
            yield KaryResponse(cells, other)
    for cells, modulus in ((3, 2), (4, 2), (4, 3), (6, 5), (8, 2), (8, 3), (9, 3)):
        vectors = modulus
        while vectors < cells:
            vectors *= modulus
        for other in (1, space // (2 * modulus), -(-space // (modulus - 1)) - 1):
            if vectors <= space < 8 * vectors and other >= 1:  # else it takes long
                yield LinearHashing(cells, modulus, other)
    for values in (1, 2, 3, 4):
        for threshold in some_thresholds(bits):
            yield HadamardSign(values, threshold)


@pytest.mark.parametrize("bits", [3, 4, 6])
def test_an_exact_loss_is_the_ratio_of_the_enumerated_law(bits: int, coin_bits: CoinBits) -> None:
    """Tables, k-ary response, linear hashing, one Hadamard sign: neither more nor less."""
    coin_bits(bits)
    names = set()
    for randomizer in exact_families(bits):
        names.add(randomizer.name)
        assert exact_ratio(randomizer, bits) == ratio(randomizer.loss), randomizer
    assert names == {"channel", "k-ary", "linear-hashing", "hadamard-sign"}


@pytest.mark.parametrize("bits", [3, 4, 6])
def test_randomized_response_loses_what_its_law_loses(bits: int, coin_bits: CoinBits) -> None:
    """The greatest number of kept coins whose ratio the budget allows; one more is too many."""
    coin_bits(bits)
    space = 1 << bits
    for kept in range(space // 2 + 1, space - 1):
        nano = PrivacyLoss(kept, space - kept).nano_nats
        response = randomized_response(nano)
        assert response.table == ((kept, space - kept), (space - kept, kept))
        assert exact_ratio(response, bits) == ratio(response.loss) == Fraction(kept, space - kept)


@pytest.mark.parametrize(
    ("cells", "size", "bits"),
    [
        *[(2, 1, 3), (3, 1, 4), (4, 1, 4), (5, 1, 5), (7, 1, 6), (9, 1, 6)],
        *[(3, 2, 4), (4, 2, 4), (5, 2, 4)],
    ],
)
def test_a_sets_loss_covers_its_law_and_is_the_stated_bound(
    cells: int, size: int, bits: int, coin_bits: CoinBits
) -> None:
    coin_bits(bits)
    ranges, checked = list(range(cells - size, cells)), 0
    for threshold in some_thresholds(bits):
        if 2 * sum(ranges) >= 1 << bits:  # too few coins to certify anything: refused
            with pytest.raises(InvalidParameter):
                SubsetSelection(cells, size, threshold)
            continue
        randomizer, checked = SubsetSelection(cells, size, threshold), checked + 1
        uniform, loss = uniform_ratio(randomizer), ratio(randomizer.loss)
        assert exact_ratio(randomizer, bits) <= loss
        assert loss == enlarged(uniform, ranges, bits)
    assert checked or 2 * sum(ranges) >= 1 << bits


@pytest.mark.parametrize(
    ("values", "size", "bits"),
    [(1, 1, 4), (2, 1, 4), (3, 1, 4), (4, 1, 4), (2, 2, 3), (3, 2, 3)],
)
def test_a_signed_sets_loss_covers_its_law_and_is_the_stated_bound(
    values: int, size: int, bits: int, coin_bits: CoinBits
) -> None:
    """The chances come from the stated law, in which all five kinds of levels are present."""
    coin_bits(bits)
    ranges, checked = list(range(values - size, values)), 0
    for threshold in (3, 1 << (bits - 1), 3 << (bits - 2)):
        try:
            randomizer = SignedSubsetSelection(values, size, threshold)
        except InvalidParameter:
            opposite = ((1 << bits) - threshold) * size // (2 * values - size)
            even = (1 << bits) * size // (2 * values)
            assert 0 in (opposite, even) or 2 * sum(ranges) >= 1 << bits
            continue
        checked += 1
        loss = ratio(randomizer.loss)
        assert exact_ratio(randomizer, bits) <= loss
        assert loss == enlarged(uniform_ratio(randomizer), ranges, bits)
    assert checked or 2 * sum(ranges) >= 1 << bits


@pytest.mark.parametrize(
    ("components", "radius", "bits"), [(1, 0, 3), (1, 0, 6), (2, 0, 4), (2, 1, 4), (3, 1, 4)]
)
def test_a_sign_patterns_loss_covers_its_law_and_is_the_stated_bound(
    components: int, radius: int, bits: int, coin_bits: CoinBits
) -> None:
    """A draw flips signs whatever they are, so the law of level 0 is that of every level."""
    coin_bits(bits)
    half = components // 2
    ranges = [1, *range(components - half + 1, components + 1)] if components > 1 else []
    for threshold in (1, (1 << bits) // 3, (1 << bits) - 1):
        randomizer = HypercubeResponse(components, radius, threshold)
        found = law(randomizer, 0, bits)
        assert set(found) == set(family_of(randomizer).alphabet())
        for level, coins in product(range(randomizer.levels), product((0, 5), repeat=3)):
            draw = [*coins, *[3] * randomizer.coins][: randomizer.coins]
            flips = int.from_bytes(randomizer.randomize(0, draw), "big")
            assert int.from_bytes(randomizer.randomize(level, draw), "big") == level ^ flips
        loss = ratio(randomizer.loss)
        assert Fraction(max(found.values()), min(found.values())) <= loss
        assert loss == enlarged(uniform_ratio(randomizer), ranges, bits)


@pytest.mark.parametrize("components", [*range(1, 7)])
def test_every_pattern_size_is_charged_by_the_stated_bound(components: int) -> None:
    """Full coins, all radii; the bound is cut outward to 256 bits: 2^-250 at most is added."""
    half = components // 2
    ranges = [1, *range(components - half + 1, components + 1)] if components > 1 else []
    for radius, threshold in product(range(components), (1, 1 << 62, 3 << 62, (1 << 64) - 1)):
        randomizer = HypercubeResponse(components, radius, threshold)
        bound = enlarged(uniform_ratio(randomizer), ranges, 64)
        assert 1 <= ratio(randomizer.loss) / bound <= 1 + Fraction(1, 1 << 250)


@pytest.mark.parametrize(("components", "radius"), [(300, 100), (700, 10), (1024, 480), (1024, 0)])
def test_a_long_bound_is_cut_outward(components: int, radius: int) -> None:
    """Terms of up to 1,088 bits become 256-bit ones: never less, and at most 2^-250 more."""
    near = sum(_binomials(components)[: radius + 1])
    half, space = components // 2, 1 << 64
    ranges = [1, *range(components - half + 1, components + 1)]
    for threshold in (1, 1 << 63, space - 1):
        inside = threshold * ((1 << components) - near)
        outside = (space - threshold) * near
        uniform = Fraction(max(inside, outside), min(inside, outside))
        loss = ratio(HypercubeResponse(components, radius, threshold).loss)
        assert 1 <= loss / enlarged(uniform, ranges, 64) <= 1 + Fraction(1, 1 << 250)


def _binomials(count: int) -> list[int]:
    row = [1]
    for k in range(count):
        row.append(row[-1] * (count - k) // (k + 1))
    return row


@pytest.mark.parametrize("bits", [6, 7])
@pytest.mark.parametrize("near", [1, 12, 27])
def test_a_codebooks_loss_covers_its_law(near: int, bits: int, coin_bits: CoinBits) -> None:
    """Ranks of unequal numbers of coins: 64 coins for 36 codes. One seed, all other coins."""
    coin_bits(bits)
    space, levels = 1 << bits, (7, 8, 9)  # -1, 0 and 1
    for threshold in some_thresholds(bits):
        book = RandomCodebook(1, 1, 1, near, threshold, 0)
        laws = {level: Counter[bytes]() for level in levels}
        for level, coin in product(levels, range(space)):
            laws[level][book.randomize(level, [0, 0, coin])] += threshold
            laws[level][book.randomize(level, [0, space - 1, coin])] += space - threshold
        for report in family_of(book).alphabet():
            chances = [laws[level][report] for level in levels]
            assert Fraction(max(chances), min(chances)) <= ratio(book.loss)
        counts = [count for law in laws.values() for count in law.values()]
        assert ratio(book.loss) == Fraction(max(counts), min(counts))


def test_no_family_is_left_out() -> None:
    """A family that the package exports is one of those that this file enumerates."""
    families = {
        item
        for item in vars(randomizers).values()
        if isinstance(item, type) and issubclass(item, Randomizer) and not inspect.isabstract(item)
    }
    assert families == {
        Channel,
        HadamardSign,
        HypercubeResponse,
        KaryResponse,
        LinearHashing,
        RandomCodebook,
        SignedSubsetSelection,
        SubsetSelection,
    }
