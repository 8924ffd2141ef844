"""Sending process, as the aggregator sees it: started when it is needed, ended when it is late.

The two speak lines of JSON over a pipe: a request to send, and its outcome (`outcome_of`). The
aggregator reads no byte that a receiver has sent.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from askance_aggregator.server.outer.child_process import process_environment
from askance_client.printable import printable

_PROGRAM = "askance_aggregator.server.webhooks"
_START_S = 30.0  # for the interpreter, on a busy machine
_GRACE_S = 5.0  # past a try's own limit, which the process keeps by itself if it can
_LINE_BYTES = 4096  # of an outcome
_ERROR_CHARACTERS = 300


class Sender:
    """A process that sends one message at a time; for one thread, but for `stop`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def send(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        ca: Path | None,
        timeout_s: float,
    ) -> str:
        """Send a message and return the error; "" if the receiver answered 2xx."""
        request = {
            "url": url,
            "headers": dict(headers),
            "body": body.decode(),
            "ca": None if ca is None else str(ca),
            "timeout_s": timeout_s,
        }
        process = self._running()
        if process is None:
            return "the sending process was not started"
        limit = threading.Timer(timeout_s + _GRACE_S, process.kill)
        limit.start()
        try:
            line = _exchange(process, json.dumps(request).encode() + b"\n")
        finally:
            limit.cancel()
        found = outcome_of(line)
        if found is None:
            self._end(process)
            return f"expected an answer within {timeout_s:g} s, got none; the sender was ended"
        return found

    def stop(self) -> None:
        """End the process, whatever it is sending; nothing is sent afterwards. For any thread."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None:
            self._end(process)

    def _running(self) -> subprocess.Popen[bytes] | None:
        """Return the process, which is started if none runs; None: it does not start."""
        with self._lock:
            if self._stopped:
                return None
            if self._process is None or self._process.poll() is not None:
                self._process = _start()
            return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()


def outcome_of(line: bytes) -> str | None:
    """Return the error that a line of the process states, "" for none; None: it is no outcome."""
    try:
        found: Any = json.loads(line)
        error = found["error"]
    except (ValueError, LookupError, TypeError):
        return None
    return printable(error[:_ERROR_CHARACTERS]) if isinstance(error, str) else None


def _start() -> subprocess.Popen[bytes] | None:
    """Start a process and wait for its first line; None: it did not start."""
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=process_environment(),
        )
    except OSError:
        return None
    limit = threading.Timer(_START_S, process.kill)
    limit.start()
    try:
        assert process.stdout is not None
        if process.stdout.readline(_LINE_BYTES):
            return process
    finally:
        limit.cancel()
    process.kill()
    process.wait()
    return None


def _exchange(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Write a line and return the one that answers it; b"": the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        return process.stdout.readline(_LINE_BYTES)
    except OSError:
        return b""
