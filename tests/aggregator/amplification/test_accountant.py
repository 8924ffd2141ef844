"""Ends of shuffled batches, held against exact laws of all populations, in integers.

The exact side is written here: it knows rows of integers and counts of symbols, and nothing of the
package but the rational bounds of e^x.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, permutations
from math import comb, lcm, prod

import numpy as np
import pytest

from askance_aggregator.amplification import (
    Atom,
    Comparison,
    Comparisons,
    Curve,
    Ends,
    TwoSymbols,
    accountant,
    bits,
    curve,
    delta_ends,
    epsilon_ends,
)
from askance_aggregator.amplification.bits import AllPopulations, BitBatch
from askance_aggregator.amplification.sums import Law, ReportSum
from askance_aggregator.families import k_ary_response, linear_hashing, randomized_response
from askance_client.accounting import exp_bounds
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, Channel

Row = Sequence[int]

# Ten channels in 32nds: bits that are even and skewed, a middle row, k-ary response, staircases,
# windows, lopsided rows whose worst direction is one of the two, and columns in proportion.
TABLES: dict[str, tuple[tuple[int, ...], ...]] = {
    "even bit": ((24, 8), (8, 24)),
    "skewed bit": ((12, 20), (3, 29)),
    "bit with a middle row": ((28, 4), (16, 16), (10, 22)),
    "columns in proportion": ((18, 6, 8), (6, 2, 24)),
    "three cells": ((20, 6, 6), (6, 20, 6), (6, 6, 20)),
    "four cells": ((17, 5, 5, 5), (5, 17, 5, 5), (5, 5, 17, 5), (5, 5, 5, 17)),
    "staircase": ((16, 8, 8), (8, 8, 16)),
    "windows": ((16, 8, 4, 4), (4, 16, 8, 4), (4, 4, 8, 16)),
    "lopsided": ((2, 14, 16), (6, 10, 16), (1, 20, 11)),
    "two symbols alike": ((21, 10, 1), (7, 23, 2)),
}
SIZES = (1, 2, 3, 4, 5, 6)


def channel(rows: Sequence[Row]) -> Channel:
    return Channel(tuple(tuple(mass * (COIN_SPACE // 32) for mass in row) for row in rows))


def outcomes(rows: Sequence[Row]) -> dict[tuple[int, ...], int]:
    """Masses of the counts of symbols of one report per row, in units of 32^-reports."""
    law = {(0,) * len(rows[0]): 1}
    for row in rows:
        more: dict[tuple[int, ...], int] = {}
        for counts, mass in law.items():
            for symbol, each in enumerate(row):
                key = (*counts[:symbol], counts[symbol] + 1, *counts[symbol + 1 :])
                more[key] = more.get(key, 0) + mass * each
        law = more
    return law


def exact_delta(record: Row, other: Row, others: Sequence[Row], ratio: Fraction) -> Fraction:
    """Sum over counts of (P - ratio Q)_+, the definition."""
    first, second = outcomes([record, *others]), outcomes([other, *others])
    a, b = ratio.numerator, ratio.denominator
    positive = sum(max(0, b * mass - a * second.get(key, 0)) for key, mass in first.items())
    return Fraction(positive, b * 32 ** (1 + len(others)))


@lru_cache(maxsize=8)
def populations(
    rows: tuple[tuple[int, ...], ...], answers: int
) -> list[list[dict[tuple[int, ...], int]]]:
    """Law of the counts by the target's level, for all populations of the others."""
    return [
        [outcomes([record, *others]) for record in rows]
        for others in combinations_with_replacement(rows, answers - 1)
    ]


def worst_delta(rows: tuple[tuple[int, ...], ...], answers: int, ratio: Fraction) -> Fraction:
    a, b = ratio.numerator, ratio.denominator
    worst = max(
        sum(max(0, b * mass - a * second.get(key, 0)) for key, mass in first.items())
        for laws in populations(rows, answers)
        for first, second in permutations(laws, 2)
    )
    return Fraction(worst, b * 32**answers)


def ratios(nano: int) -> tuple[Fraction, Fraction]:
    """e^(nano / 10^9) from both sides, to 2^-80."""
    low, high = exp_bounds(nano, 80)
    return Fraction(low, 1 << 80), Fraction(high, 1 << 80)


