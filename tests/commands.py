"""Commands as processes that start in milliseconds: forks of a process that has their imports.

A command has a process, a folder, an environment, an output and an end of its own; only its imports
are shared. A test of what is imported, or of a signal to the process, starts an interpreter.
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

    def run(
        self,
        module: str,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout_s: float = _PATIENCE_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end.

        Args:
          module: has the command's `main`.
          words: of the command line.
          folder: in which it runs.
          environment: all of its variables.
          timeout_s: it is killed after this time.

        Raises:
          TimeoutError: it was killed.
        """
        with (
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            socket.socket(socket.AF_UNIX) as link,
            link.makefile("rw") as lines,
        ):
            link.settimeout(timeout_s)
            link.connect(self._address)
            socket.send_fds(link, [b"\0"], [out.fileno(), err.fileno()])
            asked = [module, list(words), str(folder), dict(environment)]
            print(json.dumps(asked), file=lines, flush=True)
            process = int(lines.readline())
            try:
                code = int(lines.readline())
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                raise
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess([module, *words], code, out.read(), err.read())


def run_command(
    module: str, words: Sequence[str | Path], timeout_s: float = _PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in the folder and the environment of this process.

    `module`, `words`, `timeout_s` and the error are those of `CommandServer.run`.
    """
    return _own().run(module, [str(word) for word in words], Path.cwd(), os.environ, timeout_s)


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
