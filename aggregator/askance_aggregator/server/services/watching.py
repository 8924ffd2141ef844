"""Statuses of watched studies: each study is looked at once per period, for all who watch it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager

from askance_aggregator.server.studies import StudyStatus
from askance_aggregator.store import StudyState

_LOOK_EVERY_S = 0.2

Read = Callable[[], Awaitable[StudyStatus]]
Sleep = Callable[[float], Awaitable[None]]


class StudyWatches:
    """Statuses of the studies that are watched; used in one event loop.

    A watcher sleeps until the study changes: further watchers of a study cost no look at it.
    """

    def __init__(self, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._sources: dict[bytes, _Source] = {}

    @property
    def sources(self) -> int:
        """Number of studies that are looked at."""
        return len(self._sources)

    async def statuses(self, digest: bytes, read: Read) -> AsyncGenerator[StudyStatus, None]:
        """Yield a study's status now, then each that differs, until the study has ended.

        `read` reads its status; every watcher of a study gives one that returns the same.
        """
        with self._joined(digest, read) as source:
            await source.look()
            known: StudyStatus | None = None
            while True:
                changed, status = source.changed, source.status
                if status is None:  # a look has failed: this one fails too, or all is well again
                    await source.look()
                elif status != known:
                    yield status
                    known = status
                elif status.state is not StudyState.OPEN:
                    return
                else:
                    await changed.wait()

    @contextmanager
    def _joined(self, digest: bytes, read: Read) -> Iterator[_Source]:
        """Take part in the looks at a study for the length of a block."""
        source = self._sources.get(digest)
        if source is None:
            source = self._sources[digest] = _Source(read, self._sleep)
        source.watchers += 1
        try:
            yield source
        finally:
            source.watchers -= 1
            if not source.watchers:
                source.close()
                del self._sources[digest]


class _Source:
    """Looks at one study, from the first watcher to the last.

    `changed` is set, and another event takes its place, when `status` changes; `status` is None
    before the first look and after one that failed.
    """

    def __init__(self, read: Read, sleep: Sleep) -> None:
        self.watchers = 0
        self.status: StudyStatus | None = None
        self.changed = asyncio.Event()
        self._read = read
        self._sleep = sleep
        self._looking = asyncio.Lock()  # a status that was read earlier never follows a later one
        self._task = asyncio.create_task(self._look_again())

    async def look(self) -> None:
        """Read the status now; raises as `read`."""
        async with self._looking:
            try:
                self._tell(await self._read())
            except Exception:
                self._tell(None)
                raise

    def close(self) -> None:
        """Look no more."""
        self._task.cancel()

    async def _look_again(self) -> None:
        while self.status is None or self.status.state is StudyState.OPEN:
            await self._sleep(_LOOK_EVERY_S)
            try:
                await self.look()
            except Exception:  # each watcher meets it by a look of its own
                continue

    def _tell(self, status: StudyStatus | None) -> None:
        if status == self.status:
            return
        self.status = status
        told, self.changed = self.changed, asyncio.Event()
        told.set()
