"""Groups without a timer: whatever arrived during one commit, or one read, is the next."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.store import Store, StoredReport
from askance_client.errors import StoreError
from askance_client.messages import AckStatus

K = TypeVar("K")
V = TypeVar("V")

_LOGGER = logging.getLogger(__name__)
_MAX_BATCH = 8192  # bounds how long one commit holds the store

Statuses = list[AckStatus]
Entered = Callable[[Statuses | None], None]
"""Function that enters reports whose commit has ended: their statuses, None if it failed."""
Waiting = tuple[Sequence[StoredReport], Entered, "asyncio.Future[Statuses]"]


def _ignore(_: Statuses | None) -> None:
    """Enter nothing."""


class GroupedReads(Generic[K, V]):
    """Values of keys, read from a store together: keys asked for during one read are the next.

    To be used in one event loop.

    Args:
      read: returns the value of each key; may wait for the store.
    """

    def __init__(self, read: Callable[[Sequence[K]], Sequence[V]], executor: Executor) -> None:
        self._read = read
        self._run = InExecutor(executor)
        self._waiting: dict[K, asyncio.Future[V]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def get(self, key: K) -> V:
        """Return the value of a key."""
        future = self._waiting.get(key)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._waiting[key] = future
        if self._reader is None:
            self._reader = asyncio.ensure_future(self._read_all())
        return await asyncio.shield(future)  # which others may wait for

    async def _read_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, {}
                await self._answer(batch)
        finally:
            self._reader = None

    async def _answer(self, batch: dict[K, asyncio.Future[V]]) -> None:
        try:
            found = await self._run(self._read, tuple(batch))
        except Exception as error:
            for future in batch.values():
                future.set_exception(error)
                future.exception()  # seen: every caller may have left meanwhile
            return
        for future, value in zip(batch.values(), found, strict=True):
            future.set_result(value)


class ReportGroupCommit:
    """Make reports durable, many per transaction, by a single writer.

    An idle store commits a lone message's reports at once; a busy one takes larger batches by
    itself. To be used in one event loop.
    """

    def __init__(self, store: Store, executor: Executor, observer: Observer = SILENT) -> None:
        self._store = store
        self._run = InExecutor(executor)
        self._observer = observer
        self._waiting: deque[Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    def submit(
        self, reports: Sequence[StoredReport], entered: Entered = _ignore
    ) -> asyncio.Future[Statuses]:
        """Queue the reports of a message, to be made durable together.

        Args:
          reports: the message's.
          entered: is called once when the commit has ended, before any waiting caller goes on, and
            also if the caller has left.

        Returns:
          What became of each, known only after the commit; or the store's StoreError, in which
          case nothing may be acknowledged.
        """
        future: asyncio.Future[Statuses] = asyncio.get_running_loop().create_future()
        if self._closed:
            entered(None)
            future.set_exception(StoreError("commit: expected an open store, found a closed one"))
            return future
        self._waiting.append((reports, entered, future))
        if self._writer is None:
            self._writer = asyncio.ensure_future(self._write())
        return future

    async def close(self) -> None:
        """Commit the queue and accept no more."""
        self._closed = True
        if self._writer is not None:
            await self._writer

    async def _write(self) -> None:
        try:
            while self._waiting:
                await self._commit(self._next_batch())
        finally:
            self._writer = None

    def _next_batch(self) -> list[Waiting]:
        batch = [self._waiting.popleft()]
        size = len(batch[0][0])
        while self._waiting and size + len(self._waiting[0][0]) <= _MAX_BATCH:
            batch.append(self._waiting.popleft())
            size += len(batch[-1][0])
        return batch

    async def _commit(self, batch: list[Waiting]) -> None:
        reports = [report for message, _, _ in batch for report in message]
        began = time.perf_counter()
        try:
            statuses = await self._run(self._store.accept, reports)
        except Exception as error:  # whatever the error is, every waiting caller must get it
            if not isinstance(error, StoreError):
                _LOGGER.error("a commit failed", exc_info=error)
            failure = error if isinstance(error, StoreError) else StoreError("commit: failed")
            failure.__cause__ = None if failure is error else error
            for _, entered, future in batch:
                entered(None)
                if not future.done():
                    future.set_exception(failure)
            return
        self._observer.committed(len(reports), time.perf_counter() - began)
        start = 0
        for message, entered, future in batch:
            found = statuses[start : start + len(message)]
            start += len(message)
            try:
                entered(found)
            except Exception as error:  # what is stored and not counted is not acknowledged
                _LOGGER.error("stored reports were not counted", exc_info=error)
                if not future.done():
                    future.set_exception(StoreError("commit: stored, and not counted"))
                continue
            if not future.done():
                future.set_result(found)
