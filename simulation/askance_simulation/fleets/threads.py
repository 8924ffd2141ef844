"""Interface of the computation of a round's chunks, and its implementation by threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from askance_client.errors import InvalidParameter
from askance_simulation.cores import cores, in_order
from askance_simulation.fleets.chunks import ChunkWork, ShardResult

_AT_ONCE = 16  # chunks of a shard
_TOGETHER = 8  # chunks that one of several threads draws at once (see `ChunkWork.shard`)
_AHEAD = 2  # shards a thread that are out beyond the one that is waited for


class Runner(Protocol):
    """Computation of the chunks of rounds.

    A runner divides the chunks 0 .. work.chunks-1 into shards as it likes, and must give the result
    of each once, in order. It may compute them in any order, on any number of threads or machines,
    and compute one again that was lost: the same shard of the same work has the same result. It
    should compute few shards ahead of the one that is waited for, so that memory does not grow with
    the population. A round's progress is known from what the iterator has given.
    """

    def run(self, work: ChunkWork) -> Iterator[ShardResult]:
        """Generate the results of all chunks of this work, in order."""
        ...


class Threads:
    """Threads of this process: numpy, the cipher and the hash let go of the interpreter's lock.

    Args:
      workers: how many; None: one per core. With one, the caller's own thread does everything.
    """

    def __init__(self, workers: int | None = None) -> None:
        check_workers(workers)
        self._workers = cores() if workers is None else workers

    def run(self, work: ChunkWork) -> Iterator[ShardResult]:
        """Generate the results of all chunks of this work, in order."""
        size = max(1, min(_AT_ONCE, work.chunks // (4 * self._workers)))
        chunks = range(work.chunks)
        shards = [chunks[first : first + size] for first in chunks[::size]]
        if self._workers == 1 or len(shards) == 1:
            return map(work.shard, shards)
        drawn = partial(work.shard, together=_TOGETHER)
        return in_order(drawn, shards, self._workers, _AHEAD)


def check_workers(workers: int | None) -> None:
    """Refuse a number of workers that cannot be."""
    if workers is not None and workers < 1:
        raise InvalidParameter(f"workers: expected 1 or more, got {workers}")
