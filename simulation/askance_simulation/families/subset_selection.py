"""Subset selection: draws for columns, the tally's law, statements, the best lie, `verify`."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from askance_aggregator.families import SubsetFamily, subset_selection
from askance_aggregator.families.sets import set_report
from askance_client.randomizers import COIN_BITS, SubsetSelection
from askance_simulation.families import dispatch
from askance_simulation.families.favouring import Draw, Weights, favour, heaviest
from askance_simulation.families.fused import Kernel, Loaded, kernel
from askance_simulation.families.sets import draw_items, encode_items, set_statements
from askance_simulation.families.tallies import sets_tally


@dispatch.draw.register
def _(
    randomizer: SubsetSelection, levels: dispatch.Levels | dispatch.Truths, coins: dispatch.Coins
) -> dispatch.Reports:
    levels = levels.astype(np.int64, copy=False)  # truths would choose rows, not cells
    size, threshold = randomizer.size, randomizer.threshold
    return encode_items(randomizer, draw_items(randomizer.cells, size, threshold, levels, coins))


@kernel.register
def _(randomizer: SubsetSelection) -> Kernel:
    def load() -> Loaded:
        from askance_simulation.kernels import bit_sets, large_sets  # numba is imported when used

        compiled = large_sets.draw_indices if randomizer.index_bytes else large_sets.draw_bitmaps
        if not randomizer.index_bytes and randomizer.cells <= COIN_BITS:
            compiled = bit_sets.draw_sets
        return compiled, (randomizer.cells, randomizer.size, np.uint64(randomizer.threshold))

    return Kernel(load, randomizer.cells)


@dispatch.draw_tally.register
def _(
    randomizer: SubsetSelection, counts: dispatch.TallyCounts, rng: np.random.Generator
) -> dispatch.TallyCounts:
    own = SubsetFamily(randomizer).rates.own
    return sets_tally(randomizer.cells, randomizer.size, own, counts, rng)


@dispatch.of_many.register
def _(randomizer: SubsetSelection, law: dispatch.Law) -> dispatch.Statements:
    rates = SubsetFamily(randomizer).rates
    shares = [
        rates.other + law.get(cell, Fraction()) * (rates.own - rates.other)
        for cell in range(randomizer.cells)
    ]
    return set_statements(randomizer, shares, "cell")


@favour.register
def _(randomizer: SubsetSelection, weights: Weights, draw: Draw) -> bytes:
    """Return the heaviest cells that fit; among equals, and to fill up, by a shuffle."""
    everything = range(randomizer.cells)
    members = heaviest(everything, weights, randomizer.size, draw(randomizer.size))
    return set_report(randomizer, members)


dispatch.verified(
    SubsetSelection,
    "subset_selection",
    {f"subset-selection({k})": partial(subset_selection, k) for k in (4, 10, 17, 64, 1024)},
)
