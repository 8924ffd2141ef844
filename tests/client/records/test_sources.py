"""Record sources: read for every question, in time, and without a value in any message."""

from __future__ import annotations

import http.server
import json
import os
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from askance_client.errors import AskanceError, InvalidParameter, InvalidRecord
from askance_client.ledger.sqlite import MAX_MEMBER_BYTES
from askance_client.queries import Integer, Schema
from askance_client.randomizers import SystemCoins
from askance_client.records import (
    ALONE,
    KINDS,
    AllRows,
    ByColumn,
    ByNumber,
    CallableSource,
    LiveRecord,
    Naming,
    OneRow,
    Origin,
    ReadLimits,
    RecordSource,
    Several,
    SourceFailed,
    SourceSettings,
    an_endpoint,
    open_source,
)
from askance_client.records import databases as database_sources
from askance_client.records import processes as process_sources
from askance_client.records.naming import MAX_NAME_BYTES
from askance_client.records.table_sources import FileReader
from askance_client.service import steady_ms, system_now_ms

SCHEMA = Schema("people", 1, age=Integer(0, 99))
LIMITS = ReadLimits(5_000, steady_ms, system_now_ms)
BY_ID = ByColumn("id")


def source_of(
    folder: Path,
    kind: str,
    *where: str,
    naming: Naming | None = None,
    query: str | None = None,
    several: Several = Several.REFUSE,
    limits: ReadLimits = LIMITS,
) -> RecordSource:
    return open_source(Origin(kind, where, query), SourceSettings(folder, naming, several, limits))


def age_of(
    source: RecordSource,
    member: str = ALONE,
    several: Several = Several.REFUSE,
    columns: dict[str, str] | None = None,
    coins: Any = None,
) -> int | None:
    """Return the member's age as read now; None where it is missing."""
    record = LiveRecord(
        source,
        member,
        schema=SCHEMA,
        columns=columns or {},
        several=several,
        coins=coins or SystemCoins(),
        on_failure=lambda failure: None,
    ).load()
    value = record.values["age"]
    assert isinstance(value, int)
    return value if record.present["age"] else None


def sqlite_people(path: Path, ages: dict[object, int]) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS people (id, age)")
    connection.execute("DELETE FROM people")
    connection.executemany("INSERT INTO people VALUES (?, ?)", list(ages.items()))
    connection.commit()
    connection.close()


def duckdb_people(path: Path, ages: dict[object, int]) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(str(path))
    connection.execute("CREATE OR REPLACE TABLE people (id VARCHAR, age INTEGER)")
    connection.executemany("INSERT INTO people VALUES (?, ?)", [list(row) for row in ages.items()])
    connection.close()


def csv_people(path: Path, ages: dict[object, int]) -> None:
    path.write_text("id,age\n" + "".join(f"{name},{age}\n" for name, age in ages.items()))


def json_people(path: Path, ages: dict[object, int]) -> None:
    path.write_text(json.dumps([{"id": name, "age": age} for name, age in ages.items()]))


def json_lines_people(path: Path, ages: dict[object, int]) -> None:
    rows = (json.dumps({"id": name, "age": age}) for name, age in ages.items())
    path.write_text("\n".join(rows))


def parquet_people(path: Path, ages: dict[object, int]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"id": list(ages), "age": list(ages.values())})
    parquet.write_table(table, path)


