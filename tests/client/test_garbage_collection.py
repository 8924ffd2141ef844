"""The garbage collector's pace in a process that keeps thousands of streams."""

from __future__ import annotations

import gc
import sys
import weakref
from threading import Thread

from askance_client.garbage_collection import rare_collections


class _Call:
    """An object that holds itself, as gRPC's handler of each call does."""

    def __init__(self) -> None:
        self.itself = self


def test_what_calls_leave_is_collected_soon() -> None:
    """Once, 20,000 calls waited: with 8 kB of metadata each, 160 MB of a peer without identity."""
    with rare_collections():
        calls = [weakref.ref(_Call()) for _ in range(10_000)]
        alive = sum(call() is not None for call in calls)
    assert alive < 2_500


def test_old_objects_are_looked_at_rarely() -> None:
    """Streams stay for hours; at the usual pace the collector walks through all of them often."""
    looks = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looks.append(info)

    with rare_collections():
        gc.collect()
        gc.callbacks.append(look)
        try:
            streams = [[number] for number in range(500_000)]
        finally:
            gc.callbacks.remove(look)
    assert len(streams) == 500_000
    assert not looks


def test_the_usual_pace_returns() -> None:
    usual = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() != usual
    assert gc.get_threshold() == usual


def test_the_usual_pace_returns_after_blocks_of_several_threads() -> None:
    """Once, a block that opened while another closed took the rare pace for the usual one."""
    usual, switches = gc.get_threshold(), sys.getswitchinterval()

    def open_and_close() -> None:
        for _ in range(20_000):
            with rare_collections():
                pass

    threads = [Thread(target=open_and_close) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switches)
        found = gc.get_threshold()
        gc.set_threshold(*usual)
    assert found == usual
