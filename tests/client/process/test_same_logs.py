"""The log and the files of two devices are the same bytes, whatever their records are.

Two folders are made from the same secrets, for each kind of record source, with coins by which the
randomizer answers the same for every value. What differs afterwards follows from the record.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from heapq import heappop, heappush
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.exchange import decode_check_in, encode_response
from askance_client import DeviceClient, Policy, embedding
from askance_client.cli import event_log, running
from askance_client.cli.configuration import read_configuration
from askance_client.cli.home import DeviceHome
from askance_client.cli.members import read_people
from askance_client.codec import decode_report
from askance_client.messages import AckStatus
from askance_client.records import KINDS
from askance_client.service import Gateway, Response
from askance_client.service.evaluation import _Worker
from tests.aggregator.server.devices.conftest import KEY, NOW_S, SCHEMA, World

Records = list[dict[str, Any]]

RELEASE_MS = 40_000  # half of it is what a read may take; `Turns` does not wait for it
FINE: tuple[Records, Records] = (
    [{"smoker": 0, "colour": "red", "note": "a"}],
    [{"smoker": 1, "colour": "green", "note": "a much longer note than the other's"}],
)
"""Two records that can be read."""
SEVERAL: tuple[Records, Records] = (FINE[0] * 2, FINE[1] * 7)
"""Numbers of records of one member, where one is expected."""

SETTINGS = f"""
aggregator = "127.0.0.1:1"
[policy]
analysts = ["{KEY.public_key().public_bytes_raw().hex()}"]
life_epsilon = "8"
[run]
release_ms = {RELEASE_MS}
[records]
schema = "people.toml"
"""
PEOPLE = """
name = "person"
version = 1
[fields]
smoker = { type = "bit" }
colour = { type = "category", labels = ["red", "green", "blue"] }
"""


def csv_lines(records: Records) -> str:
    rows = [",".join(str(one[name]) for name in ("smoker", "colour", "note")) for one in records]
    return "\n".join(["smoker,colour,note", *rows, ""])


class Written:
    """A folder of records, in a form that a kind of source reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.body = b""
        self.status = 200

    def table(self, records: Records) -> str:
        (self.folder / "records.csv").write_text(csv_lines(records))
        return 'data = "records.csv"'

    def json(self, records: Records) -> str:
        (self.folder / "records.json").write_text(json.dumps(list(records)))
        return 'data = "records.json"'

    def lines(self, records: Records) -> str:
        lines = "".join(json.dumps(one) + "\n" for one in records)
        (self.folder / "records.jsonl").write_text(lines)
        return 'data = "records.jsonl"'

    def parquet(self, records: Records) -> str:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(
            pyarrow.Table.from_pylist(list(records)), self.folder / "records.parquet"
        )
        return 'data = "records.parquet"'

    def sqlite(self, records: Records) -> str:
        path = self.folder / "records.sqlite"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE people (smoker INTEGER, colour TEXT, note TEXT)")
            connection.executemany("INSERT INTO people VALUES (:smoker, :colour, :note)", records)
        return 'data = "records.sqlite"\nquery = "SELECT * FROM people"'

    def duckdb(self, records: Records) -> str:
        duckdb = pytest.importorskip("duckdb")
        path = self.folder / "records.duckdb"
        path.unlink(missing_ok=True)
        with closing(duckdb.connect(str(path))) as connection:
            connection.execute("CREATE TABLE people (smoker INTEGER, colour TEXT, note TEXT)")
            for one in records:
                connection.execute("INSERT INTO people VALUES (?, ?, ?)", list(one.values()))
        return 'data = "records.duckdb"\nquery = "SELECT * FROM people"'

    def directory(self, records: Records) -> str:
        (self.folder / "people").mkdir(exist_ok=True)
        (self.folder / "people" / "anna.csv").write_text(csv_lines(records))
        return 'data = "people"\nkind = "directory"'

    def command(self, records: Records) -> str:
        (self.folder / "printed.json").write_text(json.dumps(list(records)))
        return 'command = ["/bin/cat", "printed.json"]'

    def http(self, records: Records) -> str:
        self.body = json.dumps(list(records)).encode()
        written = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(written.status)
                self.end_headers()
                self.wfile.write(written.body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.port = server.server_port
        return f'url = "http://127.0.0.1:{self.port}/"'

    def environment(self, records: Records) -> str:
        for name, value in records[0].items():
            os.environ[f"SAMELOG_{name.upper()}"] = str(value)
        return 'environment = "SAMELOG_"'


WRITE: Mapping[str, Callable[[Written, Records], str]] = {
    "csv": Written.table,
    "json": Written.json,
    "json-lines": Written.lines,
    "parquet": Written.parquet,
    "sqlite": Written.sqlite,
    "duckdb": Written.duckdb,
    "directory": Written.directory,
    "command": Written.command,
    "http": Written.http,
    "environment": Written.environment,
}


class Wire:
    """A channel whose aggregator asks each caller one question."""

    def __init__(self, asking: Response) -> None:
        self._asking = asking
        self.symbols: list[object] = []

    def unary_unary(self, method: str) -> Any:
        async def call(data: bytes, timeout: int, metadata: object) -> bytes:
            reports = [decode_report(report) for report in decode_check_in(data).reports]
            if not reports:
                return encode_response(self._asking)
            self.symbols += [report.outcome for report in reports]
            acks = tuple((report.request_digest, AckStatus.ACCEPTED) for report in reports)
            return encode_response(Response(acks=acks))

        return call

    async def close(self, grace: float | None = None) -> None:
        """Nothing is held."""


class ZeroCoins:
    """Coins by which every value is answered by the first symbol."""

    def words(self, request: bytes, size: int) -> tuple[int, ...]:
        return (0,) * size


class Turns:
    """Waits of the devices' code, which end in the order of their ends, without any of their time.

    None ends before the work on records that was begun before is done: no draw is missed, however
    slow the machine is.
    """

    def __init__(self) -> None:
        self._waits: list[tuple[float, int, asyncio.Future[None]]] = []
        self._begun, self._now_ms = count(), 0.0
        self._works: set[asyncio.Future[None]] = set()
        self._driver: asyncio.Future[None] | None = None

    async def sleep(self, milliseconds: float) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waits, (self._now_ms + milliseconds, next(self._begun), ended))
        if self._driver is None or self._driver.done():
            self._driver = asyncio.ensure_future(self._drive())
        await ended

    def working(self, run: Callable[..., asyncio.Future[None]]) -> Callable[..., Any]:
        """Return a worker's `run` whose work is waited for."""

        def known(*arguments: Any) -> asyncio.Future[None]:
            work = run(*arguments)
            self._works.add(work)
            work.add_done_callback(self._works.discard)
            return work

        return known

    async def _drive(self) -> None:
        while self._waits:
            await self._settled()
            at_ms, _, ended = heappop(self._waits)
            self._now_ms = at_ms
            if not ended.done():
                ended.set_result(None)

    async def _settled(self) -> None:
        """Wait until nothing is ready to run, and no work on a record is under way."""
        quiet = 0
        while quiet < 20:
            await asyncio.sleep(0.001 if self._works else 0)
            quiet = 0 if self._works else quiet + 1


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """An aggregator for all devices, which have the same clock and no randomness."""
    world = World()
    asking = Response(studies=(world.study,), requests=(world.group(range(1), 1).payload,))
    wire = Wire(asking)
    turns = Turns()
    monkeypatch.setattr(_Worker, "run", turns.working(_Worker.run))
    for module in (running, embedding):
        monkeypatch.setattr(module, "Gateway", partial(Gateway, sleep=turns.sleep))
    monkeypatch.setattr("askance_client.service.access.open_channel", lambda *_, **__: wire)
    monkeypatch.setattr(running, "system_now_s", lambda: NOW_S)
    monkeypatch.setattr(running, "SystemCoins", ZeroCoins)
    monkeypatch.setattr("askance_client.embedding.system_now_s", lambda: NOW_S)
    monkeypatch.setattr("askance_client.embedding.SystemCoins", ZeroCoins)
    return wire


