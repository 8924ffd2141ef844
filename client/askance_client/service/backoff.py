"""Delay after a failure: exponential, with full jitter."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta

from askance_client.errors import InvalidParameter

Jitter = Callable[[int], int]
"""From a bound, a whole number drawn uniformly from 0 to it, both included."""

Sleep = Callable[[int], Awaitable[None]]
"""Waits for so many milliseconds."""


def system_jitter(bound: int) -> int:
    """Jitter from the operating system."""
    return secrets.randbelow(bound + 1)


async def sleep_ms(milliseconds: int) -> None:
    """Wait on the event loop's clock."""
    await asyncio.sleep(timedelta(milliseconds=milliseconds).total_seconds())


class Backoff:
    """The waits after failures in a row: uniform in 0 .. min(cap, base * 2^failures).

    Source: "Exponential Backoff And Jitter", M. Brooker, 2015: full jitter needs the fewest calls
      until many clients are served.
    """

    def __init__(
        self, *, base_ms: int = 500, cap_ms: int = 300_000, jitter: Jitter = system_jitter
    ) -> None:
        if not 0 < base_ms <= cap_ms:
            raise InvalidParameter(f"backoff: expected 0 < base <= cap, found {base_ms}, {cap_ms}")
        self._base_ms = base_ms
        self._cap_ms = cap_ms
        self._jitter = jitter
        self._bound_ms = base_ms

    def next_ms(self) -> int:
        """Return the delay after one more failure."""
        bound = self._bound_ms
        self._bound_ms = min(self._cap_ms, 2 * bound)
        return self._jitter(bound)

    def reset(self) -> None:
        """Something went well: the next failure is the first in a row."""
        self._bound_ms = self._base_ms
