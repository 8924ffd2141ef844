"""Reductions of the families for the accountant of shuffled batches, held against enumeration.

Expected laws are made here, symbol by symbol, from the published exact laws of single reports; what
is merged, which levels are compared, and the other users' levels are written by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from math import comb, factorial, prod

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.amplification import delta_ends, epsilon_ends
from askance_aggregator.families import (
    family_of,
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
    random_codebook,
    registered,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.families.channel import spread_pair
from askance_aggregator.families.comparisons import Comparison, Comparisons, TwoSymbols
from askance_aggregator.families.random_codebook import shared_at_most
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability
from askance_client.randomizers import (
    COIN_SPACE,
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)
from askance_client.randomizers.floyd import draw_members
from askance_client.randomizers.hypercube_draws import draw_flips, patterns_within
from askance_client.randomizers.random_codebook import ranking

FloatArray = NDArray[np.float64]
Law = dict[tuple[Fraction, Fraction], Fraction]
"""Mass under the law of the others, by the two levels' masses over it."""

MOST = COIN_SPACE // 3 * 2  # a threshold of about 2/3: near symbols are the likelier ones
FEW = COIN_SPACE // 97  # about 1/97: far symbols are

# Each with the triples of record, compared level and others' level of its lower comparisons.
CASES: list[tuple[Randomizer, list[tuple[int, int, int]]]] = [
    (KaryResponse(3, COIN_SPACE // 5), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (KaryResponse(5, COIN_SPACE // 17), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (KaryResponse(4, COIN_SPACE // 10 * 3), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (SubsetSelection(3, 1, MOST), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (SubsetSelection(3, 2, MOST), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (SubsetSelection(6, 2, MOST), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (SubsetSelection(6, 4, FEW), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (LinearHashing(5, 2, COIN_SPACE // 5), [(1, 2, 0), (0, 1, 0), (0, 1, 1)]),
    (LinearHashing(7, 3, COIN_SPACE // 8), [(1, 2, 0), (1, 3, 0), (0, 1, 0), (0, 1, 1)]),
    (LinearHashing(11, 3, COIN_SPACE // 8), [(1, 2, 0), (1, 3, 0), (0, 1, 0), (0, 1, 1)]),
    (LinearHashing(9, 5, COIN_SPACE // 9), [(1, 2, 0), (1, 5, 0), (0, 1, 0), (0, 1, 1)]),
    (HadamardSign(2, MOST), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (HadamardSign(3, MOST), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (HadamardSign(5, FEW), [(0, 1, 2), (0, 1, 0), (0, 1, 1)]),
    (HypercubeResponse(2, 0, MOST), [(0, 3, 1), (0, 3, 3), (0, 3, 0), (0, 3, 3)]),
    (HypercubeResponse(3, 1, MOST), [(0, 7, 1), (0, 7, 3), (0, 7, 0), (0, 7, 7)]),
    (HypercubeResponse(4, 1, MOST), [(0, 7, 9), (0, 7, 11), (0, 15, 0), (0, 15, 15)]),
    (HypercubeResponse(5, 3, FEW), [(0, 7, 25), (0, 7, 27), (0, 31, 0), (0, 31, 31)]),
    (HypercubeResponse(6, 1, MOST), [(0, 63, 7), (0, 15, 51), (0, 63, 0), (0, 63, 63)]),
    # (value, sign) is the level 2 value + (sign is -); the neutral level is the last.
    (
        SignedSubsetSelection(2, 1, MOST),
        [(0, 1, 0), (0, 1, 1), (0, 1, 2), (0, 1, 4), (0, 2, 0), (0, 2, 2), (0, 2, 4)],
    ),
    (
        SignedSubsetSelection(2, 2, MOST),
        [(0, 1, 0), (0, 1, 1), (0, 1, 2), (0, 1, 4), (0, 2, 0), (0, 2, 2), (0, 2, 4)],
    ),
    (
        SignedSubsetSelection(4, 2, MOST),
        [
            *((0, 1, 0), (0, 1, 1), (0, 1, 2), (0, 1, 8)),
            *((0, 2, 0), (0, 2, 2), (0, 2, 4), (0, 2, 8)),
        ],
    ),
]


def rows(randomizer: Randomizer) -> list[list[Fraction]]:
    """Return the probability of each report at each level, for even draws."""
    reports = list(family_of(randomizer).alphabet())
    return [
        [probability(randomizer, level, report) for report in reports]
        for level in range(randomizer.levels)
    ]


def law(record: Sequence[Fraction], other: Sequence[Fraction], rest: Sequence[Fraction]) -> Law:
    """Merge the symbols of three rows by ratios."""
    found: Law = {}
    for a, b, c in zip(record, other, rest, strict=True):
        found[a / c, b / c] = found.get((a / c, b / c), Fraction(0)) + c
    return found


def law_of(comparison: Comparison) -> Law:
    """Merge the atoms of a comparison by ratios."""
    found: Law = {}
    for atom in comparison.atoms:
        key = (Fraction(atom.record, atom.rest), Fraction(atom.other, atom.rest))
        mass = Fraction(atom.rest * atom.symbols, comparison.denominator)
        found[key] = found.get(key, Fraction(0)) + mass
    return found


def excess(law: Law, reports: int, ratio: Fraction) -> Fraction:
    """E(L_1 + ... + L_n)_+ / n for L = (a - ratio b) / c, and 0 with what is left of c's mass."""
    values = [(a - ratio * b, mass) for (a, b), mass in law.items()]
    values.append((Fraction(0), 1 - sum(law.values(), Fraction(0))))
    total = Fraction(0)
    for chosen in combinations_with_replacement(range(len(values)), reports):
        orders = factorial(reports) // prod(map(factorial, Counter(chosen).values()))
        chance = prod((values[at][1] for at in chosen), start=Fraction(orders))
        total += chance * max(sum((values[at][0] for at in chosen), Fraction(0)), Fraction(0))
    return total / reports


def reduced(randomizer: Randomizer) -> Comparisons:
    """Return the comparisons of a randomizer that is no bit."""
    found = family_of(randomizer).comparisons()
    assert isinstance(found, Comparisons)
    return found


@pytest.mark.parametrize(("randomizer", "triples"), CASES)
def test_every_lower_comparison_is_the_law_of_its_levels(
    randomizer: Randomizer, triples: list[tuple[int, int, int]]
) -> None:
    table = rows(randomizer)
    expected = [law(*(table[level] for level in triple)) for triple in triples]
    assert [law_of(comparison) for comparison in reduced(randomizer).lower] == expected


@pytest.mark.parametrize("randomizer", [randomizer for randomizer, _ in CASES])
def test_the_upper_comparisons_are_laws_of_pairs_beside_column_minima(
    randomizer: Randomizer,
) -> None:
    table = rows(randomizer)
    least = [min(column) for column in zip(*table, strict=True)]
    pairs = [law(table[0], other, least) for other in table[1:]]  # a family is symmetric
    assert all(law_of(comparison) in pairs for comparison in reduced(randomizer).upper)


@pytest.mark.parametrize("randomizer", [each for each, _ in CASES if each.levels <= 32])
def test_no_three_levels_have_a_greater_index_than_the_best_lower_comparison(
    randomizer: Randomizer,
) -> None:
    """No mix of others is worse in large batches: section 6 of docs/math/shuffled_families.md."""
    table = np.array([[float(chance) for chance in row] for row in rows(randomizer)])
    greatest = max(
        float(((record - other) ** 2 / table).sum(axis=1).max())
        for record, other in permutations(table, 2)
    )
    found = [
        sum(float((a - b) ** 2 * mass) for (a, b), mass in law_of(each).items())
        for each in reduced(randomizer).lower
    ]
    assert max(found) == pytest.approx(greatest, rel=1e-9, abs=1e-12)
    assert [each.index for each in reduced(randomizer).lower] == pytest.approx(found, rel=1e-9)


SMALL = [randomizer for randomizer, _ in CASES if randomizer.levels < 12]


@pytest.mark.parametrize("randomizer", SMALL)
def test_no_pair_of_levels_exceeds_the_upper_comparisons(randomizer: Randomizer) -> None:
    table = rows(randomizer)
    least = [min(column) for column in zip(*table, strict=True)]
    pairs: list[Law] = []
    for a, b in permutations(table, 2):
        pair = law(a, b, least)
        if pair not in pairs:
            pairs.append(pair)
    upper = [law_of(comparison) for comparison in reduced(randomizer).upper]
    for reports, ratio in product((1, 2, 3), (Fraction(1), Fraction(6, 5), Fraction(9, 5))):
        bound = max(excess(pair, reports, ratio) for pair in upper)
        assert max(excess(pair, reports, ratio) for pair in pairs) == bound


def test_a_codebook_is_bounded_by_near_sets_as_far_apart_as_two_can_be() -> None:
    table = rows(RandomCodebook(1, 1, 1, 9, MOST, seed_bits=1))
    assert len(table) == 16  # a digit: -8..7, of which all from 1 on are the same point
    least = [min(column) for column in zip(*table, strict=True)]
    upper = [law_of(each) for each in reduced(RandomCodebook(1, 1, 1, 9, MOST, seed_bits=1)).upper]
    for reports, ratio in product((1, 2), (Fraction(1), Fraction(6, 5))):
        bound = max(excess(pair, reports, ratio) for pair in upper)
        # Digits 7 and 9 are the vectors -1 and 1.
        pairs = [law(table[a], table[b], least) for a, b in ((7, 9), (9, 7))]
        greatest = max(excess(pair, reports, ratio) for pair in pairs)
        assert bound * Fraction(99, 100) < greatest <= bound * (1 + Fraction(1, 1 << 50))


@pytest.mark.parametrize(
    ("randomizer", "high"),
    [
        (KaryResponse(2, COIN_SPACE // 5), COIN_SPACE - COIN_SPACE // 5),
        (KaryResponse(2, MOST), MOST),
        (SubsetSelection(2, 1, MOST), MOST),
        (HadamardSign(1, FEW), COIN_SPACE - FEW),
        (HypercubeResponse(1, 0, MOST), MOST),
        (SignedSubsetSelection(1, 1, MOST), MOST),
    ],
)
def test_a_report_of_two_symbols_is_a_bit(randomizer: Randomizer, high: int) -> None:
    assert family_of(randomizer).comparisons() == TwoSymbols(high, COIN_SPACE - high, COIN_SPACE)


def test_a_hash_to_three_values_or_more_is_bounded_without_a_gap_in_the_index() -> None:
    # Sum of (a - b)^2 / c: the blanket's over that of the users on the line through both cells.
    found = reduced(linear_hashing(1024, 10**9))
    upper, line, off_line, *_ = (
        sum((a - b) ** 2 * mass for (a, b), mass in law_of(each).items())
        for each in (*found.upper, *found.lower)
    )
    assert upper == line
    # Off the line it is 1 / (1 - (1 - 1/e) / 3), but for one hash of 2,186.
    assert Fraction(1266, 1000) < upper / off_line < Fraction(1268, 1000)


def test_what_a_draw_lacks_of_even_is_within_the_bias() -> None:
    # Coins of 5 bits, all of them: what the bias is for 64 bits by the same formula.
    bits = 5
    space = 1 << bits
    counts: Counter[bytes] = Counter()
    for coins in product(range(space), repeat=3):
        counts[bytes(draw_members(5, 2, 20, 0, coins, bits))] += 1
    bias = Fraction(2 * (2 * 5 - 2 - 1), 2 * space)
    assert bias == Fraction(reduced(SubsetSelection(5, 2, MOST)).bias * COIN_SPACE / space)
    for drawn, count in counts.items():
        even = Fraction(20, space) / 4 if drawn[0] == ord("1") else Fraction(12, space) / 6
        assert 1 - bias <= Fraction(count, space**3) / even <= 1 / (1 - bias)


def test_what_a_pattern_lacks_of_even_is_within_the_bias() -> None:
    bits = 5
    space = 1 << bits
    counts: Counter[int] = Counter()
    for coins in product((0, space - 1), range(space), range(space), range(space)):
        counts[draw_flips(3, 0, space // 2, coins, bits)] += 1
    near = patterns_within(3)[0]
    bias = Fraction(2 + 1 * (2 * 3 - 1 + 1), 2 * space)
    assert bias == reduced(HypercubeResponse(3, 0, MOST)).bias * COIN_SPACE / space
    for pattern, count in counts.items():
        even = Fraction(1, 2) / (near if pattern == 0 else 8 - near)
        assert 1 - bias <= Fraction(count, 2 * space**3) / even <= 1 / (1 - bias)


@pytest.mark.parametrize(("values", "size"), [(3, 1), (3, 2), (5, 5), (7, 3)])
def test_the_coins_of_a_neutral_user_are_even_to_within_the_bias(values: int, size: int) -> None:
    randomizer = SignedSubsetSelection(values, size, MOST)
    bias = reduced(randomizer).bias
    even = Fraction(1, 2**size) / len(list(_subsets(values, size)))
    for report in family_of(randomizer).alphabet():
        chance = probability(randomizer, 2 * values, report) / even
        assert 1 - bias <= chance <= 1 / (1 - bias)


def test_hashes_and_ranks_are_even_to_within_the_bias() -> None:
    hashing = LinearHashing(7, 3, COIN_SPACE // 8)
    # The hash a is drawn by floor(8 U / 2^64): 2^61 coins each, so any bias covers it.
    assert reduced(hashing).bias == Fraction(8, COIN_SPACE)
    book = RandomCodebook(1, 1, 1, 9, MOST, seed_bits=0)
    bias = reduced(book).bias
    chances = sorted(rows(book)[0])
    near, far = Fraction(MOST, COIN_SPACE) / 9, Fraction(COIN_SPACE - MOST, COIN_SPACE) / 27
    assert all(1 - bias <= chance / far <= 1 / (1 - bias) for chance in chances[:27])
    assert all(1 - bias <= chance / near <= 1 / (1 - bias) for chance in chances[27:])


@pytest.mark.parametrize(
    "randomizer",
    [
        k_ary_response(1 << 20, 10**9),
        subset_selection(65_536, 10**9),
        linear_hashing(1 << 20, 10**9),
        hadamard_sign(32_767, 10**9),
        signed_subset_selection(32_767, 2 * 10**9),
        hypercube_response(1024, 10**9),
        random_codebook(1024, 10**6, 10**9),
    ],
)
def test_the_greatest_randomizers_have_few_atoms(randomizer: Randomizer) -> None:
    found = reduced(randomizer)
    assert max(len(each.atoms) for each in (*found.upper, *found.lower)) <= 27
    assert found.bias < Fraction(1, 10**8)


def test_a_bias_of_one_is_refused() -> None:
    found = reduced(KaryResponse(3, COIN_SPACE // 5))
    with pytest.raises(InvalidParameter, match="bias: expected at least 0 and below 1, got 1"):
        Comparisons(found.upper, found.lower, Fraction(1))


def _ratios(record: int, other: int) -> tuple[Fraction, Fraction]:
    return Fraction(record), Fraction(other)


def _subsets(values: int, size: int) -> list[tuple[int, ...]]:
    return [each for each in product((0, 1), repeat=values) if sum(each) == size]


def table(*weights: Sequence[int]) -> Channel:
    """Make a channel of rows in proportion to integers; column 0 has what is left over."""
    rows = []
    for row in weights:
        unit = COIN_SPACE // sum(row)
        entries = [unit * weight for weight in row]
        entries[0] += COIN_SPACE - sum(entries)
        rows.append(tuple(entries))
    return Channel(tuple(rows))


# 64, 32 and 16 divide 2^64: these rows are exact.
STAIRCASE = table((3, 1, 1, 3), (1, 3, 1, 3), (1, 1, 3, 3))
LOOSE = table((6, 4, 3, 3), (4, 6, 3, 3), (3, 4, 6, 3), (4, 3, 3, 6))
UNEVEN = table((9, 3, 2, 2), (4, 6, 4, 2), (2, 3, 2, 9), (5, 5, 3, 3))


def test_the_columns_in_proportion_and_the_equal_rows_of_a_table_are_merged() -> None:
    found = reduced(table((2, 2, 3, 1, 8), (2, 2, 3, 1, 8), (4, 4, 1, 3, 4), (1, 1, 6, 2, 6)))
    pairs = {f"{x} against {y}" for x, y in permutations((0, 2, 3), 2)}
    assert {each.population[6:17] for each in found.upper} == pairs
    assert all(len(each.atoms) == 4 for each in found.upper)


def test_a_table_of_two_symbols_is_a_bit() -> None:
    # Columns 0 and 2 are in proportion; the extreme rows have 12 and 3 of 16 in them.
    bit = family_of(table((8, 4, 4), (4, 10, 2), (4, 10, 2), (2, 13, 1))).comparisons()
    assert isinstance(bit, TwoSymbols)
    both = {Fraction(bit.high, bit.denominator), Fraction(bit.low, bit.denominator)}
    assert both in ({Fraction(12, 16), Fraction(3, 16)}, {Fraction(13, 16), Fraction(4, 16)})


def test_a_table_whose_levels_are_alike_hides_all() -> None:
    found = reduced(table((1, 2, 5), (1, 2, 5)))
    assert [law_of(each) for each in (*found.upper, *found.lower)] == [
        {_ratios(1, 1): Fraction(1)}
    ] * 2


def test_one_law_bounds_all_pairs_of_a_staircase_table() -> None:
    # Least masses 1/8, 1/8, 1/8, 3/8: three columns of ratio 3, of which two levels take one each.
    (upper,) = reduced(STAIRCASE).upper
    eighth = Fraction(1, 8)
    assert law_of(upper) == {
        _ratios(3, 1): eighth,
        _ratios(1, 3): eighth,
        _ratios(1, 1): Fraction(4, 8),
    }


@pytest.mark.parametrize(
    "channel",
    [
        STAIRCASE,
        LOOSE,
        UNEVEN,
        table((10, 4, 2), (2, 10, 4), (4, 2, 10)),
        table((7, 7, 2), (2, 7, 7), (7, 2, 7)),  # two halves do not fit: 2 s > g
        table((8, 6, 2), (2, 7, 7), (7, 2, 7)),
        table((12, 1, 3), (1, 12, 3), (7, 6, 3)),
        table((6, 6, 2, 2), (2, 6, 6, 2), (2, 2, 6, 6), (6, 2, 2, 6)),
    ],
)
def test_the_law_for_all_pairs_of_a_table_exceeds_each(channel: Channel) -> None:
    rows_of = rows(channel)
    least = [min(column) for column in zip(*rows_of, strict=True)]
    bound = law_of(spread_pair(list(zip(*channel.table, strict=True))))
    assert sum(bound.values()) == sum(least)
    for reports, ratio in product((1, 2, 3), (Fraction(1), Fraction(6, 5), Fraction(9, 5))):
        most = excess(bound, reports, ratio)
        for a, b in permutations(rows_of, 2):
            assert excess(law(a, b, least), reports, ratio) <= most


def test_levels_that_must_share_great_entries_lose_nothing() -> None:
    """Two of three symbols: g = 6/16, r = 7/2, s = (10/16) / (5/2) = 4/16, 2 s - g = 2/16."""
    sets = table((7, 7, 2), (2, 7, 7), (7, 2, 7))
    eighth = Fraction(2, 16)
    assert law_of(spread_pair(list(zip(*sets.table, strict=True)))) == {
        (Fraction(7, 2), Fraction(7, 2)): eighth,
        (Fraction(7, 2), Fraction(1)): eighth,
        (Fraction(1), Fraction(7, 2)): eighth,
    }


def test_a_table_whose_law_for_all_pairs_is_loose_gives_its_pairs() -> None:
    found = reduced(LOOSE)
    rows_of = rows(LOOSE)
    least = [min(column) for column in zip(*rows_of, strict=True)]
    pairs = [law(a, b, least) for a, b in permutations(rows_of, 2)]
    assert len(found.upper) == len(pairs) == 12
    assert all(law_of(each) in pairs for each in found.upper)


def test_the_lower_comparisons_of_a_table_have_the_greatest_indices() -> None:
    rows_of = rows(UNEVEN)
    indices = sorted(
        sum((a - b) ** 2 / c for a, b, c in zip(x, y, z, strict=True))
        for (x, y), z in product(permutations(rows_of, 2), rows_of)
    )
    found = [
        sum(((a - b) ** 2 * mass for (a, b), mass in law_of(each).items()), Fraction(0))
        for each in reduced(UNEVEN).lower
    ]
    assert found[:2] == indices[:-3:-1]
    # Beside them the worst pair with the others at one of its levels: of 0 and 2, either first.
    pairs = {f"level {x} against {y}, others at {at}" for x, y, at in product((0, 2), repeat=3)}
    assert {each.population for each in reduced(UNEVEN).lower[2:]} <= pairs


def test_a_table_of_many_levels_has_one_law() -> None:
    weights = [[151 if x == y else 1 for y in range(150)] for x in range(150)]
    found = reduced(table(*weights))
    assert len(found.upper) == 1
    assert found.bias == 0


def test_the_lower_end_is_that_of_the_best_population_wherever_it_stands() -> None:
    # The third comparison here: its lower end lies between .7 of the upper end and all of it.
    randomizer = signed_subset_selection(64, 2 * 10**9)
    comparisons = reduced(randomizer)
    indices = [
        sum(float(a - b) ** 2 * float(mass) for (a, b), mass in law_of(each).items())
        for each in comparisons.lower
    ]
    best = comparisons.lower[indices.index(max(indices))]
    assert best.population == "+ at value 0 against - at value 0, others + at value 1"
    ends = epsilon_ends(randomizer, 10**6, Fraction(1, 10**6))
    assert ends.population == best.population
    assert ends.upper < 1.09 * ends.lower


def near_codes(scores: Sequence[int], near: int) -> set[int]:
    """Return the codes that a device takes as near, of the inner products with the rows."""
    return set(ranking(scores)[:near])


@pytest.mark.parametrize("scores", [(5, -2, 7, 1), (3, 0, -4, 0), (0, 0, 0, 9), (0, 0, 0, 0)])
def test_opposite_vectors_share_the_near_codes_that_are_counted(scores: tuple[int, ...]) -> None:
    """Eight codes, of them near 1..7; rows across from the vector as many as there are zeros."""
    opposite = [-score for score in scores]
    expected = {
        0: (0, 0, 0, 0, 2, 4, 6),
        2: (0, 0, 1, 2, 3, 4, 6),
        3: (0, 1, 2, 3, 4, 5, 6),
        4: (1, 2, 3, 4, 5, 6, 7),
    }[scores.count(0)]
    shared = [len(near_codes(scores, n) & near_codes(opposite, n)) for n in range(1, 8)]
    assert tuple(shared) == expected
    assert [shared_at_most(n, 8, scores.count(0), 10**9) // 1 for n in range(1, 8)] == shared


@pytest.mark.parametrize(
    ("rows", "hidden"),
    [
        (((1, 1), (1, -1)), 0),
        (((1, 0, 0), (0, 1, 0), (0, 0, 1)), 1),
        (((2, 1, 2), (2, -2, -1), (1, 2, -2)), 0),
        (((1, 1, 0), (1, -1, 0), (0, 0, 1)), 1),
        (((1, 0), (0, 1)), 1),
    ],
)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_mean_of_what_opposite_vectors_share_is_bounded(
    rows: tuple[tuple[int, ...], ...], hidden: int, steps: int
) -> None:
    """All vectors of a grid whose first component is `steps`; the last `hidden` ones are 0."""
    codes, free = 2 * len(rows), len(rows) - hidden
    grid = [
        (steps, *rest, *[0] * hidden) for rest in product(range(-steps, steps + 1), repeat=free - 1)
    ]
    for near in range(1, codes):
        total = 0
        for vector in grid:
            scores = [sum(a * b for a, b in zip(row, vector, strict=True)) for row in rows]
            opposite = [-score for score in scores]
            total += len(near_codes(scores, near) & near_codes(opposite, near))
        mean, bound = Fraction(total, len(grid)), shared_at_most(near, codes, hidden, steps)
        assert mean <= bound
        if (
            rows == ((1, 1), (1, -1)) and near == 2
        ):  # half: each row is 0 for one vector of the grid
            assert mean == bound == Fraction(2, 2 * steps + 1)


BOOKS = [
    RandomCodebook(16, 7, 1, 13, MOST, seed_bits=0),
    RandomCodebook(16, 7, 1, 13, FEW, seed_bits=1),
    RandomCodebook(16, 7, 1, 13, MOST, seed_bits=3),
    RandomCodebook(17, 7, 1, 24, MOST, seed_bits=1),
    RandomCodebook(12, 7, 2, 10, MOST, seed_bits=0),
]


@pytest.mark.parametrize("book", BOOKS)
def test_both_ends_of_a_codebook_hold_all_populations_of_a_few_vectors(
    book: RandomCodebook,
) -> None:
    """Batches of 1, 2 and, with few seeds, 3: counts of all symbols, seeds included."""
    size = book.components
    vector = [7, *((3 * at) % 15 - 7 for at in range(1, size))]
    vectors = [vector, [-value for value in vector], [0] * size]
    reports = list(family_of(book).alphabet())
    laws = [
        np.array([float(probability(book, level, one)) for one in reports])
        for level in (book.vector_level(each, -7, 7, ()) for each in vectors)
    ]
    levels = range(len(laws))
    for answers, nano in product((1, 2, 3)[: 3 - (len(reports) > 36)], (0, 200_000_000)):
        ends = delta_ends(book, answers, Fraction(nano, 10**9))
        ratio = float(np.exp(nano / 1e9))
        worst = {
            others: max(
                counted_delta(laws[a], laws[b], [laws[at] for at in others], ratio)
                for a, b in permutations(levels, 2)
            )
            for others in combinations_with_replacement(levels, answers - 1)
        }
        assert ends.lower <= max(worst.values()) + 1e-12
        assert max(worst.values()) <= ends.upper + 1e-12
        # What a vector and its opposite attain; a sixth is lost to rows across from some vectors.
        assert ends.lower >= 0.84 * max(worst[others] for others in worst if set(others) <= {0, 1})


def counted_delta(
    record: FloatArray, other: FloatArray, others: Sequence[FloatArray], ratio: float
) -> float:
    """Sum (P - ratio Q)_+ over the counts of up to three reports."""
    change = record - ratio * other
    if not others:
        return float(np.maximum(change, 0).sum())
    if len(others) == 1:
        pairs = np.multiply.outer(change, others[0])
        return float(np.maximum(pairs + pairs.T, 0).sum() / 2)
    first, second = others
    both = np.multiply.outer(first, second)
    place = np.multiply.outer(change, both + both.T)  # of the target, the first
    total = place + place.transpose(1, 0, 2) + place.transpose(1, 2, 0)
    return float(np.maximum(total, 0).sum() / 6)


@pytest.mark.parametrize(
    ("book", "shared"),
    [
        (RandomCodebook(1, 1, 1, 18, MOST), 17 + Fraction(1, 3)),  # one row of 18 meets it
        (RandomCodebook(12, 1, 2, 34, MOST), 10 + Fraction(24, 3)),  # 6 rows of each basis may not
        (RandomCodebook(14, 1 << 30, 1, 18, MOST), 4 + Fraction(14, (1 << 26) + 1)),
        (RandomCodebook(14, 7, 1, 20, MOST), 6 + Fraction(14, 15)),
        (RandomCodebook(16, 1, 1, 30, MOST), 24 + Fraction(6, 3)),
    ],
)
def test_a_vector_and_its_opposite_share_as_many_codes_as_are_proved(
    book: RandomCodebook, shared: Fraction
) -> None:
    near = Fraction(book.threshold, COIN_SPACE)
    ratio = near * (book.codes - book.near) / (book.near * (1 - near))  # of near to far chances
    at_vector, at_opposite = (law_of(each) for each in reduced(book).lower)
    own = near * (book.near - shared) / book.near
    assert at_vector[Fraction(1), 1 / ratio] == own
    assert at_opposite[1 / ratio, Fraction(1)] == own


def test_records_that_are_opposite_vectors_have_opposite_points() -> None:
    for radius, unit, steps in (
        (1, 1, 1),
        (7, 1, 7),
        (1 << 20, 1, 1 << 20),
        (1 << 30, 32, 1 << 25),
    ):
        book = RandomCodebook(3, radius, 1, 5, MOST)
        for rest in ((0, 0), (steps, -steps), (1, -1)):
            vector = [unit * value for value in (steps, *rest)]
            there, back = (
                book.point(book.vector_level(each, -2 * radius, 2 * radius, ()))
                for each in (vector, [-value for value in vector])
            )
            assert there == [-value for value in back]
            assert there[:3] != [0] * 3 == there[3:6]
            size = there[0] // steps  # of a unit, on the working grid: no component is clipped
            assert there[:3] == [size * value for value in (steps, *rest)]


def test_both_ends_bear_draws_that_are_not_quite_even() -> None:
    # Section 2 of docs/math/shuffled_families.md, with a bias of 1/20 and all small batches.
    bias = Fraction(1, 20)
    even = [[5, 3, 2], [2, 3, 5], [3, 4, 3]]
    shift = [[2, -1, -1], [-1, -1, 2], [-1, 2, -1]]  # hundredths
    beyond = {"upper": 0, "lower": 0}
    for sign in (1, -1):
        record, other, rest = (
            [Fraction(10 * a + sign * b, 100) for a, b in zip(*pair, strict=True)]
            for pair in zip(even, shift, strict=True)
        )
        ideal = [[Fraction(mass, 10) for mass in row] for row in even]
        for real, near in zip((record, other, rest), ideal, strict=True):
            ratios = [a / b for a, b in zip(real, near, strict=True)]
            assert 1 - bias <= min(ratios)
            assert max(ratios) <= 1 / (1 - bias)
        least = [min(column) for column in zip(record, other, rest, strict=True)]
        blanket = [(1 - bias) * min(column) for column in zip(*ideal, strict=True)]
        for reports, ratio in product((1, 2, 3, 4), (Fraction(1), Fraction(6, 5), Fraction(8, 5))):
            upper = excess(law(record, other, least), reports, ratio)
            bound = excess(law(ideal[0], ideal[1], blanket), reports, ratio * (1 - bias) ** 2)
            assert upper <= bound / (1 - bias)
            beyond["upper"] += upper > excess(law(ideal[0], ideal[1], blanket), reports, ratio)
            lower = excess(law(record, other, rest), reports, ratio)
            beyond["lower"] += lower < excess(law(ideal[0], ideal[1], ideal[2]), reports, ratio)
            for more in (0, 1, 2):
                batch = excess(
                    law(ideal[0], ideal[1], ideal[2]), reports + more, ratio / (1 - bias) ** 2
                )
                lost = comb(reports + more - 1, more + 1) * bias ** (more + 1)
                assert lower >= (1 - bias) * (batch - lost)
    assert min(beyond.values()) > 0  # the even law alone is no end


def test_every_family_is_reduced_and_held_against_its_law() -> None:
    """Tables and codebooks have tests of their own above; a new family must have one too."""
    held = {type(randomizer) for randomizer, _ in CASES}
    assert held | {Channel, RandomCodebook} == set(registered())
