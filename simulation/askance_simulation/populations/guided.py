"""Search of sorted edges by a word's leading bits: `searchsorted`, and many times as fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BITS = 16  # leading bits of a word that the guide is looked up by
_DOWN = np.uint64(64 - _BITS)
_REST = np.uint64((1 << (64 - _BITS)) - 1)

Places = NDArray[np.signedinteger[Any]]


class GuidedEdges:
    """Sorted edges, searched for many uniform words at once.

    The leading bits of a word decide nearly always; the words that share them with an edge are
    searched one by one.

    Args:
        edges: uint64, not decreasing; shape (n,), n below 2^31.
    """

    def __init__(self, edges: NDArray[np.uint64]) -> None:
        starts = np.arange(1 << _BITS, dtype=np.uint64) << _DOWN
        first, last = (edges.searchsorted(ends, side="right") for ends in (starts, starts | _REST))
        self._edges = edges
        self._guide: Places = first.astype(np.int16 if len(edges) < 1 << 14 else np.int32)
        self._shared = first != last

    def places(self, words: NDArray[np.uint64]) -> Places:
        """Return the number of edges at or below each word, shape (n,); twice it fits the type."""
        leading = (words >> _DOWN).astype(np.intp)
        found = self._guide[leading]
        rows = np.flatnonzero(self._shared[leading])
        found[rows] = self._edges.searchsorted(words[rows], side="right")
        return found
