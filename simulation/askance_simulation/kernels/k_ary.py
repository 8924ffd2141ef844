"""k-ary response: reports, and the number of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.blocks import AT_ONCE, column_of, count_numbers, store_numbers
from askance_simulation.kernels.byte_counts import add_bytes
from askance_simulation.kernels.compiling import compiled
from askance_simulation.kernels.responses import respond_all


@compiled
def draw(levels: Any, coins: Any, reports: Any, sums: Any, response: Any) -> None:
    """Draw reports and count them."""
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    column, numbers = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        ours, drawn = words[start * each : stop * each], numbers[: stop - start]
        chosen = column_of(ours, each, 0, column[: stop - start])
        if width == 1:
            respond_all(levels[start:stop], chosen, octets[start:stop], response)
            continue
        respond_all(levels[start:stop], chosen, drawn, response)
        store_numbers(octets[start * width : stop * width], drawn, width)
        count_numbers(drawn, sums)
    if width == 1:
        add_bytes(octets, sums)
