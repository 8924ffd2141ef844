"""A garbage collector that looks less often, for a process that keeps thousands of streams."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 100_000  # between two looks


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the garbage collector look less often for the length of a block.

    Streams stay for hours, and at its usual pace the collector walks through all of them again and
    again: about half of the time that ten thousand devices take to connect and to answer.
    """
    usual = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
