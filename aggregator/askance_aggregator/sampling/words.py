"""Random words for the curator: columns of uniform 64-bit words."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Words(Protocol):
    """A source of independent uniform 64-bit words, each given out once."""

    def take(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words, shape (count,), dtype uint64."""
        ...


class SystemWords:
    """The operating system's randomness: what every release uses.

    Example:
        >>> ask.SystemWords().take(3).dtype
        dtype('uint64')
    """

    __slots__ = ()

    def take(self, count: int) -> NDArray[np.uint64]:
        """`count` fresh words."""
        return np.frombuffer(os.urandom(8 * count), "<u8").astype(np.uint64, copy=False)
