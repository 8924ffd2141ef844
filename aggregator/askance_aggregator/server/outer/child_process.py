"""Environment and limits of the processes that the aggregator starts beside itself."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

# With one arena, and mappings of their own for what is large, memory that is freed leaves the data
# that is limited; glibc alone reads these.
_ALLOCATION = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "32768"}
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")
_FIRST_TO_END = "1000"  # of all processes, when the system has no memory left


def process_environment() -> dict[str, str]:
    """Return the environment of such a process: no variable that may hold a secret."""
    given = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    said = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "GRPC_VERBOSITY": "NONE"}
    return given | said | _ALLOCATION


def allow_descriptors(wanted: int) -> int:
    """Ask the system for so many descriptors, and return how many of them this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def limit_memory(size_bytes: int) -> None:
    """Limit this process's data, and let the system end it first when memory is short."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size_bytes if most == resource.RLIM_INFINITY else min(size_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with suppress(OSError):  # not on every system
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END)