def named_delta(rows: Sequence[Row], answers: int, population: str, ratio: Fraction) -> Fraction:
    """Delta of the population that an end names."""
    found = re.fullmatch(r"level (\d+) against (\d+), others at (\d+)", population)
    if found:
        record, other, rest = (rows[int(level)] for level in found.groups())
        return exact_delta(record, other, [rest] * (answers - 1), ratio)
    found = re.fullmatch(r"(\d+) of (\d+) others at the greatest chance .*", population)
    assert found, population
    high = max(rows, key=lambda row: row[0])
    low = min(rows, key=lambda row: row[0])
    k, others = (int(part) for part in found.groups())
    assert others == answers - 1
    mixed = [high] * k + [low] * (others - k)
    return max(exact_delta(high, low, mixed, ratio), exact_delta(low, high, mixed, ratio))


@pytest.mark.parametrize("name", TABLES)
def test_ends_hold_the_worst_of_all_populations_of_up_to_six_users(name: str) -> None:
    rows = TABLES[name]
    randomizer = channel(rows)
    for answers in SIZES if len(rows) < 4 else SIZES[:4]:
        for nano in (0, 150_000_000):
            low, high = ratios(nano)
            ends = delta_ends(randomizer, answers, Fraction(nano, 10**9))
            assert ends.lower <= worst_delta(rows, answers, high), (answers, nano)
            assert worst_delta(rows, answers, low) <= ends.upper, (answers, nano)


@pytest.mark.parametrize("name", TABLES)
def test_the_lower_end_is_attained_by_the_population_that_is_named(name: str) -> None:
    rows = TABLES[name]
    if name == "columns in proportion":
        rows = ((24, 8), (8, 24))  # what it is merged to
    for answers in (1, 2, 3, 5):
        low, high = ratios(150_000_000)
        ends = delta_ends(channel(TABLES[name]), answers, Fraction(3, 20))
        exact = named_delta(rows, answers, ends.population, low)
        assert named_delta(rows, answers, ends.population, high) >= ends.lower
        assert ends.lower >= float(exact) * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize("name", ["even bit", "skewed bit", "bit with a middle row"])
@pytest.mark.parametrize("answers", SIZES)
def test_both_ends_of_two_symbols_are_the_worst_population(name: str, answers: int) -> None:
    """A batch of one user more or fewer is off by more than 1e-3 here."""
    low, _ = ratios(150_000_000)
    exact = float(worst_delta(TABLES[name], answers, low))
    ends = delta_ends(channel(TABLES[name]), answers, Fraction(3, 20))
    assert ends.upper - 1e-9 <= exact <= ends.upper
    assert ends.lower <= exact <= ends.lower + 1e-9


@pytest.mark.parametrize("name", TABLES)
def test_one_user_has_the_local_delta(name: str) -> None:
    rows = TABLES[name]
    low, _ = ratios(100_000_000)
    exact = float(max(exact_delta(x, y, [], low) for x in rows for y in rows))
    ends = delta_ends(channel(rows), 1, Fraction(1, 10))
    assert ends.lower <= exact <= ends.upper
    # The staircases' one law for all pairs is theirs up to 2^-64; of the others it may be more.
    if len(rows[0]) == 2 or name in ("columns in proportion", "three cells", "staircase"):
        assert ends.upper - ends.lower < 1e-9


def test_figures_that_are_known() -> None:
    """By other means: three compositions and the blanket; both ends of a 16-ary one."""
    bit = epsilon_ends(randomized_response(10**9), 10**6, Fraction(1, 10**6))
    assert 0.0028 <= bit.lower <= bit.upper <= 0.0035
    many = epsilon_ends(k_ary_response(16, 4 * 10**9), 10**6, Fraction(1, 10**6))
    assert 0.03036 <= many.lower <= many.upper <= 0.03038
    # (n - 1 copies would give 0 for a user alone.)
    alone = delta_ends(randomized_response(10**9), 1, Fraction(1, 10))
    assert 0.4338 <= alone.lower <= alone.upper <= 0.4339


