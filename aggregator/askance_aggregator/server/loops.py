"""The event loop of the service, and of the processes before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop, which is uvloop's where that is installed."""
    try:
        import uvloop
    except ImportError:  # not on every platform; asyncio's own does the same, more slowly
        return asyncio.new_event_loop()
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory()


@dataclass(frozen=True)
class InExecutor:
    """Calls what waits for the disk, or for the processor, where the event loop does not wait."""

    executor: Executor

    async def __call__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function returns that an executor calls."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.executor, lambda: work(*args, **kwargs))
