"""Ray's workers as a `Runner`: a round's chunks in shards, wherever there is a worker.

A shard is a range of chunks, and a task. Which shards there are, which worker computes them, in
which order and how often is nothing that a result depends on (see `chunks`), so that a shard that
was lost with its worker or node is done again by another.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from askance_aggregator.extras import not_installed
from askance_client import __version__
from askance_client.errors import AskanceError, InvalidParameter
from askance_simulation.fleets.chunks import ChunkWork, ShardResult
from askance_simulation.populations import Population

_SHARD_S = 0.25  # what a shard should take: a hundred times what a task costs besides
_LARGEST = 512  # chunks of a shard, however fast: a lost one is done again
_AHEAD = 4  # shards a worker that may be out or done before the one that is waited for
RETRIES = 3
"""Further runs of a task whose worker or node is lost: few, for the task may be the cause."""

Remote = Any
"""A reference to what is in Ray's object store; Ray is optional, and so are its types."""


_SENT: WeakKeyDictionary[Population, tuple[object, Remote]] = WeakKeyDictionary()
"""References of the populations that were sent, and their Ray."""


class LostResults(AskanceError):
    """Results that could not be computed: their worker raised, or died again and again."""


class Shards:
    """Computes rounds by tasks of the Ray that this process has joined.

    The population goes into the object store once, for as long as this process is in that Ray; the
    rest of a round's work goes there once a round. Tasks carry references.

    Args:
      at_once: how many shards may be out at a time.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._ray = import_ray()
        self._task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(compute)

    def run(self, work: ChunkWork) -> Iterator[ShardResult]:
        """Generate the results of all chunks of this work, in order."""
        sent = [self._sent(work.population), self._ray.put(_rest(work))]
        out: dict[Remote, range] = {}
        done: dict[int, tuple[int, ShardResult]] = {}  # by the first chunk: how many, and what
        first, given, size = 0, 0, 1
        try:
            while given < work.chunks:
                while first < work.chunks and self._room(out, done):
                    left = work.chunks - first
                    shard = range(first, first + min(size, -(-left // self._at_once)))
                    out[self._task.remote(sent, shard, __version__)] = shard
                    first = shard.stop
                ((ready, *_), _) = self._ray.wait(list(out), num_returns=1)
                shard = out.pop(ready)
                result, seconds = self._result(ready, shard)
                done[shard.start] = len(shard), result
                size = _next_size(len(shard), seconds)
                while given in done:
                    chunks, result = done.pop(given)
                    given += chunks
                    yield result
        finally:
            for task in out:
                self._ray.cancel(task, force=False)

    def _room(self, out: dict[Remote, range], done: dict[int, tuple[int, ShardResult]]) -> bool:
        return len(out) < self._at_once and len(out) + len(done) < _AHEAD * self._at_once

    def _sent(self, population: Population) -> Remote:
        """Return the population's reference: the same one for all rounds of a study, or of many."""
        context = self._ray.get_runtime_context()
        ours = context.get_node_id(), context.get_job_id()  # another Ray would know nothing of it
        there, where = _SENT.get(population, (None, None))
        if there != ours:
            where = self._ray.put(population)
            _SENT[population] = ours, where
        return where

    def _result(self, task: Remote, shard: range) -> tuple[ShardResult, float]:
        """Return a task's result."""
        with raising_known_errors(f"chunks {shard.start} to {shard.stop - 1}"):
            found: tuple[ShardResult, float] = self._ray.get(task)
        return found


def forget() -> None:
    """Forget the populations that were sent, when this process leaves a Ray."""
    _SENT.clear()


def compute(sent: list[Remote], shard: range, version: str) -> tuple[ShardResult, float]:
    """Compute a shard's result, and the seconds it took; for a worker."""
    check_version(version)
    work = _work(*sent)
    began = time.perf_counter()
    return work.shard(shard), time.perf_counter() - began


@lru_cache(maxsize=1)
def _work(population: Remote, rest: Remote) -> ChunkWork:
    """Return a round's work; a worker keeps it, and its memory, for the round's next shard."""
    return ChunkWork(_people(population), *import_ray().get(rest))


@lru_cache(maxsize=1)
def _people(population: Remote) -> Population:
    found: Population = import_ray().get(population)
    return found


def _rest(work: ChunkWork) -> tuple[object, ...]:
    """Return all of a round's work but the population, in the order of its fields."""
    _, *rest = (getattr(work, field.name) for field in fields(work))
    return tuple(rest)


def _next_size(chunks: int, seconds: float) -> int:
    """Choose the number of chunks of the next shard from the time that one took."""
    wanted = int(chunks * _SHARD_S / max(seconds, 1e-6))
    return max(1, min(wanted, 4 * chunks, _LARGEST))


def check_version(version: str) -> None:
    """Refuse to work in another version than the caller's."""
    if version != __version__:
        raise InvalidParameter(
            f"cluster: expected askance {version} on every node, got {__version__}"
        )


@contextmanager
def raising_known_errors(work: str) -> Iterator[None]:
    """Raise Ray's errors in a block as askance's.

    Raises:
      LostResults: nothing was returned. AskanceError, MemoryError: what the worker raised.
    """
    errors = import_ray().exceptions
    try:
        yield
    except errors.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, AskanceError | MemoryError):
            raise cause from None
        raise _lost(work, cause) from None
    except errors.RayError as error:
        raise _lost(work, error) from None


def _lost(work: str, why: BaseException) -> LostResults:
    said = " ".join(str(why).split()) or "no more was said"
    return LostResults(
        f"cluster: expected the results of {work}, got {type(why).__name__}: {said:.300}"
    )


@lru_cache(maxsize=1)
def import_ray() -> ModuleType:
    """Import Ray."""
    try:
        return import_module("ray")
    except ModuleNotFoundError:
        raise not_installed("fleet 'ray'", "Ray", "cluster") from None
