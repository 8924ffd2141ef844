"""Fetches of an issuer's documents end in time, and what is no HTTP is an error of I/O."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from askance_aggregator.server.callers.key_sources import fetch

_BYTES = 400  # that a slow issuer sends, one at a time
HEAD = b"HTTP/1.1 200 OK\r\nX-Filler: "


@contextmanager
def answering(begins: bytes, drips: bool) -> Iterator[tuple[str, list[int]]]:
    """Serve one connection with some bytes, and then byte after byte; they are counted."""
    sent, stopping = [0], threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(begins)
            for _ in range(_BYTES if drips else 0):
                if stopping.wait(0.01):
                    return
                try:
                    connection.sendall(b"x")
                except OSError:
                    return
                sent[0] += 1

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/", sent
        finally:
            stopping.set()
            thread.join()


@pytest.mark.parametrize("begins", [HEAD, b"HTTP/1.1 200 OK\r\n\r\n"], ids=["head", "body"])
def test_an_issuer_that_sends_slowly_is_cut_off(begins: bytes) -> None:
    with answering(begins, drips=True) as (url, sent):
        with suppress(OSError):
            fetch(url, 0.1)
        assert sent[0] < _BYTES


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 two\r\n\r\n", b""])
def test_what_is_no_http_is_an_error_of_io(answer: bytes) -> None:
    with (
        answering(answer, drips=False) as (url, _),
        pytest.raises(OSError, match=r"expected an answer of HTTP|closed connection"),
    ):
        fetch(url)