QUERY = "SELECT id, age FROM people; "
TABLES: dict[str, tuple[Callable[[Path, dict[object, int]], None], str | None]] = {
    "csv": (csv_people, None),
    "json": (json_people, None),
    "json-lines": (json_lines_people, None),
    "parquet": (parquet_people, None),
    "sqlite": (sqlite_people, QUERY),
    "duckdb": (duckdb_people, QUERY),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_changed_row_is_seen_by_the_next_load(tmp_path: Path, kind: str) -> None:
    """A record was read once, when the device started."""
    write, query = TABLES[kind]
    path = tmp_path / "people"
    write(path, {"a": 10, "b": 20})
    source = source_of(tmp_path, kind, "people", naming=BY_ID, query=query)
    members = source.members()
    assert members.names == ("a", "b")
    assert members.table is not None
    assert members.table.unfit(SCHEMA) == {}
    assert (age_of(source, "a"), age_of(source, "b")) == (10, 20)
    write(path, {"a": 11, "b": 20, "c": 30})
    assert (age_of(source, "a"), age_of(source, "b")) == (11, 20)
    write(path, {"b": 21})
    with pytest.raises(SourceFailed):
        age_of(source, "a")
    assert age_of(source, "b") == 21


def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    """A gateway's file is read once for all its members; one changed just now is never trusted."""
    path = tmp_path / "people.csv"
    csv_people(path, {"a": 10})
    wall_ms = path.stat().st_mtime_ns // 10**6 + 99
    reader = FileReader(path, lambda path: pytest.fail("not read"), lambda: wall_ms)
    assert reader.version() is None
    wall_ms += 1
    version = reader.version()
    assert version == reader.version() is not None
    os.utime(path, ns=(1, 1))
    assert reader.version() != version
    path.unlink()
    assert reader.version() is None


def test_a_directory_has_a_file_per_member(tmp_path: Path) -> None:
    folder = tmp_path / "people"
    folder.mkdir()
    (folder / "a.json").write_text('{"age": 10}')
    (folder / "b.csv").write_text("age\n20\n")
    (folder / "notes.txt").write_text("secret")
    (folder / ".hidden.json").write_text("{}")
    source = source_of(tmp_path, "directory", "people")
    members = source.members()
    assert (members.names, len(members.warnings)) == (("a", "b"), 1)
    assert (age_of(source, "a"), age_of(source, "b")) == (10, 20)
    (folder / "a.json").write_text('{"age": 11}')
    (folder / "b.csv").unlink()
    assert age_of(source, "a") == 11
    with pytest.raises(InvalidRecord):
        age_of(source, "b")
    (folder / "a.csv").write_text("age\n1\n")
    with pytest.raises(InvalidRecord, match="got two of one name"):
        source.members()


def test_the_environment_is_read_at_every_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(tmp_path, "environment", "RECORD_")
    with pytest.raises(SourceFailed, match="expected a variable with the prefix"):
        source.members()
    for age in (10, 11):
        monkeypatch.setenv("RECORD_AGE", str(age))
        assert source.members().names == (ALONE,)
        assert age_of(source) == age


def test_the_field_map_names_the_sources_columns(tmp_path: Path) -> None:
    """Also where the source has a column of the field's own name."""
    (tmp_path / "people.csv").write_text("AGE IN YEARS,age\n10,99\n")
    source = source_of(tmp_path, "csv", "people.csv", naming=OneRow(0))
    assert age_of(source, columns={"age": "AGE IN YEARS"}) == 10


class TestCommand:
    def source(self, tmp_path: Path, code: str, limits: ReadLimits = LIMITS) -> RecordSource:
        return source_of(tmp_path, "command", sys.executable, "-c", code, limits=limits)

    def test_its_output_is_json(self, tmp_path: Path) -> None:
        source = self.source(tmp_path, "print(open('age').read())")
        for age in (10, 11):
            (tmp_path / "age").write_text(f'[{{"age": {age}}}]')
            assert age_of(source) == age

    def test_no_shell_reads_its_words(self, tmp_path: Path) -> None:
        code = "import json, sys; print(json.dumps({'age': 10, 'x': sys.argv[1]}))"
        source = source_of(tmp_path, "command", sys.executable, "-c", code, "; touch owned")
        assert age_of(source) == 10
        assert not (tmp_path / "owned").exists()

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            ("import sys; print('{\"age\": 1}'); sys.exit(3)", "expected exit code 0, got another"),
            ("print('secret')", "expected JSON, got other text at line 1"),
            ("print('[1]')", "expected objects with keys"),
            ("import os; os.write(1, b'x' * (1 << 21))", "expected at most 65536 bytes"),
        ],
    )
    def test_nonsense_is_an_error_without_a_value(
        self, tmp_path: Path, code: str, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process_sources, "MAX_OUTPUT_BYTES", 1 << 16)
        with pytest.raises(AskanceError, match=message) as caught:
            age_of(self.source(tmp_path, code))
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(("spaces", "fits"), [(0, True), (1, False)])
    def test_its_output_is_bounded(
        self, tmp_path: Path, spaces: int, fits: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process_sources, "MAX_OUTPUT_BYTES", 100)
        code = f"import os; os.write(1, b'{{\"age\": 1}}'.ljust({100 + spaces}))"
        source = self.source(tmp_path, code)
        if fits:
            assert age_of(source) == 1
            return
        with pytest.raises(SourceFailed, match="expected at most 100 bytes, got more"):
            age_of(source)

    def test_one_that_hangs_is_killed_with_its_children(self, tmp_path: Path) -> None:
        code = (
            "import subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
            "open('child', 'w').write(str(child.pid)); time.sleep(60)"
        )
        limits = replace(LIMITS, time_ms=3_000)
        with pytest.raises(SourceFailed, match="expected its output in time"):
            age_of(self.source(tmp_path, code, limits))
        child = int((tmp_path / "child").read_text())
        for _ in range(5_000):
            if not running(child):
                return
            time.sleep(0.001)
        pytest.fail("the child goes on")

    def test_a_program_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(SourceFailed, match="cannot be run: No such file"):
            age_of(source_of(tmp_path, "command", "/no/such/program"))


