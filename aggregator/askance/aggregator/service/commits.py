"""Group commit without a timer: whatever arrived during one commit is the next."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Executor

from askance.aggregator.store import Store, StoredReport
from askance.client.errors import StoreError
from askance.client.messages import AckStatus

_MAX_BATCH = 8192  # bounds how long one commit holds the store

Waiting = tuple[StoredReport, "asyncio.Future[AckStatus]"]


class GroupCommit:
    """Makes reports durable, many in one transaction, by a single writer.

    An idle store commits a lone report at once; a busy one takes larger batches by itself. To be
    used in one event loop.

    Args:
      store: where they go.
      executor: the thread that waits for the disk.
    """

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._waiting: deque[Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    def submit(self, report: StoredReport) -> asyncio.Future[AckStatus]:
        """Queues a report.

        Returns:
          What became of it, known only after the commit; or the store's StoreError, in which case
          nothing may be acknowledged.
        """
        future: asyncio.Future[AckStatus] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(StoreError("commit: expected an open store, found a closed one"))
            return future
        self._waiting.append((report, future))
        if self._writer is None:
            self._writer = asyncio.ensure_future(self._write())
        return future

    async def close(self) -> None:
        """Commits what is queued and takes no more."""
        self._closed = True
        if self._writer is not None:
            await self._writer

    async def _write(self) -> None:
        try:
            while self._waiting:
                size = min(len(self._waiting), _MAX_BATCH)
                batch = [self._waiting.popleft() for _ in range(size)]
                await self._commit(batch)
        finally:
            self._writer = None

    async def _commit(self, batch: list[Waiting]) -> None:
        loop = asyncio.get_running_loop()
        reports = [report for report, _ in batch]
        try:
            statuses = await loop.run_in_executor(self._executor, self._store.accept, reports)
        except Exception as error:  # whatever it is, everybody who waits must hear of it
            failure = error if isinstance(error, StoreError) else StoreError("commit: failed")
            failure.__cause__ = None if failure is error else error
            for _, future in batch:
                if not future.done():
                    future.set_exception(failure)
            return
        for (_, future), status in zip(batch, statuses, strict=True):
            if not future.done():
                future.set_result(status)