def test_the_worst_population_of_a_bit_is_mixed() -> None:
    """eps0 4, 50 answers, eps .4: 41 of the 49 others at the greatest chance."""
    high = Fraction(randomized_response(4 * 10**9).table[0][0], COIN_SPACE)
    ratio = ratios(400_000_000)[0]
    exact = [exact_bit(high, 1 - high, 50, k, ratio) for k in range(50)]
    ends = delta_ends(randomized_response(4 * 10**9), 50, Fraction(2, 5))
    assert max(range(50), key=exact.__getitem__) == 41
    assert ends.population.startswith("41 of 49 others")
    assert ends.lower <= max(exact) <= ends.upper
    assert ends.upper - ends.lower < 1e-9


def exact_bit(high: Fraction, low: Fraction, n: int, k: int, ratio: Fraction) -> Fraction:
    """D(n, k) by the definition, of binomial sums in integers."""
    whole = lcm(high.denominator, low.denominator)
    top, bottom = int(high * whole), int(low * whole)
    binomials = [
        [comb(m, c) * p**c * (whole - p) ** (m - c) for c in range(m + 1)]
        for m, p in ((k, top), (n - 1 - k, bottom))
    ]
    others = [0] * (n + 1)
    for i, first in enumerate(binomials[0]):
        for j, second in enumerate(binomials[1]):
            others[i + j] += first * second
    total = 0
    for c in range(n + 1):
        same, before = others[c], others[c - 1] if c else 0
        record = top * before + (whole - top) * same
        other = bottom * before + (whole - bottom) * same
        total += max(0, ratio.denominator * record - ratio.numerator * other)
    return Fraction(total, ratio.denominator * whole**n)


@pytest.mark.parametrize(("high", "low"), [(11, 5), (15, 2), (2, 1)])
@pytest.mark.parametrize("convolved", [0, 192], ids=["circle", "convolved"])
def test_a_population_of_a_bit_has_close_ends(
    monkeypatch: pytest.MonkeyPatch, high: int, low: int, convolved: int
) -> None:
    monkeypatch.setattr(bits, "CONVOLVED", convolved)
    bit = TwoSymbols(high, low, 16)
    n = 24
    for k in (0, 9, 23):
        for ratio in (1.0, 1 + 2.0**-10, 1.25, high / low * 0.9375):
            exact = exact_bit(Fraction(high, 16), Fraction(low, 16), n, k, Fraction(ratio))
            batch, at = BitBatch(bit, n), np.array([k])
            upper, lower = (
                Fraction(float(batch.values(ratio, np.array([n]), at, sign)[0])) for sign in (1, -1)
            )
            assert lower <= exact <= upper
            assert float(upper - lower) <= 1e-6 * float(exact) + 1e-14


@pytest.mark.parametrize("shift", [-12, 12])
def test_an_end_beside_the_best_count_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    """An upper end of 1 is all that is known where f rises or falls over all tried counts."""
    monkeypatch.setattr(bits, "CONVOLVED", 0)
    monkeypatch.setattr(bits, "_OFFSETS", np.arange(shift - 4, shift + 4))
    batch, n, k = BitBatch(TwoSymbols(11, 5, 16), 60), np.array([60]), np.array([30])
    assert batch.values(1.0625, n, k, 1)[0] == 1.0


def test_cells_cover_all_populations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell's bound is that of a smaller batch: never below what it covers, and close to it."""
    n, bit, ratio = 60, TwoSymbols(13, 3, 16), 1.25
    exact = max(
        float(exact_bit(Fraction(13, 16), Fraction(3, 16), n, k, Fraction(ratio))) for k in range(n)
    )
    monkeypatch.setattr(bits, "CONVOLVED", 0)
    monkeypatch.setattr(bits, "_CELLS", 3)
    everyone = AllPopulations(bit, n)
    upper = everyone.upper(ratio, exact * 1.05)
    assert upper is not None
    assert exact <= upper <= exact * 1.05
    assert everyone.upper(ratio, exact * 0.999) is None
    lower, _ = everyone.lower(ratio, np.arange(n))
    assert exact * 0.999999 <= lower <= exact


