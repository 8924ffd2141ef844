"""Every row of the table in docs/records.md, from `init` to an answer that is the record's."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from askance_client.codec import decode_report
from askance_client.exact_laws import probability
from tests.client.process.conftest import PUBLIC
from tests.client.process.test_instrumented_apps import question
from tests.commands import OF_THE_DEVICE, run_command

TABLE = Path(__file__).resolve().parents[3] / "docs" / "records.md"
PATIENCE = "release_ms = 3000"  # a source has half of it, while ten devices begin at one time
EPSILON = "22"  # a report is not the record's with probability 3e-10
ROW = {"id": "anna", "smokes": 1}
QUERY = ("--query", "SELECT id, smokes FROM people", "--key", "id")
KEY = ("--key", "id")
ONE = ("--one-person",)

# By the second column of the table: what follows it, and the other options.
ROWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "csv": ("people.csv", KEY),
    "json": ("people.json", KEY),
    "json-lines": ("people.jsonl", KEY),
    "parquet": ("people.parquet", KEY),
    "sqlite": ("people.db", QUERY),
    "duckdb": ("people.duckdb", QUERY),
    "directory": ("people", ()),
    "command": ("cat {there}/people.json", KEY),
    "http": ("//127.0.0.1:{port}/records", ONE),
    "environment": ("RECORD_", ONE),
}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Write the same record to every source, and return the port of the one that serves it."""
    pyarrow, duckdb = pytest.importorskip("pyarrow"), pytest.importorskip("duckdb")
    from pyarrow import parquet

    text = json.dumps([ROW])
    (tmp_path / "people.toml").write_text('name = "people"\n[fields]\nsmokes = { type = "bit" }\n')
    (tmp_path / "people.csv").write_text("id,smokes\nanna,1\n")
    (tmp_path / "people.json").write_text(text)
    (tmp_path / "people.jsonl").write_text(text[1:-1])
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "anna.json").write_text(text)
    parquet.write_table(pyarrow.Table.from_pylist([ROW]), tmp_path / "people.parquet")
    for connect, name in ((sqlite3.connect, "people.db"), (duckdb.connect, "people.duckdb")):
        with closing(connect(str(tmp_path / name))) as connection:
            connection.execute("CREATE TABLE people (id TEXT, smokes INTEGER)")
            connection.execute("INSERT INTO people VALUES ('anna', 1)")
            connection.commit()
    monkeypatch.setenv("RECORD_SMOKES", "1")
    monkeypatch.chdir(tmp_path)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/records" else 404)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_every_row_of_the_table_answers_a_study(
    tmp_path: Path, aggregator: Any, served: int
) -> None:
    """The folder that `init` makes is not there yet; the public default of the question is no."""
    token, said = aggregator.token(2 * len(ROWS)), dict[str, list[int]]()

    def device(kind: str, *words: str) -> None:
        done = run_command(OF_THE_DEVICE, (words[0], f"made/{kind}", *words[1:]))
        said.setdefault(kind, []).append(done.returncode)
        ended = (done.returncode, done.stderr)  # a source that is late is a line of stderr
        assert ended == (0, ""), f"{kind}: {words[0]}: {done.stdout}{done.stderr}"

    def prepare(kind: str) -> None:
        where, options = ROWS[kind]
        records = f"{kind}:{where.format(there=tmp_path, port=served)}"
        to_all = ("--aggregator", aggregator.server.address, "--schema", "people.toml")
        policy = ("--analyst", PUBLIC, "--life-epsilon", EPSILON)
        device(kind, "init", *to_all, *policy, "--records", records, *options)
        configuration = Path("made", kind, "device.toml")
        text = configuration.read_text(encoding="utf-8")
        assert "release_ms = 1000" in text
        configuration.write_text(text.replace("release_ms = 1000", PATIENCE), encoding="utf-8")
        device(kind, "doctor")
        device(kind, "enroll", "--token", token)

    with ThreadPoolExecutor(len(ROWS)) as pool:
        list(pool.map(prepare, ROWS))
        asked = question(aggregator, 0, EPSILON)
        (group,) = asked.groups
        tally = aggregator.ask(asked)
        list(pool.map(lambda kind: device(kind, "run", "--once"), ROWS))
        (counted,) = tally.result(60)
    assert said == {kind: [0, 0, 0, 0] for kind in ROWS}
    assert counted.answered == len(ROWS)
    for _, data in aggregator.store.reports(group.digest):
        symbol = decode_report(data).outcome
        assert isinstance(symbol, bytes)
        chances = [probability(group.randomizer, truth, symbol) for truth in (0, 1)]
        assert chances[1] > chances[0]


def test_they_are_the_rows_of_the_table() -> None:
    lines = TABLE.read_text(encoding="utf-8").partition("| `[records]` |")[2].partition("\n\n")[0]
    rows = [line.split("|")[2].strip(" `") for line in lines.splitlines()[2:]]
    assert [row.partition(":")[0] for row in rows] == list(ROWS)


def test_a_folder_that_init_made_in_vain_is_gone(tmp_path: Path) -> None:
    """The name is not taken, and the error names the program that is missing."""
    (tmp_path / "people.toml").write_text('name = "people"\n[fields]\nsmokes = { type = "bit" }\n')
    words = ("--aggregator", "127.0.0.1:1", "--schema", tmp_path / "people.toml", *ONE)
    policy = ("--analyst", PUBLIC, "--life-epsilon", "1", "--records", "command:no-such-program")
    done = run_command(OF_THE_DEVICE, ("init", tmp_path / "a" / "device", *words, *policy))
    assert done.returncode == 1
    assert "cannot be run: No such file or directory ('no-such-program')" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.toml"]
