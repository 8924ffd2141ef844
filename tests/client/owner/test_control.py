"""The socket of a running device: its owner only, bounded requests, no harm by hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import pytest

from askance_client.errors import InvalidParameter, StoreError
from askance_client.owner import control
from askance_client.owner.control import (
    MAX_AT_ONCE,
    MAX_LINE_BYTES,
    MAX_REQUEST_BYTES,
    SOCKET,
    ControlServer,
    Operation,
    ask_running,
    is_running,
)

T = TypeVar("T")
PATIENCE_S = 60.0


def count(arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for number in range(int(arguments.get("to", 1))):
        yield {"number": number}


def refuse(_: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    raise InvalidParameter("study: expected another name")
    yield {}


def full(_: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    raise StoreError("consent file: nothing was decided: disk full")
    yield {}


class Served:
    """A socket in a folder, with the operations that were carried out."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SOCKET
        self.calls: list[str] = []
        operations = {"count": count, "refuse": refuse, "full": full}
        self.server = ControlServer(
            self.path, {name: self.noted(name, one) for name, one in operations.items()}
        )

    def noted(self, name: str, operation: Operation) -> Operation:
        """The operation, which is noted when it has ended without an error."""

        def answer(arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
            yield from operation(arguments)
            self.calls.append(name)

        return answer

    def during(self, work: Callable[[], T]) -> T:
        """Do blocking work in a thread while the socket is served."""

        async def serve() -> T:
            async with self.server.serving():
                return await asyncio.to_thread(work)

        return asyncio.run(_bounded(serve()))

    def ask(self, name: str, **arguments: Any) -> list[dict[str, Any]] | None:
        return ask_running(self.path, name, arguments)

    def connected(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(10)
        made.connect(str(self.path))
        return made


async def _bounded(coroutine: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(30):
        return await coroutine


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def read_all(connected: socket.socket) -> bytes:
    found = b""
    try:
        while data := connected.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass  # closed with bytes of ours unread
    return found


def test_a_request_is_answered_line_by_line(served: Served) -> None:
    found = served.during(lambda: served.ask("count", to=1000))
    assert found == [{"number": number} for number in range(1000)]
    assert served.calls == ["count"]


def test_no_socket_means_that_no_device_runs(served: Served) -> None:
    assert served.ask("count") is None
    assert not is_running(served.path)
    assert served.during(lambda: is_running(served.path))
    assert not served.path.exists()  # removed at the end


def test_only_the_owner_may_connect(served: Served) -> None:
    mode = served.during(lambda: served.path.lstat().st_mode)
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_another_user_is_not_answered(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> bytes:
        monkeypatch.setattr(control, "_is_own", _other_uid)
        with served.connected() as connected:
            with suppress(BrokenPipeError):  # it may have hung up by now
                connected.sendall(b'{"do": "count"}\n')
            return read_all(connected)

    assert served.during(ask) == b""
    assert served.calls == []


def _other_uid(connected: Any) -> bool:
    """The check as a process of another user would have it computed."""
    size = control._CREDENTIALS.size
    found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return control._CREDENTIALS.unpack(found)[1] in (0xFFFF,)


def test_a_socket_of_another_user_is_not_believed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> None:
        monkeypatch.setattr(control, "_is_own", _other_uid)
        with pytest.raises(StoreError, match="got one of another"):
            served.ask("count")

    served.during(ask)


_NOBODY = """
import os, socket, sys
os.setuid(65_534)
try:
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(5)
        made.connect(sys.argv[1])
        made.sendall(b'{"do": "count"}\\n')
        answered = made.recv(100)
except OSError:
    answered = b""
sys.exit(1 if answered else 0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_not_answered(served: Served) -> None:
    """The folder and the socket are open to all users here: what is left is the kernel's word."""
    served.path.parent.chmod(0o777)
    for parent in list(served.path.parents)[1:-1]:
        parent.chmod(parent.stat().st_mode | 0o111)

    def ask() -> int:
        served.path.chmod(0o777)
        return subprocess.run(
            [sys.executable, "-c", _NOBODY, str(served.path)], timeout=60
        ).returncode

    assert served.during(ask) == 0
    assert served.calls == []


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b'"count"\n',
        b'{"do": 1}\n',
        b'{"do": "commit"}\n',
        b'{"do": "count", "with": []}\n',
        b"\xff\xfe\n",
        b"[" * 4000 + b"\n",
    ],
)
def test_a_malformed_request_is_one_error(served: Served, line: bytes) -> None:
    def ask() -> bytes:
        with served.connected() as connected:
            connected.sendall(line)
            return read_all(connected)

    (told,) = served.during(ask).splitlines()
    assert json.loads(told)["error"]["reason"] == "bad-input"
    assert served.calls == []


def test_an_operation_that_fails_is_an_error_and_nothing_follows_it(served: Served) -> None:
    def ask() -> None:
        with pytest.raises(InvalidParameter, match="another name"):
            served.ask("refuse")
        with pytest.raises(StoreError, match="disk full"):
            served.ask("full")

    served.during(ask)
    assert served.calls == []


def test_a_giant_line_is_cut_off(served: Served) -> None:
    def ask() -> bytes:
        with served.connected() as connected:
            sent = 0
            try:
                for _ in range(1000):
                    sent += connected.send(b"x" * MAX_REQUEST_BYTES)
                return read_all(connected)
            except (ConnectionError, TimeoutError):
                return b""

    assert served.during(ask) == b""
    assert served.calls == []


def test_a_slow_client_loses_its_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "REQUEST_TIMEOUT_S", 0.2)
    monkeypatch.setattr(control, "STEP_TIMEOUT_S", 0.5)

    def ask() -> tuple[bytes, int]:
        with served.connected() as silent:
            silent.sendall(b'{"do": "cou')
            told = read_all(silent)
        with served.connected() as deaf:  # asks for much, and reads none of it
            deaf.sendall(b'{"do": "count", "with": {"to": 10000000}}\n')
            until = time.monotonic() + PATIENCE_S
            while served.server._open and time.monotonic() < until:
                time.sleep(0.05)
            return told, served.server._open

    assert served.during(ask) == (b"", 0)
    assert served.calls == []


def test_a_thousand_connections_do_not_keep_the_owner_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "REQUEST_TIMEOUT_S", 0.5)

    def ask() -> tuple[int, list[dict[str, Any]] | None]:
        held: list[socket.socket] = []
        most = 0
        for _ in range(1000):
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(5)
            try:
                made.connect(str(served.path))
                held.append(made)
            except OSError:
                made.close()
            most = max(most, served.server._open)
        until = time.monotonic() + PATIENCE_S
        while not most and time.monotonic() < until:  # a busy server takes none up meanwhile
            most = served.server._open
            time.sleep(0.001)
        for made in held:
            made.close()
        found = None
        until = time.monotonic() + PATIENCE_S
        while found is None and time.monotonic() < until:  # the eight end by their time limit
            try:
                found = served.ask("count")
            except StoreError:
                time.sleep(0.05)
        return most, found

    most, found = served.during(ask)
    assert 1 <= most <= MAX_AT_ONCE
    assert found == [{"number": 0}]


