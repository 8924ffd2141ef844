"""The system's clocks, for callers that are not given others."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Counts while the machine is suspended; macOS and Windows have no clock of that name.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


class SteadyClock(Protocol):
    """A clock that runs on from the start of the machine and is never set."""

    @property
    def boot(self) -> str:
        """Name of this run of the clock; "" where the machine gives none.

        Times of two processes may be compared if both clocks have the same name, not "".
        """
        ...

    def now_ms(self) -> int:
        """Return the time since the clock's start, in milliseconds."""
        ...


class SystemSteadyClock:
    """The machine's own steady clock: CLOCK_BOOTTIME, named by Linux's boot id."""

    def __init__(self) -> None:
        self.boot = ""
        if _CLOCK is not None:
            with suppress(OSError):
                self.boot = _BOOT_ID.read_text().strip()

    def now_ms(self) -> int:
        nanoseconds = time.monotonic_ns() if _CLOCK is None else time.clock_gettime_ns(_CLOCK)
        return nanoseconds // 10**6


def system_now_s() -> int:
    """Whole seconds since 1970, UTC."""
    return time.time_ns() // 10**9
