"""Evaluation of records within a time limit, in threads that may hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from askance_client.service.observable import Sleep, sleep_ms

Work = Callable[[], None]
Evaluate = Callable[[Work, int], Awaitable["asyncio.Future[None]"]]
"""Runs some work of a public weight (see `Turn.weight`) for no longer than a time limit, and
returns its future: done, or late."""

_AT_ONCE = 4  # evaluations: more of them would make each other late
# Weight per millisecond for which a slot is held. Python evaluates on one core, 3,400 to 6,300 per
# ms on a server; the slots together begin 1,024 per ms, so that a slower machine keeps up as well.
_WEIGHT_PER_MS = 256


async def evaluate_at_once(work: Work, weight: int) -> asyncio.Future[None]:
    """Run some work in place, for as long as it takes: for simulated devices."""
    work()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


class TimedEvaluation:
    """Threads that evaluate records, each evaluation within a time limit.

    Every evaluation takes the limit's time, so that the work that follows begins at a time that
    does not depend on a record. One that hangs keeps its thread, and another thread is started in
    its place.

    Privacy: an evaluation holds a slot for a time that is a function of its weight, however long it
      takes. A member's evaluation therefore begins at a time that does not depend on other members'
      records. What is left is that threads share the processor.

    Args:
      limit_ms: the time limit of one evaluation, from the start of its work.
      sleep: how to wait.
      at_once: how many slots there are; an evaluation that outlasts its slot is not counted.
    """

    def __init__(self, limit_ms: int, *, sleep: Sleep = sleep_ms, at_once: int = _AT_ONCE) -> None:
        self._limit_ms = limit_ms
        self._sleep = sleep
        self._slots = asyncio.Semaphore(at_once)
        self._idle: list[_Worker] = []

    async def __call__(self, work: Work, weight: int) -> asyncio.Future[None]:
        """Run some work, and wait for the limit's time.

        Args:
          work: evaluates a record.
          weight: of the queries that it evaluates, a function of their bytes.
        """
        limit = None
        try:
            async with self._slots:
                limit = asyncio.ensure_future(self._wait())
                await asyncio.sleep(0)  # the wait begins before the work
                done = self._start(work)
                await self._sleep(min(self._limit_ms, 1 + weight // _WEIGHT_PER_MS))
            await limit
        finally:
            if limit is not None:
                limit.cancel()
        return done

    def close(self) -> None:
        """End the threads that are idle; one that hangs does not keep the process from ending."""
        for worker in self._idle:
            worker.end()
        self._idle.clear()

    async def _wait(self) -> None:
        await self._sleep(self._limit_ms)

    def _start(self, work: Work) -> asyncio.Future[None]:
        worker = self._idle.pop() if self._idle else _Worker()
        done = worker.run(work, asyncio.get_running_loop())
        done.add_done_callback(lambda _: self._idle.append(worker))
        return done


class _Worker:
    """A thread that does one piece of work after another."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._serve, name="askance-evaluation", daemon=True).start()

    def run(self, work: Work, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        done: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not done.cancelled():
                done.set_result(None)

        def task() -> None:
            try:
                work()
            finally:
                with suppress(RuntimeError):  # the loop is closed: nothing waits for this
                    loop.call_soon_threadsafe(settle)

        self._tasks.put(task)
        return done

    def end(self) -> None:
        """End the thread when it is idle."""
        self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            # Work answers for its own exceptions; what else there may be (an exit in a record
            # source) ends neither the thread nor the process.
            with suppress(BaseException):
                task()
