"""A device at rest is small, and does nothing."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PEOPLE = 5
WAIT_S = 60
MOST_BYTES = 65_000_000
"""Resident memory, of which 58 MB were measured, and 72 MB while a device imported numpy."""


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """CPU time that a process has taken, in the kernel too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_device_at_rest_stays_small(aggregator: Any, folder: Any) -> None:
    folder.run("enroll", "--token", aggregator.token(PEOPLE))
    with folder.start("run") as process:
        try:
            for _ in range(100 * WAIT_S):
                if aggregator.server.hub.connected == PEOPLE:
                    break
                time.sleep(0.01)
            for _ in range(WAIT_S):  # on a busy machine it takes longer to come to rest
                before = cpu_s(process.pid)
                time.sleep(1)
                if cpu_s(process.pid) == before:
                    break
            resident, before = resident_bytes(process.pid), cpu_s(process.pid)
            time.sleep(2)
            assert cpu_s(process.pid) - before <= 0.1  # 0 was measured
        finally:
            process.terminate()
            process.communicate(timeout=WAIT_S)
    assert resident <= MOST_BYTES
