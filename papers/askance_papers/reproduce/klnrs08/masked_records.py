"""Records of MASKED-PARITY as round 1 sees them, and their law."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import masked_parity_schema
from askance_aggregator.queries import EncodedColumns, encode_columns


def record_weights(masks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute P[(i, b, y)] for each mask, in the order of `records`: 4 records for each i.

    i is uniform, b a fair bit; with b = 1, y is (-1)^(r_i), with b = 0 as good as a fair sign, for
    no question of round 1 reads it there.
    """
    each = np.full((*masks.shape, 4), 1 / 4)
    each[:, :, 2] = (masks == 0) / 2
    each[:, :, 3] = (masks == 1) / 2
    return np.asarray(each.reshape(len(masks), -1) / masks.shape[1], dtype=np.float64)


def records(d: int) -> EncodedColumns:
    """Return every record (i, b, y), 4 for each i; x is not asked for in round 1."""
    place = np.arange(4 * d)
    columns = {
        "x": np.zeros((len(place), d), dtype=np.int64),
        "i": place // 4,
        "b": place // 2 % 2,
        "y": 1 - 2 * (place % 2),
    }
    return encode_columns(masked_parity_schema(d), columns)
