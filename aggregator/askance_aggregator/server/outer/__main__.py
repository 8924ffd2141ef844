"""The outer process as a program; `supervisor` starts it.

Arguments: the descriptor of the listening socket, and the path of the aggregator's Unix socket.
Settings come on stdin, one line of JSON each; a line on stdout says that connections are accepted,
and one per second after it that the event loop runs.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from grpc import aio

from askance_aggregator.server.outer.child_process import allow_descriptors, limit_memory
from askance_aggregator.server.outer.listener import OuterListener
from askance_aggregator.server.outer.pass_through import (
    PassThrough,
    end_without_memory,
    open_inner_channel,
    server_options,
)
from askance_aggregator.server.outer.settings import OuterSettings

_ENDS_S = 5.0  # after the end of its pipe, whatever it is doing
_HEALTH_S = 5.0  # for the aggregator's first word about its health
_OTHER_DESCRIPTORS = 128
_NEARLY = 0.95  # of the limit on memory; past it a process is of no use, and is replaced
_MEMORY_LOOK_S = 0.25
_ALIVE_EVERY_S = 1.0
_CALLS_END_S = 0.5  # for the calls that are open at the end
_STACK_BYTES = 1 << 20  # of a thread; reserved stacks count as data
_LOG = logging.getLogger(__name__)


def limit_process(settings: OuterSettings) -> None:
    """Limit this process: memory, descriptors, and its place when the system ends processes."""
    limit_memory(settings.memory_bytes)
    allow_descriptors(3 * settings.connections + _OTHER_DESCRIPTORS)  # a pipe has two ends


def limit_stacks() -> None:
    """Let threads that are started from now on reserve less than the system's 8 MiB each."""
    # Threads of gRPC take glibc's default, which no limit changes once a program has begun.
    libc = ctypes.CDLL(None)
    attributes = ctypes.create_string_buffer(256)  # a pthread_attr_t has 56 bytes, or 64
    with suppress(AttributeError):  # not on every system
        set_default = libc.pthread_setattr_default_np
        libc.pthread_attr_init(attributes)
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
        set_default(attributes)
        libc.pthread_attr_destroy(attributes)


async def serve(
    listening: socket.socket, inner_socket: str, first: OuterSettings, lines: Lines
) -> None:
    """Serve until the pipe of settings ends."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_failed)
    with tempfile.TemporaryDirectory(prefix="askance-outer-") as folder:
        grpc_socket = Path(folder) / "grpc"
        listener = OuterListener(listening, grpc_socket, first)
        server = aio.server(options=server_options(first.handshake_s, first.idle_s, first.age_s))
        async with open_inner_channel(inner_socket) as inner:
            passing = PassThrough(inner, listener.caller, devices=first.devices)
            server.add_generic_rpc_handlers((passing,))
            server.add_insecure_port(f"unix:{grpc_socket}")
            await server.start()
            work = [
                loop.create_task(listener.accept(passing)),
                loop.create_task(passing.watch_health()),
                loop.create_task(_watch_memory(int(_NEARLY * first.memory_bytes))),
            ]
            for task in work:
                task.add_done_callback(_ended)
            over = asyncio.Event()
            lines.follow(
                lambda line: loop.call_soon_threadsafe(_change, listener, line),
                lambda: loop.call_soon_threadsafe(over.set),
            )
            # An aggregator that does not say in time does not serve; one that has ended is not
            # waited for, since the next one needs the address.
            first_of = [loop.create_task(it.wait()) for it in (passing.health_known, over)]
            await asyncio.wait(first_of, timeout=_HEALTH_S, return_when=asyncio.FIRST_COMPLETED)
            if not over.is_set():
                print("accepting", flush=True)
                work.append(loop.create_task(_say_alive()))
                await over.wait()
            for one in first_of:
                one.cancel()
            for task in work:
                task.remove_done_callback(_ended)
                task.cancel()
            passing.end_calls()
            await server.stop(_CALLS_END_S)


async def _say_alive() -> None:
    while True:
        await asyncio.sleep(_ALIVE_EVERY_S)
        with suppress(OSError):  # the aggregator has gone: the pipe of settings ends too
            print("alive", flush=True)


async def _watch_memory(most: int) -> None:
    """End this process when its data is larger than `most` bytes: it is past use near its limit."""
    # A failure there is not always reported: gRPC drops a call that has found no memory, and goes
    # on.
    status = Path("/proc/self/status")
    while True:
        await asyncio.sleep(_MEMORY_LOOK_S)
        with suppress(OSError, StopIteration):  # not on every system
            line = next(line for line in status.open() if line.startswith("VmData:"))
            if 1024 * int(line.split()[1]) > most:
                end_without_memory()


def _ended(task: asyncio.Task[None]) -> None:
    """End this process with a task that was to last: the aggregator starts another one."""
    _LOG.error("ended by %s", type(task.exception()).__name__)
    end_without_memory()


class Lines:
    """Lines of stdin, read by a thread: it sees the end of the pipe also when the loop is busy."""

    def __init__(self) -> None:
        self._file = sys.stdin.buffer

    def first(self) -> bytes:
        """Return the first line; empty at the end."""
        return self._file.readline()

    def follow(self, change: Callable[[bytes], object], end: Callable[[], object]) -> None:
        """Call `change` with every later line and `end` after them, from a thread."""

        def read() -> None:
            for line in self._file:
                change(line)
            logging.disable()  # what gRPC writes of calls that end with their server
            with suppress(RuntimeError):
                end()
            time.sleep(_ENDS_S)
            os._exit(0)

        threading.Thread(target=read, name="settings", daemon=True).start()


def _change(listener: OuterListener, line: bytes) -> None:
    try:
        listener.change(OuterSettings.of_line(line))
    except (OSError, ValueError, TypeError) as error:
        _LOG.error("settings were not changed: %s", type(error).__name__)


def _failed(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    error = context.get("exception")
    if isinstance(error, MemoryError):
        end_without_memory()
    if not isinstance(error, OSError | TimeoutError):
        _LOG.error("%s: %s", context.get("message"), type(error).__name__)


def main() -> int:
    """Run; return the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")  # the aggregator logs it
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the aggregator, which has them too, ends it
    descriptor, inner_socket = sys.argv[1:]
    lines = Lines()
    line = lines.first()
    if not line:
        return 0
    settings = OuterSettings.of_line(line)
    limit_process(settings)
    limit_stacks()
    listening = socket.socket(fileno=int(descriptor))
    asyncio.run(serve(listening, inner_socket, settings, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