def running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Serves the server's `body` with its `status`."""

    def do_GET(self) -> None:
        server: Any = self.server
        self.send_response(server.status)
        self.send_header("Location", "http://example.org/")
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def endpoint() -> Iterator[Any]:
    server: Any = http.server.HTTPServer(("127.0.0.1", 0), Endpoint)
    server.status, server.body = 200, b'{"age": 10}'
    server.url = f"http://localhost:{server.server_port}/record?of=me"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class TestEndpoint:
    def test_it_is_asked_at_every_load(self, tmp_path: Path, endpoint: Any) -> None:
        source = source_of(tmp_path, "http", endpoint.url)
        assert age_of(source) == 10
        endpoint.body = b'[{"age": 11}]'
        assert age_of(source) == 11

    @pytest.mark.parametrize(
        ("status", "body", "message"),
        [
            (302, b'{"age": 1}', "expected status 200, got another"),
            (404, b"secret", "expected status 200, got another"),
            (200, b"secret", "expected JSON"),
            (200, b"x" * (1 << 17), "expected at most 65536 bytes"),
        ],
    )
    def test_nonsense_is_an_error_without_a_value(
        self,
        tmp_path: Path,
        endpoint: Any,
        status: int,
        body: bytes,
        message: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(process_sources, "MAX_OUTPUT_BYTES", 1 << 16)
        endpoint.status, endpoint.body = status, body
        with pytest.raises(AskanceError, match=message) as caught:
            age_of(source_of(tmp_path, "http", endpoint.url))
        assert "secret" not in str(caught.value)

    def test_one_that_sends_nothing_ends_at_the_time_limit(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"
            limits = replace(LIMITS, time_ms=20)
            with pytest.raises(SourceFailed, match="expected its output in time"):
                age_of(source_of(tmp_path, "http", url, limits=limits))

    def test_no_http_is_an_error(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"

            def answer() -> None:
                connection, _ = server.accept()
                connection.recv(1000)
                connection.sendall(b"secret\r\n")
                connection.close()

            thread = threading.Thread(target=answer)
            thread.start()
            with pytest.raises(SourceFailed, match="expected HTTP, got"):
                age_of(source_of(tmp_path, "http", url))
            thread.join()

    @pytest.mark.parametrize(
        "url",
        [
            "http://example.org/",
            "http://192.168.0.1/",
            "http://0.0.0.0:80/",
            "http://127.0.0.1@example.org/",
            "http://user@127.0.0.1/",
            "http://localhost.example.org/",
            "https://127.0.0.1/",
            "file:///etc/passwd",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1/\r\nHost: x",
            "http://127.0.0.1/ HTTP",
            "http:///",
            "",
        ],
    )
    def test_any_other_place_than_loopback_is_refused(self, url: str) -> None:
        """A request to another machine would show it that the device is being asked."""
        with pytest.raises(InvalidParameter, match="expected http://HOST"):
            an_endpoint(url)


class TestDatabase:
    def test_its_rows_are_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database_sources, "MAX_ROWS", 2)
        query = "SELECT id, age FROM people"
        sqlite_people(tmp_path / "two.db", {1: 10, 2: 20})
        source = source_of(tmp_path, "sqlite", "two.db", naming=BY_ID, query=query)
        assert source.members().names == ("1", "2")
        sqlite_people(tmp_path / "three.db", {1: 10, 2: 20, 3: 30})
        source = source_of(tmp_path, "sqlite", "three.db", naming=BY_ID, query=query)
        with pytest.raises(SourceFailed, match="expected at most 2 rows, got more"):
            source.members()

    def test_a_key_may_be_a_number_and_needs_no_quotes(self, tmp_path: Path) -> None:
        sqlite_people(tmp_path / "p.db", {7: 10, "x'; DROP TABLE people; --": 20})
        source = source_of(tmp_path, "sqlite", "p.db", naming=BY_ID, query=QUERY)
        assert source.members().names == ("7", "x'; DROP TABLE people; --")
        assert age_of(source, "7") == 10
        assert age_of(source, "x'; DROP TABLE people; --") == 20

    @pytest.mark.parametrize("several", Several)
    @pytest.mark.parametrize(
        ("column", "rows", "ages"),
        [
            ("TEXT COLLATE NOCASE", [("ann", 10), ("ANN", 20)], {"ann": 10, "ANN": 20}),
            ("TEXT COLLATE RTRIM", [("ann", 10), ("ann  ", 20)], {"ann": 10, "ann  ": 20}),
            ("", [(1, 10), (1.0, 20)], {"1": 10}),
        ],
    )
    def test_a_member_is_answered_for_by_rows_of_exactly_its_name(
        self,
        tmp_path: Path,
        column: str,
        rows: list[tuple[object, int]],
        ages: dict[str, int],
        several: Several,
    ) -> None:
        # By the database's own comparison, each row was answered from under two members' budgets.
        with closing(sqlite3.connect(tmp_path / "p.db")) as connection, connection:
            connection.execute(f"CREATE TABLE people (id {column}, age INTEGER)")
            connection.executemany("INSERT INTO people VALUES (?, ?)", rows)
        source = source_of(tmp_path, "sqlite", "p.db", naming=BY_ID, query=QUERY, several=several)
        assert source.members().names == tuple(ages)
        for member, age in ages.items():
            assert source.load(member).rows == [
                (next(name for name, found in rows if found == age), age)
            ]

    def test_nothing_is_written(self, tmp_path: Path) -> None:
        sqlite_people(tmp_path / "p.db", {"a": 10})
        for statement in ("DELETE FROM people", "SELECT 1) ; DELETE FROM people; --"):
            source = source_of(tmp_path, "sqlite", "p.db", query=statement)
            with pytest.raises(SourceFailed, match="expected rows from SQLite"):
                source.load(ALONE)
        source = source_of(tmp_path, "sqlite", "new.db", query="SELECT 1 AS age")
        with pytest.raises(SourceFailed):
            source.load(ALONE)
        assert not (tmp_path / "new.db").exists()
        assert age_of(source_of(tmp_path, "sqlite", "p.db", query="SELECT age FROM people")) == 10

    def test_a_query_of_duckdb_is_one_statement(self, tmp_path: Path) -> None:
        """Further statements ran, and wrote files: a read-only database does not stop that."""
        TABLES["duckdb"][0](tmp_path / "p", {"a": 10})
        written = tmp_path / "out.csv"
        query = f"SELECT 1) AS x; COPY (SELECT 1) TO '{written}'; SELECT * FROM (SELECT 5 AS age"
        with pytest.raises(SourceFailed, match="expected one statement, got 3"):
            source_of(tmp_path, "duckdb", "p", query=query).load(ALONE)
        assert not written.exists()
        setting = "SELECT current_setting('autoinstall_known_extensions')::INT AS age"
        assert age_of(source_of(tmp_path, "duckdb", "p", query=setting)) == 0

    def test_an_error_shows_the_query_and_no_value(self, tmp_path: Path) -> None:
        sqlite_people(tmp_path / "p.db", {"secret": 10})
        source = source_of(tmp_path, "sqlite", "p.db", query="SELECT pay FROM people")
        with pytest.raises(SourceFailed, match="no such column: pay"):
            source.members()
        failing = "SELECT json_extract(id, id) AS age FROM people"
        with pytest.raises(SourceFailed) as caught:
            source_of(tmp_path, "sqlite", "p.db", query=failing).load(ALONE)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
    def test_a_query_without_end_is_interrupted(self, tmp_path: Path, kind: str) -> None:
        TABLES[kind][0](tmp_path / "p", {"a": 10})
        endless = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT sum(i) AS age FROM n"
        )
        limits = replace(LIMITS, time_ms=50)
        source = source_of(tmp_path, kind, "p", query=endless, limits=limits)
        began = steady_ms()
        with pytest.raises(SourceFailed):
            source.load(ALONE)
        assert steady_ms() - began < 30_000

    def test_a_comment_may_end_a_query(self, tmp_path: Path) -> None:
        sqlite_people(tmp_path / "p.db", {"a": 10})
        query = "SELECT age FROM people -- of all"
        assert age_of(source_of(tmp_path, "sqlite", "p.db", query=query)) == 10


class TestCallable:
    def test_it_is_called_at_every_load_and_not_before(self) -> None:
        ages = iter(range(10, 20))
        source = CallableSource(lambda: {"age": next(ages)})
        assert source.members().names == (ALONE,)
        assert [age_of(source), age_of(source)] == [10, 11]

    @pytest.mark.parametrize("nonsense", [None, 7, "age", b"age", [7], [], {}, [{}, 1], object()])
    def test_nonsense_is_an_error(self, nonsense: object) -> None:
        with pytest.raises((SourceFailed, InvalidRecord)):
            age_of(CallableSource(lambda: nonsense), several=Several.FIRST)


class Fixed:
    """Coins that are given, and counted."""

    def __init__(self, *coins: int) -> None:
        self.coins = list(coins)

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        assert count == 1
        return (self.coins.pop(0),)


class TestSeveral:
    def test_a_name_that_two_rows_have_is_refused_unless_it_is_one_persons(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "p.csv").write_text("id,age\nsecret,10\nb,20\nsecret,30\n")
        with pytest.raises(InvalidRecord, match="in rows 0 and 2 from 0") as caught:
            source_of(tmp_path, "csv", "p.csv", naming=BY_ID).members()
        assert "secret" not in str(caught.value)
        source = source_of(tmp_path, "csv", "p.csv", naming=BY_ID, several=Several.FIRST)
        assert source.members().names == ("secret", "b")
        assert age_of(source, "secret", Several.FIRST) == 10

    def test_a_second_record_that_comes_later_is_refused_as_well(self) -> None:
        source = CallableSource(lambda: [{"age": 10}, {"age": 20}])
        with pytest.raises(SourceFailed, match="expected one record of a member, got several"):
            age_of(source)

    def test_each_record_is_drawn_equally_often(self) -> None:
        """Enumerate the ends of the ranges of coins: thirds of 2^64."""
        source = CallableSource(lambda: [{"age": 10}, {"age": 20}, {"age": 30}])
        third = -(-(1 << 64) // 3)
        for coin, age in (
            (0, 10),
            (third - 1, 10),
            (third, 20),
            (2 * third - 2, 20),
            (2 * third, 30),
            ((1 << 64) - 1, 30),
        ):
            assert age_of(source, several=Several.DRAW, coins=Fixed(coin)) == age

    def test_one_record_takes_no_coin(self) -> None:
        source = CallableSource(lambda: {"age": 10})
        assert age_of(source, several=Several.DRAW, coins=Fixed()) == 10


def test_a_read_that_hangs_does_not_hold_other_members_for_ever(tmp_path: Path) -> None:
    """A gateway's members share a table; one of them waits for a file that does not answer."""
    held, goes_on = threading.Event(), threading.Event()

    class Hanging:
        place = "people"

        def version(self) -> None:
            return None

        def read(self, limits: ReadLimits) -> Any:
            held.set()
            goes_on.wait(30)
            raise SourceFailed("late")

    from askance_client.records.table_sources import TableSource

    limits = replace(LIMITS, time_ms=10)
    source = TableSource(Hanging(), AllRows(), Several.FIRST, limits)

    def first() -> None:
        with pytest.raises(SourceFailed, match="late"):
            source.load(ALONE)

    thread = threading.Thread(target=first)
    thread.start()
    held.wait(30)
    with pytest.raises(SourceFailed, match="expected the read before to end"):
        source.load(ALONE)
    goes_on.set()
    thread.join()


def test_a_failure_is_reported_and_raised() -> None:
    failures: list[Exception] = []

    def fail() -> object:
        raise ValueError("age=10")

    record = LiveRecord(
        CallableSource(fail),
        ALONE,
        schema=SCHEMA,
        columns={},
        several=Several.REFUSE,
        coins=SystemCoins(),
        on_failure=failures.append,
    )
    with pytest.raises(ValueError, match="age"):
        record.load()
    assert [type(failure) for failure in failures] == [ValueError]


def test_names_are_as_long_as_a_ledger_keeps() -> None:
    assert MAX_NAME_BYTES == MAX_MEMBER_BYTES


def test_every_kind_is_opened_by_a_test() -> None:
    tested: Sequence[str] = [*TABLES, "directory", "command", "http", "environment"]
    assert sorted(tested) == sorted(KINDS)
    assert {naming.orderless for naming in (AllRows(), BY_ID)} == {True}
    assert {naming.orderless for naming in (OneRow(0), ByNumber())} == {False}
