"""The system's clock, as whole numbers."""

from __future__ import annotations

import time

_NS_PER_S = 10**9
_NS_PER_MS = 10**6
_LATEST_S = 253_402_300_799  # the last second of the year 9999: systems format no later one

utc = time.gmtime
"""From seconds since 1970, the parts of a date in UTC (as `logging.Formatter.converter` is)."""


def system_now_s() -> int:
    """Whole seconds since 1970, UTC."""
    return time.time_ns() // _NS_PER_S


def system_now_ms() -> int:
    """Whole milliseconds since 1970, UTC."""
    return time.time_ns() // _NS_PER_MS


def steady_ms() -> int:
    """Whole milliseconds of a clock that never goes back."""
    return time.monotonic_ns() // _NS_PER_MS


def local_hour() -> int:
    """Hour of the day, 0 to 23, in the machine's time zone."""
    return time.localtime().tm_hour


def utc_text(at_s: int, pattern: str = "%Y-%m-%dT%H:%M:%SZ") -> str:
    """Format a time as UTC.

    `at_s` is in whole seconds since 1970; a time after the year 9999 is shown as its last second.
    """
    return time.strftime(pattern, utc(min(at_s, _LATEST_S)))
