"""Sources of an issuer's public keys: a file, or an address that is fetched with a bound."""

from __future__ import annotations

import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Timer
from typing import IO, Any, Protocol, TypeVar

from askance_aggregator.urls import URL_FORM, check_url
from askance_client.toml_tables import a_text

C = TypeVar("C", bound=HTTPConnection)
MAX_SET_BYTES = 64 * 1024  # a set has a few keys of less than 2 KiB
FETCH_S = 5.0
"""Seconds for a whole answer of an issuer, its connection included."""


class KeySource(Protocol):
    """Source of an issuer's key set."""

    def read(self) -> bytes:
        """Return the set as JSON, at most `MAX_SET_BYTES` + 1 bytes.

        Raises:
          OSError: it cannot be read now.
        """
        ...


class KeyFile:
    """A key set in a file, which the operator replaces."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            return file.read(MAX_SET_BYTES + 1)


class KeyAddress:
    """A key set at a URL (see `fetch`)."""

    def __init__(self, url: str) -> None:
        self._url = url

    def read(self) -> bytes:
        return fetch(self._url)


def fetch(request: str | urllib.request.Request, within_s: float = FETCH_S) -> bytes:
    """Return an issuer's answer, at most `MAX_SET_BYTES` + 1 bytes; follow no redirection."""
    with _connecting(within_s) as handler:
        opener = urllib.request.build_opener(handler, _NoRedirection)
        try:
            with opener.open(request, timeout=within_s) as reply:
                content: bytes = reply.read(MAX_SET_BYTES + 1)
        except HTTPException as error:
            raise OSError(f"expected an answer of HTTP, got none: {type(error).__name__}") from None
    return content


def key_source(text: str, folder: Path) -> KeySource:
    """Return the source that a configuration names."""
    if "://" not in text:
        return KeyFile(folder / text)
    return KeyAddress(check_url(text, f"a file, {URL_FORM}"))


def source_text(value: object, folder: Path) -> str:
    """Return the text of a source in a configuration, the path of a file whole."""
    source = key_source(a_text(value), folder)
    return str(source.path) if isinstance(source, KeyFile) else a_text(value)


@contextmanager
def _connecting(within_s: float) -> Iterator[_Connections]:
    """Provide the handler of connections that end after a time, however slowly bytes come."""
    handler = _Connections()
    timer = Timer(within_s, handler.cut)
    timer.daemon = True
    timer.start()
    try:
        yield handler
    finally:
        timer.cancel()
        handler.close()


class _Connections(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Handler of http and https that can end its connections, also in the handshake of TLS."""

    def __init__(self) -> None:
        self._tls = ssl.create_default_context()
        super().__init__(context=self._tls)
        self._sockets: list[socket.socket] = []  # duplicates of those that are read
        self._is_over = False

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(lambda host, **more: self._kept(HTTPConnection(host, **more)), req)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        def connection(host: str, **more: Any) -> HTTPSConnection:
            return self._kept(HTTPSConnection(host, context=self._tls, **more))

        return self.do_open(connection, req)

    def cut(self) -> None:
        """End the connections; who reads them finds their end."""
        self._is_over = True
        for one in [*self._sockets]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def _kept(self, connection: C) -> C:
        def connect(*where: Any) -> socket.socket:
            made = socket.create_connection(*where)
            self._sockets.append(made.dup())
            if self._is_over:
                self.cut()
            return made

        connection._create_connection = connect  # type: ignore[attr-defined]  # no other way in
        return connection


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Refuse every redirection: it could lead from https to another scheme or machine."""

    def redirect_request(
        self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None