def test_a_socket_that_was_left_is_replaced(served: Served) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(served.path))
    left.close()  # the file stays, as after a kill
    assert served.ask("count") is None
    assert served.during(lambda: served.ask("count")) == [{"number": 0}]


def test_a_symbolic_link_is_neither_followed_nor_served_through(
    served: Served, tmp_path: Path
) -> None:
    target = tmp_path / "other"
    target.write_text("kept")
    served.path.symlink_to(target)
    assert served.ask("count") is None
    assert served.during(lambda: served.ask("count")) == [{"number": 0}]
    assert target.read_text() == "kept"
    served.path.symlink_to(tmp_path / "elsewhere.sock")
    elsewhere = socket.socket(socket.AF_UNIX)
    elsewhere.bind(str(tmp_path / "elsewhere.sock"))
    elsewhere.listen()
    assert served.ask("count") is None  # a link to a live socket is not asked
    elsewhere.close()


def test_a_file_in_its_place_is_left_and_named(served: Served) -> None:
    served.path.write_text("an owner's notes")
    with pytest.raises(StoreError, match="move it away"):
        served.during(lambda: None)
    assert served.path.read_text() == "an owner's notes"


def test_a_path_that_is_replaced_while_served_is_not_removed(served: Served) -> None:
    def replace() -> None:
        served.path.unlink()
        served.path.write_text("another file")

    served.during(replace)
    assert served.path.read_text() == "another file"


def test_a_path_that_is_too_long_is_one_clear_error(tmp_path: Path) -> None:
    short = control._MAX_PATH - len(str(tmp_path)) - len(SOCKET) - 2
    folders = [tmp_path / ("x" * (short + more)) for more in (0, 1)]
    for folder in folders:
        folder.mkdir()
    Served(folders[0]).during(lambda: None)
    with pytest.raises(StoreError, match="at most 100 bytes"):
        Served(folders[1]).during(lambda: None)


def padded(size: int) -> bytes:
    """A whole answer whose first line has so many bytes, its end included."""
    line = b'{"a": "' + b"x" * (size - 10) + b'"}\n'
    assert len(line) == size
    return line + b'{"end": true}\n'


def test_a_line_of_the_greatest_size_is_read(tmp_path: Path) -> None:
    (found,) = control._read(BytesIO(padded(MAX_LINE_BYTES)), tmp_path)
    assert len(found["a"]) == MAX_LINE_BYTES - 10


def test_a_request_of_the_greatest_size_is_read(served: Served) -> None:
    def ask(size: int) -> bytes:
        line = b'{"do": "count"' + b" " * (size - 16) + b"}\n"
        assert len(line) == size
        with served.connected() as connected:
            connected.sendall(line)
            return read_all(connected)

    assert served.during(lambda: ask(MAX_REQUEST_BYTES)).endswith(b'{"end": true}\n')
    assert served.during(lambda: ask(MAX_REQUEST_BYTES + 2)) == b""


@pytest.mark.parametrize(
    "answer",
    [b"", b"{", b"[]\n", b'{"a": 1}\n', b"x" * (1 << 21), padded(MAX_LINE_BYTES + 1)],
)
def test_a_server_that_answers_something_else_is_one_error(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / SOCKET

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    async def serve() -> None:
        async with await asyncio.start_unix_server(talk, path):
            with pytest.raises(StoreError, match="expected"):
                await asyncio.to_thread(ask_running, path, "count", {})

    asyncio.run(_bounded(serve()))