@contextmanager
def same_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Secrets that are the same in every block."""
    numbers = count()

    def urandom(size: int) -> bytes:
        return hashlib.shake_256(next(numbers).to_bytes(8, "big")).digest(size)

    with monkeypatch.context() as patched:
        patched.setattr(os, "urandom", urandom)
        yield


@contextmanager
def logged(file: Path) -> Iterator[None]:
    """A log's file, as `device run --log-file` has it, without times."""
    logger = logging.getLogger("askance.device")
    before, spread = logger.handlers, logger.propagate
    logger.handlers = []  # a command of another test may have left one whose stream has ended
    event_log.start_log(file)
    for handler in logger.handlers:
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    try:
        yield
    finally:
        for handler in logger.handlers:
            handler.close()
        logger.handlers = before
        logger.propagate = spread


def made(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> tuple[DeviceHome, Written]:
    """A device's folder, whose one member has a fine record."""
    folder.mkdir()
    (folder / "people.toml").write_text(PEOPLE)
    written = Written(folder)
    where = WRITE[kind](written, FINE[0])
    naming = "" if KINDS[kind].names else "\none_person = true"
    path = folder / "device.toml"
    path.write_text(f"{SETTINGS}{where}{naming}\n")
    people = read_people(read_configuration(path))
    with same_secrets(monkeypatch):
        home = DeviceHome.create(folder / "device", "# Elsewhere.\n", people.binding)
    return home, written


def checked_in(
    home: DeviceHome, change: Callable[[], object], capfd: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """Check in once, after a change of the records that comes once the device has started.

    Returns:
      Everything that stands in the folder and was printed afterwards.
    """
    path = home.folder.parent / "device.toml"
    with logged(home.folder / "log.txt"):
        journal = event_log.Journal()
        with running._gateway(home, read_configuration(path), journal) as (gateway, _):
            change()
            outcome = asyncio.run(gateway.check_in_once())
            journal.flush()
            printed = running.tell_once(running._outcome_json(outcome))
    captured = capfd.readouterr()
    found: dict[str, Any] = {"printed": (printed, captured.out, captured.err)}
    for file in sorted(home.folder.rglob("*")):
        found[file.name] = (stat.S_IMODE(file.stat().st_mode), file.read_bytes())
    return found


def differences(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The files that differ, or that one has not."""
    return {
        name: (first.get(name), second.get(name))
        for name in first.keys() | second.keys()
        if first.get(name) != second.get(name)
    }


def test_every_kind_of_source_is_covered() -> None:
    """A new kind needs a form of its records here."""
    assert set(WRITE) == set(KINDS)


def compared(
    kind: str,
    changes: Sequence[Callable[[Written], object]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Files and logs of two devices of one kind of source, in one folder, in turn."""
    folder, left = tmp_path / "one", []
    for change in changes:
        home, written = made(folder, kind, monkeypatch)
        left.append(checked_in(home, partial(change, written), capfd))
        shutil.rmtree(folder)
    return left[0], left[1]


def recorded(kind: str, records: Records) -> Callable[[Written], object]:
    def change(written: Written) -> None:
        if kind == "http":
            written.body = json.dumps(list(records)).encode()
        else:
            WRITE[kind](written, records)

    return change


@pytest.mark.parametrize("kind", WRITE)
def test_two_records_leave_the_same_bytes(
    kind: str,
    wire: Wire,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    changes = [recorded(kind, records) for records in FINE]
    first, second = compared(kind, changes, tmp_path, monkeypatch, capfd)
    assert differences(first, second) == {}
    assert len(wire.symbols) == 2
    assert wire.symbols[0] == wire.symbols[1]
    assert first["printed"][0].startswith("members 1: answered 1, refused 0")


FAILURES: Mapping[str, Mapping[str, tuple[Callable[[Written], object], ...]]] = {
    **{
        kind: {"two and seven records": tuple(recorded(kind, some) for some in SEVERAL)}
        for kind in WRITE
        if kind != "environment"
    },
    "environment": {
        "a variable and none": (
            lambda w: [os.environ.pop(name) for name in list(os.environ) if "SAMELOG_" in name],
            lambda w: [os.environ.pop(name) for name in list(os.environ) if "SAMELOG_" in name],
        )
    },
}
BROKEN: Mapping[str, Sequence[tuple[Callable[[Written], object], ...]]] = {
    "json": [
        (
            lambda w: (w.folder / "records.json").write_text("[{]"),
            lambda w: (w.folder / "records.json").write_text('[\n\n{"smoker": 1,\n"colour"'),
        )
    ],
    "directory": [
        (
            lambda w: (w.folder / "people" / "anna.csv").write_text(""),
            lambda w: (w.folder / "people" / "anna.csv").write_text('smoker\n"1'),
        )
    ],
    "command": [
        (
            lambda w: (w.folder / "printed.json").write_text("yes"),
            lambda w: (w.folder / "printed.json").unlink(),
        )
    ],
    "http": [(lambda w: setattr(w, "status", 404), lambda w: setattr(w, "status", 302))],
}


@pytest.mark.parametrize("kind", WRITE)
def test_two_records_that_cannot_be_read_leave_the_same_bytes(
    kind: str,
    wire: Wire,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for changes in [*FAILURES[kind].values(), *BROKEN.get(kind, ())]:
        first, second = compared(kind, changes, tmp_path, monkeypatch, capfd)
        assert differences(first, second) == {}
        assert b"record source failed (device doctor says why)" in first["log.txt"][1]


def test_the_exit_code_of_a_command_is_not_in_the_log(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def exits(code: int) -> Callable[[Written], object]:
        return lambda written: (written.folder / "code").write_text(str(code))

    def command(written: Written, records: Records) -> str:
        (written.folder / "code").write_text("0")
        (written.folder / "printed.json").write_text(json.dumps(list(records)))
        return 'command = ["/bin/sh", "-c", "cat printed.json; exit $(cat code)"]'

    monkeypatch.setitem(WRITE, "command", command)
    first, second = compared("command", [exits(3), exits(77)], tmp_path, monkeypatch, capfd)
    assert differences(first, second) == {}
    assert b"77" not in second["log.txt"][1]


@pytest.mark.parametrize(
    "functions",
    [
        (lambda: FINE[0][0], lambda: FINE[1][0]),
        (lambda: FINE[0][0]["none"], lambda: int("a smoker")),
        (lambda: FINE[0] * 2, lambda: FINE[1] * 7),
    ],
    ids=["records", "exceptions", "numbers of records"],
)
def test_an_applications_records_leave_the_same_bytes(
    functions: Sequence[Callable[[], object]],
    wire: Wire,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    policy = Policy(frozenset({KEY.public_key().public_bytes_raw()}), 8 * 10**9)
    left = []
    for function in functions:
        folder = tmp_path / "one"
        client = DeviceClient(
            folder,
            aggregator="127.0.0.1:1",
            records=function,
            schema=SCHEMA,
            policy=policy,
            release_ms=RELEASE_MS,
        )
        with same_secrets(monkeypatch):
            client.status()  # makes the folder
        with logged(tmp_path / "log.txt"):
            outcome = client.run_once()
        client.close()
        captured = capfd.readouterr()
        found: dict[str, Any] = {"printed": (outcome, captured.out, captured.err)}
        for file in (*sorted(folder.rglob("*")), tmp_path / "log.txt"):
            found[file.name] = (stat.S_IMODE(file.stat().st_mode), file.read_bytes())
        left.append(found)
        shutil.rmtree(folder)
        (tmp_path / "log.txt").unlink()
    assert differences(left[0], left[1]) == {}
    assert len(wire.symbols) == 2


assert sys.platform != "win32"  # commands of a shell are run
