"""The system's clock, for whoever is not given another."""

from __future__ import annotations

import time


def system_now_s() -> int:
    """Whole seconds since 1970, UTC."""
    return time.time_ns() // 10**9
