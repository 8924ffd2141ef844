"""Start, restart and end of the outer process, in the process of the aggregator."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from askance_aggregator.server.outer.child_process import process_environment
from askance_aggregator.server.outer.settings import OuterSettings
from askance_client.addresses import Address
from askance_client.errors import StoreError

_PROGRAM = "askance_aggregator.server.outer"
_BACKLOG = 1024  # connections that wait while no outer process runs
_START_S = 60.0
_END_S = 10.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 3.0
_LOOK_EVERY_S = 1.0
_SILENT_S = 20.0  # a process whose event loop has said nothing for so long is ended
_SOUND_S = 30.0  # a process that has lived for so long is started again without a longer wait
_LOGGED_BYTES = 500  # per line

_LOG = logging.getLogger(__name__)


def listen_at(address: Address) -> socket.socket:
    """Return a socket that listens at an address; port 0 takes a free one."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, where = found[0]
        return socket.create_server(
            where[:2],
            family=family,
            backlog=_BACKLOG,
            dualstack_ipv6=family == socket.AF_INET6 and socket.has_dualstack_ipv6(),
        )
    except OSError:
        raise StoreError(
            f"service: cannot listen on {address}: it is in use, or not this machine's"
        ) from None


class InnerSocket:
    """Folder of the Unix socket by which the outer process reaches the aggregator, for a block.

    No other user can enter the folder. It is made where temporary files are, because the path of a
    socket is short and the folder of the settings may be read-only.
    """

    def __enter__(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(prefix="askance-")
        return Path(self._folder.name) / "aggregator"

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


class OuterProcess:
    """An outer process, started again whenever it ends, and ended when its event loop stands still.

        with OuterProcess(listening, path, settings):
            ...

    Args:
      listening: the socket at the public address.
      inner: path of the aggregator's Unix socket.
      started_again: called after each restart, from a thread.
      clock: monotonic time in seconds.
    """

    def __init__(
        self,
        listening: socket.socket,
        inner: Path,
        settings: OuterSettings,
        started_again: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listening = listening
        self._inner = inner
        self._settings = settings
        self._started_again = started_again
        self._clock = clock
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._supervise, name="askance-outer", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The number of the process that runs now, or ran last."""
        return self._process.pid

    def change(self, settings: OuterSettings) -> None:
        """Let the process have other settings from now on."""
        with self._lock:
            self._settings = settings
            self._send(self._process, settings)

    def stop(self) -> None:
        """End the process, and return when it has ended."""
        self._over.set()
        with self._lock:
            process = self._process
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
        self._thread.join(_END_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a process and wait until it accepts connections, or raise StoreError."""
        descriptor = self._listening.fileno()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM, str(descriptor), str(self._inner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[descriptor],
            env=process_environment(),
        )
        try:
            threading.Thread(target=_log_lines, args=(process,), daemon=True).start()
            self._send(process, self._settings)
            patience = threading.Timer(_START_S, process.kill)
            patience.start()
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
            finally:
                patience.cancel()
            if not line:
                code = process.wait()
                raise StoreError(f"outer process: expected it to start, got exit code {code}")
            self.heard_s = self._clock()
            self._ended = threading.Event()
            threading.Thread(
                target=self._listen, args=(process, self._ended), name="outer-alive", daemon=True
            ).start()
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process

    def _listen(self, process: subprocess.Popen[bytes], ended: threading.Event) -> None:
        """Note when a process says that its event loop runs, until it ends."""
        assert process.stdout is not None
        with process.stdout:
            for _ in process.stdout:
                self.heard_s = self._clock()
        ended.set()

    def _send(self, process: subprocess.Popen[bytes], settings: OuterSettings) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(settings.to_line())
            process.stdin.flush()
        except OSError:
            pass  # it has ended; the next one is sent them at its start

    def _supervise(self) -> None:
        wait_s = _FIRST_WAIT_S
        while not self._over.is_set():
            began_s = self._clock()
            code = self._wait()
            if self._over.is_set():
                return
            sound = self._clock() - began_s > _SOUND_S
            wait_s = _FIRST_WAIT_S if sound else min(2 * wait_s, _LONGEST_WAIT_S)
            _LOG.error("the outer process has ended", extra={"code": code, "again_in_s": wait_s})
            if self._over.wait(wait_s) or not self._restart():
                continue
            self._started_again()

    def _wait(self) -> int:
        """Wait until the process ends, by itself or because it is silent; return its exit code."""
        while not self._ended.wait(_LOOK_EVERY_S):
            if self._clock() - self.heard_s > _SILENT_S:
                _LOG.error("the outer process does not answer, and is ended")
                self._process.kill()
                break
        return self._process.wait()

    def _restart(self) -> bool:
        """Start the next process; False: it did not start, or is not wanted any more."""
        try:
            process = self._start()
        except Exception as error:  # no thread, descriptor or memory is free: tried again later
            _LOG.error("the outer process was not started", exc_info=error)
            return False
        with self._lock:
            if self._process.stdin is not None:
                _close(self._process.stdin)
            self._process = process
            self._send(process, self._settings)  # which may have changed meanwhile
            if self._over.is_set() and process.stdin is not None:
                process.stdin.close()
        return True


def _log_lines(process: subprocess.Popen[bytes]) -> None:
    """Log what a process writes on stderr, until it ends."""
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            text = line[:_LOGGED_BYTES].decode("utf-8", "replace").strip()
            _LOG.warning("the outer process has written", extra={"text": text})


def _close(end: IO[bytes]) -> None:
    with suppress(OSError):  # what was not sent to a process that has ended
        end.close()
