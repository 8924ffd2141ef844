"""k-ary response: reports, and the number of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.byte_counts import add_bytes
from askance_simulation.kernels.compiling import compiled, store
from askance_simulation.kernels.responses import respond


@compiled
def draw_bytes(levels: Any, coins: Any, reports: Any, sums: Any, response: Any) -> None:
    """Draw reports of one byte and count them."""
    own, other, shift, factor, down = response
    cells, words = reports.reshape(-1), np.ascontiguousarray(coins).reshape(-1)
    for row in range(len(levels)):
        cells[row] = respond(words[row], np.uint64(levels[row]), own, other, shift, factor, down)
    add_bytes(cells, sums)


@compiled
def draw_numbers(levels: Any, coins: Any, reports: Any, sums: Any, response: Any) -> None:
    """Draw reports of several bytes and count them."""
    own, other, shift, factor, down = response
    words, cells = np.ascontiguousarray(coins).reshape(-1), np.empty(len(levels), np.uint64)
    for row in range(len(levels)):
        level = np.uint64(levels[row])
        cells[row] = respond(words[row], level, own, other, shift, factor, down)
    for row in range(len(levels)):
        store(reports, row, cells[row])
        sums[cells[row]] += 1
