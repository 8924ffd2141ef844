"""Subset selection: draws for columns, the tally's law, statements, the best lie, `verify`."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from askance_aggregator.families import SubsetFamily, subset_selection
from askance_client.randomizers import SubsetSelection
from askance_simulation.families.dispatch import (
    Coins,
    Law,
    Levels,
    Reports,
    Statements,
    TallyCounts,
    Truths,
    draw,
    draw_tally,
    of_many,
    verified,
)
from askance_simulation.families.drawing import CELLS_AT_ONCE, scaled
from askance_simulation.families.favouring import Draw, Weights, bitmap, favour, heaviest
from askance_simulation.families.sets import bitmap_statements
from askance_simulation.families.tallies import sets_tally


@draw.register
def _(randomizer: SubsetSelection, levels: Levels | Truths, coins: Coins) -> Reports:
    levels = levels.astype(np.int64, copy=False)  # truths would choose rows, not cells
    rows = max(1, CELLS_AT_ONCE // randomizer.cells)
    blocks = [
        _draw_sets(randomizer, levels[start : start + rows], coins[start : start + rows])
        for start in range(0, len(levels), rows)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, randomizer.width), np.uint8)


def _draw_sets(randomizer: SubsetSelection, levels: Levels, coins: Coins) -> Reports:
    """Run Floyd's algorithm, draw by draw for all rows (see `randomizers.floyd.draw_members`)."""
    last = randomizer.cells - 1
    everyone = np.arange(len(levels))
    own_in = coins[:, 0] < np.uint64(randomizer.threshold)
    members = np.zeros((len(levels), randomizer.cells), np.bool_)
    for step, j in enumerate(range(last - randomizer.size, last), start=1):
        rows = everyone[~own_in] if step == 1 else everyone  # one draw fewer with the own item in
        drawn = scaled(coins[rows, step], j + 1)
        taken = members[rows, drawn]
        members[rows, np.where(taken, j, drawn)] = True
    swapped = members[everyone, levels]
    members[everyone[swapped], last] = True
    members[everyone, levels] = own_in
    return np.packbits(members, axis=1)


@draw_tally.register
def _(randomizer: SubsetSelection, counts: TallyCounts, rng: np.random.Generator) -> TallyCounts:
    own = SubsetFamily(randomizer).rates.own
    return sets_tally(randomizer.cells, randomizer.size, own, counts, rng)


@of_many.register
def _(randomizer: SubsetSelection, law: Law) -> Statements:
    rates = SubsetFamily(randomizer).rates
    shares = [
        rates.other + law.get(cell, Fraction()) * (rates.own - rates.other)
        for cell in range(randomizer.cells)
    ]
    return bitmap_statements(shares, randomizer.size, randomizer.width, "cell")


@favour.register
def _(randomizer: SubsetSelection, weights: Weights, draw: Draw) -> bytes:
    """Return the heaviest cells that fit; among equals, and to fill up, by a shuffle."""
    everything = range(randomizer.cells)
    members = heaviest(everything, weights, randomizer.size, draw(randomizer.size))
    return bitmap(members, randomizer.width)


verified(
    SubsetSelection,
    "subset_selection",
    {f"subset-selection({k})": partial(subset_selection, k) for k in (4, 10, 17, 64, 1024)},
)
