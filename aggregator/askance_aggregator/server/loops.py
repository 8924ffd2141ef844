"""The event loop of the service, and of the processes before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop, which is uvloop's where that is installed."""
    try:
        import uvloop
    except ImportError:  # not on every platform; asyncio's own does the same, more slowly
        return asyncio.new_event_loop()
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory()
