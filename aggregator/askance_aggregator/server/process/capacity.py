"""Capacity of the process: memory, descriptors, the connections that they allow, and one arena."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from askance_aggregator.server.outer.child_process import allow_descriptors
from askance_aggregator.server.process.logs import logger

CONNECTION_BYTES = 85_000
"""Of a connection with certificates, measured with 10,000; one in its handshake has 43,000."""
_CONNECTIONS_SHARE = 2  # connections may take one part in so many of the memory
# Of the process's own group, as containers and systemd units see it, and of older systems.
_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

_LOG = logger(__name__)

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's <malloc.h>
_ARENAS = 1


def share_one_arena() -> bool:
    """Let all threads that start from now on allocate from one arena of glibc's allocator.

    Returns:
      Whether the C library has this setting; others (musl, macOS) have no arenas per thread.
    """
    # A call's message is read in a thread of gRPC, and freed in the event loop. By default each
    # thread has an arena of its own, which keeps the pages of freed messages: callers without an
    # identity that sent messages of 1 MiB made the process grow by 15 to 40 MB, and with one arena
    # by 5 to 9.
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_ARENA_MAX, _ARENAS))


def memory_limit_bytes(groups: Sequence[Path] = _GROUPS) -> int:
    """Return the memory that the process may use: its control group's, or the machine's."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in groups:
        with suppress(OSError, ValueError):  # there is none, or it is "max"
            limit = min(limit, int(path.read_text(encoding="ascii")))
    return limit


def connections_within(limit_bytes: int) -> int:
    """Return how many connections half of this memory holds, 16 or more."""
    return max(16, limit_bytes // _CONNECTIONS_SHARE // CONNECTION_BYTES)


OTHER_DESCRIPTORS = 256
"""Descriptors of files, pages of metrics and check-ins' connections."""


@dataclass(frozen=True, slots=True)
class HeldConnections:
    """Connections that can be held, so that descriptors are left for the store.

    Args:
      configured: how many are asked for.
      held: how many can be held.
      limited_by: "memory" or "descriptors"; empty: nothing.
    """

    configured: int
    held: int
    limited_by: str = ""

    def log(self, usual: int) -> None:
        """Log that fewer can be held: a warning, or a note where the number is the usual one."""
        if self.limited_by:
            log = _LOG.info if self.configured == usual else _LOG.warning
            log(
                "fewer connections than configured",
                held=self.held,
                configured=self.configured,
                limited_by=self.limited_by,
            )


def descriptors_of(*, tls: bool) -> int:
    """Return how many descriptors a connection takes in the process that needs most: the valve."""
    return 2 if tls else 1


def allow_connections(connections: int, descriptors: int = 1) -> HeldConnections:
    """Ask the system for so many descriptors per connection, and return how many can be held."""
    held, limited_by = connections, ""
    within = connections_within(memory_limit_bytes())
    if within < held:
        held, limited_by = within, "memory"
    wanted = descriptors * held + OTHER_DESCRIPTORS
    allowed = allow_descriptors(wanted)
    if allowed < wanted:
        held, limited_by = max(1, (allowed - OTHER_DESCRIPTORS) // descriptors), "descriptors"
    return HeldConnections(connections, held, limited_by)
