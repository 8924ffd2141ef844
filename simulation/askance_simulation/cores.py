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


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int | None = None,
    ahead: int = 1,
) -> Iterator[Result]:
    """Generate the results of items in order, computed by threads, few of them ahead."""
    count = cores() if threads is None else threads
    out: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(count) as pool:
        try:
            for item in items:
                out.append(pool.submit(work, item))
                if len(out) > count * ahead:
                    yield out.popleft().result()
            while out:
                yield out.popleft().result()
        finally:
            for one in out:
                one.cancel()
