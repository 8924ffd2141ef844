"""Named arrays as bytes, for state that is kept."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack_arrays(**arrays: NDArray[Any]) -> bytes:
    """Return compressed arrays by name."""
    file = BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def unpack_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of `pack_arrays`; ValueError, OSError or EOFError for other bytes."""
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)
