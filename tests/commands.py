"""Commands as processes that start in milliseconds: forks of a process that has their imports.

A command has a process, a folder, an environment, an output and an end of its own; only its imports
are shared, and what /proc says of its command line. A test of either starts an interpreter.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Self

from tests.sources import FOLDERS

OF_ASKANCE = "askance.cli"
OF_THE_DEVICE = "askance_client.cli.device"
_ROOT = Path(__file__).resolve().parents[1]
_LOADED = (  # what commands import when they run
    OF_ASKANCE,
    OF_THE_DEVICE,
    "askance.cli.aggregator.processes",
    "askance_aggregator.server.process.configuration",
    "askance_aggregator.server.process.process",
    "askance_aggregator.server.process.tokens",
    "askance_client.cli.making",
    "askance_client.cli.running",
)
_PROGRAM = "import sys; sys.path[:0] = {path!r}; from tests.commands import serve; serve()"
_PATIENCE_S = 200.0  # less than a test has (`timeout` of pytest)


class CommandServer:
    """The process that is forked: a checkout's modules, and its end when this process ends.

    Args:
      root: the checkout.
    """

    def __init__(self, root: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="askance-commands-"))
        path = [str(root / folder) for folder in FOLDERS]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=path), self._address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"

    @property
    def _address(self) -> str:
        return str(self._folder / "socket")

    def close(self) -> None:
        """End it; what was forked ends by itself."""
        self._process.communicate(timeout=_PATIENCE_S)

    def start(
        self,
        module: str,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        out: int,
        err: int,
    ) -> ForkedCommand:
        """Start a command.

        Args:
          module: has the command's `main`.
          words: of the command line.
          folder: in which it runs.
          environment: all of its variables.
          out: a descriptor for its output.
          err: a descriptor for its lines on stderr.
        """
        link = socket.socket(socket.AF_UNIX)
        link.connect(self._address)
        socket.send_fds(link, [b"\0"], [out, err])
        asked = json.dumps([module, list(words), str(folder), dict(environment)])
        link.sendall(f"{asked}\n".encode())
        return ForkedCommand([module, *words], link)

    def run(
        self,
        module: str,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout_s: float = _PATIENCE_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, as `start` does, to its end.

        Raises:
          TimeoutExpired: it was killed after `timeout_s`.
        """
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            files = (out.fileno(), err.fileno())
            with self.start(module, words, folder, environment, *files) as process:
                code = process.wait(timeout_s)
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess([module, *words], code, out.read(), err.read())


class ForkedCommand:
    """A command that runs, as `subprocess.Popen` shows one; the end of its block kills it."""

    def __init__(self, words: Sequence[str], link: socket.socket) -> None:
        """Use `CommandServer.start`."""
        self._words = words
        self._link = link
        self.pid = int(self._line())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit code; None: it runs."""
        if self.returncode is None and select.select([self._link], [], [], 0)[0]:
            self.returncode = int(self._line())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code.

        Raises:
          TimeoutExpired: it runs on.
        """
        if self.returncode is None:
            if not select.select([self._link], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._words, timeout or 0)
            self.returncode = int(self._line())
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        self._link.close()

    def _line(self) -> bytes:
        """Read a line of the process that waits for it."""
        line = b""
        while not line.endswith(b"\n"):
            got = self._link.recv(1)
            assert got, f"{self._words}: expected {line!r} to go on"
            line += got
        return line


def run_command(
    module: str, words: Sequence[str | Path], timeout_s: float = _PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in the folder and the environment of this process.

    `module`, `words`, `timeout_s` and the error are those of `CommandServer.run`.
    """
    return _own().run(module, [str(word) for word in words], Path.cwd(), os.environ, timeout_s)


def start_command(module: str, words: Sequence[str | Path], out: int, err: int) -> ForkedCommand:
    """Start a command in the folder and the environment of this process.

    `module`, `words`, `out` and `err` are those of `CommandServer.start`.
    """
    return _own().start(module, [str(word) for word in words], Path.cwd(), os.environ, out, err)


@cache
def _own() -> CommandServer:
    """Start the server of this checkout."""
    return CommandServer(_ROOT)


def serve() -> None:
    """Fork a process for each command that is asked for, until the pipe on stdin ends."""
    address = sys.argv[1]
    for name in _LOADED:
        importlib.import_module(name)
    gc.freeze()  # else the end of each command is a search for garbage in what is loaded
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("listening", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            link, _ = listener.accept()
            with link:
                if os.fork():
                    continue
                listener.close()
                sys.exit(_answer(link)())
    Path(address).unlink()
    Path(address).parent.rmdir()


def _answer(link: socket.socket) -> Callable[[], int]:
    """Return the command to a process of its own; tell its id and its end from another one."""
    _, descriptors, _, _ = socket.recv_fds(link, 1, 2)
    lines = link.makefile("rw")
    module, words, folder, environment = json.loads(lines.readline())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if process := os.fork():
        print(process, file=lines, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(code, file=lines, flush=True)
        os._exit(0)
    lines.close()
    link.close()
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in enumerate((null, *descriptors)):
        os.dup2(source, target)
        os.close(source)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [module, *words]
    main: Callable[[Sequence[str]], int] = importlib.import_module(module).main
    return lambda: main(words)
