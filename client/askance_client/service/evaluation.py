"""Work on records at public times, in threads that may hang, and times at which nothing leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from askance_client.device import RecordWork
from askance_client.service.observable import Sleep, phase_times, record_times, sleep_ms

_AT_ONCE = 4  # slots: more evaluations at one time would make each other late


class Evaluation:
    """Work on records in place, for as long as it takes: for simulated devices."""

    async def __call__(self, work: RecordWork, device: object) -> None:
        """Run the steps of some work, until its end may be called.

        Of one device only one evaluation runs.
        """
        work.answer()

    async def quiet(self) -> None:
        """Wait until no work on a record can delay what leaves the process."""


evaluate_at_once = Evaluation()


class TimedEvaluation(Evaluation):
    """Threads that work on records, at times that are functions of the work's weight.

    The window of some work begins when its stand-ins are drawn. At its first time the values that
    are ready are fixed, and the draw begins; at its second time the work may be ended. A step that
    hangs keeps its thread, and another thread is started in its place.

    Threads share Python's lock with the event loop, so that work on a record delays whatever the
    loop does. Windows and sending therefore alternate in the whole process (`phase_times`): nothing
    is sent, and no stream is read, while a window is open.

    Privacy: windows, slots and phases are functions of weights, however long a step takes. What is
      left is a step that is late by more than all its margin, and the processor that threads share
      with the threads of gRPC, which need no lock of Python.

    Args:
      release_ms: the grid, on which reports leave.
      at_once: how many slots there are; a step that outlasts its slot is not counted.
    """

    def __init__(
        self, release_ms: int, *, sleep: Sleep = sleep_ms, at_once: int = _AT_ONCE
    ) -> None:
        self._release_ms = release_ms
        self._sleep = sleep
        self._slots = asyncio.Semaphore(at_once)
        self._idle: list[_Worker] = []
        self._late: set[int] = set()  # devices whose evaluation still runs
        self._windows = 0  # that are open
        self._silent, self._admits = asyncio.Event(), asyncio.Event()
        self._silent.set()
        self._admits.set()
        self._waits: set[asyncio.Future[None]] = set()

    async def __call__(self, work: RecordWork, device: object) -> None:
        """Run some work, and wait for its second time."""
        times = record_times(self._release_ms, work.weight)
        async with self._slots:
            await self._start(work.prepare)
            await self._open()
            over = self._after(times.over_ms, self._close)
            fixed = self._after(times.fixed_ms, lambda: None)
            await asyncio.sleep(0)  # the waits begin before the work
            if id(device) not in self._late:
                self._late.add(id(device))
                evaluating = self._start(work.evaluate)
                evaluating.add_done_callback(lambda _: self._late.discard(id(device)))
            await self._sleep(times.slot_ms)
        await asyncio.shield(fixed)
        work.fix()
        self._start(work.draw)
        await asyncio.shield(over)

    async def quiet(self) -> None:
        """Wait until no window is open."""
        while self._windows:
            await self._silent.wait()

    def close(self) -> None:
        """End the threads that are idle; one that hangs does not keep the process from ending."""
        for wait in self._waits:
            wait.cancel()
        for worker in self._idle:
            worker.end()
        self._idle.clear()

    async def _open(self) -> None:
        """Open a window, in a phase of windows."""
        while not self._admits.is_set():
            await self._admits.wait()
        if not self._windows:
            self._silent.clear()
            self._admitting = self._after(phase_times(self._release_ms)[0], self._admits.clear)
        self._windows += 1

    def _close(self) -> None:
        """Close a window; the last one begins a phase in which the process may send."""
        self._windows -= 1
        if not self._windows:
            self._admitting.cancel()
            self._admits.clear()
            self._silent.set()
            self._after(phase_times(self._release_ms)[1], self._admits.set)

    def _after(self, milliseconds: int, act: Callable[[], None]) -> asyncio.Future[None]:
        """Act after a wait, whatever becomes of the caller."""

        async def wait() -> None:
            await self._sleep(milliseconds)
            act()

        waiting = asyncio.ensure_future(wait())
        self._waits.add(waiting)
        waiting.add_done_callback(self._waits.discard)
        return waiting

    def _start(self, step: Callable[[], None]) -> asyncio.Future[None]:
        worker = self._idle.pop() if self._idle else _Worker()
        done = worker.run(step, asyncio.get_running_loop())
        done.add_done_callback(lambda _: self._idle.append(worker))
        return done


class _Worker:
    """A thread that does one piece of work after another."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._serve, name="askance-evaluation", daemon=True).start()

    def run(
        self, work: Callable[[], None], loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[None]:
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