def exact_sum(comparison: Comparison, n: int, ratio: Fraction) -> Fraction:
    """E(L_1 + ... + L_n)_+ / n of up to two symbols that tell something and one that is idle."""
    atoms, whole = comparison.atoms, comparison.denominator
    rest = whole - sum(atom.rest * atom.symbols for atom in atoms)
    masses = [atom.rest * atom.symbols for atom in atoms] + [rest]
    values = [
        Fraction(atom.record, atom.rest) - ratio * Fraction(atom.other, atom.rest) for atom in atoms
    ]
    unit = prod({value.denominator for value in values})
    scaled = [int(value * unit) for value in values] + [0]
    total = 0
    for counts in compositions(n, len(masses)):
        value = sum(c * v for c, v in zip(counts, scaled, strict=True))
        if value > 0:
            ways, left = 1, n
            for c, mass in zip(counts, masses, strict=True):
                ways *= comb(left, c) * mass**c
                left -= c
            total += ways * value
    return Fraction(total, n * unit * whole**n)


def compositions(n: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for others in compositions(n - first, parts - 1):
            yield (first, *others)


PAIR = Comparison((Atom(12, 4, 4), Atom(4, 12, 4)), 16, "two cells")
THREE = Comparison((Atom(12, 2, 2), Atom(2, 12, 2), Atom(2, 2, 2)), 16, "three cells")
RARE = Comparison((Atom(63, 1, 1), Atom(1, 63, 1)), 64, "rare reports")


@pytest.mark.parametrize("comparison", [PAIR, THREE, RARE], ids=["pair", "three", "rare"])
@pytest.mark.parametrize("ratio", [1.0, 1.03125, 1.5, 2.75])
@pytest.mark.parametrize("enumerated", [True, False], ids=["enumerated", "integrated"])
def test_sums_lie_between_their_ends(
    monkeypatch: pytest.MonkeyPatch, comparison: Comparison, ratio: float, enumerated: bool
) -> None:
    """A smoothing that is not given back, or a rounding inward, passes the exact value here."""
    if not enumerated:
        monkeypatch.setattr("askance_aggregator.amplification.sums._ENUMERATED", 0)
    for n in (1, 2, 7, 40) if enumerated else (7, 40):
        exact = exact_sum(comparison, n, Fraction(ratio))
        batch = ReportSum(Law.of(comparison), n)
        upper, lower = Fraction(batch.upper(ratio)), Fraction(batch.lower(ratio))
        assert lower <= exact <= upper
        assert exact <= Fraction(batch.ceiling(ratio))
        assert exact <= Fraction(batch.upper(ratio, smoothing=0.1))
        assert not batch.stays_within(ratio, float(exact) * 0.99)
        if enumerated:
            assert float(upper - lower) <= 1e-10 * float(exact) + 1e-200


def test_an_integrated_sum_is_close_where_reports_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("askance_aggregator.amplification.sums._ENUMERATED", 0)
    for n in (150,):
        for ratio in (1.03125, 1.25):
            exact = float(exact_sum(PAIR, n, Fraction(ratio)))
            batch = ReportSum(Law.of(PAIR), n)
            assert exact * 0.9 <= batch.lower(ratio) <= exact <= batch.upper(ratio) <= exact * 1.1


def test_draws_that_are_not_even_widen_both_ends() -> None:
    """Devices' masses within 1 - b and 1 / (1 - b) of even ones, b = 1/100, written by hand."""
    even = Comparison((Atom(3, 1, 1), Atom(1, 3, 1)), 4, "cell 0 against 1")
    attained = Comparison((Atom(3, 1, 3), Atom(1, 3, 1)), 4, "cell 0 against 1, others at 0")
    bias = Fraction(1, 100)
    devices = (
        (Fraction(752, 1000), Fraction(248, 1000)),
        (Fraction(249, 1000), Fraction(751, 1000)),
    )
    for cell in (0, 1):
        for mass, own in zip(devices[cell], (3, 1) if cell == 0 else (1, 3), strict=True):
            assert 1 - bias <= mass / Fraction(own, 4) <= 1 / (1 - bias)
    rows = [[int(mass * 1000) for mass in row] for row in devices]
    ratio = ratios(250_000_000)[0]
    for answers in (1, 2, 4, 6):
        ends = accountant.batch_of(Comparisons([even], [attained], bias), answers).delta(0.25)
        plain = accountant.batch_of(Comparisons([even], [attained]), answers).delta(0.25)
        worst = max(
            exact_bit(Fraction(rows[0][0], 1000), Fraction(rows[1][0], 1000), answers, k, ratio)
            for k in range(answers)
        )
        assert ends.lower < plain.lower <= plain.upper < ends.upper
        # The blanket loses b of its mass, e^epsilon two factors, and the end one.
        scaled = Comparison((Atom(300, 100, 99), Atom(100, 300, 99)), 400, "")
        expected = exact_sum(scaled, answers, ratio * Fraction(99, 100) ** 2) / (1 - bias)
        assert abs(ends.upper - expected) < 1e-9
        assert worst <= ends.upper
        high, low = (Fraction(row[0], 1000) for row in rows)
        named = exact_bit(high, low, answers, answers - 1, ratio)
        assert ends.lower <= named


def test_epsilon_and_delta_are_inverse() -> None:
    for randomizer in (randomized_response(10**9), k_ary_response(5, 10**9)):
        for answers in (3, 400, 10**7):
            ends = epsilon_ends(randomizer, answers, Fraction(1, 10**6))
            above = delta_ends(randomizer, answers, Fraction(ends.upper))
            below = delta_ends(randomizer, answers, Fraction(ends.lower) * Fraction(999, 1000))
            assert above.lower <= 1e-6 <= below.upper


@pytest.mark.parametrize("nano", [500_000_000, 4 * 10**9])
@pytest.mark.parametrize("answers", [10**4, 10**8])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 10**9)])
def test_ends_are_close_where_no_channel_keeps_them_apart(
    nano: int, answers: int, delta: Fraction
) -> None:
    two = epsilon_ends(randomized_response(nano), answers, delta)
    many = epsilon_ends(k_ary_response(16, nano), answers, delta)
    assert two.upper <= 1.02 * two.lower
    assert many.upper <= 1.005 * many.lower


