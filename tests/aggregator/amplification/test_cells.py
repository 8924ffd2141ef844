"""Small batches of k-ary response, held against all populations, listed in integers.

The exact side is written here: rows in 32nds, counts of symbols, and the definition of delta.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, product

import pytest

from askance_aggregator.amplification import accountant, epsilon_ends
from askance_aggregator.amplification.cells import AllCells
from askance_aggregator.families import family_of, k_ary_response
from askance_aggregator.families.comparisons import EvenCells
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, KaryResponse

# Cells, and the masses of the own cell and of another one, in 32nds.
LAWS = [(3, 20, 6), (4, 17, 5), (5, 12, 5), (6, 22, 2), (5, 28, 1)]
RATIOS = (1.0, 1.25, 2.0)
MOST = {3: 6, 4: 5, 5: 5, 6: 4}
"""Users of the greatest batch that is listed, by the number of cells."""


def row(cells: int, own: int, other: int, at: int) -> list[int]:
    return [own if cell == at else other for cell in range(cells)]


@lru_cache(maxsize=4096)
def outcomes(
    cells: int, own: int, other: int, levels: tuple[int, ...]
) -> dict[tuple[int, ...], int]:
    """Masses of the counts of cells, in units of 32^-users."""
    if not levels:
        return {(0,) * cells: 1}
    law: dict[tuple[int, ...], int] = {}
    for counts, mass in outcomes(cells, own, other, levels[1:]).items():
        for cell, each in enumerate(row(cells, own, other, levels[0])):
            key = (*counts[:cell], counts[cell] + 1, *counts[cell + 1 :])
            law[key] = law.get(key, 0) + mass * each
    return law


def exact_delta(law: tuple[int, int, int], others: tuple[int, ...], ratio: float) -> Fraction:
    """Compare cell 0 with cell 1: the sum over counts of (P - ratio Q)_+."""
    first, second = (outcomes(*law, (target, *others)) for target in (0, 1))
    a, b = Fraction(ratio).numerator, Fraction(ratio).denominator
    positive = sum(max(0, b * mass - a * second.get(key, 0)) for key, mass in first.items())
    return Fraction(positive, b * 32 ** (1 + len(others)))


def populations(cells: int, users: int) -> Iterator[tuple[int, ...]]:
    """List the others, but for the names of third cells: 2 is used first, and so on."""
    for others in combinations_with_replacement(range(cells), users):
        counts = [others.count(cell) for cell in range(2, cells)]
        if counts == sorted(counts, reverse=True):
            yield others


def even_cells(law: tuple[int, int, int]) -> EvenCells:
    return EvenCells(law[1], law[0], 32)


def numbers(name: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"cell 0 against 1, (\d+) others at 0, (\d+) at 1 and (\d+) at 2", name)
    assert found, name
    zeros, ones, thirds = (int(part) for part in found.groups())
    return zeros, ones, thirds


@pytest.mark.parametrize("law", LAWS)
def test_no_population_exceeds_the_bound_of_its_numbers(law: tuple[int, int, int]) -> None:
    for answers in range(1, MOST[law[0]] + 1):
        listed = {
            numbers(each.name): each
            for block in AllCells(even_cells(law), answers).blocks()
            for each in block.beyond(1.0, -1.0)
        }
        assert len(listed) == answers * (answers + 1) // 2
        for others in populations(law[0], answers - 1):
            zeros, ones = others.count(0), others.count(1)
            found = listed[zeros, ones, answers - 1 - zeros - ones]
            for ratio in RATIOS:
                exact = exact_delta(law, others, ratio)
                assert exact <= found.upper(ratio)
                if max(others, default=0) <= 2:  # one third cell: the population of the lower end
                    assert found.lower(ratio) <= exact <= found.lower(ratio) + 1e-12


def test_more_third_reports_than_third_users_are_bounded_as_is_proved() -> None:
    """Two others at third cells, two at 0: of three or more third reports two hold the others'."""
    listed = {
        numbers(each.name): each
        for block in AllCells(even_cells((4, 17, 5)), 5).blocks()
        for each in block.beyond(1.0, -1.0)
    }
    for kind, loose in (((2, 0, 2), True), ((0, 0, 4), False), ((3, 0, 1), False)):
        gaps = [listed[kind].upper(ratio) - listed[kind].lower(ratio) for ratio in RATIOS]
        assert (max(gaps) > 1e-6) == loose
        assert loose or max(gaps) < 1e-12


@pytest.mark.parametrize("law", LAWS)
def test_populations_that_are_left_out_have_less(law: tuple[int, int, int]) -> None:
    answers, ratio = 4, 1.25
    worst = {others: exact_delta(law, others, ratio) for others in populations(law[0], answers - 1)}
    for delta in (0.001, 0.05, float(max(worst.values())) * 0.999):
        kept = {
            numbers(each.name)
            for block in AllCells(even_cells(law), answers).blocks()
            for each in block.beyond(ratio, delta)
        }
        assert kept
        for others, exact in worst.items():
            own = (others.count(0), others.count(1))
            assert exact <= delta or (*own, answers - 1 - sum(own)) in kept


@pytest.mark.parametrize("law", LAWS)
def test_both_ends_are_the_worst_of_all_populations(law: tuple[int, int, int]) -> None:
    randomizer = KaryResponse(law[0], law[2] * (COIN_SPACE // 32))
    for answers in range(1, MOST[law[0]] + 1):
        exact = max(exact_delta(law, others, 1.25) for others in populations(law[0], answers - 1))
        reduction = family_of(randomizer).comparisons()
        assert reduction is not None
        ends = accountant.batch_of(reduction, answers).delta(0.22314355131420976)  # ln 1.25
        assert ends.lower <= exact * (1 + Fraction(1, 10**12))
        assert exact * (1 - Fraction(1, 10**12)) <= ends.upper <= float(exact) * (1 + 1e-9)
        assert ends.lower >= float(exact) * (1 - 1e-9)


def test_the_worst_population_of_five_is_mixed() -> None:
    """Three others at the record and one at a third cell: .68925, where others at 2 have .67630."""
    ends = epsilon_ends(k_ary_response(4, 10**9), 5, Fraction(1, 100))
    assert ends.population == "cell 0 against 1, 3 others at 0, 0 at 1 and 1 at 2"
    assert 0.68924 <= ends.lower <= ends.upper <= 0.68926


@pytest.mark.parametrize("cells", [3, 4, 16])
@pytest.mark.parametrize("answers", [2, 5, 12])
def test_ends_of_small_batches_meet(cells: int, answers: int) -> None:
    """By comparisons alone they are up to 1.08 apart here."""
    for nano, delta in product((5 * 10**8, 2 * 10**9), (Fraction(1, 10**2), Fraction(1, 10**4))):
        ends = epsilon_ends(k_ary_response(cells, nano), answers, delta)
        assert ends.upper <= 1.0001 * ends.lower


@pytest.mark.parametrize(("own", "cells", "whole"), [(10, 2, 16), (4, 3, 16), (16, 4, 16)])
def test_cells_that_are_none_are_refused(own: int, cells: int, whole: int) -> None:
    with pytest.raises(
        InvalidParameter, match="expected three or more, the own one not the rarest"
    ):
        EvenCells(own, cells, whole)
