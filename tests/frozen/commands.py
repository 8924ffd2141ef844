"""Forty commands with `--json`, run in this process, and what changes from run to run masked.

A session is a list of commands that share a folder. Words may name it by `{folder}`, and the
address of the session's aggregator by `{address}`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from grpc import aio

from askance.cli import main
from askance_aggregator.server.devices import AggregatorServer, ServerParts, ServiceFleet, Settings
from askance_aggregator.server.services.analysts import AnalystsServicer
from askance_aggregator.server.studies import StudyManager
from askance_aggregator.store import SqliteLocation
from tests.faults.people import KEY, NOW_S, PUBLIC, WEEK_S
from tests.frozen.old_stores import DIGESTS, load_sqlite

DIGITS = 9  # of a number; the last ones depend on libraries of linear algebra
TIMED = frozenset({
    "seen", "seconds", "answers_per_second", "steady_answers_per_second", "peak_memory_mb", "speed",
    "store_bytes", "bytes", "processor_s", "wall_s", "certificate_ends_unix_s", "ends_unix_s",
    "size_bytes", "counts_key", "at_unix_s", "python", "grpcio", "protobuf", "numpy",
    "cryptography",
})  # fmt: skip
"""Keys whose values change from run to run or from machine to machine."""

Values = Mapping[str, str]


@dataclass(frozen=True)
class Session:
    """Commands that are run one after the other.

    Args:
      commands: words of each, without `--json`.
      prepare: makes what they need in a folder, and yields the values of their words.
    """

    commands: tuple[str, ...]
    prepare: Callable[[Path], Any]

    def run(self, folder: Path) -> list[dict[str, Any]]:
        """Return what each command printed, and its exit code."""
        printed = []
        with ExitStack() as stack:
            values = stack.enter_context(self.prepare(folder))
            for command in self.commands:
                words = command.format(folder=folder, **values).split()
                code, text = _run([*words, "--json"])
                masked = _masked(json.loads(text), folder)
                printed.append({"command": command, "code": code, "printed": masked})
        return printed


def _masked(value: Any, folder: Path, key: str = "") -> Any:
    if key in TIMED and value is not None:
        return "masked"
    if isinstance(value, dict):
        return {name: _masked(one, folder, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_masked(one, folder) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, str):
        text = value.replace(str(folder), "FOLDER")
        text = re.sub(r"(127\.0\.0\.1|\[?::1\]?):\d+", r"\1:PORT", text)
        return re.sub(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?Z?)?", "TIME", text)
    return value


def _run(words: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = main(words)
    return code, out.getvalue()


@contextmanager
def nothing(folder: Path) -> Iterator[Values]:
    """Prepare nothing."""
    yield {}


@contextmanager
def old_store(folder: Path) -> Iterator[Values]:
    """Make an aggregator's folder with the old store in it."""
    code, _ = _run(["aggregator", "init", str(folder / "home"), "--json"])
    assert code == 0
    (folder / "home" / "store.sqlite").unlink()
    load_sqlite(folder / "home" / "store.sqlite")
    yield {"config": str(folder / "home" / "aggregator.toml"), "of": (b"device 5").hex()}


@contextmanager
def served_store(folder: Path) -> Iterator[Values]:
    """Serve the old store to the analyst who has submitted its studies."""
    pem = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "analyst.pem").write_bytes(pem)
    (folder / "analyst.pem").chmod(0o600)
    load_sqlite(folder / "store.sqlite")
    with ExitStack() as stack:
        store = SqliteLocation(folder / "store.sqlite").open()
        stack.callback(store.close)
        executor = stack.enter_context(ThreadPoolExecutor(2))

        def add(server: aio.Server, fleet: ServiceFleet) -> None:
            manager = StudyManager(
                store, fleet, analysts=frozenset({PUBLIC}), now_s=lambda: NOW_S + 3 * WEEK_S
            )
            stack.callback(manager.stop)
            server.add_generic_rpc_handlers(
                (AnalystsServicer(manager, executor=executor).handler(),)
            )

        parts = ServerParts(services=(add,))
        server = stack.enter_context(
            AggregatorServer.start(store, settings=Settings(), parts=parts)
        )
        names = {name: digest.hex()[:12] for name, digest in DIGESTS.items()}
        yield {
            **names,
            "there": f"--aggregator={server.address} --key={folder / 'analyst.pem'}",
        }


_AGGREGATOR = "aggregator {} --config {{config}}".format
SESSIONS: Mapping[str, Session] = {
    "plan": Session(
        (
            "plan masked-parity --epsilon 1",
            "plan frequency --epsilon 1 --set cells=5 --users 20000",
            "plan mean --epsilon 0.5 --beta 0.01",
            "plan marginals --epsilon 2",
            "plan quantiles --epsilon 1 --users 50000",
            "plan frequency --epsilon 1 --set cells=5 --users 3",
            "plan frequency --epsilon 1 --tau 1/20",
            "plan frequency --epsilon 1/2",
        ),
        nothing,
    ),
    "simulate": Session(
        (
            "simulate frequency --users 600 --epsilon 2 --seed 5 --fleet columns",
            "simulate mean --users 400 --epsilon 1 --seed 5 --trials 2 --fleet columns",
            "simulate masked-parity --users 400 --epsilon 4 --seed 3 --fleet objects",
            "simulate frequency --users 60 --epsilon 2 --seed 5 --fleet grpc",
            "simulate heavy-hitters --users 2000 --epsilon 4 --seed 1 --fleet columns",
            "simulate frequency --users 600 --epsilon 2 --seed 5 --set column=nothing",
            "simulate --list",
        ),
        nothing,
    ),
    "others": Session(
        (
            "version",
            "sweep mean --users 100,200 --epsilon 1 --trials 2 --seed 2 --fleet columns",
            "reproduce --list",
            "curate --list",
            "study templates",
            "study new mean",
            "device explain examples/schooling.toml",
            "study verify examples/schooling_export.json",
            "study verify tests/frozen/results/frequency.json",
            "study verify tests/frozen/results/repeated.json",
        ),
        nothing,
    ),
    "slow": Session(("verify --epsilon 1", "reproduce lemma-iii.2 --quick"), nothing),
    "study": Session(
        (
            "study list {there}",
            "study list --state done {there}",
            "study show {frequency} {there}",
            "study show {repeated} {there}",
            "study show {open} {there}",
            "study result {frequency} --out {folder}/frequency.json {there}",
            "study result {mean} {there}",
            "study result {cancelled} {there}",
            "study result {repeated} --epochs --out {folder}/repeated.json {there}",
            "study verify {folder}/frequency.json",
            "study verify {folder}/repeated.json",
            "study delete {mean} {there}",
            "study resume {cancelled} {there}",
        ),
        served_store,
    ),
    "aggregator": Session(
        (
            _AGGREGATOR("audit verify"),
            _AGGREGATOR("status") + " --listen 127.0.0.1:1",
            _AGGREGATOR("device list"),
            _AGGREGATOR("device list") + " --gateways",
            _AGGREGATOR("device show") + " {of}",
            _AGGREGATOR("device tag") + " {of} --add ward=7",
            _AGGREGATOR("device revoke") + " {of}",
            _AGGREGATOR("device restore") + " {of}",
            _AGGREGATOR("device forget") + " {of}",
            _AGGREGATOR("token list"),
            _AGGREGATOR("audit show") + " --limit 2 --after 0",
            _AGGREGATOR("migrate"),
            _AGGREGATOR("losses"),
            _AGGREGATOR("backup") + " {folder}/backup",
            _AGGREGATOR("collect"),
        ),
        old_store,
    ),
}
