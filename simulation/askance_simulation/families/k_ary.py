"""k-ary response: draws for columns, the tally's law, the best lie, and entries of `verify`."""

from __future__ import annotations

from functools import partial

import numpy as np

from askance_aggregator.families import KaryFamily, k_ary_response
from askance_client.randomizers import KaryResponse
from askance_simulation.families import dispatch
from askance_simulation.families.drawing import big_endian, responses
from askance_simulation.families.favouring import Draw, Weights, favour, index, others
from askance_simulation.families.fused import Kernel, Loaded, kernel
from askance_simulation.families.tallies import sets_tally


@dispatch.draw.register
def _(randomizer: KaryResponse, levels: dispatch.Levels, coins: dispatch.Coins) -> dispatch.Reports:
    cells = responses(randomizer, levels, coins[:, 0])
    return big_endian(cells, randomizer.width)


@kernel.register
def _(randomizer: KaryResponse) -> Kernel:
    def load() -> Loaded:
        from askance_simulation.kernels import responses  # numba is imported when it is used

        constants = responses.response_of(randomizer.own, randomizer.other, randomizer.cells)
        return responses.draw, (constants,)

    return Kernel(load, randomizer.cells)


@dispatch.draw_tally.register
def _(
    randomizer: KaryResponse, counts: dispatch.TallyCounts, rng: np.random.Generator
) -> dispatch.TallyCounts:
    return sets_tally(randomizer.cells, 1, KaryFamily(randomizer).rates.own, counts, rng)


@favour.register
def _(randomizer: KaryResponse, weights: Weights, draw: Draw) -> bytes:
    most = max(weight for _, weight in weights)
    cells = [level for level, weight in weights if weight == most]
    if most <= 0 and len(weights) < randomizer.cells:  # a cell that weighs nothing is better
        cells = others(range(randomizer.cells), weights)
    return cells[index(draw(1), len(cells))].to_bytes(randomizer.width, "big")


dispatch.verified(
    KaryResponse,
    "k_ary_response",
    {f"k-ary-response({k})": partial(k_ary_response, k) for k in (3, 17, 64, 1024)},
)
