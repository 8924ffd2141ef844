"""Cores of this machine, and work that is done on all of them in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Generate the results of items in order, computed by a thread per core, few of them ahead."""
    out: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(cores()) as threads:
        try:
            for item in items:
                out.append(threads.submit(work, item))
                if len(out) > cores():
                    yield out.popleft().result()
            while out:
                yield out.popleft().result()
        finally:
            for one in out:
                one.cancel()
