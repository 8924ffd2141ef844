"""An aggregator's folder, and the real process that serves one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import grpc
import pytest

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.home import AggregatorHome
from askance_client.addresses import Address
from tests.commands import OF_ASKANCE, ForkedCommand, run_command, start_command
from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[4]
NOW_S = 1_800_000_000
PATIENCE_S = 60


def made(folder: Path, *hosts: str, now_s: int = NOW_S) -> AggregatorHome:
    """A new aggregator that listens on a free port."""
    return AggregatorHome.create(folder, listen=Address("127.0.0.1", 0), hosts=hosts, now_s=now_s)


# A version of the exchange is a constant, which the module that decides imports by name.
_SPEAK = """
from askance_aggregator.server.devices import admission
admission.LEAST_PROTOCOL, admission.PROTOCOL = {least}, {highest}
"""


def command(*words: str | Path, protocols: range | None = None) -> list[str]:
    """The program, from the tree, with these words; it speaks other versions of the exchange."""
    path = [str(ROOT / folder) for folder in FOLDERS]
    code = f"import sys; sys.path[:0] = {path!r}; from askance.cli import main"
    if protocols is not None:
        code += _SPEAK.format(least=protocols[0], highest=protocols[-1])
        return [sys.executable, "-c", f"{code}\nsys.exit(main())", *map(str, words)]
    return [sys.executable, "-c", f"{code}; sys.exit(main())", *map(str, words)]


def ran(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command that has come to its end."""
    return run_command(OF_ASKANCE, words)


@dataclass
class Served:
    """A process that serves, what it said when it was ready, and where its log goes."""

    home: AggregatorHome
    process: subprocess.Popen[str] | ForkedCommand
    ready: dict[str, Any]
    log: Path

    @property
    def address(self) -> str:
        return str(self.ready["listening"])

    @contextmanager
    def channel(self, authority: Path | None = None) -> Iterator[grpc.Channel]:
        """A channel that pins an authority, its own if none is given."""
        pinned = (authority or self.home.authority).read_bytes()
        credentials = grpc.ssl_channel_credentials(pinned)
        with grpc.secure_channel(self.address, credentials) as channel:
            yield channel

    def ended_by(self, number: signal.Signals) -> int:
        """Return the exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_S)

    def events(self) -> list[dict[str, Any]]:
        """Return the events logged so far."""
        whole, _, _ = self.log.read_text().rpartition("\n")  # the last may be half written
        return [json.loads(line) for line in whole.splitlines()]


def _serve(home: AggregatorHome, *words: str) -> tuple[str, ...]:
    return ("aggregator", "serve", "--config", str(home.configuration), "--json", *words)


@contextmanager
def serving(home: AggregatorHome, *words: str) -> Iterator[Served]:
    """Serve a folder in a process of its own until the end of the block.

    Args:
      home: the folder.
      words: more of the command line.
    """
    log = home.folder / "log.jsonl"
    read, write = os.pipe()
    with os.fdopen(read) as stdout, log.open("a") as stderr:
        try:
            process = start_command(OF_ASKANCE, _serve(home, *words), write, stderr.fileno())
        finally:
            os.close(write)
        with process:
            yield _ready(home, process, stdout, log)


@contextmanager
def interpreting(home: AggregatorHome, protocols: range | None = None) -> Iterator[Served]:
    """Serve a folder in an interpreter of its own until the end of the block.

    Args:
      home: the folder.
      protocols: versions of the exchange that it speaks; None: those of this tree.
    """
    log = home.folder / "log.jsonl"
    with (
        log.open("a") as stderr,
        subprocess.Popen(
            command(*_serve(home), protocols=protocols),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield _ready(home, process, process.stdout, log)
        finally:
            process.kill()


def _ready(
    home: AggregatorHome, process: subprocess.Popen[str] | ForkedCommand, said: IO[str], log: Path
) -> Served:
    line = said.readline()
    assert line, log.read_text()
    return Served(home, process, json.loads(line), log)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> AggregatorHome:
    """A folder that is read only."""
    return made(tmp_path_factory.mktemp("operation") / "aggregator", "ask.example.org", "192.0.2.7")


@pytest.fixture
def fresh(tmp_path: Path) -> AggregatorHome:
    """A folder to serve, with certificates of today."""
    return made(tmp_path / "aggregator", now_s=system_now_s())
