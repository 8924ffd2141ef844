"""The Unix socket through which commands reach a running device.

A running device holds its ledger exclusively. Its socket `control.sock`, of mode 0600 in its
folder, carries one request per connection: a line of JSON of at most 4,096 bytes, answered by lines
of JSON of at most 1 MiB, the last of which is `{"end": true}` or `{"error": ...}`. Each step has a
time limit. A server takes eight connections at a time and closes any other at once.

The peer's user must be the device's own, or root, by the credentials that the kernel gives. The
client checks the server in the same way, so that another user's socket cannot mislead the owner.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from askance_client.errors import AskanceError, InvalidParameter, StoreError
from askance_client.printable import value_text

SOCKET = "control.sock"
MAX_REQUEST_BYTES = 4096
MAX_LINE_BYTES = 1 << 20  # a request of 256 KiB, in plain words, is below it
MAX_LINES = 1 << 26  # an answer each of 1,024 members with 65,536 answers
MAX_AT_ONCE = 8
REQUEST_TIMEOUT_S = 5
STEP_TIMEOUT_S = 30  # to write some lines, or to read one
_LINES = 64  # that are made and written between two turns of the event loop
_MAX_PATH = 100  # bytes; the system's limit is 104 to 108
_CREDENTIALS = struct.Struct("3i")  # process, user, group

Operation = Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]
"""Answers a request's arguments with JSON objects, in a thread."""


class ControlServer:
    """Socket of a running device.

    Args:
      path: where it stands; what a device that was killed left there is removed.
      operations: by name. An operation that changes something has done so, durably, when its first
        object is made.
    """

    def __init__(self, path: Path, operations: Mapping[str, Operation]) -> None:
        self._path = path
        self._operations = operations
        self._open = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve for the length of a block.

        Raises:
          StoreError: the path is taken by a file or a folder, or is too long.
        """
        listening = _bind(self._path)
        made = os.lstat(self._path).st_ino
        server = await asyncio.start_unix_server(
            self._serve, sock=listening, limit=MAX_REQUEST_BYTES, backlog=MAX_AT_ONCE
        )
        try:
            yield
        finally:
            server.close()
            with suppress(OSError):
                if os.lstat(self._path).st_ino == made:
                    os.unlink(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        allowed = self._open < MAX_AT_ONCE and _is_own(writer.get_extra_info("socket"))
        self._open += allowed
        try:
            if allowed:
                await self._answer(reader, writer)
        except (TimeoutError, ConnectionError, ValueError):
            pass  # slow, gone, or more than a line: it has no answer
        finally:
            self._open -= allowed
            writer.transport.abort() if not allowed else writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            line = await reader.readline()
        try:
            operation, arguments = self._request(line)
            objects = operation(arguments)
            while made := await asyncio.to_thread(lambda: list(islice(objects, _LINES))):
                writer.write(b"".join(_line(item) for item in made))
                async with asyncio.timeout(STEP_TIMEOUT_S):
                    await writer.drain()
            last: dict[str, Any] = {"end": True}
        except AskanceError as error:
            reason = "bad-input" if isinstance(error, InvalidParameter) else "failed"
            last = {"error": {"reason": reason, "message": str(error)}}
        writer.write(_line(last))
        async with asyncio.timeout(STEP_TIMEOUT_S):
            await writer.drain()

    def _request(self, line: bytes) -> tuple[Operation, Mapping[str, Any]]:
        try:
            found = json.loads(line)
            name, arguments = found["do"], found.get("with", {})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidParameter(
                f"control: expected a line of JSON, got {len(line)} bytes"
            ) from None
        operation = self._operations.get(name) if isinstance(name, str) else None
        if operation is None or not isinstance(arguments, dict):
            known = ", ".join(sorted(self._operations))
            raise InvalidParameter(f"control: expected one of {known}, got {value_text(name)}")
        return operation, arguments


def is_running(path: Path) -> bool:
    """Return whether a device listens at a path."""
    connected = _connected(path)
    if connected is None:
        return False
    connected.close()
    return True


def ask_running(path: Path, name: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Ask the device that listens at a path; None if none does.

    Raises:
      InvalidParameter: the device does not accept the arguments; nothing was changed.
      StoreError: the device failed, or the socket is another user's, or answers something else.
    """
    connected = _connected(path)
    if connected is None:
        return None
    with connected:
        try:
            connected.sendall(_line({"do": name, "with": dict(arguments)}))
            with connected.makefile("rb") as lines:
                return _read(lines, path)
        except OSError as error:
            raise StoreError(f"device at {path}: expected an answer, got {_text(error)}") from None


def _read(lines: Any, path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _ in range(MAX_LINES):
        line = lines.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            break
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(item, dict):
            break
        if item.get("end") is True:
            return found
        error = item.get("error")
        if isinstance(error, dict):
            kind = InvalidParameter if error.get("reason") == "bad-input" else StoreError
            raise kind(str(error.get("message")))
        found.append(item)
    raise StoreError(
        f"device at {path}: expected a whole answer, got a part (it may be busy: try again)"
    )


def _connected(path: Path) -> socket.socket | None:
    """A connection to the socket at a path; None if nothing listens there."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return None  # a symbolic link is not followed
    except OSError:
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(STEP_TIMEOUT_S)
    try:
        made.connect(str(path))
        if not _is_own(made):
            raise StoreError(
                f"device at {path}: expected a socket of user {os.geteuid()}, got one of another"
            )
    except OSError as error:
        made.close()
        if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
            return None
        raise StoreError(f"device at {path}: expected to reach it, got {_text(error)}") from None
    except BaseException:
        made.close()
        raise
    return made


def _bind(path: Path) -> socket.socket:
    """A bound socket of mode 0600 that does not listen yet."""
    if len(os.fsencode(path)) > _MAX_PATH:
        raise StoreError(f"{path}: expected a path of at most {_MAX_PATH} bytes, got a longer one")
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        # The ledger is held, so no other device of this folder runs: what is there was left.
        if not stat.S_ISSOCK(mode) and not stat.S_ISLNK(mode):
            raise StoreError(f"{path}: expected no file there, got one (move it away)")
        os.unlink(path)  # of a symbolic link the link, not what it points to
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        os.chmod(path, 0o600)  # before it listens, so before any connection
    except OSError as error:
        made.close()
        raise StoreError(f"{path}: expected to make a socket, got {_text(error)}") from None
    return made


def _is_own(connected: Any) -> bool:
    """Return whether the peer's user is this process's own or root, where the system tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True  # the mode of the socket and of its folder are what is left
    found = connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(found)[1] in (0, os.geteuid())


def _line(item: Mapping[str, Any]) -> bytes:
    return json.dumps(item).encode() + b"\n"


def _text(error: OSError) -> str:
    return error.strerror or type(error).__name__