def test_epsilon_is_never_above_the_local_one() -> None:
    for answers in (1, 2, 5):
        ends = epsilon_ends(linear_hashing(8, 10**9), answers, Fraction(1, 10**9))
        assert 0.99 <= ends.lower <= ends.upper <= 1.0


def test_a_curve_holds_at_its_points_and_between() -> None:
    randomizer = channel(TABLES["skewed bit"])
    found = curve(randomizer, 5)
    assert found.epsilons[0] == 0
    assert list(found.deltas) == sorted(found.deltas, reverse=True)
    rows = TABLES["skewed bit"]
    for nano in (0, 10_000_000, 333_000_000, 900_000_000):
        low, _ = ratios(nano)
        assert worst_delta(rows, 5, low) <= found.delta(nano / 1e9 * (1 - 1e-12))
    assert found.delta(3.0) == 0
    loose = found.delta(0.333) - float(worst_delta(rows, 5, ratios(333_000_000)[0]))
    assert loose < 0.05


@pytest.mark.parametrize(
    "make",
    [
        lambda: epsilon_ends(randomized_response(10**9), 0, Fraction(1, 2)),
        lambda: epsilon_ends(randomized_response(10**9), 5, Fraction(0)),
        lambda: epsilon_ends(randomized_response(10**9), 5, Fraction(1)),
        lambda: delta_ends(randomized_response(10**9), 5, Fraction(-1)),
        lambda: Ends(0.5, 0.25),
        lambda: Ends(-0.5, 0.25),
        lambda: Curve((0.0, 1.0), (0.5, 0.25)),
        lambda: Curve((0.0, 1.0), (0.0, 0.5)),
        lambda: Curve((0.5, 1.0), (0.5, 0.0)),
        lambda: TwoSymbols(3, 4, 8),
        lambda: TwoSymbols(8, 4, 8),
        lambda: Comparison((Atom(1, 1, 0),), 1, ""),
        lambda: Comparison((Atom(1, 1, 2),), 1, ""),
        lambda: Comparison((Atom(1, 2, 1),), 1, ""),
    ],
)
def test_what_is_out_of_range_is_refused(make: object) -> None:
    with pytest.raises(InvalidParameter):
        make()  # type: ignore[operator]
