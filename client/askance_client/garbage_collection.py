"""A garbage collector that looks at old objects less often."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_YOUNG = 2_000  # objects allocated between two looks at the new ones
_YOUNG_LOOKS = 50  # of those before one at the objects that stayed once
_MIDDLE_LOOKS = 100  # of those before one at all objects
_before: list[tuple[int, int, int]] = []  # thresholds before each block that is open
_lock = Lock()  # of the thresholds and of these


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the garbage collector look at old objects less often for the length of a block.

    Devices, streams and modules stay, and at its usual pace the collector walks through all of
    them again and again: about half of the time that ten thousand devices take to connect and to
    answer, and a tenth of a command's start. New objects are looked at often, because gRPC leaves a
    cycle with the metadata of every call: a few hundred calls wait for the collector, not tens of
    thousands. Blocks may overlap, in several threads.
    """
    with _lock:
        _before.append(gc.get_threshold())
        gc.set_threshold(_YOUNG, _YOUNG_LOOKS, _MIDDLE_LOOKS)
    try:
        yield
    finally:
        with _lock:
            gc.set_threshold(*_before.pop())
