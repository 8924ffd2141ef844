"""Records that a command prints, an endpoint on loopback serves, or the environment holds."""

from __future__ import annotations

import io
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from askance_client.addresses import Address
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.records.sources import ReadDeadline, ReadLimits, SourceFailed
from askance_client.records.tables import Table, json_table, table_of_items

MAX_OUTPUT_BYTES = 1 << 24  # of a command or an endpoint
_CHUNK = 1 << 16
_HTTP_PORT = 80
_LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class CommandReader:
    """Table in JSON that a command prints.

    The command runs without a shell and without input, in a process group of its own, which is
    killed at the time limit, or when the output is too long.
    """

    words: tuple[str, ...]
    folder: Path

    @property
    def place(self) -> str:
        return f"command {value_text(self.words[0])}"

    def version(self) -> None:
        """Return None: the command runs anew for every question."""

    def read(self, limits: ReadLimits) -> Table:
        return json_table(self.place, self.output(limits))

    def output(self, limits: ReadLimits) -> bytes:
        """Run the command and return what it printed."""
        deadline = limits.deadline()
        try:
            process = subprocess.Popen(
                self.words,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            missing = f" ({value_text(error.filename)})"  # the program, or the folder to run it in
            raise SourceFailed(f"{self.place}: cannot be run: {error.strerror}{missing}") from None
        try:
            output, code = self._finished(process, limits, deadline)
        except BaseException:
            with suppress(ProcessLookupError):  # not waited for yet, so the id is still its own
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
        if code:
            raise SourceFailed(f"{self.place}: expected exit code 0, got another")
        return output

    def _finished(
        self, process: subprocess.Popen[bytes], limits: ReadLimits, deadline: ReadDeadline
    ) -> tuple[bytes, int]:
        assert process.stdout is not None
        output = _read_all(process.stdout.fileno(), self.place, deadline)
        try:
            return output, process.wait(limits.whole_s)
        except subprocess.TimeoutExpired:
            raise SourceFailed(f"{self.place}: expected its end in time, got none") from None


@dataclass(frozen=True, slots=True)
class EndpointReader:
    """Table in JSON that an HTTP endpoint of this machine serves.

    Args:
      url: http://HOST[:PORT]/PATH; the host is localhost or an address of loopback.

    Raises:
      InvalidParameter: another URL. A request to another machine would show it that the device is
        being asked.
    """

    url: str

    def __post_init__(self) -> None:
        _endpoint(self.url)

    @property
    def place(self) -> str:
        return f"url {value_text(self.url)}"

    def version(self) -> None:
        """Return None: the endpoint is asked anew for every question."""

    def read(self, limits: ReadLimits) -> Table:
        """Send a GET request; redirections are not followed, and no proxy is used."""
        deadline = limits.deadline()
        hosts, port, target, name = _endpoint(self.url)
        request = (
            f"GET {target} HTTP/1.0\r\nHost: {name}\r\nAccept: application/json\r\n"
            "Connection: close\r\n\r\n"
        )
        try:
            with _connected(hosts, port, limits.whole_s) as connection:
                connection.sendall(request.encode("ascii"))
                data = _read_all(connection.fileno(), self.place, deadline)
        except OSError as error:
            raise SourceFailed(f"{self.place}: cannot be read: {error.strerror}") from None
        return json_table(self.place, _body(self.place, data))


@dataclass(frozen=True, slots=True)
class EnvironmentReader:
    """Table of one row, from the variables of the environment that begin with a prefix.

    A column is the rest of a variable's name in lower case.

    Args:
      prefix: one character or more.
    """

    prefix: str
    variables: Mapping[str, str]

    @property
    def place(self) -> str:
        return f"environment {value_text(self.prefix)}"

    def version(self) -> None:
        """Return None: the variables are read anew for every question."""

    def read(self, limits: ReadLimits) -> Table:
        row = {
            name.removeprefix(self.prefix).lower(): value
            for name, value in self.variables.items()
            if name.startswith(self.prefix) and name != self.prefix
        }
        if not row:
            raise SourceFailed(f"{self.place}: expected a variable with the prefix, got none")
        return table_of_items(self.place, [row])


def an_endpoint(url: str) -> str:
    """Check that a URL is of an endpoint on loopback, and return it."""
    _endpoint(url)
    return url


def _endpoint(url: str) -> tuple[Sequence[str], int, str, str]:
    """The addresses to try, the port, the request's target and the host's name."""
    wrong = InvalidParameter(
        "expected http://HOST[:PORT]/PATH with localhost or an address of loopback,"
        f" got {value_text(url)}"
    )
    if not url.isascii() or not url.isprintable() or " " in url:
        raise wrong
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme != "http" or not host or parts.username is not None:
        raise wrong
    if not Address(host, _HTTP_PORT).is_loopback:
        raise wrong
    # The name is not looked up: a resolver could send it elsewhere.
    hosts = _LOOPBACK if host == "localhost" else (host,)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    return hosts, port or _HTTP_PORT, target, parts.netloc


def _connected(hosts: Sequence[str], port: int, limit_s: int) -> socket.socket:
    """Connect to the first address that accepts, else raise an OSError."""
    failure = OSError("no address")
    for host in hosts:
        try:
            return socket.create_connection((host, port), timeout=limit_s)
        except OSError as error:
            failure = error
    raise failure


def _body(place: str, data: bytes) -> bytes:
    """The body of an HTTP response of status 200."""
    import http.client  # its parts take a megabyte of a device that has no endpoint

    response = http.client.HTTPResponse(_Received(data))  # type: ignore[arg-type]  # a socket's one method that is used
    try:
        response.begin()
        if response.status != http.client.OK:
            raise SourceFailed(f"{place}: expected status 200, got another")
        return response.read()
    except http.client.HTTPException as error:
        raise SourceFailed(f"{place}: expected HTTP, got {type(error).__name__}") from None


class _Received:
    """Bytes that were received, in place of their socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _read_all(descriptor: int, place: str, deadline: ReadDeadline) -> bytes:
    """Read to the end, in time and no more than `MAX_OUTPUT_BYTES`."""
    chunks: list[bytes] = []
    size = 0
    while True:
        if not _readable(descriptor, deadline):
            raise SourceFailed(f"{place}: expected its output in time, got no end of it")
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_OUTPUT_BYTES:
            raise SourceFailed(f"{place}: expected at most {MAX_OUTPUT_BYTES} bytes, got more")


def _readable(descriptor: int, deadline: ReadDeadline) -> bool:
    """Wait until a descriptor can be read, or is at its end; False if it is not in time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(deadline.left_ms))
